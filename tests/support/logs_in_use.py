"""Logs that were in use when their writer stopped, to be damaged: their bytes, and where each of their groups begins.

Has an InnoDB and a MyISAM table. The tests check what a start does with such a log.
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
    """A log in use whose every fourth group is of the table without transactions.

    `starts` is where each begins, and the end.
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
        """The file, which may be changed."""
        return self.storage.files[NAME]

    def group(self, number: int) -> bytes:
        """Return a group's bytes."""
        return bytes(self.data[self.starts[number] : self.starts[number + 1]])

    def events(self, number: int) -> list[bytes]:
        """Return a group's events."""
        return [event for _, event in raw_events(self.group(number), 0)]

    def append(self, events: list[bytes]) -> None:
        """Put events after the end, with the positions that they get there."""
        for event in events:
            self.data.extend(moved(event, len(self.data)))
