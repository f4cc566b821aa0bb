"""Undo (flashback): reverse the row changes of a log, as SQL or as another binary log.

`undo` reads a log, `inverse` inverts single changes, and `SqlScript` and `BinlogFile` are the outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binlogio.replay.undo.sql_script import OnChanged, SqlScript
from binlogio.replay.undo.undo import OnStatement, Undo, UndoSummary, undo

if TYPE_CHECKING:
    from binlogio.replay.undo.binlog_file import BinlogFile

__all__ = ["BinlogFile", "OnChanged", "OnStatement", "SqlScript", "Undo", "UndoSummary", "undo"]


def __getattr__(name: str) -> Any:
    """Import `BinlogFile` at its first use: it needs parts of the writer."""
    if name != "BinlogFile":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from binlogio.replay.undo.binlog_file import BinlogFile  # noqa: PLC0415

    return BinlogFile
