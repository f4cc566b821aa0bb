"""Consumers that are stopped at random places, and continued over random forms of the same logs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from series_faults import PER_LOG, SERVERS, ExportConsumer, SqliteConsumer, group_starts, ids_of, run, write_series

if TYPE_CHECKING:
    from collections.abc import Callable

CONSUMERS: Final[dict[str, Callable[[Path], ExportConsumer | SqliteConsumer]]] = {
    "SQLite": SqliteConsumer,
    "export": lambda folder: ExportConsumer(folder, "jsonl"),
}
LOGS: Final = 3
GOOD: Final = ["same", "same", "compressed", "missing"]
KINDS: Final = [*GOOD, "in use", "repaired", "filtered"]


def form_of(log: Path, to: Path, random: Random, kinds: list[str]) -> Path | None:
    """Return a log in a random form: as it is, in use, compressed, repaired, or filtered; or None for a missing one."""
    starts = group_starts(log)
    kind = random.choice(kinds)
    new = to / log.name
    if kind == "missing":
        return None
    if kind == "compressed":
        new = to / f"{log.name}.zst"
        new.write_bytes(pa.Codec("zstd").compress(log.read_bytes(), asbytes=True))
        return new
    data = bytearray(log.read_bytes())
    if kind == "in use":
        data = data[: random.choice(starts) + random.choice([0, 0, 10, 100])]
        data[21] |= 1  # BINLOG_IN_USE
    elif kind == "repaired":
        data[random.choice(starts) + random.randrange(20, 60)] ^= 0xFF
        damaged = to / "damaged.000001"
        damaged.write_bytes(data)
        run("repair", "-q", "-o", new, damaged)
        return new
    elif kind == "filtered":
        options = random.choice([("-T", "shop.a"), ("--drop-empty", "-T", "shop.b")])
        run("copy", "-q", *options, "-o", new, log)
        return new
    new.write_bytes(data)
    return new


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("consumer", CONSUMERS)
@settings(max_examples=8)
@given(seed=st.integers(0, 1 << 32))
def test_each_row_is_there_once_or_the_consumer_refuses(consumer: str, server: str, seed: int) -> None:
    """Whatever the first calls gave: with exit code 0 for all original logs, every row is there once.

    A replay that began with a later log does not go back: the rows before it are those of a backup. It knows only its
    last log, so that lossy copies are the last logs here.
    """
    random = Random(seed)
    folder = Path(tempfile.mkdtemp())
    try:
        logs = write_series(folder / "good", server, logs=LOGS)
        target = CONSUMERS[consumer](folder)
        is_begun, begin, last = False, 0, LOGS - 1
        for call in range(random.randint(1, 3)):
            forms = folder / str(call)
            forms.mkdir()
            first = random.randint(0, last) if consumer == "SQLite" else random.randrange(LOGS)
            last = max(last, random.randrange(first, LOGS))
            chosen = logs[first : last + 1]
            forms_of = [KINDS] * len(chosen) if consumer == "export" else [*[GOOD] * (len(chosen) - 1), KINDS]
            given_logs = [form_of(log, forms, random, kinds) for log, kinds in zip(chosen, forms_of, strict=True)]
            found = [log for log in given_logs if log is not None]
            is_done = bool(found) and target.give(found).exit_code == 0
            if is_done and not is_begun and consumer == "SQLite":
                begin = min(int(log.name[:13][-6:]) for log in found) - 1
            is_begun |= is_done
            assert not is_begun or set(target.ids().values()) <= {1}
        code = target.give(logs).exit_code
        ids = target.ids() if is_begun or code == 0 else {}

        assert set(ids.values()) <= {1}
        assert code or set(ids) >= set(ids_of(LOGS)[begin * PER_LOG :])
    finally:
        shutil.rmtree(folder)
