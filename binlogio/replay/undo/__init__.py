"""Undo (flashback): reverse the row changes of a log, as SQL or as another binary log.

`undo` reads a log, `inverse` inverts single changes, and `SqlScript` and `BinlogFile` are the outputs.
"""

from __future__ import annotations

from binlogio.replay.undo.binlog_file import BinlogFile
from binlogio.replay.undo.sql_script import SqlScript
from binlogio.replay.undo.undo import OnStatement, Undo, UndoSummary, undo

__all__ = ["BinlogFile", "OnStatement", "SqlScript", "Undo", "UndoSummary", "undo"]
