"""Finds the DDL that the tasks of a batch read need at the moment when Spark pickles the reader.

It is a workaround. The tasks need the DDL in the logs up to the last log that the pushed filters leave. PySpark calls
no method of a reader that could find the DDL and pass it to all tasks:

    __init__       the filters are not pushed yet
    pushFilters    may change the reader for its tasks, but is not called if filter pushdown is disabled, which is the
                   default (SPARK-51271)
    partitions     is called after the reader was pickled, so the tasks do not have what it finds (SPARK-51575,
                   `write_read_func_and_partitions`). Partitions are pickled one by one: each would have a copy
    read           runs in a task: each task would scan the logs again

The Java interface has such a method (`Batch.createReaderFactory`); no Spark ticket that requests one for Python is
known. This file can be removed if PySpark adds it, or pickles the reader after it calls `partitions`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

from binlogio.errors import BinlogError, UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.schema import DefinitionCatalogue


class TaskStatements:
    """The DDL for the tasks of a read.

    Args:
        find: returns the DDL, None if the read needs none. It is called on the driver, when this object is pickled.
    """

    def __init__(self, find: Callable[[], DefinitionCatalogue | None]) -> None:
        self._find = find

    def __reduce__(self) -> tuple[type[TaskStatements], tuple[Callable[[], DefinitionCatalogue | None]]]:
        """Pickle the DDL instead of the function that finds it.

        An error is not raised here: Spark calls `partitions` next, which raises the same one.
        """
        try:
            return TaskStatements, (partial(_found, self._find()),)
        except (BinlogError, OSError):
            return TaskStatements, (_not_found,)

    def get(self) -> DefinitionCatalogue | None:
        """Return the DDL.

        Raises:
            UnsupportedFeature: the driver could not read it.
        """
        return self._find()


def _found(statements: DefinitionCatalogue | None) -> DefinitionCatalogue | None:
    return statements


def _not_found() -> NoReturn:
    raise UnsupportedFeature(
        "the DDL in the logs could not be read when the query was planned", hint="run the query again"
    )
