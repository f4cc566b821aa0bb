"""What our sessions write for MariaDB is what servers wrote for the same statements, event by event."""

from __future__ import annotations

from typing import Any, Final

import pytest

from binlogio.errors import UnsupportedFeature
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.writer import BinlogWriter
from corpus import MARIADB, MARIADB118, Case, cases
from mariadb_replay import Recording, Replay, comparable, variables_of
from memory_storage import MemoryStorage

ROWS_OF: Final = {
    "basic_row": "annotate_rows",
    "rowimage_minimal": "rowimage_full",
    "rowimage_full_nodup": "rowimage_full",
}
"""Cases whose rows are those of another one, where they can be told by their statement, or are whole."""

# The rows of 10.11 are whole, also those that 11.8 recorded with less.
NODUP: Final = next(case for case in cases() if case.folder == MARIADB118 / "rowimage_full_nodup")
BY_NAME: Final = {case.folder.name: case for case in cases() if case.folder.parent == MARIADB}


def _written(case: Case, *, use_kernel: bool) -> list[Any]:
    storage = MemoryStorage()
    name = case.folder.name
    rows = Recording.of(MARIADB / ROWS_OF[name] if name in ROWS_OF else case.folder)
    variables = variables_of(case, Recording.of(case.folder).version)
    with BinlogWriter("binlog", variables=variables, storage=storage, use_kernel=use_kernel) as log:
        replay = Replay(log, rows, given_columns=name.startswith("rowimage"))
        replay.run((case.folder / "source.sql").read_text("utf-8"))
        if name == "group_commit":
            replay.run("USE corpus;" + "".join(f"{text};" for text in rows.left))
    with open_logs(storage.streams(), open_payloads=False) as reader:
        return list(reader)


@pytest.mark.parametrize(
    "name",
    [
        "annotate_rows",
        "basic_row",
        "checksum_none",
        "gtid",
        "compressed",
        "rowimage_full",
        "rowimage_minimal",
        "metadata_minimal",
        "types",
        "types_temporal",
        "types_old_temporal",
        "group_commit",
    ],
)
@pytest.mark.parametrize("use_kernel", [True, False])
def test_the_log_of_a_server_is_written_again(name: str, *, use_kernel: bool) -> None:
    """Types, flags and fields of all events, in their order."""
    case = BY_NAME[name]
    expected = comparable(Recording.of(case.folder).events)
    actual = comparable(_written(case, use_kernel=use_kernel))

    for number, (one, other) in enumerate(zip(expected, actual, strict=False)):
        assert other == one, number
    assert len(actual) == len(expected)


@pytest.mark.parametrize("use_kernel", [True, False])
def test_updates_of_full_nodup_repeat_no_column(*, use_kernel: bool) -> None:
    """Before images are whole, after images of updates are those of MINIMAL, but whole where an INSERT became one."""
    expected = comparable(Recording.of(NODUP.folder).events)

    assert comparable(_written(NODUP, use_kernel=use_kernel)) == expected


@pytest.mark.parametrize("use_kernel", [True, False])
def test_changes_of_11_8_9_have_no_generated_columns(*, use_kernel: bool) -> None:
    """Neither stored nor virtual ones, nor those of a key; inserts have all."""
    folder = MARIADB118 / "generated_columns"
    case = next(case for case in cases() if case.folder == folder)
    expected = comparable(Recording.of(folder).events)

    assert comparable(_written(case, use_kernel=use_kernel)) == expected


@pytest.mark.parametrize("version", ["9.7.0", "8.0.36", "10.11.18-MariaDB"])
def test_full_nodup_is_refused_by_servers_that_lack_it(version: str) -> None:
    with pytest.raises(UnsupportedFeature, match=r"FULL_NODUP since 11\.4"):
        BinlogWriter("binlog", variables=ServerVariables(server_version=version, binlog_row_image="FULL_NODUP"))
    variables = ServerVariables(server_version=version)
    with (
        BinlogWriter("binlog", variables=variables, storage=MemoryStorage()) as log,
        log.session() as session,
        pytest.raises(UnsupportedFeature, match=r"FULL_NODUP since 11\.4"),
    ):
        session.set_variables(binlog_row_image="FULL_NODUP")
