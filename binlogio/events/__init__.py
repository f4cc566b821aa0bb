"""One module per event family; this one knows them all.

`EVENT_CODECS` maps each event type to the codec that parses and builds it, `BinlogEvent` is the union of all event
classes.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from binlogio.constants import EventType
from binlogio.events import (
    control,
    format_description,
    group_replication,
    gtid,
    load,
    mariadb,
    query,
    rows,
    statement_context,
    table_map,
    transaction_payload,
)
from binlogio.events.base import UNKNOWN, EventCodec

_FAMILIES: Final = (
    format_description,
    query,
    statement_context,
    load,
    control,
    table_map,
    rows,
    gtid,
    group_replication,
    transaction_payload,
    mariadb,
)

EVENT_CODECS: Final[dict[int, EventCodec[Any]]] = {
    codec.type_code: codec for codec in chain.from_iterable(family.CODECS for family in _FAMILIES)
}


def codec_for(type_code: int) -> EventCodec[Any]:
    """Return the codec of a type; that of `UnknownEvent` where we have none."""
    return EVENT_CODECS.get(type_code, UNKNOWN)


def default_type(event: Any) -> EventType:
    """Return the type code that an event of this class gets when its header names none."""
    return _DEFAULT_TYPES[type(event)]


_DEFAULT_TYPES: Final[dict[type, EventType]] = {
    # Where several types share a class, the last one here wins: today's v2 rows events, GTID_LOG_EVENT, NEW_LOAD_EVENT.
    codec.event_class: codec.type_code
    for codec in EVENT_CODECS.values()
    if "COMPRESSED" not in codec.type_code.name
}
