"""Exports row changes to Parquet, Arrow, CSV, JSON lines, DuckDB, Delta and Iceberg: `export`.

`run` reads the logs and opens the target. `files`, `lakes` and `duckdb_file` write. `type_map` defines how each type of
MySQL and MariaDB is stored. `ledger` records what a target contains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.archive.export.lakes import merge_into_delta
    from binlogio.archive.export.ledger import LEDGER_NAME
    from binlogio.archive.export.run import ExportSummary, FormatName, export
    from binlogio.archive.export.type_map import ExportFormat

__all__ = ["LEDGER_NAME", "ExportFormat", "ExportSummary", "FormatName", "export", "merge_into_delta"]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "lakes": "merge_into_delta",
            "ledger": "LEDGER_NAME",
            "run": "ExportSummary FormatName export",
            "type_map": "ExportFormat",
        },
    )
