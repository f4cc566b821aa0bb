"""What a selection means in given logs: in which of them its positions are, and whether they can have its GTIDs.

A position names its log by the base name, with or without the suffix of a compressed file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.errors import ConditionError, PositionError
from binlogio.gtid import GtidSet
from binlogio.storage.index_file import log_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlogio.options import Position
    from binlogio.selection.event_filter import Gtids
    from binlogio.selection.selection import Selection
    from binlogio.series.log_head import LogHead
    from binlogio.storage.log_file import LogFile

_MOST_NAMES: Final = 3


class LogPlace(NamedTuple):
    """A position in several logs: the number of the log, from 0, and the offset in bytes."""

    number: int
    offset: int


BEGINNING: Final = LogPlace(0, 0)


def numbers_of(logs: Sequence[LogFile], name: str) -> list[int]:
    """Return the numbers of the logs with the base name of `name`, apart from a suffix of compression."""
    wanted = log_name(name)
    return [number for number, log in enumerate(logs) if log_name(log.name) == wanted]


def places_of(selection: Selection, logs: Sequence[LogFile]) -> tuple[LogPlace, LogPlace | None]:
    """Return the start and the stop of a selection; no stop: None.

    Raises:
        PositionError: one is in none of the logs, or in several, or the stop is before the start.
    """
    start = BEGINNING if selection.start is None else _place(logs, selection.start, "start", 0)
    stop = None if selection.stop is None else _place(logs, selection.stop, "stop", len(logs) - 1)
    if stop is not None and stop < start:
        raise PositionError(
            "the stop position is before the start position",
            expected=f"a position after {log_name(logs[start.number].name)}:{start.offset}",
            found=f"{log_name(logs[stop.number].name)}:{stop.offset}",
        )
    return start, stop


def selected_logs(selection: Selection, logs: Sequence[LogFile]) -> list[LogFile]:
    """Return the logs from the log of the start position to the log of the stop position.

    Raises:
        PositionError: as `places_of`.
    """
    start, stop = places_of(selection, logs)
    return list(logs[start.number : None if stop is None else stop.number + 1])


def check_vendor(conditions: Iterable[Gtids | None], heads: Iterable[LogHead | None]) -> None:
    """Check that GTIDs in conditions are of the vendor of the logs: those of the other one are in no log.

    Raises:
        ConditionError: they are not.
    """
    vendors = {head.context.is_mariadb for head in heads if head is not None}
    for gtids in conditions:
        is_mariadb = not isinstance(gtids, GtidSet)
        if gtids is not None and vendors == {not is_mariadb}:
            raise ConditionError(
                "the selected GTIDs are of the other vendor: no log can have them",
                expected="GTIDs of MySQL" if is_mariadb else "GTIDs of MariaDB",
                found=str(gtids).replace("\n", ""),
            )


def _place(logs: Sequence[LogFile], position: Position, what: str, default: int) -> LogPlace:
    numbers = numbers_of(logs, position.file) if position.file else [default]
    if len(numbers) != 1:
        found = ", ".join(logs[number].name for number in numbers[:_MOST_NAMES])
        raise PositionError(
            f"the {what} position is in {'several' if numbers else 'none'} of the given logs",
            found=found or position.file,
            hint="give only one of them" if numbers else None,
        )
    return LogPlace(numbers[0], position.offset)
