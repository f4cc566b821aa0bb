"""The oldest supported PySpark, and the last unsupported one, each in a virtual environment of its own.

The newest PySpark is the one that all other tests run with, and Spark Connect is tested on a cluster
(`test_spark_cluster_servers.py`). BINLOGIO_PYSPARK names another version than the oldest, and runs more tests.
"""

from __future__ import annotations

import os
import re
from typing import Final

import pytest

from corpus import ROOT
from pyspark_environments import TOO_OLD, run

pytestmark = [pytest.mark.server, pytest.mark.slow]

OLDEST: Final = os.environ.get("BINLOGIO_PYSPARK", "4.1")
OWN_WARNINGS: Final = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")  # PySpark 4.1 leaves sockets open
FILES: Final = ("test_spark_source.py", "test_spark_stream.py", "test_spark_write.py", "test_spark_replay.py")
MORE_FILES: Final = (
    "test_spark_views.py", "test_spark_typed.py", "test_spark_changes.py", "test_spark_filters.py",
    "test_spark_stream_offsets.py", "test_spark_merge.py", "test_spark_write_commit.py", "test_spark_archive.py",
)  # fmt: skip


@pytest.mark.parametrize(
    "files", [FILES, *([MORE_FILES] if "BINLOGIO_PYSPARK" in os.environ else [])], ids=lambda files: files[0]
)
def test_oldest_pyspark_passes_the_tests_of_the_data_source(files: tuple[str, ...]) -> None:
    """Those that start Spark: reads, streams, writes and replays; all of them if the version is given.

    Limits of streams, which 4.1 does not have, are skipped.
    """
    warnings = [word for name in OWN_WARNINGS for word in ("-W", f"ignore::{name}")]
    tests = [str(ROOT / "tests" / "spark" / name) for name in files]
    words = "-m pytest -q -rp -p no:cacheprovider -m spark -k".split()
    done = run(OLDEST, *words, "not iceberg", *warnings, *tests)

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = set(re.findall(r"^PASSED \S*?(\w+\.py)::", done.stdout, re.MULTILINE))
    assert passed == set(files)
    assert "skipped" not in done.stdout, done.stdout[-2000:]


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
