"""Group commit on a storage in memory, with groups for concurrent threads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from threading import Barrier, Condition, Thread
from typing import Any, Final

from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.events.base import EventHeader
from binlogio.events.query import QueryEvent
from binlogio.format.encoder import Encoder
from binlogio.gtid import EMPTY_GTID_SET, Uuid
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.writer.log.group import Group
from binlogio.writer.log.group_commit import GroupCommit
from binlogio.writer.log.log_builder import LoggedGtid, describe_format, writer_kernel
from binlogio.writer.log.log_file import ActiveLog
from memory_storage import MemoryStorage

UUID: Final = Uuid.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562")
THREADS: Final = 8
MOST_TURNS: Final = 400_000


def spin_until(condition: Callable[[], bool]) -> None:
    """Yield to other threads until `condition` is true; fail after about a minute."""
    turn = Condition()
    with turn:
        for _ in range(MOST_TURNS):
            if condition():
                return
            turn.wait(0.0001)
    raise AssertionError("what was waited for does not come")


class Committer:
    """A group commit on a storage, with one-statement groups that carry a text."""

    def __init__(
        self, storage: MemoryStorage | None = None, wait: Callable[[int], None] | None = None, **more: Any
    ) -> None:
        ticks = count(10**15, 1000)
        self.storage = MemoryStorage() if storage is None else storage
        self.variables = ServerVariables(**{"server_version": "9.7.4", "sync_binlog": 0, **more})
        self.log = ActiveLog("binlog", self.storage, self.variables, lambda: next(ticks))
        arguments = () if wait is None else (wait,)
        self.commits = GroupCommit(self.log, self.variables, lambda: next(ticks), UUID, writer_kernel(), *arguments)
        self.encoder = Encoder(describe_format(self.variables).context)
        self.commits.open(EMPTY_GTID_SET)

    def group(self, text: str, size: int = 0, **more: Any) -> Group:
        """Return a group of one statement."""
        event = QueryEvent(
            thread_id=1,
            exec_time=0,
            error_code=0,
            status_vars=(),
            schema="shop",
            sql=text.encode() + b" " * size,
            header=EventHeader(timestamp=10**9, server_id=1),
        )
        return Group(frames=(self.encoder.encode(event),), timestamp=10**9, **more)

    def commit(self, text: str, size: int = 0, **more: Any) -> LoggedGtid:
        """Commit a group of one statement."""
        return self.commits.commit(self.group(text, size, **more))

    def events(self) -> list[Any]:
        """Return all events of the logs."""
        with open_logs(self.storage.streams(), open_payloads=False) as reader:
            return list(reader)

    def texts(self) -> list[str]:
        """Return the texts of the groups in the logs."""
        return [event.sql.decode().strip() for event in self.events() if isinstance(event, QueryEvent)]


def in_threads(number: int, work: Callable[[int], None]) -> list[BaseException]:
    """Run `work` in `number` concurrent threads; return their exceptions."""
    barrier, errors = Barrier(number), list[BaseException]()

    def run(index: int) -> None:
        barrier.wait()
        try:
            work(index)
        except (OSError, WriterStateError, BinlogFormatError, AssertionError) as exc:
            errors.append(exc)

    threads = [Thread(target=run, args=(index,)) for index in range(number)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # switch threads as often as possible
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(before)
    return errors
