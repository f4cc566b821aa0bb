"""Mutations of real logs (`log_mutations`): every reader returns rows or raises BinlogError, the same for both kernels.

`BINLOGIO_MUTATIONS=100000` tries so many instead of a few, `BINLOGIO_MUTATIONS_FROM` begins at another number;
`.ci/sanitize` runs this with AddressSanitizer and UndefinedBehaviorSanitizer.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.errors import BinlogError
from binlogio.replay.undo import BinlogFile, OnStatement, SqlScript, undo
from both_dumps import assert_dumped_alike
from both_kernels import error_of_events, records_and_error_by, rows_and_error_by
from dumped_logs import dump
from log_mutations import mutated_log

if TYPE_CHECKING:
    from pathlib import Path

COUNT: Final = int(os.environ.get("BINLOGIO_MUTATIONS", "150"))
FIRST: Final = int(os.environ.get("BINLOGIO_MUTATIONS_FROM", "0"))
CHUNK: Final = 50
FORMATS: Final = ("text", "json", "sql")
EXIT_CODES: Final = (0, 1, 2, 3)


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_mutated_log_is_read_or_refused(tmp_path: Path, first: int) -> None:
    """Nothing but BinlogError comes out of open, read_rows, read_tables, dump and undo."""
    path = tmp_path / "binlog.000001"
    for number in range(first, min(first + CHUNK, FIRST + COUNT)):
        name, data = mutated_log(number)
        path.write_bytes(data)
        where = f"mutation {number} of {name}: {path}"
        error_of_events(data)
        tables = rows_and_error_by("compiled", data, zero_dates="text")
        records = records_and_error_by("compiled", data)
        result = dump("--format", FORMATS[number % len(FORMATS)], path)

        assert result.exception is None or isinstance(result.exception, SystemExit), where
        assert result.exit_code in EXIT_CODES, where
        _undo(data, BinlogFile() if number % 2 else SqlScript())
        if number % 4 == 0:
            assert rows_and_error_by("construct", data, zero_dates="text") == tables, where
            assert records_and_error_by("construct", data) == records, where
        elif number % 4 == 1:
            assert_dumped_alike(data)


def _undo(data: bytes, form: Any) -> None:
    """Undo the row changes of the log; a change that cannot be undone is refused."""
    try:
        with (
            binlogio.open(io.BytesIO(data)) as reader,
            undo(reader, form, on_statement=OnStatement.SKIP) as ready,
        ):
            for _ in ready.pieces():
                pass
    except BinlogError:
        pass
