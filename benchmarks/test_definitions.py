"""Table definitions from the DDL of a log: many statements for one table, and many tables; the same into SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from bench_logs import first_groups, write_alters, write_creates
from bench_replay import into_sqlite
from binlogio.archive import logged_tables
from binlogio.storage import find_logs
from measure import cpu_s

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from report import Report

ROUNDS: Final = 3
WRITERS: Final[dict[str, tuple[Callable[[Path, int], Path], int]]] = {
    "alters": (write_alters, 10_000),
    "creates": (write_creates, 30_000),
}
PART_BYTES: Final = 1 << 20


@pytest.mark.parametrize("kind", WRITERS)
def test_definitions(benchmark: Any, kind: str, report: Report, tmp_path: Path) -> None:
    """The CPU time of `schema`, and of a replay of the first statements into SQLite."""
    write, count = WRITERS[kind]
    log = write(tmp_path / kind, count)
    logs, spent = find_logs(log), []
    benchmark.pedantic(lambda: spent.append(cpu_s(lambda: logged_tables(logs))), rounds=ROUNDS)
    report.add("definitions from DDL", f"{min(spent) / count * 1e6:,.0f} us a statement of {count:,}", log)
    part = first_groups(log, PART_BYTES, tmp_path / f"part.{log.name}")
    statements = round(count * part.stat().st_size / log.stat().st_size)
    replay_s = cpu_s(lambda: into_sqlite(part, 1))
    report.add("DDL into SQLite", f"{replay_s / statements * 1e3:.2f} ms a statement of about {statements:,}", log)

    assert spent
