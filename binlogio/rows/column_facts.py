"""Assigns the optional metadata of a table map to its columns.

Each field lists values for the columns of some kind only, in the order of the table. MySQL and MariaDB agree on all but
one: in MariaDB a GEOMETRY column counts as a character column. (MariaDB's own mysqlbinlog counts otherwise than its
server writes: it skips YEAR and compressed columns.)

Source: sql/log_event.cc, Table_map_log_event::init_metadata_fields, is_numeric_type, is_character_type; MariaDB:
sql/log_event_server.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType, OptionalMetadataType
from binlogio.errors import BinlogFormatError
from binlogio.values.column_shape import INTEGERS, STRINGS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from binlogio.events.table_map import DefaultCharset, TableMapEvent

NUMERIC: Final = frozenset(
    {*INTEGERS, ColumnType.YEAR, ColumnType.FLOAT, ColumnType.DOUBLE, ColumnType.NEWDECIMAL, ColumnType.DECIMAL}
)
"""Have a bit in SIGNEDNESS. YEAR is one, BIT is not."""

CHARACTER: Final = STRINGS | {ColumnType.VECTOR}
"""Have a collation in DEFAULT_CHARSET or COLUMN_CHARSET.

VECTOR is one, JSON is not; ENUM and SET have fields of their own.
"""

CHARACTER_MARIADB: Final = CHARACTER | {ColumnType.GEOMETRY}
ENUM_AND_SET: Final = frozenset({ColumnType.ENUM, ColumnType.SET})


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What the optional metadata says of one column; None where it says nothing.

    `members` are in the column's character set.
    """

    name: str | None = None
    unsigned: bool | None = None
    collation_id: int | None = None
    members: tuple[bytes, ...] | None = None
    geometry_type: int | None = None
    dimension: int | None = None
    visible: bool = True


def column_facts(event: TableMapEvent, types: Sequence[ColumnType], *, mariadb: bool) -> tuple[ColumnFacts, ...]:
    """Return the facts of each column; `types` are the real ones.

    Raises:
        BinlogFormatError: a field has not as many values as there are columns for them.
    """
    character = CHARACTER_MARIADB if mariadb else CHARACTER
    reader = _Reader(event, types)
    collations = reader.collations(
        OptionalMetadataType.DEFAULT_CHARSET, OptionalMetadataType.COLUMN_CHARSET, character
    ) | reader.collations(
        OptionalMetadataType.ENUM_AND_SET_DEFAULT_CHARSET,
        OptionalMetadataType.ENUM_AND_SET_COLUMN_CHARSET,
        ENUM_AND_SET,
    )
    names = reader.each(OptionalMetadataType.COLUMN_NAME, tuple(ColumnType))
    unsigned = reader.bits(OptionalMetadataType.SIGNEDNESS, NUMERIC)
    members = reader.each(OptionalMetadataType.ENUM_STR_VALUE, (ColumnType.ENUM,))
    members |= reader.each(OptionalMetadataType.SET_STR_VALUE, (ColumnType.SET,))
    geometry_types = reader.each(OptionalMetadataType.GEOMETRY_TYPE, (ColumnType.GEOMETRY,))
    dimensions = reader.each(OptionalMetadataType.VECTOR_DIMENSIONALITY, (ColumnType.VECTOR,))
    visible = reader.bits(OptionalMetadataType.COLUMN_VISIBILITY, tuple(ColumnType))
    return tuple(
        ColumnFacts(
            name=names.get(position),
            unsigned=unsigned.get(position),
            collation_id=collations.get(position),
            members=members.get(position),
            geometry_type=geometry_types.get(position),
            dimension=dimensions.get(position),
            visible=visible.get(position, True),
        )
        for position in range(len(types))
    )


def primary_key(event: TableMapEvent) -> tuple[tuple[int, int], ...]:
    """Position and prefix length (in characters, 0 for all) of each column of the primary key.

    Empty where nothing is said.

    Raises:
        BinlogFormatError: a position beyond the table.
    """
    simple = event.optional(OptionalMetadataType.SIMPLE_PRIMARY_KEY)
    key = event.optional(OptionalMetadataType.PRIMARY_KEY_WITH_PREFIX)
    parts = tuple(key) if key is not None else tuple((position, 0) for position in simple or ())
    for position, _ in parts:
        if position >= len(event.column_types):
            raise BinlogFormatError(
                "the primary key refers to a column that does not exist", found=f"column {position}"
            )
    return parts


class _Reader:
    """Gives each value of a field to its column, by position."""

    def __init__(self, event: TableMapEvent, types: Sequence[ColumnType]) -> None:
        self._event = event
        self._types = types

    def each(self, kind: OptionalMetadataType, of: Collection[ColumnType]) -> dict[int, Any]:
        """One value for each column whose type is among `of`."""
        values = self._event.optional(kind)
        if values is None:
            return {}
        return dict(zip(self._positions(kind, of, len(values)), values, strict=True))

    def bits(self, kind: OptionalMetadataType, of: Collection[ColumnType]) -> dict[int, bool]:
        """As `each`; the values are bits, filled up to whole bytes."""
        values = self._event.optional(kind)
        if values is None:
            return {}
        positions = [position for position, column in enumerate(self._types) if column in of]
        if len(values) != (len(positions) + 7) // 8 * 8:
            raise self._mismatch(kind, len(positions), len(values))
        return dict(zip(positions, values, strict=False))

    def collations(
        self, default: OptionalMetadataType, each: OptionalMetadataType, of: Collection[ColumnType]
    ) -> dict[int, int]:
        """Collation ids of the columns whose type is among `of`, from whichever of the two fields is there."""
        charset: DefaultCharset | None = self._event.optional(default)
        if charset is None:
            return self.each(each, of)
        positions = [position for position, column in enumerate(self._types) if column in of]
        found = dict.fromkeys(positions, charset.default)
        for index, collation_id in charset.exceptions:
            if index >= len(positions):
                raise self._mismatch(default, len(positions), index + 1)
            found[positions[index]] = collation_id
        return found

    def _positions(self, kind: OptionalMetadataType, of: Collection[ColumnType], count: int) -> list[int]:
        positions = [position for position, column in enumerate(self._types) if column in of]
        if len(positions) != count:
            raise self._mismatch(kind, len(positions), count)
        return positions

    @staticmethod
    def _mismatch(kind: OptionalMetadataType, expected: int, found: int) -> BinlogFormatError:
        return BinlogFormatError(
            f"the column count of the optional metadata {kind.name} does not match the table",
            expected=expected,
            found=found,
        )
