"""Row encoder: orders the values of a changed row, chooses the columns of each image, and encodes them.

Values are encoded by the kernel or by construct. The choice of columns is made by `rules.row_image`; events are built
in `rows_builder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.primitives import bitmap_size, lenenc
from binlogio.rows.image import RowChange, RowImage, encode_partial_rows, encode_rows
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDiffs, JsonDocument
from binlogio.writer.rows.value_checks import check_time, check_value
from binlogio.writer.rules.row_image import MYSQL_IMAGES, ImageRules, RowOperation, image_columns
from binlogio.writer.rules.statement import Change, Insert, Row, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio.rows.plan import TablePlan
    from binlogio.writer.rules.statement import Row
    from binlogio.writer.session.open_tables import OpenTable

MAX_SHAPES: Final = 1024


@dataclass(frozen=True, slots=True)
class ImageShape:
    """Shape of one image: its columns, their present bitmap, the NOT NULL ones, and the kernel's packer or None."""

    columns: tuple[int, ...]
    present: bytes
    not_null: tuple[int, ...]
    is_whole: bool
    packer: Any


@dataclass(frozen=True, slots=True)
class RowShape:
    """Shapes of the images of a row: one image for an insert or delete, both for an update.

    `present` are their present bitmaps, `head_size` the size in bytes of the column count and the bitmaps.
    """

    images: tuple[ImageShape, ...]
    present: tuple[bytes, ...]
    head_size: int


EncodedRow = tuple[RowShape, bytes, tuple[list[Any], ...]]
"""An encoded row: its shape, its images, and their values."""


class RowEncoder:
    """Encodes rows according to binlog_row_image and binlog_row_value_options; caches shapes.

    `row_packer` is the kernel's, None without the kernel. `image_rules` are those of the server version.
    """

    def __init__(
        self,
        row_image: str,
        *,
        partial_json: bool,
        row_packer: Callable[[TablePlan], Any] | None,
        image_rules: ImageRules = MYSQL_IMAGES,
    ) -> None:
        self._row_image = row_image
        self._partial_json = partial_json
        self._image_rules = image_rules
        self._row_packer = row_packer
        self._shapes: dict[tuple[object, ...], RowShape] = {}

    @property
    def takes_all_columns(self) -> bool:
        """True if images have all columns (binlog_row_image=FULL)."""
        return self._row_image == "FULL"

    def rows(self, change: Change, table: OpenTable, *, is_replace: bool = False) -> Iterator[EncodedRow]:
        """Yield each row that is logged, encoded; an update without changes is omitted.

        Non-transactional engines do not check whether REPLACE changes anything, so that with `is_replace` all their
        rows are yielded.

        Raises:
            UnsupportedFeature: a row names columns that its table does not have, lacks required columns, or has NULL in
                a NOT NULL column.
            BinlogFormatError: a value does not fit its column.
        """
        if isinstance(change, Update):
            yield from self._updates(change, table, keeps_equal=is_replace and not table.is_transactional)
            return
        is_insert, names = isinstance(change, Insert), table.names
        given = self._given(change, table) if isinstance(change, Insert) else ()
        shape: RowShape | None = None
        for row in change.rows:
            if shape is None or given is None:
                shape = self.shape(table, "insert" if is_insert else "delete", given, row)
            image = shape.images[0]
            if type(row) is tuple and len(row) == len(names):
                values = [*row]
            elif (whole := _whole(row, table)) is not None:
                values = whole
            elif is_insert:
                values = new_row(row, table, image.columns)
            else:
                values = whole_row(row, table, image.columns)
            yield shape, self._packed(values, table, image), (values,)

    def _updates(self, change: Update, table: OpenTable, *, keeps_equal: bool) -> Iterator[EncodedRow]:
        operation = "upsert" if change.replaces_insert else "update"
        given = self._given(change, table)
        for old, new in change.rows:
            shape = self.shape(table, operation, given, new)
            old_shape, new_shape = shape.images
            before = whole_row(old, table, old_shape.columns)
            after = changed_row(before, new, table)
            documents = with_documents(before, after) if table.has_json else after
            old_image = self._packed(before, table, old_shape)
            new_image = self._packed(documents, table, new_shape)
            if not new_shape.is_whole:
                self._refuse_other_columns(before, documents, table, new_shape)
            if not keeps_equal and self._is_same(before, table, old_shape, new_shape, old_image, new_image):
                continue
            if self._partial_json:
                images = _partial_images(before, after, documents, table, shape)
            else:
                images = old_image + new_image
            yield shape, images, (before, documents)

    def _refuse_other_columns(
        self, before: list[Any], after: list[Any], table: OpenTable, new_shape: ImageShape
    ) -> None:
        """Refuse a new value in a column that the after image lacks, because the log would lose it.

        Generated columns are allowed.

        Raises:
            UnsupportedFeature: there is such a value.
        """
        for position, (old, new) in enumerate(zip(before, after, strict=True)):
            if old is new or position in new_shape.columns or old is ABSENT or new is ABSENT:
                continue
            if table.definition.columns[position].generated_from is not None:
                continue
            alone = self._image_shape(table, (position,))
            if old is None or new is None or self._packed(before, table, alone) != self._packed(after, table, alone):
                raise UnsupportedFeature(
                    "the row has a new value in a column that the statement does not name",
                    field=table.definition.full_name,
                    found=table.definition.columns[position].name,
                    hint="name it in `columns`, or leave the value as it was",
                )

    def _is_same(
        self,
        before: list[Any],
        table: OpenTable,
        old_shape: ImageShape,
        new_shape: ImageShape,
        old_image: bytes,
        new_image: bytes,
    ) -> bool:
        """Return whether the columns of the after image are unchanged."""
        if old_shape.columns == new_shape.columns:
            return old_image == new_image
        if any(before[position] is ABSENT for position in new_shape.columns):
            return False
        return self._packed(before, table, new_shape) == new_image

    def _given(self, change: Insert | Update, table: OpenTable) -> tuple[int, ...] | None:
        """Return the positions of the columns that the statement named; None if each row has its own."""
        if self._row_image == "FULL":
            return ()
        if change.columns is None:
            return None
        return tuple(table.definition.column_index(name) for name in change.columns)

    def shape(self, table: OpenTable, operation: str, given: tuple[int, ...] | None, row: Row) -> RowShape:
        """Return the shape for an operation; `given`: columns that the statement named, None for those of `row`."""
        if given is None:
            given = given_columns(row, table)
        key = table.table_id, operation, given
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            columns = image_columns(
                table.definition, self._row_image, RowOperation(operation), given, self._image_rules
            )
            chosen = [one for one in (columns.before, columns.after) if one is not None]
            images = tuple(self._image_shape(table, one) for one in chosen)
            present = tuple(image.present for image in images)
            shape = RowShape(images, present, len(lenenc(table.column_count)) + sum(map(len, present)))
            self._shapes[key] = shape
        return shape

    def _image_shape(self, table: OpenTable, columns: tuple[int, ...]) -> ImageShape:
        is_whole = len(columns) == len(table.plan.columns)
        packer = table.packer
        if not is_whole and self._row_packer is not None:
            packer = self._row_packer(replace(table.plan, columns=tuple(table.plan.columns[i] for i in columns)))
        size = bitmap_size(len(table.plan.columns))
        bits = sum(1 << position for position in columns)
        sets_spare_bits = (
            is_whole and not table.plan.spare_null_bits
        )  # a server sets the unused bits after the null bits, or these
        return ImageShape(
            columns=columns,
            present=b"\xff" * size if sets_spare_bits else bits.to_bytes(size, "little"),
            not_null=tuple(position for position in table.not_null if position in columns),
            is_whole=is_whole,
            packer=packer if self._row_packer is not None else None,
        )

    def _packed(self, values: list[Any], table: OpenTable, shape: ImageShape) -> bytes:
        for position in shape.not_null:
            if values[position] is None:
                raise UnsupportedFeature("the column cannot be NULL", field=_column(table, position))
        for position, check in table.checks:
            value = values[position]
            if type(value) is str and check is not check_time:  # text is encoded, or rejected by the encoder
                continue
            if value is not None and value is not ABSENT and position in shape.columns:
                check_value(check, value, _column(table, position))
        if shape.packer is not None:
            chosen = values if shape.is_whole else [values[position] for position in shape.columns]
            packed: bytes | None = shape.packer.pack(chosen)
            if packed is not None:
                return packed
        try:
            return encode_rows([RowChange(None, RowImage(table.plan, tuple(values)))], table.plan, shape.present)
        except BinlogError as exc:
            exc.locate(event_type=table.definition.full_name)
            raise


def _partial_images(
    before: list[Any], after: list[Any], documents: list[Any], table: OpenTable, shape: RowShape
) -> bytes:
    """Return both images of a partial update.

    A document is a diff if one is given and is smaller than the document, and an empty diff if it is unchanged.
    """
    old_shape, new_shape = shape.images
    values = [_as_diffs(old, value, document) for old, value, document in zip(before, after, documents, strict=True)]
    change = RowChange(RowImage(table.plan, tuple(before)), RowImage(table.plan, tuple(values)))
    return encode_partial_rows([change], table.plan, old_shape.present, new_shape.present)


def _as_diffs(old: Any, value: Any, document: Any) -> Any:
    if isinstance(value, JsonDiffs):
        return value if _diffs_size(value) < len(document.binary) else document
    return JsonDiffs() if isinstance(document, JsonDocument) and document == old else document


def _diffs_size(diffs: JsonDiffs) -> int:
    """Return the size of a diff vector in bytes. sql/json_diff.cc, Json_diff_vector::binary_length."""
    size = 0
    for diff in diffs:
        path = len(diff.path.encode())
        size += 1 + len(lenenc(path)) + path
        if diff.value is not None:
            size += len(lenenc(len(diff.value.binary))) + len(diff.value.binary)
    return size


def _column(table: OpenTable, position: int) -> str:
    return f"{table.definition.full_name}.{table.definition.columns[position].name}"


# ------------------------------------------------------------------------------------- values in the order of the table


def _whole(row: Row, table: OpenTable) -> list[Any] | None:
    """Return the values of a dict with exactly the columns of the table; None for any other row."""
    if type(row) is not dict or len(row) != len(table.names):
        return None
    try:
        return [*table.of_names(row)]
    except KeyError:
        return None


def whole_row(row: Row, table: OpenTable, needed: tuple[int, ...]) -> list[Any]:
    """Return the values of an existing row. Columns in `needed` must be given; others may be ABSENT."""
    whole = _whole(row, table)
    if whole is not None:
        return whole
    definition = table.definition
    if not isinstance(row, Mapping):
        if len(row) != len(definition.columns):
            raise UnsupportedFeature(
                "the number of values differs from the number of columns",
                field=definition.full_name,
                expected=len(definition.columns),
                found=len(row),
            )
        return list(row)
    given = values_by_position(row, table)
    missing = [definition.columns[index].name for index in needed if index not in given]
    if missing:
        raise UnsupportedFeature(
            "the row has no value for some columns", field=definition.full_name, found=", ".join(missing)
        )
    return [given.get(index, ABSENT) for index in range(len(definition.columns))]


def new_row(row: Row, table: OpenTable, needed: tuple[int, ...]) -> list[Any]:
    """Return the values of a new row; nullable columns that a mapping lacks are NULL."""
    if type(row) is tuple or len(row) == len(table.names) or not isinstance(row, Mapping):
        return whole_row(row, table, needed)
    missing = {column.name.casefold(): column.name for column in table.definition.columns if column.nullable}
    for name in row:
        missing.pop(name.casefold(), None)
    return whole_row({**row, **dict.fromkeys(missing.values())}, table, needed)


def changed_row(old: list[Any], new: Row, table: OpenTable) -> list[Any]:
    """Return the values after an update: columns that a mapping lacks are unchanged."""
    if not isinstance(new, Mapping):
        return whole_row(new, table, ())
    values = list(old)
    for index, value in values_by_position(new, table).items():
        values[index] = value
    return values


def given_columns(row: Row, table: OpenTable) -> tuple[int, ...]:
    """Return the positions of the columns for which a row has a value."""
    if isinstance(row, Mapping):
        return tuple(sorted(values_by_position(row, table)))
    return tuple(range(len(table.names)))


def values_by_position(row: Mapping[str, Any], table: OpenTable) -> dict[int, Any]:
    """Return the values of a mapping by the positions of their columns."""
    return {table.definition.column_index(name): value for name, value in row.items()}


def with_documents(old: list[Any], new: list[Any]) -> list[Any]:
    """Return the values after an update, with JSON diffs replaced by the resulting documents.

    Raises:
        UnsupportedFeature: there is no document to which the diffs can be applied.
        BinlogFormatError: the diffs do not fit the document.
    """
    values = list(new)
    for index, value in enumerate(values):
        if isinstance(value, JsonDiffs):
            document = old[index]
            if not isinstance(document, JsonDocument):
                raise UnsupportedFeature("JSON diffs need a document in the before image", found=repr(document))
            values[index] = value.apply(document)
    return values
