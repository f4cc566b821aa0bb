"""The results of `read_rows`: record batches of one table, or of any tables with JSON images, as Arrow streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.errors import BinlogFormatError
from binlogio.storage.index_file import unescaped_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pandas as pd
    import pyarrow as pa

    from binlogio.columnar.rows_reader import TableBatches


class RowBatches:
    """Record batches of one table's row changes. Each iteration or conversion reads the logs again.

    The object is an Arrow stream (`__arrow_c_stream__`), which pyarrow, pandas, Polars and DuckDB read directly.
    """

    def __init__(self, tables: TableBatches) -> None:
        self._tables = tables

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._tables.description}>"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches.

        Raises:
            BinlogError: a log is damaged, or `table` is a pattern and the logs have rows of several matching tables.
        """
        first = None
        for name, batch in self._tables:
            first = name if first is None else first
            if name != first:
                raise BinlogFormatError(
                    "the pattern matches several tables, whose columns differ",
                    field=self._tables.names,
                    expected=first,
                    found=name,
                    hint="use read_tables(), which gives batches per table, "
                    "or read_rows() without table=, which gives JSON",
                )
            yield batch

    @property
    def schema(self) -> pa.Schema:
        """The schema of the first batch. The logs are read up to the first row of the table.

        Raises:
            BinlogFormatError: the logs contain no row of the table, and its columns are unknown.
        """
        first = next(iter(self), None)
        return self._tables.known_schema() if first is None else first.schema

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """Return all batches as one table; columns added by an ALTER TABLE are null before it.

        The table is empty if there are no rows, but the columns are known.

        Raises:
            BinlogFormatError: the logs have no row of the table, and its columns are unknown; or an ALTER TABLE
                changes a column to a type that cannot be merged with the previous type.
        """
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        batches = list(self)
        if not batches:
            return self._tables.known_schema().empty_table()
        parts = [pa.Table.from_batches([batch]) for batch in batches]
        try:
            return pa.concat_tables(parts, promote_options="permissive")
        except pa.ArrowException as exc:
            raise _disagreement(batches) from exc

    def to_pandas(self) -> pd.DataFrame:
        """Return all batches as a pandas data frame."""
        return self.to_table().to_pandas()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a stream of batches with the schema of the first one. DuckDB and Polars read it without a copy.

        Raises:
            BinlogFormatError: the logs have no row of the table, and its columns are unknown; or, while reading, the
                table's columns change.
        """
        import pyarrow as pa  # noqa: PLC0415

        batches = iter(self)
        first = next(batches, None)
        if first is None:
            return pa.RecordBatchReader.from_batches(self._tables.known_schema(), ())
        return pa.RecordBatchReader.from_batches(first.schema, _same_schema(first, batches))


def _same_schema(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    for batch in rest:
        if batch.schema != first.schema:
            raise _changed(
                "the table's columns change within the logs",
                batch,
                expected=_columns(first.schema),
                found=_columns(batch.schema),
                hint="use to_table(), which merges both, or select unchanged columns with columns=",
            )
        yield batch


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema.field("after").type)


def _changed(reason: str, batch: pa.RecordBatch, *, expected: str, found: str, hint: str) -> BinlogFormatError:
    """Return an error about the columns of a batch, after an ALTER TABLE before its first row."""
    return BinlogFormatError(
        reason,
        offset=batch.column("pos")[0].as_py(),
        file=unescaped_name(batch.column("file")[0].as_py()),
        field=f"{batch.column('schema')[0]}.{batch.column('table')[0]}",
        expected=expected,
        found=found,
        hint=hint,
    )


def _disagreement(batches: list[pa.RecordBatch]) -> BinlogFormatError:
    """Find the first batch whose columns cannot be merged with the previous ones, and return the error."""
    import pyarrow as pa  # noqa: PLC0415

    start, at = 0, len(batches)
    while at - start > 1:  # the batches up to `at` cannot be merged, those up to `start` can
        middle = (start + at) // 2
        try:
            pa.concat_tables([pa.Table.from_batches([one]) for one in batches[:middle]], promote_options="permissive")
            start = middle
        except pa.ArrowException:
            at = middle
    batch = batches[at - 1]
    now = batch.schema.field("after").type
    changes = [
        (field.name, field.type, now.field(field.name).type)
        for image in {one.schema.field("after").type: None for one in batches[: at - 1]}
        for field in image
        if now.get_field_index(field.name) >= 0 and now.field(field.name).type != field.type
    ]
    return _changed(
        "an ALTER TABLE before this row changes a column to a type that cannot be merged with the previous type",
        batch,
        expected=", ".join(dict.fromkeys(f"{name} {old}" for name, old, _ in changes)),
        found=", ".join(dict.fromkeys(f"{name} {new}" for name, _, new in changes)),
        hint="iterate over the batches, each of which has its own types, or omit the column with columns=",
    )


class MixedBatches:
    """Record batches of the row changes of any tables.

    `before` and `after` are JSON text without the columns that an image lacks. The object is an Arrow stream
    (`__arrow_c_stream__`), which pyarrow, pandas, Polars and DuckDB read directly.
    """

    def __init__(self, tables: TableBatches) -> None:
        self._tables = tables

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._tables.description}>"

    @property
    def schema(self) -> pa.Schema:
        """The schema of all batches."""
        return mixed_schema(self._tables.source_columns)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for _, batch in self._tables.mixed():
            yield batch

    def to_table(self) -> pa.Table:
        """Return all batches as one table."""
        import pyarrow as pa  # noqa: PLC0415

        return pa.Table.from_batches(list(self), self.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return all batches as a pandas data frame."""
        return self.to_table().to_pandas()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a stream of batches. DuckDB and Polars read it without a copy."""
        import pyarrow as pa  # noqa: PLC0415

        return pa.RecordBatchReader.from_batches(self.schema, iter(self))


def mixed_schema(source_columns: Collection[str] = ()) -> pa.Schema:
    """Return the schema of records whose images are JSON text."""
    from binlogio.columnar.record_types import MIXED_SCHEMA, with_source_fields  # noqa: PLC0415 - imports pyarrow

    return with_source_fields(MIXED_SCHEMA, source_columns)
