"""Damaged JSON state: the error names its place and says what to do; errors of `json` never come out."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.options import Position
from binlogio.replay.targets.mysql.position_table import progress_of
from binlogio.storage.stored_json import is_list_of, read_stored
from binlogio_cli.main import cli
from corpus import MYSQL

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

LOG: Final = str(MYSQL / "ddl_mix" / "binlog.000001")
DAMAGED: Final = ("", "[Infinity]", "[1,", "{}", "null", '["1"]', "\x00", "[" * 100_000)


def whole_numbers(found: Any) -> list[int]:
    numbers = [int(one) for one in found]
    if not is_list_of(int, found):
        raise ValueError("not numbers")
    return numbers


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: repr(text[:8]))
def test_damage_is_reported_with_its_place_and_what_to_do(text: str) -> None:
    """Text that is not JSON, JSON of another form, JSON that is nested too deeply."""
    with pytest.raises(BinlogFormatError) as caught:
        read_stored(text, whole_numbers, place="some.file", hint="put it back")

    assert caught.value.file == "some.file"
    assert caught.value.hint == "put it back"


@given(st.binary(max_size=40))
@example(b" [1, -2]\n")
def test_any_bytes_give_the_value_or_one_error(data: bytes) -> None:
    """Also bytes that are not UTF-8."""
    try:
        found = read_stored(data, whole_numbers, place="some.file", hint="put it back")
    except BinlogError:
        return
    assert found == json.loads(data)


def replayed_after(damage: str, folder: Path) -> Result:
    """Run the command on a database that it wrote and that was damaged since."""
    arguments = ["replay", "--no-progress", "--to", f"sqlite:///{folder / 'x.db'}", LOG]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    with closing(sqlite3.connect(folder / "x.db")) as connection, connection:
        assert connection.execute(damage).rowcount > 0
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        ("UPDATE binlogio_position SET done = '[1,'", "binlogio_position"),
        ("UPDATE binlogio_position SET done = '{\"1\": 2}'", "binlogio_position"),
        ("UPDATE binlogio_position SET done = 7", "binlogio_position"),
        ("UPDATE binlogio_position SET \"offset\" = 'far'", "binlogio_position"),
        ("UPDATE binlogio_tables SET definition = '{'", "binlogio_tables"),
        ("UPDATE binlogio_tables SET definition = '{\"schema\": 1}'", "binlogio_tables"),
    ],
)
def test_replay_into_a_damaged_sqlite_database_says_what_to_do(tmp_path: Path, damage: str, place: str) -> None:
    """One sentence of the command, with the exit code of damage."""
    result = replayed_after(damage, tmp_path)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"binlogio: {place}: the stored state is damaged, found ")
    assert result.stderr.endswith("(restore a copy of the database, or replay into a new one)\n")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE binlogio_position SET file = CAST(x'ff' AS TEXT)",
        "UPDATE binlogio_position SET done = CAST(x'ff' AS TEXT)",
        "UPDATE binlogio_tables SET definition = CAST(x'ff' AS TEXT)",
    ],
)
def test_replay_into_a_sqlite_database_with_invalid_text_says_what_to_do(tmp_path: Path, damage: str) -> None:
    """SQLite itself takes any bytes for text; Python finds out when it reads the row."""
    result = replayed_after(damage, tmp_path)

    assert result.exit_code == 1
    assert result.stderr.startswith("binlogio: SQLite refused: Could not decode to UTF-8 column ")
    assert result.stderr.endswith("(restore a copy of the database, or replay into a new one)\n")


@pytest.mark.parametrize("done", DAMAGED, ids=lambda text: repr(text[:8]))
def test_damaged_position_of_a_server_says_what_to_do(done: str) -> None:
    """Of any of its workers."""
    rows = [("", "binlog.000001", 4, "[200]", None, 0, None), ("", "binlog.000001", 4, done, None, 1, None)]
    with pytest.raises(BinlogFormatError, match="drop it and start the replay after") as caught:
        progress_of(rows)

    assert caught.value.file == "binlogio_replay.position"
    assert progress_of(rows[:1])[0].low == Position("binlog.000001", 4)
