"""The rows of a Delta table, by a query: use of deltalake's pyarrow dataset can abort Python at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path


def delta_table(path: Path | str) -> pa.Table:
    """Return the rows of the table."""
    from deltalake import DeltaTable, QueryBuilder  # noqa: PLC0415 - not every test needs it

    table = DeltaTable(str(path))
    rows = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
    return rows.cast(pa.schema(table.schema().to_arrow()))
