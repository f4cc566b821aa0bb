"""A standalone Spark cluster on the loopback interface, and an archive with the Python environment of its executors.

The archive is built as in docs/spark_clusters.md, with `venv-pack` and the binlogio of this checkout. Its packages are
installed once, in the same folder as the other environments.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from corpus import ROOT
from pyspark_environments import interpreter, requirements, virtual_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS: Final = 2
START_TIMEOUT_S: Final = 120
_CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_CONNECT_PACKAGES: Final = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")


def archive(version: str, folder: Path) -> Path:
    """Create an archive with the executors' Python environment for a PySpark version, without PySpark itself."""
    wanted = [one for one in requirements(version) if not one.startswith(("pyspark", "pytest", "hypothesis"))]
    found = virtual_environment(f"executors-{version}", [*wanted, *_CONNECT_PACKAGES, "venv-pack"])
    (packages,) = found.glob("lib/python*/site-packages")
    for source in (ROOT / "binlogio", ROOT / "spark_datasource" / "pyspark_binlogio"):
        shutil.rmtree(packages / source.name, ignore_errors=True)
        shutil.copytree(source, packages / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    packed = folder / "env.tar.gz"
    pack = [str(found / "bin" / "venv-pack"), "-q", "--compress-level", "0", "-p", str(found), "-o", str(packed)]
    subprocess.run(pack, check=True)
    return packed


def unpack(packed: Path, folder: Path) -> None:
    """Unpack the archive as in the documentation."""
    folder.mkdir()
    subprocess.run(["tar", "-xzf", str(packed), "-C", str(folder)], check=True)


@contextmanager
def cluster(version: str, folder: Path) -> Iterator[str]:
    """Provide the URL of a master with workers of one core each, in the directories `worker-1`, `worker-2`, ..."""
    with ExitStack() as stack:
        master = ["org.apache.spark.deploy.master.Master", "--port", "0"]
        url = stack.enter_context(_daemon(version, folder / "master.log", master, r"master at (spark://\S+:\d+)"))
        for number in range(1, WORKERS + 1):
            worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g"]
            worker += ["--work-dir", str(folder / f"worker-{number}"), url]
            stack.enter_context(_daemon(version, folder / f"worker-{number}.log", worker, r"Successfully registered"))
        yield url


@contextmanager
def connect_server(version: str, folder: Path, master: str, installed: Path) -> Iterator[str]:
    """Provide the URL of a Spark Connect server on a cluster; Python has the same path on all machines."""
    submit = ["org.apache.spark.deploy.SparkSubmit", "--class", _CONNECT, "--master", master]
    settings = {
        "spark.driver.memory": "1g", "spark.executor.memory": "700m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.ui.enabled": "false", "spark.connect.grpc.binding.port": "0", "spark.sql.session.timeZone": "UTC",
    }  # fmt: skip
    submit += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    submit += ["spark-internal"]
    pattern = r"Spark Connect server started at: \S*?:(\d+)"
    with _daemon(version, folder / "connect.log", submit, pattern, python=str(installed / "bin" / "python")) as port:
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _daemon(version: str, log: Path, words: list[str], pattern: str, *, python: str | None = None) -> Iterator[str]:
    """Run a class of Spark for the duration of the block; provide the group of `pattern` from its log."""
    (home,) = interpreter(version).parents[1].glob("lib/python*/site-packages/pyspark")
    if "--class" not in words:
        words = [words[0], "--host", "127.0.0.1", "--webui-port", "0", *words[1:]]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    if python is not None:
        environment["PYSPARK_PYTHON"] = python
    with log.open("wb") as output:
        command = [str(home / "bin" / "spark-class"), *words]
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        end = time.monotonic() + START_TIMEOUT_S
        while (found := re.search(pattern, log.read_text("utf-8", "replace"))) is None:
            assert process.poll() is None, log.read_text("utf-8", "replace")[-3000:]
            assert time.monotonic() < end, log.read_text("utf-8", "replace")[-3000:]
            time.sleep(0.2)
        yield found[found.lastindex or 0]
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        process.wait()
