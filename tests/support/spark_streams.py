"""A streaming query on logs without Spark: makes the reader calls of Spark, batch by batch, with JSON offsets."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from pyspark_binlogio.options import BinlogReadOptions
from pyspark_binlogio.pyspark_api import WITH_READ_LIMITS, has_pyspark

if TYPE_CHECKING:
    from pathlib import Path

HAS_READ_LIMITS: Final = has_pyspark(WITH_READ_LIMITS)
LIMITS: Final = frozenset(("maxFilesPerTrigger", "maxBytesPerTrigger"))
PLACE: Final = ["file", "pos", "row", "gtid", "sequence_number"]


class Stream:
    """A query on logs. `offset` is the JSON offset, as in a checkpoint."""

    def __init__(self, path: Path | str, offset: str | None = None, **options: str) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - there may be no Spark

        from pyspark_binlogio.read import view_columns  # noqa: PLC0415
        from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

        if not HAS_READ_LIMITS and not LIMITS.isdisjoint(options):
            pytest.skip("this PySpark has no limits for the batches of a stream")
        given = {**options, "path": str(path)}
        schema = from_arrow_schema(pa.schema(list(view_columns(BinlogReadOptions.parse(given)).items())))
        source = BinlogDataSource(given)
        source.schema()  # Spark calls it if the user gives no schema
        self.reader: Any = source.streamReader(schema)
        self.columns = PLACE
        self.offset = offset if offset is not None else json.dumps(self.reader.initialOffset())

    def batch(self) -> list[dict[str, Any]]:
        """Return the records of the next batch; empty if there are no new records."""
        start = json.loads(self.offset)
        end = self.reader.latestOffset(*((start, self.reader.getDefaultReadLimit()) if HAS_READ_LIMITS else ()))
        self.offset = json.dumps(end)
        return [] if start == end else self.between(start, end)

    def between(self, start: Any, end: Any) -> list[dict[str, Any]]:
        """Return the records of a planned batch."""
        return [
            row
            for partition in self.reader.partitions(start, end)
            for batch in self.reader.read(partition)
            for row in batch.select(self.columns).to_pylist()
        ]

    def images(self) -> list[Any]:
        """Return the after images of the next batch, parsed from JSON."""
        self.columns = ["after"]
        return [json.loads(row["after"]) for row in self.batch()]

    def batches(self) -> list[list[dict[str, Any]]]:
        """Return all non-empty batches up to the current end."""
        found, before = [], ""
        while before != self.offset:
            before = self.offset
            found.append(self.batch())
        return [batch for batch in found if batch]

    def rest(self) -> list[dict[str, Any]]:
        """Return the records of all these batches."""
        return list(chain(*self.batches()))
