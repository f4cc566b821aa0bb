"""The log format between bytes and events: framing, decoder, encoder, event groups, splits.

`EventFramer` cuts bytes into frames, `Decoder` decodes frames to events, `Encoder` encodes events to bytes,
`GroupTracker` finds the begin and end of event groups, and `event_starts` checks offsets given by a user. Layouts of
events are in `binlogio.events`, column values in `binlogio.values`; `binlogio.storage.sources` opens files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.format.event_starts import check_event_start
    from binlogio.format.splits import GroupPart, Split, cut

__all__ = ["GroupPart", "Split", "check_event_start", "cut"]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "event_starts": "check_event_start",
            "splits": "GroupPart Split cut",
        },
    )
