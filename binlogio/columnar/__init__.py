"""Reads row changes of logs as Arrow record batches.

The public functions are `binlogio.read_rows` and `binlogio.read_tables` (in `rows_reader`). A walk reads a log window
by window with the compiled kernel, which is required. A batcher builds record batches from the rows found. Threads
read parts of logs in parallel. `row_values` converts single rows in Python, for errors and conditions.

    log -> windows -> walk -> batches -> parallel -> rows_reader

`event_reader` returns records of events instead of rows, for the Spark data source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.columnar.event_reader import EventSelection, read_events, read_transactions, split_reader
    from binlogio.columnar.event_records import EVENT_SCHEMA
    from binlogio.columnar.record_types import MIXED_SCHEMA, SOURCE_FIELDS, RecordType, RowSelection
    from binlogio.columnar.rows_reader import DEFAULT_BATCH_ROWS, SOURCE_COLUMNS, read_split
    from binlogio.columnar.splits.catalogue_file import changed_catalogue, read_catalogue, write_catalogue
    from binlogio.columnar.splits.executed import Executed, executed_before, place_after
    from binlogio.columnar.splits.group_parts import splits_by_size, with_parts
    from binlogio.columnar.splits.group_scan import last_group_end, splits_at_groups
    from binlogio.columnar.splits.logged_statements import (
        EarlierLogs,
        catalogue_logs,
        definitions_at,
        has_statements,
        is_changed,
        lacks_names,
    )
    from binlogio.columnar.splits.skipped_logs import logs_without
    from binlogio.columnar.splits.split_bounds import group_around, group_behind, is_one_piece, split_bounds
    from binlogio.columnar.transaction_records import TRANSACTION_SCHEMA

__all__ = [
    "DEFAULT_BATCH_ROWS",
    "EVENT_SCHEMA",
    "MIXED_SCHEMA",
    "SOURCE_COLUMNS",
    "SOURCE_FIELDS",
    "TRANSACTION_SCHEMA",
    "EarlierLogs",
    "EventSelection",
    "Executed",
    "RecordType",
    "RowSelection",
    "catalogue_logs",
    "changed_catalogue",
    "definitions_at",
    "executed_before",
    "group_around",
    "group_behind",
    "has_statements",
    "is_changed",
    "is_one_piece",
    "lacks_names",
    "last_group_end",
    "logs_without",
    "place_after",
    "read_catalogue",
    "read_events",
    "read_split",
    "read_transactions",
    "split_bounds",
    "split_reader",
    "splits_at_groups",
    "splits_by_size",
    "with_parts",
    "write_catalogue",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "event_reader": "EventSelection read_events read_transactions split_reader",
            "event_records": "EVENT_SCHEMA",
            "record_types": "MIXED_SCHEMA SOURCE_FIELDS RecordType RowSelection",
            "rows_reader": "DEFAULT_BATCH_ROWS SOURCE_COLUMNS read_split",
            "splits.catalogue_file": "changed_catalogue read_catalogue write_catalogue",
            "splits.executed": "Executed executed_before place_after",
            "splits.group_parts": "splits_by_size with_parts",
            "splits.group_scan": "last_group_end splits_at_groups",
            "splits.logged_statements": "EarlierLogs catalogue_logs definitions_at"
            " has_statements is_changed lacks_names",
            "splits.skipped_logs": "logs_without",
            "splits.split_bounds": "group_around group_behind is_one_piece split_bounds",
            "transaction_records": "TRANSACTION_SCHEMA",
        },
    )
