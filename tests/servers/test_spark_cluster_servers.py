"""docs/spark_clusters.md: a master with two workers whose Python is an archive, and Spark Connect on that cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any, Final

import pytest

from corpus import MYSQL, ROOT, SUPPORT
from pyspark_environments import interpreter, run
from spark_cluster import archive, cluster, connect_server, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

PYSPARK: Final = os.environ.get("BINLOGIO_PYSPARK", "4.1")
FOLDER: Final = MYSQL / "rowimage_full"
LOG: Final = str(FOLDER / "binlog.000001")
TABLE: Final = "corpus.pk"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for the cluster."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def packed(folder: Path) -> Path:
    """Return the archive of the executors."""
    return archive(PYSPARK, folder)


@pytest.fixture(scope="module")
def unpacked(folder: Path, packed: Path) -> Path:
    """Return the directory with the unpacked archive."""
    unpack(packed, folder / "installed")
    return folder / "installed"


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    """Provide the URL of the cluster."""
    with cluster(PYSPARK, folder) as url:
        yield url


def test_tasks_of_both_workers_use_the_archive(
    folder: Path, packed: Path, unpacked: Path, master: str, tmp_path: Path
) -> None:
    """Reads, replays, writes and streams; the rows are what the server answered to SELECT."""
    (tmp_path / "env").symlink_to(unpacked)
    words = [str(SUPPORT / "cluster_driver.py"), master, LOG, TABLE, str(tmp_path), f"spark.archives={packed}#env"]
    done = run(PYSPARK, *words, cwd=tmp_path, python="./env/bin/python")

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    expected = json.loads((FOLDER / "expected.json").read_text("utf-8"))["tables"][TABLE]
    names = [column["name"] for column in expected["columns"]]
    assert sorted(found["replay"], key=str) == sorted(
        (dict(zip(names, row, strict=True)) for row in expected["rows"]), key=str
    )
    assert found["tasks"] > 2
    assert found["read"] == found["written"] == found["copied"] > 0
    used = {re.sub(r"/app-.*?/env/.*", "", place) for place in found["workers"]}
    assert used == {f"compiled {folder}/worker-1", f"compiled {folder}/worker-2"}


def test_files_for_python_are_refused_by_a_sentence(master: str, tmp_path: Path) -> None:
    """Python cannot load the compiled kernel from a zip archive."""
    python = tmp_path / "plain" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(python.parents[1])], check=True)
    (packages,) = interpreter(PYSPARK).parents[1].glob("lib/python*/site-packages")
    next(python.parents[1].glob("lib/python*/site-packages")).joinpath("others.pth").write_text(str(packages))
    zipped = tmp_path / "binlogio.zip"
    with zipfile.ZipFile(zipped, "w") as files:
        for root, name in ((ROOT, "binlogio"), (ROOT / "spark_datasource", "pyspark_binlogio")):
            for path in (root / name).rglob("*.py"):
                files.write(path, path.relative_to(root))
    words = [str(SUPPORT / "cluster_driver.py"), master, LOG, TABLE, str(tmp_path), f"spark.submit.pyFiles={zipped}"]
    done = run(PYSPARK, *words, cwd=tmp_path, python=str(python))

    assert done.returncode == 1
    assert "found binlogio in a zip archive, from which Python cannot load it" in done.stderr
    assert "install binlogio where it runs" in done.stderr


def test_client_of_spark_connect_without_the_logs(folder: Path, unpacked: Path, master: str, tmp_path: Path) -> None:
    """The directory of the logs is empty for the client, as on another machine.

    A merge runs in foreachBatch, with a query that begins again; outside of a query it needs a name.
    """
    with connect_server(PYSPARK, folder, master, unpacked) as url:
        logs = tmp_path / "logs"
        logs.mkdir()
        shutil.copy(LOG, logs)
        hidden = f'mount -t tmpfs none "{logs}" && exec "$0" "$@"'
        client = [str(interpreter(PYSPARK)), str(SUPPORT / "spark_connect_driver.py"), url, f"{logs}/binlog.0*"]
        words = ["unshare", "--mount", "sh", "-c", hidden, *client, TABLE, "id", str(tmp_path)]
        done = run(PYSPARK, "-c", "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])", *words, cwd=tmp_path)

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    expected = json.loads((FOLDER / "expected.json").read_text("utf-8"))["tables"][TABLE]
    assert found["replay"] == sorted([str(value) for value in row] for row in expected["rows"])
    assert found["delta"] == found["named"] == found["frame"] == found["replay"]
    assert found["read"] == found["written"] == found["copied"] > 0
    assert "on Spark Connect a batch does not name its query, and 0 queries are active" in found["refused"]
