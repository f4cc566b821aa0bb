"""Context of the next statement (QUERY_EVENT): INTVAR_EVENT, RAND_EVENT, USER_VAR_EVENT.

    intvar_event   := kind: u8 (1 LAST_INSERT_ID, 2 INSERT_ID)  value: u64
    rand_event     := seed1: u64  seed2: u64
    user_var_event := name: u32 length, bytes  is_null: u8
                      (type: u8  collation: u32  value: u32 length, bytes  tail: u8[*])?     -- not for NULL
    tail           := flags: u8 (since 5.1.31)  u8[*]                                 -- MariaDB appends the type's name

Source: libs/mysql/binlog/event/statement_events.h, Intvar_event, Rand_event, User_var_event; MariaDB: sql/log_event.cc.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from construct import GreedyBytes, Int8ul, Int32ul, Int64ul, Prefixed, Struct, Terminated, this

from binlogio.constants import EventType
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.events.optional_fields import Announced
from binlogio.frozen import dataclass
from binlogio.primitives import Utf8


class IntvarKind(IntEnum):
    """libs/mysql/binlog/event/statement_events.h, Intvar_event::Int_event_type."""

    INVALID_INT_EVENT = 0
    LAST_INSERT_ID_EVENT = 1
    INSERT_ID_EVENT = 2


class UserVarType(IntEnum):
    """include/mysql/udf_registration_types.h, enum Item_result."""

    STRING_RESULT = 0
    REAL_RESULT = 1
    INT_RESULT = 2
    ROW_RESULT = 3
    DECIMAL_RESULT = 4


INTVAR: Final = Struct("kind" / Int8ul, "value" / Int64ul, Terminated)
RAND: Final = Struct("seed1" / Int64ul, "seed2" / Int64ul, Terminated)
USER_VAR: Final = Struct(
    "name" / Utf8(Prefixed(Int32ul, GreedyBytes)),
    "is_null" / Int8ul,
    "type" / Announced(this.is_null == 0, Int8ul),
    "collation" / Announced(this.is_null == 0, Int32ul),
    "value" / Announced(this.is_null == 0, Prefixed(Int32ul, GreedyBytes)),
    "tail" / GreedyBytes,
)


@dataclass(frozen=True, slots=True)
class IntvarEvent:
    """The value of LAST_INSERT_ID(), or of the AUTO_INCREMENT column, in the next statement.

    `kind` is an `IntvarKind`.
    """

    kind: int
    value: int
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class RandEvent:
    """The two seeds of RAND() in the next statement."""

    seed1: int
    seed2: int
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class UserVarEvent:
    """A user variable that the next statement reads. `type`, `collation` and `value` are None if it is NULL.

    `type` is a `UserVarType`, `collation` a collation id. `value` is encoded: text, an IEEE double, a 64-bit integer,
    or precision, scale and a packed DECIMAL. `tail` begins with the flags byte.
    """

    name: str
    is_null: int
    type: int | None
    collation: int | None
    value: bytes | None
    tail: bytes
    header: EventHeader = NEW_HEADER

    @property
    def is_unsigned(self) -> bool:
        """True if the flags byte marks an integer as unsigned."""
        return bool(self.tail and self.tail[0] & 1)

    @property
    def number(self) -> int | float | None:
        """The value of an integer or double variable; None for NULL and other types."""
        if self.value is None or len(self.value) != struct.calcsize("<q"):
            return None
        if self.type == UserVarType.INT_RESULT:
            return int.from_bytes(self.value, "little", signed=not self.is_unsigned)
        if self.type == UserVarType.REAL_RESULT:
            return float(struct.unpack("<d", self.value)[0])
        return None


CODECS: Final = (
    EventCodec(EventType.INTVAR_EVENT, INTVAR, IntvarEvent),
    EventCodec(EventType.RAND_EVENT, RAND, RandEvent),
    EventCodec(EventType.USER_VAR_EVENT, USER_VAR, UserVarEvent),
)
