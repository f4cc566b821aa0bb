"""Other decoders of binary logs: the servers' tools, and libraries in Go, Rust, Java and Python.

The folders `go`, `rust` and `java` have small programs that use the libraries. Each is built at first use, from the
package of the library, in the user's cache folder or in the folder BINLOGIO_PEERS. If a tool, a toolchain or a package
is missing, FileNotFoundError has the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from bench_logs import kind_of
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.reader import open as open_logs
from measure import children_cpu_s

PYTHON: Final = "python-mysql-replication"
TOOLS: Final = {"mysqlbinlog": "mysql", "mariadb-binlog": "mariadb"}  # the server kind that includes each tool
_CHROOTS: Final = Path(os.environ.get("BINLOGIO_SERVERS", "/var/cache/binlogio-servers"))
ROWS_AS_SQL: Final = ("-vv", "--base64-output=decode-rows")
_ALWAYS: Final = ("--no-defaults", "--verify-binlog-checksum")  # binlogio verifies checksums too
_SOURCES: Final = Path(__file__).parent
_BUILD_TIMEOUT_S: Final = 600
_JAVA_PASSES: Final = 3  # the last pass is measured, after the JIT compiler has compiled the code
_ROWS_EVENTS: Final = ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent")


@contextmanager
def tool_command(tool: str, log: Path, options: Sequence[str] = ROWS_AS_SQL) -> Iterator[list[str]]:
    """Provide the command line of a tool that prints a log, by default with rows as commented SQL.

    The tool is BINLOGIO_MYSQLBINLOG or BINLOGIO_MARIADB_BINLOG, else the one on PATH, else the one of the servers that
    the tests have built.

    Raises:
        FileNotFoundError: none of these exists.
    """
    variable = f"BINLOGIO_{tool.replace('-', '_').upper()}"
    program = os.environ.get(variable) or shutil.which(tool)
    if program:
        yield [*program.split(), *_ALWAYS, *options, str(log)]
        return
    root = _CHROOTS / TOOLS[tool]
    if not is_built(TOOLS[tool]) or os.geteuid() != 0:
        raise FileNotFoundError(
            f"not installed; {variable} can name it, `tests/support/servers build {TOOLS[tool]}` brings it"
        )
    inside = root / "tmp" / f"binlogio-bench-{os.getpid()}"
    shutil.copyfile(log, inside)
    try:
        yield ["chroot", str(root), tool, *_ALWAYS, *options, f"/tmp/{inside.name}"]  # noqa: S108 - a name within the chroot
    finally:
        inside.unlink()


def is_built(kind: str) -> bool:
    """Return whether the tests have built the servers of a vendor."""
    return (_CHROOTS / kind / ".ready").exists()


def tool_of(log: Path) -> str:
    """Return the tool of the server that wrote a log."""
    return "mariadb-binlog" if kind_of(log) == "mariadb" else "mysqlbinlog"


def _built(language: str, needs: Sequence[str], steps: Sequence[Sequence[str]]) -> Path:
    """Build a program, unless an earlier run built it from the same sources; return its folder.

    Raises:
        FileNotFoundError: a program of the toolchain is missing, or a step failed.
    """
    for program in needs:
        if shutil.which(program) is None:
            raise FileNotFoundError(f"not built: no `{program}` on PATH")
    sources = sorted(path for path in (_SOURCES / language).rglob("*") if path.is_file())
    name = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    cache_folder = os.environ.get("BINLOGIO_PEERS") or Path.home() / ".cache" / "binlogio-peers"
    folder = Path(cache_folder) / f"{language}-{name}"
    if (folder / ".built").exists():
        return folder
    shutil.copytree(_SOURCES / language, folder, dirs_exist_ok=True)
    for step in steps:
        try:
            subprocess.run(step, cwd=folder, check=True, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S)
        except subprocess.CalledProcessError as exc:
            why = (exc.stderr or exc.stdout).strip().splitlines()
            raise FileNotFoundError(f"not built: {step[0]}: {why[-1] if why else exc}") from exc
        except subprocess.TimeoutExpired as exc:
            raise FileNotFoundError(f"not built: {step[0]} took more than {_BUILD_TIMEOUT_S} s") from exc
    (folder / ".built").touch()
    return folder


@cache
def _go() -> list[str]:
    folder = _built("go", ["go"], [["go", "build", "-o", "decode", "."]])
    return ["env", "GOMAXPROCS=1", str(folder / "decode")]


@cache
def _rust() -> list[str]:
    folder = _built("rust", ["cargo"], [["cargo", "build", "--quiet", "--release", "--target-dir", "target"]])
    return [str(folder / "target" / "release" / "decode")]


@cache
def _java() -> list[str]:
    download = ["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    folder = _built("java", ["mvn", "javac", "java"], [download, ["javac", "-cp", "lib/*", "Decode.java"]])
    return ["java", "-XX:+UseSerialGC", "-cp", f"{folder}:{folder}/lib/*", "Decode"]


LIBRARIES: Final[dict[str, Callable[[], list[str]]]] = {
    "go-mysql": _go,
    "mysql_common": _rust,
    "mysql-binlog-connector-java": _java,
}


def library_cost(library: str, log: Path) -> tuple[float, int]:
    """Return the CPU seconds that a library needs to decode every row of a log, and the number of rows.

    For Java, the start-up of the virtual machine is not included.

    Raises:
        FileNotFoundError: the program cannot be built.
        CalledProcessError: the library fails.
    """
    command = [*LIBRARIES[library](), str(log)]
    if library == "mysql-binlog-connector-java":
        command.append(str(_JAVA_PASSES))
    before = children_cpu_s()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = children_cpu_s() - before
    rows, _, *own_s = done.stdout.split()
    return float(own_s[0]) if own_s else seconds, int(rows)


def library_images(library: str, log: Path) -> list[list[str]]:
    """Return each row image that a library decodes: the table name, then the values.

    A value is `n:` and a number, `s:` and bytes in hex, `-` for NULL, or `?` if the program does not print it.

    Raises:
        FileNotFoundError: the program cannot be built, or the package is not installed.
        CalledProcessError: the library fails.
    """
    if library == PYTHON:
        return list(_replication_images(log))
    passes = ["1"] if library == "mysql-binlog-connector-java" else []
    command = [*LIBRARIES[library](), str(log), *passes, "values"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [line.split("\t") for line in done.stdout.splitlines()[:-1]]


class _Connection:
    """Stub of a server connection: the attributes that python-mysql-replication uses."""

    charset = "utf8mb4"

    def _get_dbms(self) -> str:
        return "mysql"


def _replication_images(log: Path) -> Iterator[list[str]]:
    """Yield the row images of a log in the format of `library_images`, decoded by python-mysql-replication."""
    if find_spec("pymysqlreplication") is None:
        raise FileNotFoundError("it is not installed: pip install 'binlogio[bench]'")
    from pymysqlreplication.constants import FIELD_TYPE  # noqa: PLC0415 - optional dependency, extra `bench`

    with open_logs(log) as reader:
        description = next(iter(reader))
    assert isinstance(description, FormatDescriptionEvent)
    for event in replication_events(log.read_bytes(), has_checksum=description.context.has_checksum):
        bits = [column.type == FIELD_TYPE.BIT for column in event.columns]
        for row in event.rows:
            for image in ("before_values", "after_values", "values"):
                if image in row:
                    values = zip(row[image].values(), bits, strict=True)
                    yield [
                        event.table,
                        *(_shown(int(value, 2) if is_bit and value is not None else value) for value, is_bit in values),
                    ]


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, (int, float, Decimal)):
        return f"n:{value}"
    if isinstance(value, timedelta):
        return f"n:{value // timedelta(microseconds=1)}"
    if isinstance(value, (dict, list)):
        value = json.dumps(_with_text(value))
    return f"s:{(value if isinstance(value, bytes) else str(value).encode()).hex()}"


def _with_text(value: Any) -> Any:
    """Decode the strings of a JSON value, which python-mysql-replication returns as bytes."""
    if isinstance(value, dict):
        return {_with_text(key): _with_text(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_text(one) for one in value]
    return value.decode() if isinstance(value, bytes) else value


def replication_events(data: bytes, *, has_checksum: bool = True) -> Iterator[Any]:
    """Yield the rows events of a log, decoded by python-mysql-replication.

    Each event is passed as the packet that a server would send. By default the library does not verify checksums and
    does not read optional metadata.
    """
    from pymysql.connections import MysqlPacket  # noqa: PLC0415 - optional dependency, extra `bench`
    from pymysqlreplication import row_event  # noqa: PLC0415
    from pymysqlreplication.packet import BinLogPacketWrapper  # noqa: PLC0415

    settings = {
        **dict.fromkeys(("only_tables", "ignored_tables", "only_schemas", "ignored_schemas")),
        **dict.fromkeys(
            ("freeze_schema", "ignore_decode_errors", "verify_checksum", "optional_meta_data", "enable_logging"), False
        ),
        "ctl_connection": _Connection(),
        "mysql_version": (8, 0, 0),
        "use_checksum": has_checksum,
        "allowed_events": frozenset((row_event.TableMapEvent, *(getattr(row_event, name) for name in _ROWS_EVENTS))),
    }
    tables: dict[int, Any] = {}
    at = 4
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        event = BinLogPacketWrapper(MysqlPacket(b"\0" + data[at : at + size], "utf8"), tables, **settings).event
        at += size
        if isinstance(event, row_event.TableMapEvent):
            tables[event.table_id] = event.get_table()
        elif event is not None:
            yield event


def replication_rows(data: bytes) -> int:
    """Return the number of rows that python-mysql-replication decodes."""
    return sum(len(event.rows) for event in replication_events(data))


def replication_images(data: bytes) -> Iterator[tuple[list[Any] | None, list[Any] | None]]:
    """Yield the before image and the after image of each row, as lists of values."""
    for event in replication_events(data):
        kind = type(event).__name__
        for row in event.rows:
            if kind == "UpdateRowsEvent":
                yield list(row["before_values"].values()), list(row["after_values"].values())
            elif kind == "WriteRowsEvent":
                yield None, list(row["values"].values())
            else:
                yield list(row["values"].values()), None
