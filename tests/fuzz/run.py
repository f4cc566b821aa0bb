"""Runs the targets of the fuzzer for some time: `make fuzz TIME=5m [SEED=n] [TARGET=name]`.

Each run has a number, from SEED on, which gives the input. Runs are in a child process with bounded memory, so that a
crash or a hang is a finding as any other. A finding is saved in `build/fuzz/TARGET-NUMBER/`: the input, and how to
repeat it. An input that takes much longer than its size explains is a finding, too.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import re
import resource
import shutil
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NoReturn

from fuzz.targets import TARGETS, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTPUT: Final = Path("build/fuzz")
IS_SANITIZED: Final = "ASAN_OPTIONS" in os.environ
SLOWDOWN: Final = 10 if IS_SANITIZED else 1
MEMORY: Final = 6 << 30  # of addresses
CPU_SECONDS: Final = 5.0 * SLOWDOWN  # and one more for each BYTES_A_SECOND
BYTES_A_SECOND: Final = 50_000
HANG_SECONDS: Final = 120 * SLOWDOWN
SAVED_OF_A_KIND: Final = 3
RAM: Final = Path("/dev/shm")


@dataclass(slots=True)
class Result:
    """What a target has found; `kinds` counts findings by the place of the error."""

    runs: int = 0
    seconds: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def findings(self) -> int:
        """The number of inputs with a finding."""
        return sum(self.kinds.values())


class SlowInputError(AssertionError):
    """An input takes longer than its size explains."""


def check(target: Target, data: bytes) -> None:
    """Check one input in an empty directory, and how long it takes."""
    allowed = CPU_SECONDS + SLOWDOWN * len(data) / BYTES_A_SECOND
    with TemporaryDirectory(prefix="binlogio-fuzz-", dir=RAM if RAM.is_dir() else None) as folder:
        begin = time.process_time()
        target.check(data, Path(folder))
        used = time.process_time() - begin
    gc.unfreeze()  # each command freezes all objects
    if used > allowed:
        raise SlowInputError(f"{used:.1f} s of CPU time for {len(data)} bytes, expected at most {allowed:.1f} s")


def kind_of(exc: BaseException) -> str:
    """Return the type and the last place in the project of an error, without numbers of lines."""
    frames = [one for one in traceback.extract_tb(exc.__traceback__) if "site-packages" not in one.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
    return f"{type(exc).__name__} {place} {re.sub(r'[0-9]+', 'N', str(exc).split(chr(10), 1)[0])[:60]}"


def run_child(target: Target, first: int, end: float, most: int, log: Path) -> NoReturn:
    """Run inputs from a number on; write a line before each run, and a line for each finding."""
    lines = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(f"{log}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    if not IS_SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, first + most):
        if time.monotonic() >= end:
            break
        os.write(lines, b"%d\n" % number)
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        try:
            check(target, target.input_of(number))
        except Exception as exc:  # noqa: BLE001 - any error is a finding
            found = {"number": number, "kind": kind_of(exc), "text": traceback.format_exc()}
            os.write(lines, json.dumps(found).encode() + b"\n")
        faulthandler.cancel_dump_traceback_later()
    os._exit(0)


def fuzz(target: Target, first: int, seconds: float, most: int) -> Result:
    """Run a target for some time; a child that ends before is a finding, and another one continues."""
    result, begin, last = Result(), time.monotonic(), first + most
    target.seeds()
    gc.freeze()
    while first < last and (first == last - most or time.monotonic() < begin + seconds):
        with TemporaryDirectory(prefix="binlogio-fuzz-") as folder:
            log = Path(folder) / "runs"
            sys.stdout.flush()
            pid = os.fork()
            if not pid:
                run_child(target, first, begin + seconds, last - first, log)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            number = first
            for line in log.read_text("utf-8", "replace").splitlines() if log.exists() else ():
                if line.startswith("{"):
                    found = json.loads(line)
                    _report(target, result, number, found["kind"], found["text"])
                else:
                    number, result.runs = int(line), result.runs + 1
            if code:
                text = Path(f"{log}.err").read_text("utf-8", "replace")
                kind = f"signal {-code}" if code < 0 else f"exit code {code} (a hang, or a sanitizer)"
                _report(target, result, number, kind, text[-20_000:])
            first = number + 1
            if not code:
                break
    result.seconds = time.monotonic() - begin
    return result


def _report(target: Target, result: Result, number: int, kind: str, text: str) -> None:
    """Count a finding, and save the first ones of its kind."""
    result.kinds[kind] = count = result.kinds.get(kind, 0) + 1
    if count > SAVED_OF_A_KIND:
        return
    folder = OUTPUT / f"{target.name}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with suppress(Exception):  # the finding may be an error of the mutation
        (folder / "input").write_bytes(target.input_of(number))
    sanitize = " SANITIZE=1" if IS_SANITIZED else ""
    how = f"make fuzz ARGS={folder}{sanitize}\nmake fuzz TARGET={target.name} SEED={number} ARGS=--runs=1{sanitize}\n"
    (folder / "finding.txt").write_text(f"{kind}\n\nRepeat it:\n{how}\n{text}", encoding="utf-8", errors="replace")
    print(f"  {target.name} {number}: {kind}\n    {folder}/finding.txt")


def repeat(folder: Path) -> bool:
    """Run a saved input again; return whether it is still a finding."""
    data = (folder / "input").read_bytes()
    try:
        check(TARGETS[folder.name.rpartition("-")[0]], data)
    except Exception:  # noqa: BLE001 - any error is a finding
        traceback.print_exc()
        return True
    print(f"{folder}: no finding")
    return False


def seconds_of(text: str) -> float:
    """Return a duration such as 90, 90s, 5m or 2h in seconds."""
    match = re.fullmatch(r"([0-9.]+)([smh]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 90, 5m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the targets; 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--time", type=seconds_of, default=60.0, help="for all targets together: 90, 5m, 2h")
    parser.add_argument("--seed", type=int, default=None, help="the number of the first input (default: by the time)")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="may be repeated (default: all)")
    parser.add_argument("--runs", type=int, default=1 << 40, help="the most runs of each target")
    parser.add_argument("inputs", nargs="*", type=Path, help="directories of findings, which are repeated")
    options = parser.parse_args(arguments)
    if options.inputs:
        return int(sum(map(repeat, options.inputs)) > 0)
    seed = int(time.time()) % 10**8 * 10**6 if options.seed is None else options.seed
    targets = [TARGETS[name] for name in options.target or TARGETS]
    print(f"seed {seed}, {options.time:.0f} s for {len(targets)} targets")
    results = {one.name: fuzz(one, seed, options.time / len(targets), options.runs) for one in targets}
    print(f"{'target':14} {'runs':>8} {'findings':>8} {'kinds':>5} {'seconds':>8}")
    for name, result in results.items():
        print(f"{name:14} {result.runs:8} {result.findings:8} {len(result.kinds):5} {result.seconds:8.1f}")
    failed = any(result.findings for result in results.values())
    print(f"fuzz: FAILED, see {OUTPUT}/" if failed else "fuzz: OK")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
