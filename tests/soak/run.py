"""Writers, rotation, purge and readers on one set of logs for some time: `make soak TIME=1h`.

The readers are `dump --follow`, `serve` with a client, rounds of a replay into SQLite and of an export, and a stream of
Spark into Parquet. Logs are purged up to the one that the slowest of them needs. The exit code is 1 if a transaction is
lost or doubled, if the memory, descriptors or threads of a process grow in the second half of the run, or if a reader
whose logs were purged before it had read them does not end with an error. `build/soak` has what was written and read.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from fuzz.run import seconds_of
from soak.overtaken import Overtaken
from soak.readers import READERS, hash_of
from started_processes import started

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OUTPUT: Final = Path("build/soak")
SAMPLES: Final = 240
JUDGED_S: Final = 600  # the processes of a shorter run still warm up
TIMEOUT_S: Final = 300
GROWTH: Final = {"MB": (8.0, 0.05), "descriptors": (3.0, 0.02), "threads": (2.0, 0.02)}
"""What a process may grow in the second half of a run: so much, and this part of its mean."""


JAVA_MB: Final = 1536  # the heap of Spark's driver, 1 GB, which fills up, and memory outside of it


def sampled(pids: dict[int, str]) -> dict[str, tuple[float, ...]]:
    """Return megabytes, descriptors and threads of processes and their sessions, by name and program."""
    found = defaultdict[str, list[tuple[float, int, int]]](list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            name = pids.get(int(folder.name)) or pids.get(int(fields[3]))
            if name is not None:
                program = "java" if (folder / "comm").read_text() == "java\n" else "python"
                mb = int(fields[21]) * os.sysconf("SC_PAGESIZE") / 2**20
                found[f"{name} {program}"].append((mb, sum(1 for _ in (folder / "fd").iterdir()), int(fields[17])))
        except OSError:
            continue  # it has ended
    return {name: tuple(map(sum, zip(*figures, strict=True))) for name, figures in found.items()}


def grown(name: str, samples: Sequence[Sequence[float]]) -> Iterator[str]:
    """Print what a process has at the start, in the middle and at the end; yield what grows in the second half.

    The growth is twice that between the medians of the last two quarters, in which short peaks do not count.
    """
    for values, (what, (most, part)) in zip(zip(*samples, strict=True), GROWTH.items(), strict=True):
        half = values[len(values) // 2 :]
        more = 2 * (median(half[len(half) // 2 :]) - median(half[: len(half) // 2]))
        print(f"{name:14} {what:11} {values[0]:8.1f} {half[0]:8.1f} {half[-1]:8.1f} {more:+8.1f} in the second half")
        is_heap = name.endswith(" java") and what == "MB" and half[-1] < JAVA_MB
        if more > most + part * fmean(half) and not is_heap:
            yield f"{name}: {what} grow by {more:.1f} in the second half"


def soak(folder: Path, names: Sequence[str], seconds: float, pause_s: float, log_bytes: int) -> list[str]:
    """Run for some time; return what is wrong."""
    logs, hashes, samples = folder / "logs", dict[str, str](), defaultdict[str, list[Any]](list)
    with ExitStack() as stack:
        script = Path(__file__).parent / "writer.py"
        writer = stack.enter_context(started(script, str(logs / "binlog"), str(pause_s), str(log_bytes)))
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"begun\n"
        overtaken = Overtaken(folder, names, stack)
        readers = [READERS[name](folder, stack) for name in names]
        for reader in readers:
            Thread(target=reader.read, daemon=True).start()
        pids = {writer.pid: "writer", **{one.process.pid: name for name, one in zip(names, readers, strict=True)}}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(max(0.5, seconds / SAMPLES))
            for name, figures in sampled(pids).items():
                samples[name].append(figures)
            needed = min(reader.needs for reader in readers)
            _keep_hashes(logs, hashes, needed)
            writer.stdin.write(f"{needed}\n".encode())
            writer.stdin.flush()
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        written = json.loads(writer.stdout.readline())
        _keep_hashes(logs, hashes, "z")
        written["hashes"] = hashes
        print(f"written: {written['transactions']} transactions, {written['changes']} changes, {len(hashes)} logs")
        for reader in readers:
            reader.finish(written, time.monotonic() + TIMEOUT_S)
        writer.stdin.write(f"{max(hashes)}\n".encode())
        writer.stdin.close()
        writer.wait(TIMEOUT_S)
        faults = [*overtaken.faults(readers)]
    for name, reader in zip(names, readers, strict=True):
        faults += [f"{name}: {fault}" for fault in [*reader.faults(written)][:10]]
        print(f"{name}: {reader.summary}")
    growing = [one for name, figures in samples.items() for one in grown(name, figures)]
    (folder / "samples.json").write_text(json.dumps(samples))
    return faults + (growing if seconds >= JUDGED_S else [])


def _keep_hashes(logs: Path, hashes: dict[str, str], needed: str) -> None:
    """Keep the hashes of the logs that are purged next."""
    for path in logs.glob("binlog.0*"):
        if path.name < needed and path.name not in hashes:
            hashes[path.name] = hash_of(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--time", type=seconds_of, default=60.0, help="90, 5m, 2h")
    parser.add_argument("--readers", nargs="+", choices=[*READERS], default=[*READERS])
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two transactions of a thread")
    parser.add_argument("--log-bytes", type=int, default=1 << 20, help="max_binlog_size")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="an empty directory, or a new one")
    options = parser.parse_args(arguments)
    if options.output == OUTPUT:
        shutil.rmtree(OUTPUT, ignore_errors=True)
    (options.output / "logs").mkdir(parents=True)
    faults = soak(options.output.resolve(), options.readers, options.time, options.pause, options.log_bytes)
    print(*faults, f"soak: FAILED, see {options.output}" if faults else "soak: OK", sep="\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
