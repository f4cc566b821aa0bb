"""The stage of the changes in a data frame, in the shape of the view `rows`.

A data frame has no statements and no rollbacks, so all of its changes take effect. Its JSON images become structs of
the columns of a given table definition: values are parsed from their text (`binlogio.values.text`; bytes are 0x and
hexadecimal digits). Dates that are not in the calendar become NULL. Images with other columns than those of the
definition are refused: a value would be lost, or assigned to another column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import StringType, StructField, StructType

from binlogio.columnar import RecordType
from binlogio.dotted_names import split_name
from binlogio.replay import Layout, Place, Until
from binlogio.rows import resolve_plan
from binlogio.schema import TableDefinition
from binlogio.storage import log_number
from pyspark_binlogio.options import BinlogOptionError
from pyspark_binlogio.spark_types import quoted, spark_ddl, spark_type
from pyspark_binlogio.stages import AT, BITMAPS, CHANGE, LAYOUT, Stage, interval, place_column, place_literal

_NEEDED: Final = ("file", "pos", "row", "before", "after")
_IMAGES: Final = {"before": "before_present", "after": "after_present"}
_ENDS: Final = (("least", F.min), ("most", F.max))


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts from one pass over all changes: the files, the bitmaps, and the columns of JSON images.

    `columns` has names of columns with the bitmap of their image; None for an image that is no JSON object.
    """

    files: tuple[str, ...]
    before: frozenset[int]
    after: frozenset[int]
    columns: frozenset[tuple[tuple[str, ...] | None, int | None]] = frozenset()


def frame_stage(changes: DataFrame, table: str | TableDefinition, until: Until, key: Sequence[str] | None) -> Stage:
    """Return the changes of a table.

    Raises:
        BinlogOptionError: the frame is not in the shape of the view `rows`, or a column of the key is not in it.
    """
    definition = table if isinstance(table, TableDefinition) else None
    name = definition.full_name if definition is not None else str(table)
    missing = [column for column in _NEEDED if column not in changes.columns]
    if missing:
        raise BinlogOptionError(f"binlog: the changes lack the columns {', '.join(missing)} of the view rows")
    own = _of_table(changes, name)
    for bitmap in BITMAPS:
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
    place = place_column(facts.files, is_numbered=_is_numbered(facts.files))
    return _stage(_until(own.withColumn(AT, place), until), image, names, facts, definition)


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
    schema, table = split_name(name)
    return changes.where((F.col("schema") == schema) & (F.col("table") == table))


def _facts(changes: DataFrame, *, has_json: bool = False) -> _Facts:
    """Return the facts of the changes; all files and bitmaps are collected only if minimum and maximum differ."""
    names = ("file", *BITMAPS)
    ends = [end(name).alias(f"{which}_{name}") for name in names for which, end in _ENDS]
    images = [_columns(*pair).alias(pair[0]) for pair in _IMAGES.items()] if has_json else []
    bounds = changes.agg(*ends, *images).first()
    least, most = ([None if bounds is None else bounds[f"{which}_{name}"] for name in names] for which, _ in _ENDS)
    columns = frozenset(
        (
            None if one.names is None else tuple(one.names),
            None if one.bitmap is None else int.from_bytes(one.bitmap, "little"),
        )
        for image in (_IMAGES if has_json else ())
        for one in (bounds[image] if bounds is not None else ())
    )
    files = tuple(dict.fromkeys(file for file in (least[0], most[0]) if file is not None))
    if least[1:] == most[1:] and (len(files) < 2 or _is_numbered(files)):
        before, after = (frozenset({int.from_bytes(one, "little")} if one is not None else ()) for one in least[1:])
        return _Facts(files, before, after, columns)
    seen = changes.groupBy(*names).count().collect()
    before, after = (
        frozenset(int.from_bytes(row[name], "little") for row in seen if row[name] is not None) for name in BITMAPS
    )
    return _Facts(tuple(sorted({row["file"] for row in seen}, key=log_number)), before, after, columns)


def _columns(image: str, bitmap: str) -> Column:
    """Return the sets of columns that JSON images have, each with its bitmap."""
    found = F.struct(F.json_object_keys(image).alias("names"), F.col(bitmap).alias("bitmap"))
    return F.collect_set(F.when(F.col(image).isNotNull(), found))


def _check_columns(columns: frozenset[tuple[tuple[str, ...] | None, int | None]], table: TableDefinition) -> None:
    """Refuse JSON images whose columns are not those of the definition, by name and by place in the bitmap.

    Raises:
        BinlogOptionError: there is such an image, or one that is no JSON object.
    """
    places = {name: number for number, column in enumerate(table.columns) for name in (column.name, f"@{number + 1}")}
    for names, bits in sorted(columns, key=str):
        if names is None:
            raise BinlogOptionError(f"binlog: an image of {table.full_name} is not a JSON object")
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
    width = max([width, *(bits.bit_length() for bits in facts.before | facts.after)])
    every = (1 << width) - 1
    whole_before, whole_after = facts.before <= {every}, facts.after <= {every}
    numbers = {column.name: n for n, column in enumerate(definition.columns)} if definition is not None else {}
    if not numbers and width == len(image):
        numbers = {name: n for n, name in enumerate(image.names)}
    if not whole_after and not all(name in numbers for name in image.names):
        raise BinlogOptionError(
            "binlog: some images lack columns, and the data does not say which; give the table's definition"
        )
    return Stage(
        changes=changes.select(AT, F.lit(0).alias(LAYOUT), *CHANGE),
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


def _until(changes: DataFrame, until: Until) -> DataFrame:
    if until.gtids is not None:
        # A lambda, since the type hints of the method would select another kind of UDF.
        is_wanted = F.udf(lambda gtid: until.wants_group(gtid), "boolean", useArrow=False)  # noqa: PLW0108
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
    first = changes.where(late).agg(F.min(F.struct(AT, "file", "gtid", "sequence_number")).alias("first")).first()
    if first is None or first["first"] is None:
        return changes
    cut = first["first"]
    found = changes.where(F.col(AT) < place_literal(Place(*cut[AT])))
    if cut["gtid"] is not None:
        found = found.where(~F.col("gtid").eqNullSafe(F.lit(cut["gtid"])))
    if cut["sequence_number"]:
        same = (F.col("file") == cut["file"]) & F.col("sequence_number").eqNullSafe(F.lit(cut["sequence_number"]))
        found = found.where(~same)
    return found


def typed_images(changes: DataFrame, definition: TableDefinition) -> DataFrame:
    """Return the changes, with structs for `before` and `after`.

    Raises:
        BinlogOptionError: a column whose values cannot be parsed from their text.
    """
    plan = resolve_plan(definition.table_map(1), definition=definition.plan_columns())
    image = spark_type(RecordType.of(plan, None, zero_dates="null").image_type)
    names = [*(field.name for field in image), *(f"@{number + 1}" for number in range(len(image)))]
    texts = ", ".join(f"{quoted(name)} string" for name in names)
    for name in ("before", "after"):
        parsed = F.from_json(F.col(name), texts)
        texts_or_numbers = ((parsed.getField(field.name), parsed.getField(f"@{n}")) for n, field in enumerate(image, 1))
        columns = zip((F.coalesce(*pair) for pair in texts_or_numbers), image, strict=True)
        values = F.struct(*(typed(text, field).alias(field.name) for text, field in columns))
        changes = changes.withColumn(name, F.when(F.col(name).isNotNull(), values))
    return changes


def typed(text: Column, field: pa.Field) -> Column:
    """Return the value of a text in JSON, in the type of a field."""
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
        return interval(text)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return F.try_to_timestamp(F.concat(text, F.lit("+00:00")))
    return text.cast("string") if pa.types.is_string(kind) else text.try_cast(spark_ddl(kind))
