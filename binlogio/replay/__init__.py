"""Replay (point-in-time recovery) and undo (flashback): applies or reverses the row changes of a log.

`apply` contains `replay`, `targets` the target databases, `undo` the reversal of changes, `transactions` the
transactions of a log, and `table_history` the definitions of tables over time, for replays that read parts of logs in
parallel; `row_fold` combines their row changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.replay.apply.replay import ReplaySummary, replay
    from binlogio.replay.apply.worker_states import WorkerStates
    from binlogio.replay.filters import ReplayFilter
    from binlogio.replay.row_fold import ALWAYS, Layout, RowFold, components
    from binlogio.replay.table_history import (
        Detours,
        Images,
        Life,
        Mark,
        Place,
        Stretch,
        TableHistory,
        Until,
        UntilLike,
        marks_of,
    )
    from binlogio.replay.targets.sqlite.conversion import Lossy, converted_text, is_kept
    from binlogio.replay.targets.sqlite.target import SqliteTarget

__all__ = [
    "ALWAYS", "Detours", "Images", "Layout", "Life", "Lossy", "Mark", "Place", "ReplayFilter", "ReplaySummary",
    "RowFold", "SqliteTarget", "Stretch", "TableHistory", "Until", "UntilLike", "WorkerStates", "components",
    "converted_text", "is_kept", "marks_of", "replay",
]  # fmt: skip

if not TYPE_CHECKING:  # undo and `dump --format sql` need no target
    __getattr__: Final = lazy_names(
        __name__,
        {
            "apply.replay": "replay",
            "apply.worker_states": "WorkerStates",
            "summary": "ReplaySummary",
            "filters": "ReplayFilter",
            "row_fold": "ALWAYS Layout RowFold components",
            "table_history": "Detours Images Life Mark Place Stretch TableHistory Until UntilLike marks_of",
            "targets.sqlite.conversion": "Lossy converted_text is_kept",
            "targets.sqlite.target": "SqliteTarget",
        },
    )
