#!/bin/bash -eu
# Builds the kernel with the sanitizer of OSS-Fuzz, and one fuzzer for each target with its seeds.
pip3 install ".[encryption]" pytest hypothesis --config-settings=cmake.define.BINLOGIO_C_FLAGS="${CFLAGS// /;}"
export PYTHONPATH=tests:tests/support:fixtures
for name in $(python3 -c 'from fuzz.targets import TARGETS; print(*TARGETS)'); do
  cp tests/fuzz/oss_fuzz/fuzz_target.py "$SRC/fuzz_$name.py"
  compile_python_fuzzer "$SRC/fuzz_$name.py" --add-data "fixtures:fixtures" --paths tests --paths tests/support --paths fixtures
  mkdir -p "/tmp/$name"
  python3 - "$name" <<'SEEDS'
import sys
from pathlib import Path
from fuzz.targets import TARGETS

for number, seed in enumerate(TARGETS[sys.argv[1]].seeds()):
    (Path("/tmp") / sys.argv[1] / str(number)).write_bytes(seed)
SEEDS
  zip -qj "$OUT/fuzz_${name}_seed_corpus.zip" "/tmp/$name"/*
done
