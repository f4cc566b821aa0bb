"""The facade: a series of binary logs, as a server with the given variables would write them.

Knows how the parts fit together. What is written, and when, is theirs.
"""

from __future__ import annotations

import os
import time
import uuid
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.events.format_description import server_version_numbers
from binlogio.gtid import EMPTY_GTID_SET, GtidSet, Uuid
from binlogio.options import ServerVariables
from binlogio.writer.executed_gtids import executed_gtids
from binlogio.writer.group_commit import GroupCommit
from binlogio.writer.kernel import writer_kernel
from binlogio.writer.log_file import ActiveLog, Clock
from binlogio.writer.log_storage import LocalStorage, LogStorage
from binlogio.writer.open_tables import OpenTables
from binlogio.writer.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_DEFAULT_VARIABLES: Final = ServerVariables()
_SINCE: Final = (9, 6, 0)


def system_clock() -> int:
    """The time in microseconds since 1970, UTC."""
    return time.time_ns() // 1000


class BinlogWriter:
    """Writes logs `basename.000001` and on, and their index file. Use it in a `with`, or call `open` and `close`.

    Several threads may each use a session of their own.

    Args:
        basename: directory and name of the logs without their number, such as `data/binlog`; with `storage`, the name alone.
        variables: the server's variables.
        clock: gives the time in microseconds since 1970, UTC.
        new_uuid: makes the server's UUID where the variables have none.
        storage: where the logs are kept, by default the directory of `basename`.
        use_kernel: let the compiled kernel, where it is there, do what construct does as well, with the same bytes.

    Raises:
        UnsupportedFeature: a server version whose logs look otherwise.
    """

    def __init__(
        self,
        basename: str | os.PathLike[str],
        *,
        variables: ServerVariables = _DEFAULT_VARIABLES,
        clock: Clock = system_clock,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
        storage: LogStorage | None = None,
        use_kernel: bool = True,
    ) -> None:
        if server_version_numbers(variables.server_version) < _SINCE or "MariaDB" in variables.server_version:
            raise UnsupportedFeature(
                "logs of this version cannot be written",
                field="server_version",
                expected="MySQL 9.6.0 or later",
                found=variables.server_version,
            )
        path = Path(basename)
        text = variables.server_uuid
        self.variables: Final = variables
        self.server_uuid: Final = Uuid(new_uuid().bytes) if text is None else Uuid.parse(text)
        self._clock = clock
        self._storage: LogStorage = LocalStorage(path.parent) if storage is None else storage
        self._log = ActiveLog(path.name, self._storage, variables, clock)
        self._kernel = writer_kernel() if use_kernel else None
        self._group_commit = GroupCommit(self._log, variables, clock, self.server_uuid, self._kernel)
        self._tables = OpenTables(variables.binlog_row_metadata, self._kernel)
        self._thread_ids = count(1)
        self._xids = count(1)

    def __enter__(self) -> BinlogWriter:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> BinlogWriter:
        """Begin a log behind those that are there.

        Raises:
            OSError: the directory cannot be read or written.
            BinlogError: the last of the logs that are there cannot be read, so nobody knows which GTIDs are used.
        """
        self._group_commit.open(self._executed_before())
        return self

    def close(self) -> None:
        """End the log. Transactions that are still open are not in it.

        Raises:
            OSError: the log cannot be written.
        """
        self._group_commit.close()

    def session(self, schema: str = "") -> Session:
        """A new session whose default schema is `schema`."""
        return Session(
            thread_id=next(self._thread_ids),
            schema=schema,
            variables=self.variables,
            group_commit=self._group_commit,
            tables=self._tables,
            clock=self._clock,
            next_xid=lambda: next(self._xids),
            kernel=self._kernel,
        )

    def rotate(self) -> None:
        """End the log and begin the next one (FLUSH BINARY LOGS).

        Raises:
            WriterStateError: the writer is not open.
            OSError: a log cannot be written.
        """
        self._group_commit.rotate()

    @property
    def names(self) -> tuple[str, ...]:
        """The logs of the index, the active one last."""
        return self._log.names

    @property
    def gtid_executed(self) -> GtidSet:
        """The GTIDs of all groups in the logs."""
        return self._group_commit.executed

    def _executed_before(self) -> GtidSet:
        existing = self._log.existing()
        if not existing:
            return EMPTY_GTID_SET
        try:
            return executed_gtids(self._storage.read(existing[-1]))
        except BinlogError as exc:
            exc.locate(file=existing[-1])
            raise
