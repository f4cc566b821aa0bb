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

import pyarrow.parquet as pq
import pytest

from binlogio.archive.export import export
from corpus import MYSQL, ROOT, SUPPORT
from lake_tables import lake_table
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


def test_archives_of_a_cluster_are_those_of_export(
    folder: Path, packed: Path, unpacked: Path, master: str, tmp_path: Path
) -> None:
    """`archive_to` with the tasks of both workers, and `sync_to`; called by the driver, and by a query."""
    (tmp_path / "env").symlink_to(unpacked)
    words = [str(SUPPORT / "spark_archive_driver.py"), master, LOG, TABLE, str(tmp_path)]
    done = run(PYSPARK, *words, f"spark.archives={packed}#env", cwd=tmp_path, python="./env/bin/python")

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]
    check_archives(tmp_path, LOG, done.stdout, "called", "streamed")


def check_archives(folder: Path, log: str, printed: str, *calls: str) -> None:
    """Compare the archives and the rows of calls with those of exports."""
    found: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    summary = export(log, folder / "archive")
    export(log, folder / "rows", format="delta", latest=True, tables=[TABLE])
    expected = {table: pq.read_table(folder / "archive" / f"{table}.parquet") for table in summary.rows}
    rows = lake_table(folder / "rows", "delta", TABLE).sort_by("id")

    assert found["query"] == "None"
    assert ("refused" in found) == ("called" not in calls)
    assert len(expected) > 1
    for call in calls:
        archive = {table: pq.read_table([*(folder / call / "archive").glob(f"{table}.*parquet")]) for table in expected}
        assert {
            table: one.sort_by([("pos", "ascending"), ("row", "ascending")]) for table, one in archive.items()
        } == expected
        assert lake_table(folder / call / "rows", "delta", TABLE).sort_by("id") == rows


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


def run_without(logs: Path, driver: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a client for which the directory of the logs is empty."""
    hidden = f'mount -t tmpfs none "{logs}" && exec "$0" "$@"'
    program = ["unshare", "--mount", "sh", "-c", hidden, str(interpreter(PYSPARK)), str(SUPPORT / driver), *words]
    return run(PYSPARK, "-c", "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])", *program, cwd=logs.parent)


def test_client_of_spark_connect_without_the_logs(folder: Path, unpacked: Path, master: str, tmp_path: Path) -> None:
    """The directory of the logs is empty for the client, as on another machine.

    A merge runs in foreachBatch, with a query that begins again; outside of a query it needs a name. Archives are made
    in foreachBatch too, and by a client only if it has the logs.
    """
    with connect_server(PYSPARK, folder, master, unpacked) as url:
        logs = tmp_path / "logs"
        logs.mkdir()
        shutil.copy(LOG, logs)
        done = run_without(logs, "spark_connect_driver.py", url, f"{logs}/binlog.0*", TABLE, "id", str(tmp_path))
        archived = run_without(logs, "spark_archive_driver.py", url, f"{logs}/binlog.0*", TABLE, str(tmp_path))
        words = [str(SUPPORT / "spark_archive_driver.py"), url, f"{logs}/binlog.0*", TABLE, str(tmp_path / "with")]
        (tmp_path / "with").mkdir()
        with_logs = run(PYSPARK, *words, cwd=tmp_path)

    assert archived.returncode == with_logs.returncode == 0, archived.stderr[-6000:] + with_logs.stderr[-6000:]
    check_archives(tmp_path, f"{logs}/binlog.000001", archived.stdout, "streamed")
    check_archives(tmp_path / "with", f"{logs}/binlog.000001", with_logs.stdout, "called", "streamed")
    assert "on Spark Connect the client lists the logs and commits" in archived.stdout

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    expected = json.loads((FOLDER / "expected.json").read_text("utf-8"))["tables"][TABLE]
    assert found["replay"] == sorted([str(value) for value in row] for row in expected["rows"])
    assert found["delta"] == found["named"] == found["frame"] == found["replay"]
    assert found["read"] == found["written"] == found["copied"] > 0
    assert "on Spark Connect a batch does not name its query, and 0 queries are active" in found["refused"]
