"""What all tests share: Spark tests run in one process, and the server tests of a module, however many there are.

A session starts a Java, and a module the servers that its tests share.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

from binlogio.implementation import COMPILED, CONSTRUCT, VARIABLE
from pyspark_binlogio import binlogio_session
from pyspark_binlogio.java import JavaNotFoundError, require_java

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from _pytest.terminal import TerminalReporter
    from pyspark.sql import SparkSession

# No test looks at the clock, and a shared machine may be slow at any moment. A change is judged by the same examples
# every time; who looks for more faults asks for new ones.
settings.register_profile(
    "binlogio",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="BINLOGIO_NEW_EXAMPLES" not in os.environ,
)
settings.load_profile("binlogio")

LONGEST_IN_A_NAME: Final = 200
SUPPORT: Final = Path(__file__).parent / "support"

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark's workers run the `python3` on PATH
os.environ["TZ"] = "UTC"  # times in outputs are local
time.tzset()
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark warns about the machine's name
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy starts threads that spin, in every process of a test
# Java uses its first compiler only: the second one takes half of the CPU time of short queries.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1")
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", "-XX:TieredStopAtLevel=1")
os.environ.setdefault("BINLOGIO_WITHOUT_FSYNC", "1")  # of real servers, which are thrown away

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a job in the background: processes of tests inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude modules and tests from garbage collection.

    There are half a million objects that stay, and each collection of the oldest ones looked at all of them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep tests together that share a Java or servers: those marked `spark`, and those marked `server` of a module.

    `--dist loadgroup` runs each xdist group in one process. A test that names its group keeps it.
    """
    for item in items if config.pluginmanager.hasplugin("xdist") else ():
        if item.get_closest_marker("xdist_group") is not None:
            continue
        if item.get_closest_marker("server") is not None:
            item.add_marker(pytest.mark.xdist_group(f"server {item.path.stem}"))
        elif item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long texts and bytes by their size: each process sends the names of all tests, one of which had 78 MB."""
    if isinstance(val, (str, bytes)) and len(val) > LONGEST_IN_A_NAME:
        return f"{argname} of {len(val)} {'bytes' if isinstance(val, bytes) else 'characters'}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape lone surrogates in a report that is sent to another process.

    That process would end with an error, and the whole run with it.
    """
    return _encodable((yield))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    return type(value)(map(_encodable, value)) if isinstance(value, (list, tuple)) else value


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session for the whole run, since it takes Java ten seconds to start."""
    try:
        require_java()
    except JavaNotFoundError as exc:
        pytest.skip(str(exc))
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.python.daemon.module": "preloaded_daemon",
        # Of a Python worker; a shared machine may be slow at any moment.
        "spark.python.authenticate.socketTimeout": "300s",
        "spark.log.level": "OFF",  # tests make Spark fail on purpose, and it prints each failure
        "spark.sql.python.filterPushdown.enabled": "true",  # frames with a filter are used once here
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as environment:
        warnings.simplefilter("ignore", FutureWarning)  # PySpark, on import, of a pandas newer than it knows
        environment.setenv("PYTHONPATH", str(SUPPORT), prepend=os.pathsep)  # has the daemon
        session = binlogio_session("tests", settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session", params=(COMPILED, CONSTRUCT))
def implementation_name(request: pytest.FixtureRequest) -> str:
    """Each of the two implementations of the bulk work, one after the other; the test holds for both."""
    name = str(request.param)
    if name == COMPILED and os.environ.get(VARIABLE) == CONSTRUCT:
        pytest.skip(f"{VARIABLE}={CONSTRUCT}")
    return name


@pytest.fixture
def kernel(implementation_name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Provide a test that asks for this runs once with the compiled kernel, and once without it."""
    monkeypatch.setenv(VARIABLE, implementation_name)
    return implementation_name


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print what the walks over the corpus counted, with one process or with many."""
    _print_golden(terminalreporter)
    _print_values(terminalreporter)


def _recorded(terminalreporter: TerminalReporter, name: str) -> Iterator[Any]:
    for report in terminalreporter.getreports("passed"):
        for key, value in report.user_properties:
            if key == name and report.when == "call":
                yield json.loads(str(value))


def _print_golden(terminalreporter: TerminalReporter) -> None:
    """Events by type: rebuilt to identical bytes, to the same content (compressed otherwise), and inside payloads."""
    files = list(_recorded(terminalreporter, "golden"))
    if not files:
        return
    total: Counter[str] = Counter()
    for counts in files:
        total.update(counts)
    terminalreporter.write_sep("=", "events of real servers, parsed and rebuilt")
    for key, count in sorted(total.items(), key=lambda one: -one[1]):
        name, _, how = key.partition("|")
        terminalreporter.write_line(f"{count:8}  {name}{'' if how == 'identical' else f' ({how})'}")
    same = sum(count for key, count in total.items() if key.endswith("|same content"))
    terminalreporter.write_line(
        f"{total.total():8}  in {len(files)} files: 100 %, {total.total() - same} to identical bytes, "
        f"{same} to the same content"
    )


def _print_values(terminalreporter: TerminalReporter) -> None:
    """Cases whose rows events were folded into the tables that the server had."""
    cases = list(_recorded(terminalreporter, "values"))
    if not cases:
        return
    total: Counter[str] = Counter()
    for counts in cases:
        total.update(counts)
    terminalreporter.write_sep("=", "row changes of real servers, folded into their tables")
    terminalreporter.write_line(f"{len(cases)} cases: " + ", ".join(f"{count} {name}" for name, count in total.items()))
