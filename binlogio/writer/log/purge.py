"""Selection of the logs to purge, by name or by age.

The files are removed by `log_index`. Source: sql/binlog.cc, MYSQL_BIN_LOG::purge_logs, purge_logs_before_date.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from binlogio.errors import WriterStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.writer.log.log_storage import LogStorage

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def logs_up_to(names: Sequence[str], to: str) -> tuple[str, ...]:
    """Return the logs in front of `to`.

    Raises:
        WriterStateError: there is no such log.
    """
    if to not in names:
        raise WriterStateError("the log is not in the index", file=to)
    return tuple(takewhile(lambda name: name != to, names))


def logs_before(storage: LogStorage, names: Sequence[str], time: datetime, *, active: str) -> tuple[str, ...]:
    """Return the oldest logs, up to the first that was written to at `time` or later, or is the active one.

    A naive time is local.
    """
    limit = (time.astimezone(timezone.utc) - _EPOCH) // timedelta(microseconds=1)
    return tuple(takewhile(lambda name: name != active and storage.modified(name) < limit, names))
