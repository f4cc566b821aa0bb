"""Logs that were in use when their writer stopped, for tests that damage them: bytes and group offsets.

Has an InnoDB and a MyISAM table. The tests check the crash recovery of such logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Insert, Statement
from logs import moved, raw_events
from memory_storage import MemoryStorage

if TYPE_CHECKING:
    from binlogio.options import ServerVariables

T: Final = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(600)")), ("id",)
)
N: Final = TableDefinition("shop", "n", T.columns, ("id",), engine="MyISAM")
NAME: Final = "binlog.000001"


class LogInUse:
    """A log in use; every fourth group changes the non-transactional table.

    `starts` has the offset of each group, and the end offset.
    """

    def __init__(self, variables: ServerVariables, value: str = "v", groups: int = 4, **options: Any) -> None:
        self.storage = MemoryStorage()
        self.starts: list[int] = []
        log = BinlogWriter("binlog", variables=variables, storage=self.storage, **options).open()
        with log.session("shop") as session:
            for number in range(groups):
                self.starts.append(self.storage.size(NAME))
                session.execute(Statement("insert", [Insert(N if number % 4 == 3 else T, [(number, value)])]))
        self.starts.append(self.storage.size(NAME))
        self.storage.end_process()

    @property
    def data(self) -> bytearray:
        """The bytes of the file, which tests may change."""
        return self.storage.files[NAME]

    def group(self, number: int) -> bytes:
        """Return the bytes of a group."""
        return bytes(self.data[self.starts[number] : self.starts[number + 1]])

    def events(self, number: int) -> list[bytes]:
        """Return the events of a group."""
        return [event for _, event in raw_events(self.group(number), 0)]

    def append(self, events: list[bytes]) -> None:
        """Append events with their new positions."""
        for event in events:
            self.data.extend(moved(event, len(self.data)))
