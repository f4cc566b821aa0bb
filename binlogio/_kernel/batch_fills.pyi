from collections.abc import Sequence

from binlogio._kernel.batches import Batch
from binlogio._kernel.route import Router

def fill_all(
    router: Router, batches: Sequence[Batch], first_events: Sequence[int], max_rows: int, max_bytes: int
) -> list[tuple[int, int, int]]: ...
def fill_windows(
    router: Router,
    batches: Sequence[Batch | None],
    descriptor: int,
    buffer: bytearray,
    begin: int,
    end: int,
    offset: int,
    read_to: int,
    step: int,
    max_rows: int,
    max_bytes: int,
    most_open: int,
) -> tuple[int, int, int, int, int, list[tuple[int, tuple[int, int, int]]] | None]: ...
