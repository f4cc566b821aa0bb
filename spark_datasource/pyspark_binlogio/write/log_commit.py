"""The commit of a write: appends the staged files of all tasks to the logs in order, and replaces the index last.

Handles files, names, headers and ends of logs. Records and events in groups are in `transactions` and `segments`.

    commit := check order and GTIDs, finish each segment (header, ROTATE or STOP), register names, rename, note the
              batch, replace the index

A commit that crashed before the index was replaced is undone by the next commit (`binlogio.writer.log.log_index`).
A numbered batch is noted with the last log that it wrote, and is done once the index has that log: the same batch
then writes nothing.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import EVENT_SIZE_BYTES, HEADER_SIZE
from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.storage import log_number, next_log_name, read_stored
from binlogio.writer import LogBuilder, LogIndex, examine, writer_kernel
from pyspark_binlogio.write.segments import Segment, joined_gtids, no_gtids, refuse_repeated
from pyspark_binlogio.write.transactions import IN_ORDER_HINT, out_of_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlogio.options import ServerVariables
    from binlogio.writer import LoggedGtids, LogStorage

WINDOW_SIZE: Final = 4 << 20
BATCHES_SUFFIX: Final = ".batches"
_WITHOUT_BATCHES: Final = (
    "it says which batches are in the logs: put back a copy of it, or remove it, after which a repeated batch is "
    "written again"
)


@dataclass(frozen=True, slots=True)
class BatchNumber:
    """The application and the number of a batch."""

    application: str
    number: int


class LogFolder:
    """A series of existing logs, and the logs appended to it. There must be no other writer at the same time.

    Without `changes_files` the storage can only replace whole files.
    """

    def __init__(
        self, stem: str, storage: LogStorage, variables: ServerVariables, *, changes_files: bool = True
    ) -> None:
        self._stem = stem
        self._storage = storage
        self._changes_files = changes_files
        self._index = LogIndex(stem, storage)
        self._variables = variables
        self._builder = LogBuilder.of(variables, writer_kernel())

    def executed(self) -> LoggedGtids:
        """Return the GTIDs of all existing logs.

        Raises:
            WriterStateError: the last log is in use, or one of the other vendor.
        """
        existing = self._existing(self._storage.names())
        if not existing:
            return no_gtids(self._variables)
        state = examine(self._storage, existing[-1])
        if state.in_use:
            raise WriterStateError(
                "the last log is in use: a server or another writer has not closed it",
                file=existing[-1],
                hint="write to another directory, or let the writer of the log close or recover it",
            )
        if state.is_mariadb != self._variables.is_mariadb:
            raise WriterStateError(
                "the last log is one of the other vendor, whose GTIDs cannot be continued",
                file=existing[-1],
                expected=f"a log as {self._variables.server_version} writes them (option serverVersion)",
                found="a log of MariaDB" if state.is_mariadb else "a log of MySQL",
                hint="write to another directory, or set serverVersion",
            )
        return state.domains if state.is_mariadb else state.executed

    def is_done(self, batch: BatchNumber) -> bool:
        """Return whether this batch, or a later one, has been written."""
        self._index.open()
        done = self._batches().get(batch.application)
        return done is not None and done["batch"] >= batch.number

    def commit(
        self, segments: Sequence[Segment], *, overwrite: bool, batch: BatchNumber | None = None
    ) -> tuple[str, ...]:
        """Append the segments as logs, and return their names. If it raises, none of them is visible.

        Raises:
            BinlogFormatError: tasks are not in order, share a transaction, or have GTIDs that the logs have.
            OSError: the storage failed.
        """
        self._index.open()
        self._forget_undone()
        segments = _in_order(segments)
        old = self._existing(self._storage.names())
        executed = no_gtids(self._variables) if overwrite else self.executed()
        names = _names_after(old[-1] if old else None, self._stem, len(segments))
        finished: list[str] = []
        for segment, (name, next_name) in zip(segments, pairwise([*names, ""]), strict=True):
            refuse_repeated(executed, segment.gtids)
            created = segment.first_timestamp if name == names[0] else 0
            finished.append(self._finish(segment, executed, created, name, next_name))
            executed = joined_gtids(executed, segment.gtids)
        self._publish(finished, names, old, overwrite=overwrite, batch=batch)
        return names

    def _existing(self, present: Iterable[str]) -> list[str]:
        found = [name for name in present if self._index.is_log(name)]
        return sorted({*self._index.names, *found}, key=log_number)

    def _publish(
        self,
        staged: Sequence[str],
        names: Sequence[str],
        old: Sequence[str],
        *,
        overwrite: bool,
        batch: BatchNumber | None,
    ) -> None:
        index, storage = self._index, self._storage
        indexed = index.names
        placed: list[str] = []
        try:
            index.register([*names, *(indexed if overwrite else ())])
            for stage, name in zip(staged, names, strict=True):
                placed.append(name)
                storage.rename(stage, name)
            storage.sync_names()
            if batch is not None and names:
                self._note(batch, names[-1])
            index.replace(names if overwrite else [*old, *names])
        except BaseException:
            self._undo(placed, indexed)
            raise
        with suppress(OSError):  # the commit is done; the next one removes what is left, by the register
            for name in old if overwrite else ():
                storage.remove(name)
            storage.sync_names()
            index.unregister()

    def _undo(self, placed: Sequence[str], indexed: tuple[str, ...]) -> None:
        """Restore the index and the logs, as far as the storage works; the register names the rest."""
        with suppress(OSError):
            if self._index.names != indexed:
                self._index.replace(indexed)
            present = self._storage.names()
            for name in placed:
                if name in present:
                    self._storage.remove(name)
            self._index.unregister()

    # ----------------------------------------------------------------------------------------------- heads and ends

    def _finish(self, segment: Segment, previous: LoggedGtids, created: int, own_name: str, next_name: str) -> str:
        """Write the final head and the end of a segment, and return the name of its file."""
        head = self._builder.head(
            segment.first_timestamp, segment.server_id, previous, created=created, checkpoints=(own_name,)
        )
        size = segment.size - segment.head_size + len(head)
        end = self._builder.end(size, segment.last_timestamp, segment.server_id, next_name)
        if self._changes_files and len(head) == segment.head_size:
            try:
                self._storage.overwrite(segment.name, 0, head)
                self._storage.append(segment.name, end)
                self._storage.sync(segment.name)
            finally:
                self._storage.close(segment.name)
            return segment.name
        name = f"{segment.name}-finished"
        self._storage.create(name)
        try:
            self._storage.append(name, head)
            self._copy(segment, name, len(head))
            self._storage.append(name, end)
            self._storage.sync(name)
        finally:
            self._storage.close(name)
        self._storage.remove(segment.name)
        return name

    def _copy(self, segment: Segment, name: str, offset: int) -> None:
        """Copy the groups of a segment to `offset` of another file."""
        at, size = segment.head_size, WINDOW_SIZE
        while at < segment.size:
            window = bytearray(self._storage.read(segment.name, at, size))
            whole = _whole_events(window)
            if not whole:
                size *= 4
                continue
            del window[whole:]
            if offset != at:
                self._builder.move(window, offset)
            self._storage.append(name, window)
            at, offset, size = at + whole, offset + whole, WINDOW_SIZE

    # -------------------------------------------------------------------------------------------------- the batches

    def _batches(self) -> dict[str, Any]:
        """Return the last batch of each application, except those whose logs never were in the index."""
        last = log_number(self._index.names[-1])[1] if self._index.names else 0
        return {key: done for key, done in self._noted().items() if log_number(done["log"])[1] <= last}

    def _noted(self) -> dict[str, Any]:
        name = self._stem + BATCHES_SUFFIX
        if name not in self._storage.names():
            return {}
        return read_stored(self._storage.read(name), _batches_of, place=name, hint=_WITHOUT_BATCHES)

    def _forget_undone(self) -> None:
        """Remove the notes of batches whose logs never were in the index, before other logs take their numbers."""
        batches = self._batches()
        if batches != self._noted():
            self._write_batches(batches)

    def _note(self, batch: BatchNumber, log: str) -> None:
        self._write_batches({**self._batches(), batch.application: {"batch": batch.number, "log": log}})

    def _write_batches(self, batches: dict[str, Any]) -> None:
        name, side = self._stem + BATCHES_SUFFIX, self._stem + BATCHES_SUFFIX + ".new"
        if side in self._storage.names():
            self._storage.remove(side)
        self._storage.create(side)
        try:
            self._storage.append(side, json.dumps(batches, indent=1).encode())
            self._storage.sync(side)
        finally:
            self._storage.close(side)
        self._storage.rename(side, name)
        self._storage.sync_names()


def _batches_of(found: Any) -> dict[str, Any]:
    if not all(isinstance(done["batch"], int) and isinstance(done["log"], str) for done in found.values()):
        raise ValueError("batches: expected a number and a log for each")
    return dict(found)


def _in_order(segments: Iterable[Segment]) -> list[Segment]:
    ordered = sorted(segments, key=lambda segment: segment.first)
    for one, other in pairwise(ordered):
        if other.first <= one.last:
            raise out_of_order(one.last, other.first)
        if other.first_key == one.last_key:
            raise BinlogFormatError(
                "the records of a transaction are split between two tasks",
                file=other.first_key[0][0] or None,
                field="gtid",
                found=other.first_key[1] or f"sequence_number {other.first_key[2]}",
                hint=IN_ORDER_HINT,
            )
    return ordered


def _names_after(last: str | None, stem: str, count: int) -> tuple[str, ...]:
    names: list[str] = []
    for _ in range(count):
        last = f"{stem}.000001" if last is None else next_log_name(last)
        names.append(last)
    return tuple(names)


def _whole_events(window: bytearray) -> int:
    """Return how many bytes of a window are whole events."""
    at = 0
    while at + HEADER_SIZE <= len(window):
        size = int.from_bytes(window[at + EVENT_SIZE_BYTES.start : at + EVENT_SIZE_BYTES.stop], "little")
        if size < HEADER_SIZE or at + size > len(window):
            break
        at += size
    return at
