"""The oldest supported PySpark, and the last unsupported one, each in a virtual environment of its own.

The environments are made once, in `~/.cache/binlogio` (or below XDG_CACHE_HOME), from the requirements in
pyproject.toml. The newest PySpark is the one that all other tests run with.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from corpus import MYSQL, ROOT, SUPPORT

pytestmark = [pytest.mark.server, pytest.mark.slow]

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "binlogio" / "environments"
OLDEST: Final = "4.1"
TOO_OLD: Final = "4.0"
INSTALL_TIMEOUT_S: Final = 1800
RUN_TIMEOUT_S: Final = 3600
EXTRAS: Final = ("replay", "delta", "encryption")
TEST_PACKAGES: Final = ("pytest", "hypothesis", "pandas")
OWN_WARNINGS: Final = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")  # PySpark 4.1 leaves sockets open
SUBSET: Final = {
    "reads": (
        "test_spark_source.py", "test_spark_views.py", "test_spark_typed.py", "test_spark_change_feed.py",
        "test_spark_filters.py",
    ),
    "streams": ("test_spark_stream.py", "test_spark_stream_offsets.py", "test_spark_merge.py"),
    "writes": ("test_spark_write.py", "test_spark_write_commit.py"),
    "replays": ("test_spark_replay.py",),
}  # fmt: skip


@cache
def interpreter(version: str) -> Path:
    """Return the Python of the environment with the newest PySpark of `version`.

    Skips where its packages cannot be installed.
    """
    folder = CACHE / f"pyspark-{version}-python-{sys.version_info.major}.{sys.version_info.minor}"
    python, ready = folder / "bin" / "python", folder / "ready"
    wanted = json.dumps(requirements(version))
    if not ready.exists() or ready.read_text("utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, check=False)
        if made.returncode:
            pytest.skip(f"no virtual environment can be made: {made.stderr.decode(errors='replace').strip()}")
        install = [str(python), "-m", "pip", "install", "--quiet", *requirements(version)]
        done = subprocess.run(install, capture_output=True, timeout=INSTALL_TIMEOUT_S, check=False)
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            pytest.skip(f"the packages of PySpark {version} cannot be installed: {''.join(last)}")
        ready.write_text(wanted, "utf-8")
    return python


def requirements(version: str) -> list[str]:
    """Return the requirements of pyproject.toml, with this PySpark."""
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    settings = toml.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, tools = settings["project"], settings["dependency-groups"]["test"]
    found = [f"pyspark[connect]=={version}.*", *project["dependencies"]]
    for extra in EXTRAS:
        found += project["optional-dependencies"][extra]
    wanted = [one for one in tools if re.split(r"[^\w-]", one)[0].startswith(TEST_PACKAGES)]
    assert all(any(one.startswith(name) for one in wanted) for name in TEST_PACKAGES), (
        "the group has other packages now"
    )
    return found + wanted


def run(version: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the environment's Python in the root of the project."""
    python = interpreter(version)
    places = (ROOT, ROOT / "cli", ROOT / "spark_datasource", SUPPORT)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "PYSPARK_PYTHON": str(python),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.run(
        [str(python), *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("files", SUBSET.values(), ids=SUBSET)
def test_oldest_pyspark_passes_the_tests_of_the_data_source(files: tuple[str, ...]) -> None:
    """Those that start Spark: reads, streams, writes and replays.

    Limits of streams, which 4.1 does not have, are skipped.
    """
    warnings = [word for name in OWN_WARNINGS for word in ("-W", f"ignore::{name}")]
    tests = [str(ROOT / "tests" / "spark" / name) for name in files]
    done = run(OLDEST, "-m", "pytest", "-q", "-rp", "-p", "no:cacheprovider", "-m", "spark", *warnings, *tests)

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = set(re.findall(r"^PASSED \S*?(\w+\.py)::", done.stdout, re.MULTILINE))
    assert passed == set(files)
    assert "skipped" not in done.stdout, done.stdout[-2000:]


def test_merge_runs_on_spark_connect(tmp_path: Path) -> None:
    """In foreachBatch, with a query that begins again; outside of a query it needs a name."""
    log = MYSQL / "types_int" / "binlog.000001"
    done = run(OLDEST, str(SUPPORT / "spark_connect_driver.py"), str(log), "corpus.t_serial", "s", str(tmp_path))

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["replay"]
    assert found["parquet"] == found["delta"] == found["named"] == found["replay"]
    assert "on Spark Connect a batch does not name its query, and 0 queries are active" in found["refused"]


@pytest.mark.parametrize(
    "call",
    [
        "BinlogDataSource({'path': '/tmp'})",
        "register(None)",
        "binlogio_session()",
    ],
)
def test_pyspark_that_is_too_old_is_refused_by_a_sentence(call: str) -> None:
    """Which version is needed, which one is there, and how to install another one."""
    done = run(TOO_OLD, "-c", f"from pyspark_binlogio import *; {call}")

    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert "PySparkVersionError: binlog: " in said
    assert re.search(
        r"needs PySpark 4\.1 or newer, found 4\.0\.\d+; install it with: pip install 'pyspark>=4\.1'$", said
    )
