"""Differences between the supported PySpark versions, 4.1 and newer.

Imports PySpark inside of functions only.

    4.1   the first version that reads and writes record batches. `latestOffset` has no arguments, and is called once
          for AvailableNow and Once, so a limited offset would end such a query early: limits are refused. A source
          cannot implement AvailableNow. `from_arrow_type` takes timestamps without a zone as those with one
    4.2   `pyspark.sql.streaming.datasource`: limits, AvailableNow, `reportLatestOffset`; `to_arrow_schema` takes a
          time zone
"""

from __future__ import annotations

import inspect
import pickle
import re
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

OLDEST: Final = (4, 1)
WITH_READ_LIMITS: Final = (4, 2)
_Input = TypeVar("_Input")
_Result = TypeVar("_Result")
_MAJOR_MINOR: Final = re.compile(r"(\d+)\.(\d+)")


class PySparkVersionError(RuntimeError):
    """A PySpark that is too old for `format("binlog")`, or for an option of it."""


def _version() -> str:
    """Return the version of the installed PySpark, such as `4.1.0`; `none` without PySpark."""
    if find_spec("pyspark") is None:
        return "none"
    from pyspark.version import __version__  # noqa: PLC0415 - there may be no PySpark

    return str(__version__)


def has_pyspark(oldest: tuple[int, int]) -> bool:
    """Return True if PySpark is `oldest` or newer."""
    found = _MAJOR_MINOR.match(_version())
    return found is not None and (int(found[1]), int(found[2])) >= oldest


def require_pyspark(oldest: tuple[int, int] = OLDEST, what: str = 'format("binlog")') -> None:
    """Refuse a PySpark before `oldest`.

    Raises:
        PySparkVersionError: it is older, or not installed.
    """
    if not has_pyspark(oldest):
        version, needed = _version(), ".".join(map(str, oldest))
        raise PySparkVersionError(
            f"binlog: {what} needs PySpark {needed} or newer, found {version}; "
            f"install it with: pip install 'pyspark>={needed}'"
        )


def is_connect(spark: SparkSession) -> bool:
    """Return True for a session of Spark Connect, which cannot access the JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def run_in_tasks(spark: SparkSession, work: Callable[[_Input], _Result], inputs: Sequence[_Input]) -> list[_Result]:
    """Return what `work` returns for each of the inputs, which tasks call it with: one each.

    Raises:
        PythonException: a task failed, as often as Spark repeats it.
    """
    if not inputs:
        return []
    numbers = spark.range(0, len(inputs), 1, len(inputs))
    rows = numbers.mapInArrow(partial(_run_task, work, inputs), "number bigint, result binary").collect()
    return [pickle.loads(result) for _, result in sorted(map(tuple, rows))]  # noqa: S301 - pickled by our own tasks


def _run_task(
    work: Callable[[_Input], object], inputs: Sequence[_Input], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa  # noqa: PLC0415

    for number in (number for batch in batches for number in batch.column(0).to_pylist()):
        yield pa.RecordBatch.from_pydict({"number": [number], "result": [pickle.dumps(work(inputs[number]))]})


def spark_struct(columns: Iterable[pa.Field]) -> StructType:
    """Return the Spark type of a struct of these columns."""
    import pyarrow as pa  # noqa: PLC0415
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415
    from pyspark.sql.types import StructType  # noqa: PLC0415

    found = StructType()
    for one in columns:
        is_struct = pa.types.is_struct(one.type)  # a GEOMETRY, for which PySpark 4.1 fails
        found.add(
            one.name, spark_struct(one.type) if is_struct else from_arrow_type(one.type, prefer_timestamp_ntz=True)
        )
    return found


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that the record batches of a read must have; its timestamps are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)
