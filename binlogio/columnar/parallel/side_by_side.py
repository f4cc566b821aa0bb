"""The reader of one thread, which reads numbered parts of logs while other threads read other parts.

`binlogio.columnar.parallel.part_definitions` passes table definitions from a part to later parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.columnar.parallel.log_parts import LogPartReader
from binlogio.columnar.parallel.part_definitions import PartDefinitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlogio.columnar.parallel.part_definitions import PartFacts
    from binlogio.columnar.record_types import Selection
    from binlogio.columnar.splits.split_bounds import KnownGroups
    from binlogio.columnar.walk.table_plans import KnownPlans
    from binlogio.format.splits import Split
    from binlogio.storage.encryption import Keyring
    from binlogio.storage.sources import LogFile

    TableBatch = tuple[str, pa.RecordBatch]


class NumberedReader:
    """Reads parts of logs, each with its number."""

    def __init__(
        self,
        selection: Selection,
        keyring: Keyring | None,
        facts: PartFacts,
        known_groups: KnownGroups,
        known_plans: KnownPlans,
    ) -> None:
        self._definitions = PartDefinitions(selection.definitions, facts)
        self._reader = LogPartReader(
            selection, keyring, definitions=self._definitions, known_groups=known_groups, known_plans=known_plans
        )

    def read(self, part: tuple[int, tuple[LogFile, Split | None]], /) -> Iterator[TableBatch]:
        """Yield the row changes of a part.

        Raises:
            OSError, BinlogError: as `LogPartReader.read`.
        """
        number, place = part
        if self._definitions.begin_part(number):
            self._reader.forget_plans()
        try:
            yield from self._reader.read(place)
        finally:
            self._definitions.end_part()

    def close(self) -> None:
        """Give back the file that is open."""
        self._reader.close()
