"""The file format between bytes and events, without I/O: framing, decoder, encoder, event groups, splits.

`EventFramer` turns bytes into frames, `Decoder` frames into events, `Encoder` events into bytes; `GroupTracker` finds
the begin and end of event groups, and `event_starts` checks offsets that a user gives. Single events are in
`binlogio.events`, column values in `binlogio.values`; files are opened in `binlogio.storage.sources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.format.event_starts import check_event_start
    from binlogio.format.splits import Split, cut

__all__ = ["Split", "check_event_start", "cut"]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "event_starts": "check_event_start",
            "splits": "Split cut",
        },
    )
