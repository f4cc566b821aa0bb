from typing import Final

from binlogio._kernel.event_scanner import Cutter
from binlogio.events import BinlogEvent
from binlogio.events.base import EventHeader
from binlogio.events.query import StatusVar
from binlogio.gtid import Uuid

EVENT_CODES: Final[tuple[int, ...]]

class EventCutter(Cutter[BinlogEvent]):
    def __init__(
        self,
        classes: dict[int, type[BinlogEvent]],
        header: type[EventHeader],
        uuid: type[Uuid],
        variable: type[StatusVar],
    ) -> None: ...
    def set_codes(self, codes: frozenset[int], opened_size: int = 0) -> None: ...
    def learn(self, event: BinlogEvent, body: bytes) -> None: ...
