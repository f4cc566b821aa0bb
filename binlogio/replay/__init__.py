"""Replay (point-in-time recovery) and undo (flashback): applies or reverses the row changes of a log.

`applier` has `replay`, `targets` the databases, `undo` the inverse, `transactions` the event groups of a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.replay.apply.replay import ReplaySummary, replay
    from binlogio.replay.filters import ReplayFilter
    from binlogio.replay.targets.sqlite.target import SqliteTarget

__all__ = ["ReplayFilter", "ReplaySummary", "SqliteTarget", "replay"]

if not TYPE_CHECKING:  # undo and `dump --format sql` need no target
    __getattr__: Final = lazy_names(
        __name__,
        {
            "apply.replay": "replay",
            "apply.summary": "ReplaySummary",
            "filters": "ReplayFilter",
            "targets.sqlite.target": "SqliteTarget",
        },
    )
