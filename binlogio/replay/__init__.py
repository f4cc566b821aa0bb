"""Replay (point-in-time recovery) and undo (flashback): applies or reverses the row changes of a log.

`apply` contains `replay`, `targets` the target databases, `undo` the reversal of changes, `transactions` the
transactions of a log, and `table_history` the definitions of tables over time, for replays that read parts of logs in
parallel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.replay.apply.replay import ReplaySummary, replay
    from binlogio.replay.filters import ReplayFilter
    from binlogio.replay.table_history import Detour, Images, Life, Mark, Place, Stretch, TableHistory, marks_of
    from binlogio.replay.targets.sqlite.target import SqliteTarget

__all__ = [
    "Detour", "Images", "Life", "Mark", "Place", "ReplayFilter", "ReplaySummary", "SqliteTarget", "Stretch",
    "TableHistory", "marks_of", "replay",
]  # fmt: skip

if not TYPE_CHECKING:  # undo and `dump --format sql` need no target
    __getattr__: Final = lazy_names(
        __name__,
        {
            "apply.replay": "replay",
            "apply.summary": "ReplaySummary",
            "filters": "ReplayFilter",
            "table_history": "Detour Images Life Mark Place Stretch TableHistory marks_of",
            "targets.sqlite.target": "SqliteTarget",
        },
    )
