"""Replay (point-in-time recovery) and undo (flashback): applies or reverses the row changes of a log.

`applier` has `replay`, `targets` the databases, `undo` the inverse, `transactions` the event groups of a log.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from binlogio.replay.apply.replay import ReplaySummary, replay
    from binlogio.replay.filters import ReplayFilter
    from binlogio.replay.targets.sqlite.target import SqliteTarget

__all__ = ["ReplayFilter", "ReplaySummary", "SqliteTarget", "replay"]

_HOMES: Final = {
    "ReplayFilter": "binlogio.replay.filters",
    "ReplaySummary": "binlogio.replay.apply.summary",
    "SqliteTarget": "binlogio.replay.targets.sqlite.target",
    "replay": "binlogio.replay.apply.replay",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: undo and `dump --format sql` need no target."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
