"""Replay: the row changes of a log, applied to tables somewhere else.

`applier` follows event groups, `targets` hold the tables, `statements` tells what a statement in the log means for a replay of rows.
"""

from __future__ import annotations

from binlogio.replay.applier import ReplaySummary, replay
from binlogio.replay.filters import ReplayFilter
from binlogio.replay.targets.sqlite.target import SqliteTarget

__all__ = ["ReplayFilter", "ReplaySummary", "SqliteTarget", "replay"]
