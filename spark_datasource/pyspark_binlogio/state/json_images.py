"""Conversion of JSON images to structs of the columns of a given table definition.

Parses the text that `binlogio.values.text` makes of values: numbers and dates from their text, bytes from 0x and
hexadecimal digits. Dates that are not in the calendar become NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from binlogio.columnar.record_types import RecordType
from binlogio.rows.plan import TablePlan, resolve_plan
from pyspark_binlogio.option_values import BinlogOptionError
from pyspark_binlogio.spark_types import quoted, spark_ddl, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from binlogio.schema.definition import TableDefinition

_TIME = r"^(-?)(\d+):(\d+):(\d+(?:\.\d+)?)$"


def plan_of(definition: TableDefinition) -> TablePlan:
    """Return the columns of a definition, as MySQL has them."""
    return resolve_plan(definition.table_map(1), definition=definition.plan_columns())


def typed_images(changes: DataFrame, definition: TableDefinition) -> DataFrame:
    """Return the changes, with structs for `before` and `after`.

    Raises:
        BinlogOptionError: a column whose values cannot be told from their text.
    """
    image = spark_type(RecordType.of(plan_of(definition), None, zero_dates="null").image_type)
    names = [*(field.name for field in image), *(f"@{number + 1}" for number in range(len(image)))]
    texts = ", ".join(f"{quoted(name)} string" for name in names)
    for name in ("before", "after"):
        parsed = F.from_json(F.col(name), texts)
        values = F.struct(*(_typed(_text(parsed, n, field), field).alias(field.name) for n, field in enumerate(image)))
        changes = changes.withColumn(name, F.when(F.col(name).isNotNull(), values))
    return changes


def _text(parsed: Column, number: int, field: pa.Field) -> Column:
    """Return the text of a column, by its name or by its number where the log has no names."""
    return F.coalesce(parsed.getField(field.name), parsed.getField(f"@{number + 1}"))


def _typed(text: Column, field: pa.Field) -> Column:
    kind = field.type
    if pa.types.is_struct(kind):
        raise BinlogOptionError(
            f"binlog: column {field.name}: a geometry cannot be parsed from its text; load the changes with option table"
        )
    if pa.types.is_binary(kind):
        return F.unhex(F.substring(text, 3, 1 << 30))
    if pa.types.is_list(kind):
        return F.from_json(text, spark_ddl(kind))
    if pa.types.is_duration(kind):
        sign = F.when(F.regexp_extract(text, _TIME, 1) == "-", -1).otherwise(1)
        hours, minutes = (F.regexp_extract(text, _TIME, n).cast("int") * sign for n in (2, 3))
        seconds = F.regexp_extract(text, _TIME, 4).cast("decimal(18,6)") * sign
        return F.when(text.isNotNull(), F.make_dt_interval(F.lit(0), hours, minutes, seconds))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return F.try_to_timestamp(F.concat(text, F.lit("+00:00")))
    return text.cast("string") if pa.types.is_string(kind) else text.try_cast(spark_ddl(kind))
