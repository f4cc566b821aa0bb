"""Undo: the row changes of a log taken back, as SQL or as another binary log.

`undo` reads a log, `inverse` knows what the inverse of a change is, `SqlScript` and `BinlogFile` are what it is written
as.
"""

from __future__ import annotations

from binlogio.replay.undo.binlog_file import BinlogFile
from binlogio.replay.undo.sql_script import SqlScript
from binlogio.replay.undo.undo import OnStatement, Undo, UndoSummary, undo

__all__ = ["BinlogFile", "OnStatement", "SqlScript", "Undo", "UndoSummary", "undo"]
