"""Conditions on the values of row changes (`--where`), as masks of Arrow record batches.

    condition  := condition "OR" condition | condition "AND" condition | "NOT" condition | "(" condition ")"
                | column operator value | value operator column | column operator column
                | column ["NOT"] "IN" "(" value, ... ")" | column ["NOT"] "BETWEEN" value "AND" value
                | column ["NOT"] "LIKE" text | column ["NOT"] ("REGEXP" | "RLIKE") text | column "IS" ["NOT"] "NULL"
    operator   := "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=" | "<=>"
    column     := [("before" | "after") "."] name
    value      := number | 'text' | x'hex' | "TRUE" | "FALSE"

A change matches if its before image or its after image matches. `before.` or `after.` selects the image of a column.
A column that the after image of an update lacks has the value of the before image. As in SQL, a comparison with NULL is
unknown, except with `<=>`. A column that both images lack (binlog_row_image=MINIMAL) makes all comparisons and IS NULL
unknown; a change that could match if its value were known is undecided. Strings are compared by code points, not by
collation. Dates and times are written as text; those for TIMESTAMP columns are in UTC.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlogio.constants import DATE_AS_TEXT
from binlogio.dotted_names import dotted_name
from binlogio.errors import ConditionError, Hint, Surface, UndecidedRows, UnsupportedFeature
from binlogio.schema.ddl.tokens import END, Token, tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

BEFORE: Final = "before"
AFTER: Final = "after"
_OPERATORS: Final = {"=": "==", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}
_COMPARE: Final[dict[str, Callable[..., pa.Array]]] = {
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_WIDE: Final = Context(prec=200)
_MICROSECONDS: Final = 1_000_000
_WITH_BIT: Final = [
    pa.array([bytes([byte]) for byte in range(256) if byte >> bit & 1], pa.binary()) for bit in range(8)
]
_DATE: Final = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d?)(?::(\d\d?)(?:\.(\d{0,6}))?)?)?Z?", re.ASCII)
_SIZE_OF_DATE: Final = len("2026-11-20")
_SIZE_OF_SECONDS: Final = len("2026-11-20 09:10:00")
_MOST_OF_DATE: Final = _SIZE_OF_SECONDS + 1 + 6
_UNKNOWN: Final = pa.scalar(None, pa.bool_())
_MOST_NESTED: Final = 100  # the greatest depth of NOT and parentheses


@dataclass(frozen=True, slots=True)
class _ColumnName:
    name: str
    image: str | None


_Value = str | bytes | bool | Decimal


@dataclass(frozen=True, slots=True)
class _Comparison:
    column: _ColumnName
    operator: str
    other: _Value | _ColumnName


@dataclass(frozen=True, slots=True)
class _Pattern:
    column: _ColumnName
    pattern: str
    is_regex: bool


@dataclass(frozen=True, slots=True)
class _IsNull:
    column: _ColumnName


@dataclass(frozen=True, slots=True)
class _Not:
    condition: _Node


@dataclass(frozen=True, slots=True)
class _AllOf:
    conditions: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _AnyOf:
    conditions: tuple[_Node, ...]


_Node = _Comparison | _Pattern | _IsNull | _Not | _AllOf | _AnyOf


class RowCondition:
    """A condition on the images of row changes. `text` is its source, `columns` the set of column names in it."""

    def __init__(self, text: str) -> None:
        """Parse a condition.

        Raises:
            ConditionError: the text is not a valid condition.
        """
        self.text: Final = text
        self._root = _ConditionParser(text).condition()
        columns = list(_columns(self._root))
        self.columns: Final = frozenset(column.name for column in columns)
        self._columns: Final = sorted(set(columns), key=str)
        self._names_images = any(column.image for column in columns)

    def is_about(self, table: str, labels: Collection[str]) -> bool:
        """Return whether a table has all columns of the condition; rows of others do not match.

        Raises:
            ConditionError: its columns have no names, so that its rows cannot be compared.
        """
        if self.columns.issubset(labels):
            return True
        if "@1" in labels:
            raise ConditionError(
                f"the rows of {table} cannot be compared with the condition: its columns have no names",
                hint=Hint.UNNAMED_COLUMNS,
            )
        return False

    def no_table(self, tables: Mapping[str, Collection[str]]) -> ConditionError:
        """Return the error that no table has all columns of the condition; `tables` are the columns of each by name."""
        table, labels = min(tables.items(), key=lambda one: len(self.columns - {*one[1]}))
        missing = sorted(self.columns - {*labels})
        folded = {label.casefold(): label for label in labels}
        near = folded.get(missing[0].casefold()) or next(iter(difflib.get_close_matches(missing[0], labels, 1)), None)
        return ConditionError(
            f"no table that was read has the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
            expected=f"columns such as those of {table}: {', '.join(labels)}",
            hint="names are compared with case, and texts are in quotes"
            + ("" if near is None else f"; did you mean {near}?"),
        )

    def compare(self, batch: pa.RecordBatch, positions: Mapping[str, int] | None = None) -> RowMatches:
        """Compare the changes of a batch with the condition.

        Args:
            batch: a batch of `read_rows` or `read_tables` with typed images and the columns of the condition.
            positions: maps column names to column numbers in the table, from 0; None if the batch has all columns.

        Raises:
            ConditionError: the table lacks a column, a value does not fit the type of its column, or two columns
                cannot be compared.
        """
        masks, undecided, lacking = [], pa.array([False] * batch.num_rows), ""
        for image in (BEFORE, AFTER):
            values = _ConditionImages(batch, image, positions)
            found = values.mask(self._root)
            is_there = None if self._names_images else batch.column(image).is_valid()
            mask = pc.fill_null(found, fill_value=False)
            masks.append(mask if is_there is None else pc.and_(mask, is_there))
            if not found.null_count:
                continue
            unknown = found.is_null() if is_there is None else pc.and_(found.is_null(), is_there)
            for column in self._columns:
                is_lacking = pc.and_(values.is_lacking(column), unknown)
                lacking = lacking or (column.name if is_lacking.true_count else "")
                undecided = pc.or_(undecided, is_lacking)
        matching = pc.or_(*masks)
        undecided = pc.and_not(undecided, matching)
        return RowMatches(matching, undecided, lacking if undecided.true_count else "")

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each change of a batch with all columns whether it matches: a boolean array without nulls.

        Raises:
            ConditionError: as `compare`.
            UndecidedRows: a change is undecided.
        """
        found = self.compare(batch)
        if found.lacking:
            first = batch.filter(found.undecided).slice(0, 1).to_pydict()
            table = dotted_name(*first["schema"], *first["table"])
            raise undecided_rows(found.lacking, table, first["pos"][0], first["file"][0])
        return found.mask


@dataclass(frozen=True, slots=True)
class RowMatches:
    """The result of a comparison of the changes of a batch.

    Args:
        mask: for each change whether it matches; a boolean array without nulls.
        undecided: for each change whether it does not match, and could match if the log had all columns.
        lacking: the name of a column that undecided changes lack; empty if all changes are decided.
    """

    mask: pa.BooleanArray
    undecided: pa.BooleanArray
    lacking: str


def undecided_rows(lacking: str, table: str, offset: int, file: str | None = None) -> UndecidedRows:
    """Return the error that rows of a table, whose event is at an offset, cannot be compared without a column."""
    return UndecidedRows(
        f"the condition needs column {lacking}, which these rows do not have in the log",
        file=file,
        offset=offset,
        field=table,
        hint=Hint.LACKING_COLUMN,
    )


def unnamed_text(table: str) -> str:
    """Return the message about rows that were not compared because their columns have no names."""
    return f"{table}: rows were not compared with the condition, because its columns have no names: --table-definitions"


def undecided_text(table: str, lacking: str, count: int) -> str:
    """Return a sentence about the number of rows of a table that cannot be compared without a column."""
    rows = "1 row change was" if count == 1 else f"{count:,} row changes were"
    hint = Hint.LACKING_COLUMN.text(Surface.COMMAND_LINE)
    return f"{table}: {rows} not compared, because column {lacking} is not in the log: {hint}"


class _ConditionImages:
    """The images of a batch; a column without `before.` or `after.` is taken from `image`."""

    def __init__(self, batch: pa.RecordBatch, image: str, positions: Mapping[str, int] | None) -> None:
        self._batch = batch
        self._image = image
        self._positions = positions

    def mask(self, node: _Node) -> pa.BooleanArray:
        """Return for each change whether a condition is true, false, or unknown (null)."""
        if isinstance(node, _AllOf):
            return _folded(pc.and_kleene, [self.mask(one) for one in node.conditions])
        if isinstance(node, _AnyOf):
            return _folded(pc.or_kleene, [self.mask(one) for one in node.conditions])
        if isinstance(node, _Not):
            return pc.invert(self.mask(node.condition))
        values = self._values(node.column)
        if isinstance(node, _IsNull):
            return pc.if_else(self._present(node.column), pc.is_null(values), _UNKNOWN)
        if isinstance(node, _Pattern):
            return _like(node, values)
        is_lacking = self.is_lacking(node.column)
        if isinstance(node.other, _ColumnName):
            others = self._values(node.other)
            if self._is_date_as_text(node.column) and self._is_date_as_text(node.other):
                size = max(_size_of(values), _size_of(others))
                values, others = _padded_dates(values, size), _padded_dates(others, size)
            found = self._compare_columns(node, values, others)
            is_lacking = pc.or_(is_lacking, self.is_lacking(node.other))
        else:
            other = node.other
            if isinstance(other, str) and self._is_date_as_text(node.column):
                other = _date_text(node.column, other, _size_of(values))
            found = _compare(node, values, other)
        return pc.if_else(is_lacking, _UNKNOWN, found) if node.operator == "<=>" else found

    def is_lacking(self, column: _ColumnName) -> pa.BooleanArray:
        """Return for each change whether its image is in the log without a column."""
        return pc.and_not(self._batch.column(column.image or self._image).is_valid(), self._present(column))

    def _is_date_as_text(self, column: _ColumnName) -> bool:
        kind = self._batch.column(column.image or self._image).type.field(column.name)
        return (kind.metadata or {}).items() >= DATE_AS_TEXT.items()

    def _values(self, column: _ColumnName) -> pa.Array:
        image = column.image or self._image
        values = self._in_image(image, column.name)
        if image == BEFORE or not values.null_count:
            return values
        former = self._in_image(BEFORE, column.name)
        if pa.types.is_dictionary(values.type):
            values, former = values.dictionary_decode(), former.dictionary_decode()
        is_filled = pc.and_not(self._batch.column(AFTER).is_valid(), self._has(AFTER, column.name))
        return pc.if_else(is_filled, former, values)

    def _in_image(self, image: str, column: str) -> pa.Array:
        images = self._batch.column(image)
        if not pa.types.is_struct(images.type):
            raise ConditionError("a condition on values needs the rows of tables with typed images")
        names = [field.name for field in images.type]
        if column not in names:
            nearest = difflib.get_close_matches(column, names, 1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"its columns are {', '.join(names)}"
            table = (
                dotted_name(*(self._batch.column(name)[0].as_py() for name in ("schema", "table")))
                if len(images)
                else ""
            )
            raise ConditionError(f"{table} has no column {column}", hint=hint)
        return pc.struct_field(images, column)

    def _present(self, column: _ColumnName) -> pa.BooleanArray:
        """Return for each change whether it has the image of a column, with a value."""
        has = self._has(BEFORE, column.name)
        if (column.image or self._image) == BEFORE:
            return has
        return pc.and_(pc.or_(has, self._has(AFTER, column.name)), self._batch.column(AFTER).is_valid())

    def _has(self, image: str, column: str) -> pa.BooleanArray:
        """Return for each change whether an image has a column."""
        bits = self._batch.column(f"{image}_present")
        if self._positions is None:
            number = self._batch.column(image).type.get_field_index(column)
        else:
            number = self._positions[column]
        byte = pc.binary_slice(bits, number // 8, number // 8 + 1)
        return pc.and_(bits.is_valid(), pc.is_in(byte, value_set=_WITH_BIT[number % 8]))

    @staticmethod
    def _compare_columns(node: _Comparison, values: pa.Array, others: pa.Array) -> pa.BooleanArray:
        try:
            if node.operator == "<=>":
                return _null_safe(values, others)
            return _COMPARE[node.operator](values, others)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
            raise ConditionError(
                f"columns {node.column.name} and {getattr(node.other, 'name', '')} cannot be compared",
                expected=str(values.type),
                found=str(others.type),
            ) from exc


def _folded(function: Callable[..., pa.Array], masks: list[pa.Array]) -> pa.Array:
    result = masks[0]
    for mask in masks[1:]:
        result = function(result, mask)
    return result


def _null_safe(values: pa.Array, others: pa.Array | pa.Scalar) -> pa.BooleanArray:
    is_null = pc.and_(pc.is_null(values), pc.is_null(others))
    return pc.or_(is_null, pc.fill_null(pc.equal(values, others), fill_value=False))


def _like(node: _Pattern, values: pa.Array) -> pa.BooleanArray:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        raise _unfit(node.column, values.type, node.pattern)
    try:
        return (pc.match_substring_regex if node.is_regex else pc.match_like)(values, node.pattern)
    except pa.ArrowInvalid as exc:
        raise ConditionError(f"{node.pattern!r} is not a regular expression: {exc}") from exc


def _compare(node: _Comparison, values: pa.Array, value: _Value) -> pa.BooleanArray:
    """Compare a column with a value of the condition."""
    kind, operator = values.type, node.operator
    if operator == "<=>":  # a value of a condition is never NULL
        return pc.fill_null(_compare(_Comparison(node.column, "==", value), values, value), fill_value=False)
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return _compare_exact(node, values, _number(node.column, kind, value))
    if pa.types.is_floating(kind):
        return _COMPARE[operator](values.cast(pa.float64()), pa.scalar(float(_number(node.column, kind, value))))
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return _COMPARE[operator](values, pa.scalar(value))
    if pa.types.is_dictionary(kind):
        values, kind = values.dictionary_decode(), kind.value_type
    if pa.types.is_binary(kind) and isinstance(value, (str, bytes)):
        return _COMPARE[operator](values, pa.scalar(value.encode() if isinstance(value, str) else value, kind))
    if isinstance(value, str) and pa.types.is_string(kind):
        return _COMPARE[operator](values, pa.scalar(value, kind))
    if isinstance(value, str) and (pa.types.is_temporal(kind)):
        return _COMPARE[operator](values, _moment(node.column, kind, value))
    raise _unfit(node.column, kind, value)


def _unfit(column: _ColumnName, kind: pa.DataType, value: object) -> ConditionError:
    return ConditionError(f"the value does not fit column {column.name}", expected=str(kind), found=repr(value))


def _number(column: _ColumnName, kind: pa.DataType, value: _Value) -> Decimal:
    """Return a value of the condition as a number; TRUE is 1, and bytes are a big-endian integer."""
    if isinstance(value, bool):
        return Decimal(int(value))
    if isinstance(value, bytes):
        return Decimal(int.from_bytes(value, "big"))
    if isinstance(value, str):
        try:
            value = Decimal(value.strip())
        except ArithmeticError as exc:
            raise _unfit(column, kind, value) from exc
    if not value.is_finite():
        raise _unfit(column, kind, value)
    return value


def _compare_exact(node: _Comparison, values: pa.Array, value: Decimal) -> pa.BooleanArray:
    """Compare a column of integers or decimals with any number, without rounding."""
    kind, operator = values.type, node.operator
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    step = Decimal(1).scaleb(-scale)
    below = value.quantize(step, rounding=ROUND_FLOOR, context=_WIDE) if value.adjusted() < 150 else None
    if below is not None and below != value:
        if operator in ("==", "!="):
            return _constant(values, operator == "!=")
        above = value.quantize(step, rounding=ROUND_CEILING, context=_WIDE)
        operator, below = ("<=", below) if operator in ("<", "<=") else (">=", above)
    lowest, highest = _range(kind)
    if below is None or not lowest <= below <= highest:
        is_below = value < 0  # the value is less than all values of the column's type
        return _constant(values, {"==": False, "!=": True}.get(operator, (operator in (">", ">=")) == is_below))
    found = pa.scalar(below, kind) if pa.types.is_decimal(kind) else pa.scalar(int(below), kind)
    return _COMPARE[operator](values, found)


def _constant(values: pa.Array, value: bool) -> pa.BooleanArray:  # noqa: FBT001 - the result of a comparison
    """Return `value` for every value of the column except NULL, which gives null."""
    return pc.if_else(values.is_valid(), pa.scalar(value), pa.scalar(None, pa.bool_()))


def _range(kind: pa.DataType) -> tuple[Decimal, Decimal]:
    if pa.types.is_decimal(kind):
        most = Decimal(10**kind.precision - 1).scaleb(-kind.scale, _WIDE)
        return most.copy_negate(), most  # `-most` would be rounded to 28 digits
    if pa.types.is_unsigned_integer(kind):
        return Decimal(0), Decimal((1 << kind.bit_width) - 1)
    return Decimal(-(1 << kind.bit_width - 1)), Decimal((1 << kind.bit_width - 1) - 1)


def _moment(column: _ColumnName, kind: pa.DataType, text: str) -> pa.Scalar:
    """Convert a text to a scalar of a temporal type."""
    try:
        if pa.types.is_duration(kind):
            return pa.scalar(_duration(text), pa.int64()).cast(kind)
        plain = _date_text(column, text, _SIZE_OF_DATE if pa.types.is_date(kind) else _MOST_OF_DATE)
        if pa.types.is_timestamp(kind):
            naive = pa.scalar(plain).cast(pa.timestamp("us"))
            return naive.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.timestamp(kind.unit)).cast(kind)
        return pa.scalar(plain).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, ArithmeticError) as exc:
        raise _unfit(column, kind, text) from exc


def _size_of(values: pa.Array) -> int:
    """Return the most characters of a text."""
    return pc.max(pc.utf8_length(values)).as_py() or 0


def _padded_dates(values: pa.Array, size: int) -> pa.Array:
    """Return the dates of a column as texts of `size` characters."""
    for end, missing in ((_SIZE_OF_DATE, " 00:00:00"), (_SIZE_OF_SECONDS, ".")):
        if _size_of(values) == end < size:
            values = pc.binary_join_element_wise(values, missing, "")
    return pc.utf8_rpad(values, size, "0")


def _date_text(column: _ColumnName, text: str, size: int) -> str:
    """Return a date or time in the form in which a column of texts of `size` characters has it; seconds may be missing.

    Such texts are in the order of time. A text with more digits than the column stays longer, and equals no value.
    """
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise _unfit(column, pa.timestamp("us"), text)
    year, *parts, digits = found.groups()
    month, day, hour, minute, second = (int(part or 0) for part in parts)
    date, clock = f"{year}-{month:02}-{day:02}", f" {hour:02}:{minute:02}:{second:02}"
    digits = (digits or "").rstrip("0")
    if size <= _SIZE_OF_DATE and not (hour or minute or second or digits):
        return date
    digits = digits.ljust(size - _SIZE_OF_SECONDS - 1, "0")
    return f"{date}{clock}.{digits}" if digits else f"{date}{clock}"


def _duration(text: str) -> int:
    """Return the microseconds of a TIME such as -838:59:59.5; seconds may be missing."""
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = text.lstrip("+-").split(":") if text.count(":") == 2 else (*text.split(":"), "0")
    return sign * int((int(hours) * 3600 + int(minutes) * 60 + Decimal(seconds)) * _MICROSECONDS)


def _columns(node: _Node) -> Iterator[_ColumnName]:
    if isinstance(node, (_AllOf, _AnyOf)):
        for one in node.conditions:
            yield from _columns(one)
    elif isinstance(node, _Not):
        yield from _columns(node.condition)
    else:
        yield node.column
        if isinstance(node, _Comparison) and isinstance(node.other, _ColumnName):
            yield node.other


class _ConditionParser:
    """A recursive descent parser for conditions."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._tokens = tokenize(text)
        except UnsupportedFeature as exc:
            raise ConditionError("the condition cannot be read", expected="a closing quote", found=exc.found) from exc
        self._at = 0
        self._depth = 0

    def condition(self) -> _Node:
        """Parse the whole text."""
        node = self._any()
        if self._next is not END:
            raise self._expected("AND, OR or the end")
        return node

    @property
    def _next(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else END

    def _take(self, *words: str) -> bool:
        """Consume the next token if it is one of the words or symbols; return whether it was."""
        token = self._next
        if token is END or token.kind in ("text", "quoted") or token.upper not in words:
            return False
        self._at += 1
        return True

    def _expected(self, what: str) -> ConditionError:
        found = repr(self._text[self._next.start :]) if self._next is not END else "the end"
        hints = {"=": "one = compares", ".": "a column has no table before it; tables are selected otherwise"}
        hint = hints.get(self._next.text) if self._next is not END else None
        return ConditionError("the condition cannot be read", expected=what, found=found, hint=hint)

    def _any(self) -> _Node:
        nodes = [self._all()]
        while self._take("OR"):
            nodes.append(self._all())
        return nodes[0] if len(nodes) == 1 else _AnyOf(tuple(nodes))

    def _all(self) -> _Node:
        nodes = [self._not()]
        while self._take("AND"):
            nodes.append(self._not())
        return nodes[0] if len(nodes) == 1 else _AllOf(tuple(nodes))

    def _not(self) -> _Node:
        if self._take("NOT"):
            return _Not(self._nested(self._not))
        if self._take("("):
            node = self._nested(self._any)
            if not self._take(")"):
                raise self._expected(")")
            return node
        return self._comparison()

    def _nested(self, parse: Callable[[], _Node]) -> _Node:
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise ConditionError(f"the condition cannot be read: more than {_MOST_NESTED} nested NOT and parentheses")
        node = parse()
        self._depth -= 1
        return node

    def _comparison(self) -> _Node:
        if not self._is_column():
            value, operator = self._value(), self._operator()
            return _Comparison(self._column(), _MIRRORED[operator], value)
        column = self._column()
        if self._take("IS"):
            is_not = self._take("NOT")
            if not self._take("NULL"):
                raise self._expected("NULL")
            return _Not(_IsNull(column)) if is_not else _IsNull(column)
        is_not = self._take("NOT")
        node = self._set_or_pattern(column)
        if node is None:
            if is_not:
                raise self._expected("IN, BETWEEN, LIKE or REGEXP")
            operator = self._operator()
            node = _Comparison(column, operator, self._column() if self._is_column() else self._value())
        return _Not(node) if is_not else node

    def _set_or_pattern(self, column: _ColumnName) -> _Node | None:
        if self._take("IN"):
            if not self._take("("):
                raise self._expected("(")
            values = [self._value()]
            while self._take(","):
                values.append(self._value())
            if not self._take(")"):
                raise self._expected(")")
            return _AnyOf(tuple(_Comparison(column, "==", value) for value in values))
        if self._take("BETWEEN"):
            low = self._value()
            if not self._take("AND"):
                raise self._expected("AND")
            return _AllOf((_Comparison(column, ">=", low), _Comparison(column, "<=", self._value())))
        is_regex = self._next.upper in ("REGEXP", "RLIKE")
        if self._take("LIKE", "REGEXP", "RLIKE"):
            if self._next.kind != "text":
                raise self._expected("a text in quotes")
            self._at += 1
            return _Pattern(column, self._tokens[self._at - 1].text, is_regex)
        return None

    def _operator(self) -> str:
        text = ""
        while self._next.kind == "symbol" and f"{text}{self._next.text}" in (*_OPERATORS, "!"):
            text += self._next.text
            self._at += 1
        if text not in _OPERATORS:
            raise self._expected("an operator such as =, <> or <")
        return _OPERATORS[text]

    def _is_column(self) -> bool:
        token = self._next
        if token.kind == "symbol":
            return token.text == "@"
        is_value = token.upper in ("TRUE", "FALSE") or token.upper.startswith("0X") or self._is_hex()
        return token.is_name and not (token.kind == "word" and is_value)

    def _is_hex(self) -> bool:
        """Return whether the next tokens are a hex literal x'...'."""
        after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else END
        return self._next.upper == "X" and after.kind == "text" and after.start == self._next.end

    def _column(self) -> _ColumnName:
        name = self._name()
        if name.lower() in (BEFORE, AFTER) and self._take("."):
            return _ColumnName(self._name(), name.lower())
        return _ColumnName(name, None)

    def _number(self, *, is_negative: bool) -> Decimal:
        try:
            number = Decimal(self._next.text)
        except ArithmeticError as exc:
            raise self._expected("a smaller exponent") from exc
        self._at += 1
        return number.copy_negate() if is_negative else number  # arithmetic would round it to 28 digits

    def _name(self) -> str:
        prefix = "@" if self._take("@") else ""
        token = self._next
        if not prefix and token.kind == "word" and token.upper == "NULL":
            raise self._expected("a column or a value (IS NULL and IS NOT NULL compare with NULL)")
        if not (token.is_name or (prefix and token.kind == "number")):
            raise self._expected("the name of a column")
        self._at += 1
        return prefix + token.text

    def _value(self) -> _Value:
        is_negative = self._take("-")
        self._take("+")
        token = self._next
        if token.kind == "number":
            return self._number(is_negative=is_negative)
        if is_negative:
            raise self._expected("a number")
        if token.kind == "text":
            self._at += 1
            return token.text
        if token.kind == "word" and token.upper in ("TRUE", "FALSE"):
            self._at += 1
            return token.upper == "TRUE"
        digits = None
        if self._is_hex():
            digits = self._tokens[self._at + 1].text
            self._at += 2
        elif token.upper.startswith("0X"):
            digits = token.text[2:]
            self._at += 1
        if digits is None:
            raise self._expected("a column or a value")
        try:
            return bytes.fromhex(digits)
        except ValueError as exc:
            raise ConditionError("the condition cannot be read", expected="pairs of hex digits", found=digits) from exc
