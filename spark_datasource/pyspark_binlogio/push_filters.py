"""The method `pushFilters` of the reader, in a form that Spark accepts with filter pushdown disabled.

Filter pushdown of Python sources (SPARK-51271) is disabled by default, and then Spark refuses every read by a reader
that overrides `pushFilters` (DATA_SOURCE_PUSHDOWN_DISABLED), also a read without a filter. A reader does not learn the
setting, so a source could either never push filters down, or be unusable by default. Spark recognizes an override by
`__func__`, which this object has of the inherited method. It is a workaround: with the setting on by default, or with
an inherited method where pushdown is disabled, this file goes. `test_spark_filters` fails if a new Spark compares
something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class PushFilters:
    """A method `pushFilters` that Spark takes for the inherited one.

    Args:
        push: accepts filters, and returns those that Spark must evaluate.
    """

    def __init__(self, push: Callable[[list[Filter]], list[Filter]]) -> None:
        self._push = push
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        """Accept filters, and return the others."""
        return self._push(filters)
