"""Undo with and without the kernel, as SQL and as a binary log: the same script and log, or the same error."""

from __future__ import annotations

import io
from typing import Any, Final

import pytest

import binlogio
from binlogio.errors import BinlogError
from binlogio.replay.undo import BinlogFile, OnStatement, SqlScript, undo
from binlogio.replay.undo.sql_script import _UndoneTable
from both_kernels import KERNELS, Said

UNDO_FORMS: Final = (SqlScript, BinlogFile)


def undone_by(kernel: str, source: Any, form: type[Any] = SqlScript) -> bytes | Said:
    """Return the script or log that undoes a log; events are read by the compiled kernel either way."""
    try:
        with pytest.MonkeyPatch.context() as patch, binlogio.open(source) as reader:
            if kernel == "construct":  # as for tables whose rows the kernel does not reverse
                patch.setattr(_UndoneTable, "_inverse_sql", lambda *_, **__: None)
                patch.setattr(BinlogFile, "compiled", lambda *_: None)
            with undo(reader, form(), on_statement=OnStatement.SKIP) as ready:
                return b"".join(ready.pieces())
    except BinlogError as exc:
        return Said.of(exc)


def assert_undone_alike(source: Any) -> bytes | Said:
    """Compare both in both forms, and return the script that the kernel makes."""
    found = [
        [undone_by(kernel, io.BytesIO(source) if isinstance(source, bytes) else source, form) for form in UNDO_FORMS]
        for kernel in KERNELS
    ]

    assert found[0] == found[1]
    return found[0][0]
