"""The method `pushFilters` of the reader, in a form that Spark accepts with filter pushdown disabled.

Filter pushdown of Python sources (SPARK-51271) is disabled by default, and then Spark refuses every read by a reader
that overrides `pushFilters` (DATA_SOURCE_PUSHDOWN_DISABLED), also a read without a filter. A reader cannot read the
setting, so a source could either never push filters down, or be unusable by default. Spark recognizes an override by
the attribute `__func__`; here it is that of the inherited method. It is a workaround: this file can be removed if Spark
enables the setting by default, or ignores the override where it is disabled. `test_spark_filters` fails if a new Spark
recognizes an override in another way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class PushFilters:
    """A method `pushFilters` that Spark treats as the inherited one.

    Args:
        push: accepts filters, and returns those that Spark must evaluate.
    """

    def __init__(self, push: Callable[[list[Filter]], list[Filter]]) -> None:
        self._push = push
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        """Accept filters, and return the others."""
        return self._push(filters)
