"""Runs one target of `tests/fuzz/targets.py` with atheris (libFuzzer): `fuzz_target.py [libFuzzer's options] [corpus]`.

The target is named by the file (`fuzz_rows` runs `rows`) or by BINLOGIO_FUZZ_TARGET. Mutations are those of the target,
so that sizes and checksums stay right.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["binlogio", "binlogio_cli"]):
    from fuzz.run import check
    from fuzz.targets import TARGETS

TARGET = TARGETS[os.environ.get("BINLOGIO_FUZZ_TARGET") or Path(sys.argv[0]).stem.removeprefix("fuzz_")]


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Return a mutation of an input that libFuzzer has chosen; if that has no structure, of a seed of the target."""
    random = Random(seed)
    changed = TARGET.mutate(random, data) if data.strip() else data
    return (TARGET.mutate(random, random.choice(TARGET.seeds())) if changed == data else changed)[:max_size]


if __name__ == "__main__":
    atheris.Setup(sys.argv, lambda data: check(TARGET, data), custom_mutator=mutate)
    atheris.Fuzz()
