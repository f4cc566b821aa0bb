"""Orders records as in the log, for a writer whose tasks each get a range of whole transactions.

Uses the position columns of the view `rows`. Spark passes the partitions of a data frame to a writer unchanged, so
the frame must be partitioned between transactions first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG_NUMBER: Final = r"\.(\d+)(?:\.\w+)?$"


def ordered(frame: DataFrame, partitions: int) -> DataFrame:
    """Return the records in `partitions` ranges of whole transactions, each sorted.

    Columns that are not there tell nothing.
    """
    names = frame.columns
    file = F.col("file") if "file" in names else F.lit("")
    row = F.col("row") if "row" in names else F.lit(0)
    identity = [F.col(name) for name in ("gtid", "sequence_number") if name in names]
    is_named = F.coalesce(*(column.cast("string") for column in identity), F.lit(None)).isNotNull()
    transaction = Window.partitionBy(file, *identity, F.when(~is_named, F.col("pos")))
    keys = {
        "_stem": F.regexp_replace(file, _LOG_NUMBER, ""),
        "_number": F.coalesce(F.nullif(F.regexp_extract(file, _LOG_NUMBER, 1), F.lit("")).cast("bigint"), F.lit(-1)),
        "_begin": F.min("pos").over(transaction),
        "_row": row,
    }
    keyed = frame.withColumns(keys)
    cut = keyed.repartitionByRange(partitions, "_stem", "_number", "_begin")
    return cut.sortWithinPartitions("_stem", "_number", "pos", "_row").drop(*keys)
