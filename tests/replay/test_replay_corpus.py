"""Replay of real logs into SQLite: every case of the corpus ends in the tables of its server, or is refused.

Knows `fixtures/`, and the corpus that `BINLOGIO_CORPUS` names, whose cases come on top. `test_replay_servers.py` does
the same with servers as targets.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

import binlogio
from binlogio.errors import ReplayError
from binlogio.replay import SqliteTarget, replay
from corpus import FIXTURES, Case, cases
from expected_tables import differences

if TYPE_CHECKING:
    from pathlib import Path

# What a replay cannot do, by case: the reason that it gives.
REFUSED: Final = {
    "mysql97/format_statement": "only row changes can be replayed",
    "mariadb1011/format_statement": "only row changes can be replayed",
    "mariadb1011/compressed": "only row changes can be replayed",
    "mariadb118/format_statement": "only row changes can be replayed",
    "mariadb118/compressed": "only row changes can be replayed",
    "mysql97/compressed": "only row changes can be replayed",
}
# MariaDB leaves virtual columns out of minimal images altogether, and out of the after images of FULL_NODUP; since
# 11.8.9 it leaves all generated columns out of updates.
NOT_IN_THE_LOG: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "mariadb1011/rowimage_minimal": {"corpus.autoinc": ("gv",)},
    "mariadb118/rowimage_minimal": {"corpus.autoinc": ("gv",)},
    "mariadb118/rowimage_full_nodup": {"corpus.autoinc": ("gv",)},
    "mariadb118/generated_columns": {
        "corpus.computed": ("s", "v"), "corpus.in_key": ("s",), "corpus.keyless": ("s", "v"),
    },
}  # fmt: skip


def real_cases() -> list[Case]:
    """Return the cases whose server said what its tables were, each once."""
    found = {case.id: case for case in reversed(cases()) if case.load("expected.json")}
    return [found[name] for name in sorted(found)]


def differences_of(connection: sqlite3.Connection, case: Case) -> list[str]:
    """Return the tables that are not as `expected.json` has them."""
    return differences(connection, case.load("expected.json")["tables"], NOT_IN_THE_LOG.get(case.id, {}))


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("case", [case for case in real_cases() if case.id not in REFUSED], ids=lambda case: case.id)
def test_replay_ends_in_the_tables_of_the_server(case: Case, workers: int, tmp_path: Path) -> None:
    """Every row of every table, with every value; names and keys are those of the log."""
    path = tmp_path / "replayed.db"
    with closing(SqliteTarget.open(path)) as target, binlogio.open(case.logs, keyring=case.keys) as reader:
        replay(reader, target, workers=workers)

    with closing(sqlite3.connect(path)) as connection:
        assert differences_of(connection, case) == []


@pytest.mark.parametrize("case", [case for case in real_cases() if case.id in REFUSED], ids=lambda case: case.id)
def test_log_that_cannot_be_replayed_is_refused_with_the_reason(case: Case, tmp_path: Path) -> None:
    """File and offset, and all groups before it are applied."""
    with (
        closing(SqliteTarget.open(tmp_path / "replayed.db")) as target,
        binlogio.open(case.logs, keyring=case.keys) as reader,
        pytest.raises(ReplayError, match=REFUSED[case.id]) as caught,
    ):
        replay(reader, target)

    assert caught.value.file == str(case.logs[0])
    assert caught.value.offset is not None


def test_generated_columns_that_an_update_lacks_are_not_those_of_before(tmp_path: Path) -> None:
    """MariaDB computes them where the event is applied; SQLite cannot."""
    log = FIXTURES / "mariadb118" / "generated_columns" / "binlog.000001"
    with closing(SqliteTarget.open(tmp_path / "replayed.db")) as target, binlogio.open(log) as reader:
        summary = replay(reader, target)
    with closing(sqlite3.connect(tmp_path / "replayed.db")) as connection:
        rows = {
            name: sorted(connection.execute(f'SELECT * FROM "corpus.{name}"'), key=str)
            for name in ("computed", "in_key", "keyless")
        }

    assert rows == {
        "computed": [(1, 11, "x", None, None), (30, None, "z", None, None)],
        "in_key": [(2, 20, None), (4, 3, None)],
        "keyless": [(2, 3, 4), (5, None, None)],
    }
    assert summary.incomplete_updates == 6


@pytest.mark.skipif(
    not os.environ.get("BINLOGIO_CORPUS"), reason="BINLOGIO_CORPUS names no corpus: only fixtures/ is replayed"
)
def test_the_whole_corpus_was_replayed() -> None:
    """The cases that are too large for the repository are among those above."""
    assert {"mysql97/big_row", "mysql97/many_rows"} <= {case.id for case in real_cases()}
