"""Replay (point-in-time recovery) and undo (flashback): applies or reverses the row changes of a log.

`applier` has `replay`, `targets` the databases, `undo` the inverse, `transactions` the event groups of a log.
"""

from __future__ import annotations

from binlogio.replay.apply.replay import ReplaySummary, replay
from binlogio.replay.filters import ReplayFilter
from binlogio.replay.targets.sqlite.target import SqliteTarget

__all__ = ["ReplayFilter", "ReplaySummary", "SqliteTarget", "replay"]
