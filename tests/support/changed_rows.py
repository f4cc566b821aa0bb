"""Generated row changes with the schema of the view `rows`, for tests of replay and merge."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from binlogio.schema import ColumnDefinition, TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS: Final = TableDefinition(
    schema="shop",
    name="orders",
    columns=(
        ColumnDefinition("id", "int", nullable=False),
        ColumnDefinition("state", "varchar(20)"),
        ColumnDefinition("total", "decimal(10,2)"),
    ),
    primary_key=("id",),
)
_IMAGE: Final = "struct<id: int, state: string, total: decimal(10,2)>"
_SCHEMA: Final = (
    "file string, pos bigint, row int, op string, timestamp timestamp, server_id bigint, gtid string, "
    "last_committed bigint, "
    f"sequence_number bigint, schema string, table string, before {_IMAGE}, after {_IMAGE}, "
    "before_present binary, after_present binary"
)
COLUMNS: Final = tuple(column.name for column in ORDERS.columns)
UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

Image = dict[str, Any]


def changes(
    spark: SparkSession, *pairs: tuple[Image | None, Image | None], first: int = 0, schema: str = "shop"
) -> DataFrame:
    """Return one change for each pair of images, each in its own transaction, in the order of the pairs.

    A column that is not in the mapping is not in the image.
    """
    records = []
    for number, (before, after) in enumerate(pairs, start=first):
        moment = datetime(2026, 1, 1, 0, 0, number, tzinfo=timezone.utc)
        op = "insert" if before is None else "delete" if after is None else "update"
        head = (
            "log.000001",
            100 * number,
            0,
            op,
            moment,
            1,
            f"{UUID}:{number + 1}",
            number,
            number + 1,
            schema,
            "orders",
        )
        records.append((*head, _struct(before), _struct(after), _bitmap(before), _bitmap(after)))
    return spark.createDataFrame(records, _SCHEMA)


def _struct(image: Image | None) -> tuple[Any, ...] | None:
    return None if image is None else tuple(image.get(name) for name in COLUMNS)


def _bitmap(image: Image | None) -> bytes | None:
    return None if image is None else bytes([sum(1 << n for n, name in enumerate(COLUMNS) if name in image)])


def row(number: int, state: str | None = None, total: Any = None) -> Image:
    """Return a full row image."""
    return {"id": number, "state": state, "total": None if total is None else Decimal(total)}


def held(state: DataFrame | None) -> list[tuple[Any, ...]]:
    """Return the rows, sorted."""
    return [] if state is None else sorted(map(tuple, state.select(*COLUMNS).collect()), key=str)
