"""The schema of change records: metadata columns, and the images as structs of the selected columns.

`batches.records` builds the arrays.

    record := file pos row op timestamp server_id gtid last_committed sequence_number schema table
              before after before_present after_present
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from binlogio.arrow.types import ColumnSpec, column_spec, field_of
from binlogio.errors import BinlogFormatError, ConditionError, Hint, UnsupportedFeature
from binlogio.options import DEFAULT_LIMITS, Limits
from binlogio.selection.event_filter import EVERY_EVENT, EventFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from binlogio.rows.plan import TablePlan
    from binlogio.schema.given import GivenDefinitions
    from binlogio.schema.statement_changes import StatementChange
    from binlogio.values.column import ColumnPlan

HEAD: Final = (
    pa.field("file", pa.string()),
    pa.field("pos", pa.int64()),
    pa.field("row", pa.int32()),
    pa.field("op", pa.string()),
    pa.field("timestamp", pa.timestamp("s", "UTC")),
    pa.field("server_id", pa.int64()),
    pa.field("gtid", pa.string()),
    pa.field("last_committed", pa.int64()),
    pa.field("sequence_number", pa.int64()),
    pa.field("schema", pa.string()),
    pa.field("table", pa.string()),
)
PRESENT: Final = (pa.field("before_present", pa.binary()), pa.field("after_present", pa.binary()))
MIXED_SCHEMA: Final = pa.schema([*HEAD, pa.field("before", pa.string()), pa.field("after", pa.string()), *PRESENT])
"""Schema of records whose images are JSON text."""
SOURCE_FIELDS: Final = (
    pa.field("end_pos", pa.int64()),
    pa.field("thread_id", pa.int64()),
    pa.field("xid", pa.int64()),
    pa.field("outcome", pa.string()),
    pa.field("commit_timestamp", pa.timestamp("us", "UTC")),
    pa.field("statement", pa.dictionary(pa.int32(), pa.string())),
)
"""Optional columns, after the others (`source_columns` of `read_tables`)."""
_AT_THE_END: Final = frozenset({"xid", "outcome"})
"""Source columns whose values are at the end of a transaction, after its rows."""
_COLUMN_NAMES: Final = b"columns"


def with_source_fields(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Return a record schema extended by the source columns with these names."""
    return pa.schema([*schema, *(one for one in SOURCE_FIELDS if one.name in names)]) if names else schema


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """Projection, filters and conversion options of a read.

    Args:
        wants: returns whether the rows of a table, given by schema and name, are selected.
        columns: names of the selected columns; None: all columns.
        may_lack_columns: accept tables without some of these columns.
        zero_dates: "error", "null" or "text", for zero and invalid dates.
        verify_checksum: compare the CRC32 of every event with its bytes.
        batch_rows: the maximum number of rows of a batch.
        where: filters events.
        definitions: table definitions given by the caller, for logs without column names.
        limits: the largest sizes that are accepted.
        json_diffs: "error", or "operations" for JSON diffs as text if the before image has no document.
        source_columns: names of `SOURCE_FIELDS`.
        note_plan: called with the plan of each selected table map before its rows are read, from any thread.
        mixed: batches contain all tables in the order of the log, and images are JSON text.
        names_columns: the schemas of batches of one table contain the names of all its columns; see `column_names`.
        refuses_unnamed: with `may_lack_columns`, refuse a table whose columns have no names; False: it lacks them.
        statement_changes: "error", or "skip", for statements that change selected rows, but are logged as SQL text.
        note_statement_change: called, in place of the error, with each of these statements in a part of a log, until it
            returns True; from any thread, and again if the part is read again.
    """

    wants: Callable[[str, str], bool]
    columns: tuple[str, ...] | None
    zero_dates: str
    verify_checksum: bool
    batch_rows: int
    where: EventFilter = EVERY_EVENT
    may_lack_columns: bool = False
    definitions: GivenDefinitions | None = None
    limits: Limits = DEFAULT_LIMITS
    mixed: bool = False
    json_diffs: str = "error"
    source_columns: tuple[str, ...] = ()
    note_plan: Callable[[TablePlan], None] | None = None
    names_columns: bool = False
    refuses_unnamed: bool = True
    statement_changes: str = "skip"
    note_statement_change: Callable[[StatementChange], bool] | None = None

    @property
    def columns_at_the_end(self) -> tuple[str, ...]:
        """The selected source columns whose values are at the end of a transaction, after its rows."""
        return tuple(name for name in self.source_columns if name in _AT_THE_END)

    def columns_of(self, plan: TablePlan) -> Collection[str] | None:
        """Return the names of the selected columns of a table; None: all columns.

        Raises:
            ConditionError: its columns have no names, so that it may have the selected ones (`refuses_unnamed`).
        """
        if self.columns is None or not self.may_lack_columns:
            return self.columns
        labels = [column.label for column in plan.columns]
        if self.refuses_unnamed and "@1" in labels and not set(self.columns).issubset(labels):
            raise ConditionError(
                "the columns of the table have no names", field=plan.full_name, expected=", ".join(self.columns),
                hint=Hint.UNNAMED_COLUMNS,
            )  # fmt: skip
        return [label for label in labels if label in self.columns]


@dataclass(frozen=True, slots=True)
class RecordType:
    """The record type of one table map: its plan, the selected columns with their Arrow types, and the batch schema.

    `widths` has `ColumnSpec.width` of all columns of the table; `columns` and `specs` have the selected columns.
    """

    plan: TablePlan
    widths: tuple[int, ...]
    columns: tuple[ColumnPlan, ...]
    specs: tuple[ColumnSpec, ...]
    image_type: pa.StructType
    schema: pa.Schema
    zero_dates: str
    json_diffs: str = "error"

    @classmethod
    def of(
        cls,
        plan: TablePlan,
        wanted: Collection[str] | None,
        *,
        zero_dates: str,
        json_diffs: str = "error",
        names_columns: bool = False,
    ) -> RecordType:
        """Return the record type of a plan; `wanted` names columns, None: all columns.

        With `names_columns`, the metadata of the schema has the names of all columns of the table.

        Raises:
            BinlogFormatError: the table lacks a selected column.
            UnsupportedFeature: a column has a type without values.
        """
        specs = [column_spec(column, zero_dates=zero_dates) for column in plan.columns]
        labels = [column.label for column in plan.columns]
        missing = [name for name in wanted or () if name not in labels]
        if missing:
            raise BinlogFormatError(
                "unknown column",
                field=plan.full_name,
                expected=", ".join(labels),
                found=", ".join(missing),
                hint=Hint.UNNAMED_COLUMNS if "@1" in labels else None,
            )
        chosen = [i for i, label in enumerate(labels) if wanted is None or label in wanted]
        columns = tuple(plan.columns[i] for i in chosen)
        kept = tuple(specs[i] for i in chosen)
        names = tuple(name_text(column.label) for column in columns)
        if len(set(names)) < len({column.label for column in columns}):
            raise UnsupportedFeature(
                "names of columns that are not text are equal to other names as escapes",
                field=plan.full_name,
                found=", ".join(names),
            )
        image = pa.struct([field_of(name, spec) for name, spec in zip(names, kept, strict=True)])
        metadata = {_COLUMN_NAMES: json.dumps(labels)} if names_columns else None
        return cls(
            plan=plan,
            widths=tuple(spec.width for spec in specs),
            columns=columns,
            specs=kept,
            image_type=image,
            schema=pa.schema([*HEAD, pa.field("before", image), pa.field("after", image), *PRESENT], metadata),
            zero_dates=zero_dates,
            json_diffs=json_diffs,
        )

    def for_table(self, plan: TablePlan) -> RecordType:
        """Return the record type of another table with the same columns."""
        return RecordType(
            plan, self.widths, self.columns, self.specs, self.image_type, self.schema, self.zero_dates, self.json_diffs
        )


def column_names(batch: pa.RecordBatch) -> tuple[str, ...]:
    """Return the names of all columns of the table of a batch that was read with `RowSelection.names_columns`."""
    return tuple(json.loads(batch.schema.metadata[_COLUMN_NAMES]))


def name_text(name: str) -> str:
    r"""Return the name of a log, schema, table or column as records contain it.

    Bytes that are not UTF-8 are surrogates in `name`, and escapes such as `\udcff` in the text.
    """
    return name.encode("utf-8", "backslashreplace").decode()
