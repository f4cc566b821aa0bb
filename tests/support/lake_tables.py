"""The rows of a table of an export to Delta or Iceberg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta_tables import delta_table

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


def lake_table(folder: Path, form: str, table: str) -> pa.Table:
    """Return the rows of the table `schema.name`."""
    if form == "delta":
        return delta_table(folder / table)
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - not every test needs it

    catalog = load_catalog("binlogio", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    try:
        return catalog.load_table(tuple(table.split(".", 1))).scan().to_arrow()
    finally:
        catalog.engine.dispose()  # type: ignore[attr-defined]
