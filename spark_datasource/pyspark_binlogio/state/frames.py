"""Replay of changes in a data frame in the shape of the view `rows`.

Determines the files of the frame, and whether its images are full. A frame has no statements and no rollbacks, so
all of its changes take effect.

JSON images become structs of the columns of a given table definition: the text that `binlogio.values.text` makes of
values is parsed, numbers and dates from their text, bytes from 0x and hexadecimal digits. Dates that are not in the
calendar become NULL. Images with other columns than those of the definition are refused: a value would be lost, or
belong to another column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from binlogio.columnar import RecordType
from binlogio.event_filter import EventFilter
from binlogio.rows import TablePlan, resolve_plan
from binlogio.schema import TableDefinition
from binlogio.storage import log_number
from pyspark_binlogio.options import BinlogOptionError
from pyspark_binlogio.spark_types import quoted, spark_ddl, spark_type
from pyspark_binlogio.state.stage import Layout, Stage, whole

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from pyspark_binlogio.state.until import Until

_NEEDED: Final = ("file", "pos", "row", "before", "after")
_IMAGES: Final = {"before": "before_present", "after": "after_present"}
_BITMAPS: Final = tuple(_IMAGES.values())
_ENDS: Final = (("least", F.min), ("most", F.max))


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts of one pass over all changes: files, and the bitmaps that occur; of JSON images, their columns.

    `columns` has names of columns with the bitmap of their image; None for an image that is no JSON object.
    """

    files: tuple[str, ...]
    before: frozenset[bytes]
    after: frozenset[bytes]
    columns: frozenset[tuple[tuple[str, ...] | None, bytes | None]] = frozenset()


def frame_stage(
    changes: DataFrame, table: str | TableDefinition, base: DataFrame | None, until: Until, key: Sequence[str] | None
) -> tuple[Stage, DataFrame | None]:
    """Return the changes of a table, and the rows before them.

    Raises:
        BinlogOptionError: the frame is not in the shape of the view `rows`, or a column of the key is not in it.
    """
    definition = table if isinstance(table, TableDefinition) else None
    name = definition.full_name if definition is not None else str(table)
    missing = [column for column in _NEEDED if column not in changes.columns]
    if missing:
        raise BinlogOptionError(f"binlog: the changes lack the columns {', '.join(missing)} of the view rows")
    own = _of_table(changes, name)
    for bitmap in _BITMAPS:
        if bitmap not in own.columns:
            own = own.withColumn(bitmap, F.lit(None).cast("binary"))
    if isinstance(own.schema["after"].dataType, StringType):
        if definition is None:
            raise BinlogOptionError(
                f"binlog: the images are JSON text; give the definition of {name}, "
                "or load the changes with option table"
            )
        facts = _facts(own, has_json=True)
        _check_columns(facts.columns, definition)
        own = typed_images(own, definition)
    else:
        facts = _facts(own)
        own = own if definition is None else _named(own, definition)
    image = own.schema["after"].dataType
    if not isinstance(image, StructType):
        raise BinlogOptionError(f"binlog: after: expected a struct or a string, found {image.simpleString()}")
    names = tuple(key) if key is not None else definition.primary_key if definition is not None else ()
    lacking = [one for one in names if one not in image.names]
    if lacking:
        raise BinlogOptionError(
            f"binlog: key: {name} has no column {', '.join(lacking)}; it has {', '.join(image.names)}"
        )
    placed = _until(own.withColumn("_at", _place(facts)), until)
    return _stage(placed, image, names, facts, definition), None if base is None else base.select(
        whole(image).alias("row")
    ).select("row.*")


def _named(changes: DataFrame, definition: TableDefinition) -> DataFrame:
    """Return the changes with the definition's names instead of @1, @2 ... (columns without names in the log)."""
    image = changes.schema["after"].dataType
    numbered = [f"@{number + 1}" for number in range(len(definition.columns))]
    if not isinstance(image, StructType) or image.names != numbered:
        return changes
    pairs = zip(definition.columns, image.fields, strict=True)
    named = StructType([StructField(column.name, field.dataType) for column, field in pairs])
    return changes.withColumns({name: F.col(name).cast(named) for name in ("before", "after")})


def _of_table(changes: DataFrame, name: str) -> DataFrame:
    if "schema" not in changes.columns or "table" not in changes.columns:
        return changes
    schema, _, table = name.partition(".")
    return changes.where((F.col("schema") == schema) & (F.col("table") == table))


def _facts(changes: DataFrame, *, has_json: bool = False) -> _Facts:
    """Return the files and bitmaps: by minimum and maximum, which are cheap; one by one only if these differ."""
    names = ("file", *_BITMAPS)
    ends = [end(name).alias(f"{which}_{name}") for name in names for which, end in _ENDS]
    images = [_columns(*pair).alias(pair[0]) for pair in _IMAGES.items()] if has_json else []
    bounds = changes.agg(*ends, *images).first()
    least, most = ([None if bounds is None else bounds[f"{which}_{name}"] for name in names] for which, _ in _ENDS)
    columns = frozenset(
        (None if one.names is None else tuple(one.names), None if one.bitmap is None else bytes(one.bitmap))
        for image in (_IMAGES if has_json else ())
        for one in (bounds[image] if bounds is not None else ())
    )
    files = tuple(dict.fromkeys(file for file in (least[0], most[0]) if file is not None))
    if least[1:] == most[1:] and (len(files) < 2 or _is_numbered(files)):
        before, after = (frozenset({bytes(one)} if one is not None else ()) for one in least[1:])
        return _Facts(files, before, after, columns)
    seen = changes.groupBy(*names).count().collect()
    before, after = (frozenset(bytes(row[name]) for row in seen if row[name] is not None) for name in _BITMAPS)
    return _Facts(tuple(sorted({row["file"] for row in seen}, key=log_number)), before, after, columns)


def _columns(image: str, bitmap: str) -> Column:
    """Return the sets of columns that JSON images have, each with its bitmap."""
    found = F.struct(F.json_object_keys(image).alias("names"), F.col(bitmap).alias("bitmap"))
    return F.collect_set(F.when(F.col(image).isNotNull(), found))


def _check_columns(columns: frozenset[tuple[tuple[str, ...] | None, bytes | None]], table: TableDefinition) -> None:
    """Refuse JSON images whose columns are not those of the definition, by name and by place in the bitmap.

    Raises:
        BinlogOptionError: there is such an image, or one that is no JSON object.
    """
    places = {name: number for number, column in enumerate(table.columns) for name in (column.name, f"@{number + 1}")}
    for names, bitmap in sorted(columns, key=str):
        if names is None:
            raise BinlogOptionError(f"binlog: an image of {table.full_name} is not a JSON object")
        bits = None if bitmap is None else int.from_bytes(bitmap, "little")
        found = [places.get(name) for name in names]
        if None in found or (bits is not None and bits != sum(1 << place for place in found if place is not None)):
            raise BinlogOptionError(
                f"binlog: the definition of {table.full_name} does not fit the JSON images of the changes: expected "
                f"columns {', '.join(column.name for column in table.columns)}, found {', '.join(names)}; give the "
                "definition that the table has in the logs, or load the changes with option table"
            )


def _is_numbered(files: tuple[str, ...]) -> bool:
    """Return whether two names differ in their last number alone; all names between them then do too."""
    found: list[Any] = [log_number(file) for file in files]
    widths = {len(file) for file in files}
    return len({stem for stem, _, _ in found}) == 1 and len(widths) == 1 and not any(more for _, _, more in found)


def _stage(
    changes: DataFrame, image: StructType, key: tuple[str, ...], facts: _Facts, definition: TableDefinition | None
) -> Stage:
    width = len(definition.columns) if definition is not None else len(image)
    bitmaps = [int.from_bytes(bits, "little") for bits in facts.before | facts.after]
    width = max([width, *(bits.bit_length() for bits in bitmaps)])
    every = (1 << width) - 1
    whole_after = all(int.from_bytes(bits, "little") == every for bits in facts.after)
    whole_before = all(int.from_bytes(bits, "little") == every for bits in facts.before)
    numbers = {column.name: n for n, column in enumerate(definition.columns)} if definition is not None else {}
    if not numbers and width == len(image):
        numbers = {name: n for n, name in enumerate(image.names)}
    if not whole_after and not all(name in numbers for name in image.names):
        raise BinlogOptionError(
            "binlog: some images lack columns, and the data does not say which; give the table's definition"
        )
    return Stage(
        changes=changes.select("_at", F.lit(0).alias("_layout"), "before", "after", *_BITMAPS),
        image=image,
        key=key,
        layouts=(Layout(tuple(numbers.get(name) for name in image.names)),),
        json=frozenset(_documents(image, definition)),
        whole_after=whole_after,
        has_diffs=bool(key) and not whole_before,
    )


def _documents(image: StructType, definition: TableDefinition | None) -> list[str]:
    """Return the columns that may hold JSON documents."""
    if definition is not None:
        return [column.name for column in definition.columns if column.sql_type.name == "json"]
    return [field.name for field in image.fields if isinstance(field.dataType, StringType)]


def _place(facts: _Facts) -> Column:
    return F.struct(_number(facts.files).alias("file"), F.col("pos"), F.col("row").cast("bigint").alias("row"))


def _number(files: tuple[str, ...]) -> Column:
    if len(files) <= 1:
        return F.lit(0).cast("bigint")
    if _is_numbered(files):
        return F.substring_index("file", ".", -1).cast("bigint")
    return F.array_position(F.array(*(F.lit(file) for file in files)), F.col("file")).cast("bigint")


def _until(changes: DataFrame, until: Until) -> DataFrame:
    if until.gtids is not None:
        where = EventFilter(wanted_gtids=until.gtids)
        # A lambda, since the type hints of the method would select another kind of UDF.
        is_wanted = F.udf(lambda gtid: where.wants_group(gtid), "boolean", useArrow=False)  # noqa: PLW0108
        return changes.where(is_wanted(F.col("gtid")))
    if until.position is not None:
        file, offset = until.position
        stem, number, _ = log_number(file)
        own = F.substring_index("file", "/", -1)
        later = F.substring_index("file", ".", -1).try_cast("bigint") > number
        later = later & (F.substring(own, 1, len(stem)) == stem) & (own != file)
        return changes.where(~((own == file) & (F.col("pos") >= offset)) & ~F.coalesce(later, F.expr("false")))
    if until.moment is None:
        return changes
    late = F.col("timestamp").cast("double") > until.moment
    first = changes.where(late).agg(F.min(F.struct("_at", "file", "gtid", "sequence_number")).alias("first")).first()
    if first is None or first["first"] is None:
        return changes
    cut = first["first"]
    place = F.struct(*(F.lit(cut["_at"][name]).cast("bigint").alias(name) for name in ("file", "pos", "row")))
    found = changes.where(F.col("_at") < place)
    if cut["gtid"] is not None:
        found = found.where(~F.col("gtid").eqNullSafe(F.lit(cut["gtid"])))
    if cut["sequence_number"]:
        same = (F.col("file") == cut["file"]) & F.col("sequence_number").eqNullSafe(F.lit(cut["sequence_number"]))
        found = found.where(~same)
    return found


_TIME = r"^(-?)(\d+):(\d+):(\d+(?:\.\d+)?)$"


def plan_of(definition: TableDefinition) -> TablePlan:
    """Return the columns of a definition, as MySQL has them."""
    return resolve_plan(definition.table_map(1), definition=definition.plan_columns())


def typed_images(changes: DataFrame, definition: TableDefinition) -> DataFrame:
    """Return the changes, with structs for `before` and `after`.

    Raises:
        BinlogOptionError: a column whose values cannot be parsed from their text.
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
            f"binlog: column {field.name}: a geometry cannot be parsed from its text; "
            "load the changes with option table"
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
