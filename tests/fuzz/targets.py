"""The targets of the fuzzer: inputs to begin with, a mutation that keeps their structure, and what is checked.

    seeds: examples of valid input      mutate: another input      check: all that must be true of an input

A check raises if a promise is broken. What it does beyond that depends on the input alone, so that an input that was
saved repeats what it has found.
"""

from __future__ import annotations

import io
import json
import shutil
import socket
import sqlite3
import struct
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow import feather

import binlogio
from binlog_server.accounts import Accounts, hashes_of
from binlog_server.server import ListenOptions, serve_session
from binlog_server.source_logs import ServeOptions, SourceLogs
from binlogio.constants import ColumnType, EventType
from binlogio.errors import BinlogError
from binlogio.events.rows import PartialUpdateRowsEvent, WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.gtid import GtidSet, GtidSetEncoding, MariadbGtidPosition
from binlogio.gtid.layout import build_gtid_set, parse_gtid_set
from binlogio.gtid.sets import MariadbGtidSet
from binlogio.schema import load_definitions
from binlogio.storage.encryption import MysqlCipher, open_mysql
from binlogio.storage.keyring import load_keyring
from corpus import FIXTURES, MARIADB, MYSQL
from fuzz.log_doors import DOORS, run
from fuzz.mutations import mutate_json, mutate_text
from json_bytes import RICH
from json_bytes import check as check_json
from log_cases import table_map_of
from log_mutations import changed_bytes, joined, mutate_log, spoil_log
from log_mutations import seeds as log_seeds
from logs import header, log, query
from random_ddl import DdlGenerator
from rowimage_cases import column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INCIDENT: Final = tuple(sorted((MYSQL / "incident").glob("binlog.00000?")))
ENCRYPTED: Final = MYSQL / "encrypted" / "binlog.000001"


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of input."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    mutate: Callable[[Random, bytes], bytes]
    check: Callable[[bytes, Path], None]

    def input_of(self, number: int) -> bytes:
        """Return the input with this number."""
        random = Random(f"{self.name} {number}")
        return self.mutate(random, random.choice(self.seeds()))


def _random_of(data: bytes) -> Random:
    return Random(crc32(data))


def _no_error(call: Callable[[], Any]) -> Any:
    """Return the result; None after BinlogError or OSError, the errors of the library."""
    try:
        return call()
    except (BinlogError, OSError):
        return None


# ---------------------------------------------------------------------------------------------------------------- logs


def check_log(data: bytes, folder: Path, doors: int = 3) -> None:
    """Pass a log through some doors."""
    path, random = folder / "binlog.000001", _random_of(data)
    path.write_bytes(data)
    for door in random.sample(DOORS, doors):
        door(path, data, random)


def _log_target(name: str, types: Callable[[EventType], bool]) -> Target:
    """Return a target whose mutations are mostly of events of some types, in logs that have them."""
    codes = frozenset(int(code) for code in EventType if types(code))

    @cache
    def logs() -> list[bytes]:
        return [joined(seed.events, seed) for seed in log_seeds() if any(event[4] in codes for event in seed.events)]

    return Target(name, logs, lambda random, data: mutate_log(random, data, codes), check_log)


def _is_rows(code: EventType) -> bool:
    return code == EventType.TABLE_MAP_EVENT or ("ROWS" in code.name and "QUERY" not in code.name)


def _mutate_spoilt(random: Random, data: bytes) -> bytes:
    return spoil_log(random, mutate_log(random, data))


# -------------------------------------------------------------------------------------------------------------- values


def _json_seeds() -> list[bytes]:
    path, value = b"$.c[1]", RICH
    diffs = b"".join(
        bytes([op, len(path)]) + path + (b"" if op == 2 else b"\xfc" + len(value).to_bytes(2, "little") + value)
        for op in range(3)
    )
    return [b"\0" + RICH, b"\0" + RICH[:1] + RICH[1:], b"\1" + diffs, b"\1" + bytes([2, 3]) + b"$.a", b"\1"]


def _check_json(data: bytes, folder: Path) -> None:
    """Decode a document, or the diffs of a partial update, in a row of a log."""
    kind, value = data[:1], data[1:]
    table = table_map_of([column(ColumnType.JSON, 4)])
    cell = b"\0" + len(value).to_bytes(4, "little") + value
    if kind != b"\1":
        check_json(value)
        event: Any = WriteRowsEvent(7, 1, b"", 1, b"\1", cell, header(EventType.WRITE_ROWS_EVENT))
    else:
        images = b"\0" + len(RICH).to_bytes(4, "little") + RICH + b"\1\1" + cell
        event = PartialUpdateRowsEvent(7, 1, b"", 1, b"\1", b"\1", images, header(EventType.PARTIAL_UPDATE_ROWS_EVENT))
    check_log(log(query("BEGIN"), table, event, query("COMMIT")), folder)


UUID: Final = "2f658ac8-e51b-11f1-a314-02fc00000001"


def _gtid_seeds() -> list[bytes]:
    texts = [f"{UUID}:1-5:9,\n{UUID}:tag:7-8:x:1", "0-1-9,1-2-3", "0-1-5..9", "", f"{UUID}:1-{(1 << 63) - 2}"]
    sets = [(f"{UUID}:1-5:9", GtidSetEncoding.UNTAGGED), (f"{UUID}:1-5:tag:7-8", GtidSetEncoding.TAGGED)]
    return [*(text.encode() for text in texts), *(b"\0" + build_gtid_set(GtidSet.parse(one), how) for one, how in sets)]


def _check_gtids(data: bytes, folder: Path) -> None:
    """Parse GTID sets; what is parsed is the same after it is written and parsed again."""
    if data[:1] == b"\0":
        found = _no_error(lambda: parse_gtid_set(data[1:]))
        assert found is None or parse_gtid_set(build_gtid_set(found)) == found
        return
    text = data.decode("utf-8", "surrogateescape")
    for kind in (GtidSet, MariadbGtidPosition, MariadbGtidSet):
        found = _no_error(lambda kind=kind: kind.parse(text))  # type: ignore[misc]
        assert found is None or kind.parse(str(found)) == found
    if "\0" not in text:
        run("dump", "--include-gtids", text, INCIDENT[0])
        run("dump", "--start-position", text, MARIADB / "gtid" / "binlog.000001")


# ----------------------------------------------------------------------------------------------------------- statements


@cache
def _ddl_seeds() -> list[bytes]:
    found = []
    for number in range(60):
        made = DdlGenerator(Random(number), is_mariadb=number % 2 == 1)
        found.append("\n;\n".join([*made.begin(), *(made.statement() for _ in range(number % 7))]).encode())
    text = (FIXTURES / "ddl_corpus.sql").read_bytes()
    return found + [one for one in text.split(b"\n\n") if one.strip()]


def _check_ddl(data: bytes, folder: Path) -> None:
    """Follow statements in a log, with rows of a table that they may define."""
    table = TableMapEvent(9, 1, "d", "t1", (3, 15, 252, 3), (0, 80, 2, 0), (False, True, True, True))
    image = b"\0" + (5).to_bytes(4, "little") + b"\1x" + b"\1\0y" + (7).to_bytes(4, "little")
    events: list[Any] = [query("CREATE DATABASE d")]
    for sql in data.split(b"\n;\n"):
        events.append(replace(query(""), sql=sql))
        events += [query("BEGIN"), table, WriteRowsEvent(9, 1, b"", 4, b"\xff", image), query("COMMIT")]
    whole = log(*events)
    path = folder / "binlog.000001"
    path.write_bytes(whole)
    for arguments in (("schema",), ("schema", "--save", folder / "ddl"), ("history", "--no-index", "d.t1", "5")):
        run(*arguments[:1], *arguments[1 : 3 if arguments[0] == "schema" else 4], path)
    file = folder / "given.sql"
    file.write_bytes(data.replace(b"\n;\n", b";\n"))
    run("dump", "--table-definitions", file, path)
    check_log(whole, folder, 2)


# --------------------------------------------------------------------------------------------------------------- files


def _check_index_file(data: bytes, folder: Path) -> None:
    """Read logs by an index file with these bytes."""
    for one in INCIDENT:
        shutil.copy(one, folder)
    index = folder / "binlog.index"
    index.write_bytes(data)
    _no_error(lambda: [*binlogio.open(index)])
    for arguments in (("info",), ("verify",), ("dump", "-s"), ("stats", "--json")):
        run(*arguments, index)
    run("repair", "-o", f"{folder / 'repaired'}/", index)
    run("write", "-o", folder, FIXTURES / "demo" / "shop.jsonl")


def _index_seeds() -> list[bytes]:
    names = [f"./{one.name}\n" for one in INCIDENT]
    return ["".join(names).encode(), "".join(names).replace("./", "").encode(), names[0].encode(), b"/x/y.000007\n"]


def _made(name: str, *arguments: object) -> Callable[[], list[bytes]]:
    """Return seeds: the file that a command makes from the logs of `incident` in a directory."""

    @cache
    def seeds() -> list[bytes]:
        import tempfile  # noqa: PLC0415

        with tempfile.TemporaryDirectory() as folder:
            logs = [shutil.copy(one, folder) for one in INCIDENT]
            run(*(str(one).replace("DIR", folder) for one in arguments), *logs)
            return [(Path(folder) / name).read_bytes()]

    return seeds


def _check_key_index(data: bytes, folder: Path) -> None:
    """Search by an index with these bytes: the result is that without it."""
    path = Path(shutil.copy(INCIDENT[0], folder))
    (folder / f"{path.name}.keys.parquet").write_bytes(data)
    found = run("history", "-q", "shop.orders", "1001", path)
    expected = run("history", "-q", "--no-index", "shop.orders", "1001", path)
    assert found.exit_code != 0 or found.stdout == expected.stdout, "history with an index"
    run("index", "-q", path)


def _check_ledger(data: bytes, folder: Path) -> None:
    """Continue an export with this ledger: files of others stay."""
    (folder / "victim").write_bytes(b"precious")
    out = folder / "out"
    run("export", "-q", "-o", out, "--format", "jsonl", INCIDENT[0])
    (out / "binlogio-export.json").write_bytes(data)
    run("export", "-q", "-o", out, "--format", "jsonl", random_option(data), *INCIDENT)
    assert (folder / "victim").read_bytes() == b"precious"


def random_option(data: bytes) -> str:
    """Return how an export is repeated."""
    return "--append" if crc32(data) % 4 else "--force"


def _check_catalogue(data: bytes, folder: Path) -> None:
    """Read definitions and catalogues of tables."""
    file = folder / "tables"
    file.write_bytes(data)
    _no_error(lambda: load_definitions(file))
    path = shutil.copy(MYSQL / "metadata_minimal" / "binlog.000001", folder)
    for arguments in (("dump", "--format", "json"), ("undo", "--preview"), ("grep", "id = 1")):
        run(*arguments, "--table-definitions", file, path)
    run("schema", "--save", file, path)


def _position_seeds() -> list[bytes]:
    log_state = {"file": INCIDENT[0].name, "pos": 4022, "log": None, "hash": "210079654b0306be", "complete": True}
    row = {"source": "1", "file": INCIDENT[0].name, "offset": 4022, "done": "[]", "log": json.dumps(log_state)}
    definition = {"schema": "shop", "name": "orders", "columns": [{"name": "id", "type": "bigint unsigned"}]}
    return [json.dumps({"position": row, "definition": json.dumps(definition)}).encode()]


def _mutate_position(random: Random, data: bytes) -> bytes:
    """Change the row of the position, or the JSON inside of it."""
    fields = json.loads(data)
    where, name = random.choice(((fields["position"], "log"), (fields["position"], "done"), (fields, "definition")))
    if random.random() < 0.7:
        where[name] = mutate_json(random, where[name].encode()).decode("utf-8", "replace")
        return json.dumps(fields).encode()
    fields["position"][random.choice(tuple(fields["position"]))] = random.choice((None, -1, 4, 1 << 62, "", "x", 0.5))
    return json.dumps(fields).encode()


def _check_position(data: bytes, folder: Path) -> None:
    """Continue a replay into SQLite at this position, with these definitions of tables."""
    target = folder / "target.db"
    command = ("replay", "-q", "--to", f"sqlite:///{target}")
    run(*command, INCIDENT[0])
    try:
        fields: Any = json.loads(data)
        row, definition = dict(fields["position"]), str(fields["definition"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    with closing(sqlite3.connect(target)) as connection, connection:
        for name in ("file", "offset", "done", "log"):
            with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                value = row.get(name)
                value = value if isinstance(value, (str, int, float, type(None))) else json.dumps(value)
                connection.execute(f'UPDATE binlogio_position SET "{name}" = ?', (value,))
        with suppress(sqlite3.Error, UnicodeEncodeError):
            connection.execute("UPDATE binlogio_tables SET definition = ?", (definition,))
    run(*command, *INCIDENT)


# ------------------------------------------------------------------------------------------------------ input of write


def _scripts() -> list[bytes]:
    return [path.read_bytes() for path in sorted(FIXTURES.glob("demo/*.jsonl")) if ".tables." not in path.name]


def _check_script(data: bytes, folder: Path) -> None:
    """Write logs from a script: what ends with 0 is fine."""
    script = folder / "script.jsonl"
    script.write_bytes(data)
    _check_written(run("write", script, "-o", folder / "logs"), folder)


def _check_written(result: Any, folder: Path) -> None:
    logs = sorted((folder / "logs").glob("binlog.0*"))
    if result.exit_code == 0 and logs:
        verified = run("verify", *logs)
        assert verified.exit_code == 0, f"verify of written logs: {verified.stdout}"
        for batch in binlogio.read_rows(logs[0]):
            batch.validate(full=True)


DDL: Final = """CREATE DATABASE shop; USE shop; CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b'), d DECIMAL(6,2),
  j JSON, dt DATETIME(3), ts TIMESTAMP, tm TIME(1), da DATE, b VARBINARY(4), v VARCHAR(5), y YEAR, f FLOAT,
  u BIGINT UNSIGNED)"""
ROW: Final = {
    "id": 1, "e": "a", "d": "1.50", "j": '{"k": [1]}', "dt": "2026-01-02 03:04:05.678", "ts": "2026-01-02 03:04:05",
    "tm": "-10:11:12.5", "da": "2026-02-28", "b": "0x0102", "v": "abc", "y": 2026, "f": 1.5, "u": (1 << 64) - 1,
}  # fmt: skip
ROWS: Final = [ROW, {"id": 2, "d": "2"}, {**dict.fromkeys(ROW), "id": 3, "v": ""}]


@cache
def _data_seeds() -> list[bytes]:
    lines = "\n".join(json.dumps(row) for row in ROWS)
    table = pa.Table.from_pylist([{**row, "u": 5} for row in ROWS])
    csv, parquet, arrow = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pa_csv.write_csv(table, csv)
    pq.write_table(table, parquet, compression="none")
    feather.write_feather(table, arrow, compression="uncompressed")
    contents = (csv.getvalue(), lines.encode(), parquet.getvalue(), arrow.getvalue())
    return [bytes([kind]) + data for kind, data in enumerate(contents)]


KINDS: Final = ("csv", "jsonl", "parquet", "arrow")


def _mutate_data(random: Random, data: bytes) -> bytes:
    """Change values of text, and bytes or whole columns of the others."""
    kind, content = data[0] % len(KINDS), data[1:]
    if kind < 2:
        return data[:1] + (mutate_text, mutate_json)[kind](random, content)
    if random.random() < 0.5:
        return data[:1] + changed_bytes(random, content)
    names = random.sample(sorted(ROW.keys() - {"u"}), 5)
    rows = [{name: random.choice((ROW[name], None)) for name in names} for _ in range(3)]
    types = (pa.int8(), pa.string(), pa.float64(), pa.timestamp("ns"), pa.date32(), pa.binary(), pa.decimal128(38, 9),
             pa.large_string(), pa.bool_(), pa.time64("us"), pa.duration("s"), pa.list_(pa.int8()))  # fmt: skip
    table, out = pa.Table.from_pylist(rows), io.BytesIO()
    for at in range(table.num_columns):
        with suppress(pa.ArrowException):
            table = table.set_column(at, table.field(at).name, table.column(at).cast(random.choice(types)))
    with suppress(pa.ArrowException):
        if kind == 2:
            pq.write_table(table, out)
        else:
            feather.write_feather(table, out)
    return data[:1] + out.getvalue()


def _check_data(data: bytes, folder: Path) -> None:
    """Write the rows of a data file: what ends with 0 is fine."""
    kind = KINDS[data[0] % len(KINDS)] if data else "csv"
    file, ddl = folder / f"data.{kind}", folder / "ddl.sql"
    file.write_bytes(data[1:])
    ddl.write_text(DDL)
    options = ("--ddl", ddl) if crc32(data) % 3 else ("--primary-key", "id")
    _check_written(run("write", "--from", file, "--table", "shop.t", *options, "-o", folder / "logs"), folder)


# ----------------------------------------------------------------------------------------------------------- encryption


def _keyring_seeds() -> list[bytes]:
    return [(MYSQL / "encrypted" / "keyring").read_bytes(), (MARIADB / "encrypted" / "keys.txt").read_bytes()]


def _mutate_keyring(random: Random, data: bytes) -> bytes:
    return (mutate_json if data.startswith(b"{") else mutate_text)(random, data)


def _check_keyring(data: bytes, folder: Path) -> None:
    """Read encrypted logs with this keyring."""
    file = folder / "keyring"
    file.write_bytes(data)
    _no_error(lambda: load_keyring(file))
    for path in (ENCRYPTED, MARIADB / "encrypted" / "binlog.000001"):
        run("dump", "--keyring", file, path)


@cache
def _cipher() -> MysqlCipher:
    return open_mysql(ENCRYPTED.read_bytes()[:512], load_keyring(MYSQL / "encrypted" / "keyring"))


def _mutate_encrypted(random: Random, data: bytes) -> bytes:
    """Decrypt, change and encrypt a log of MySQL, or change the bytes of one of MariaDB or those of a header."""
    if not data.startswith(b"\xfdbin") or random.random() < 0.3:
        return changed_bytes(random, data[:512]) + data[512:]
    with suppress(BinlogError):
        return data[:512] + _cipher().encrypt(0, mutate_log(random, _cipher().decrypt(0, data[512:])))
    return changed_bytes(random, data)


def _check_encrypted(data: bytes, folder: Path) -> None:
    """Read an encrypted log with its keyring."""
    path = folder / "binlog.000001"
    path.write_bytes(data)
    keyring = MYSQL / "encrypted" / "keyring" if data.startswith(b"\xfd") else MARIADB / "encrypted" / "keys.txt"
    _no_error(lambda: [*binlogio.read_rows(path, keyring=keyring)])
    for command in (("dump",), ("verify",), ("info", "--json"), ("repair", "-o", folder / "repaired.000001")):
        run(*command, "--keyring", keyring, path)


def _encrypted_seeds() -> list[bytes]:
    return [ENCRYPTED.read_bytes(), (MARIADB / "encrypted" / "binlog.000001").read_bytes()]


def _packet(payload: bytes, number: int = 0) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


def _packet_seeds() -> list[bytes]:
    """Return what a client sends: a login, statements, and a request for events."""
    login = (
        struct.pack("<IIB23s", 0x0028_8200, 1 << 24, 33, b"") + b"root\0\x14" + bytes(20) + b"mysql_native_password\0"
    )
    checksum = b"\x03SET @master_binlog_checksum = 'CRC32', @mariadb_slave_capability=4, @slave_connect_state='0-1-2'"
    until = b"\x03SET @slave_connect_state='', @slave_until_gtid='0-1-2,1-1-3'"
    gtids = build_gtid_set(GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:8"))
    requests = (
        b"\x12" + struct.pack("<IHI", 4, 1, 7) + b"binlog.000001",
        b"\x12" + struct.pack("<IHI", 4, 0, 7),
        b"\x1e" + struct.pack("<HII", 1, 7, 0) + struct.pack("<QI", 4, len(gtids)) + gtids,
        b"\x03SELECT @@global.gtid_executed, 'a', @x AS y, UNIX_TIMESTAMP() LIMIT 1",
        b"\x03SHOW VARIABLES LIKE 'gtid%'",
        b"\x03SELECT GTID_SUBTRACT('3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9', ''), GTID_SUBSET('', '')",
        b"\x03START TRANSACTION READ ONLY",
        b"\x15" + struct.pack("<I", 7) + b"\4host\4user\4pass" + bytes(10),
    )
    sessions = ((checksum, one) for one in requests), ((checksum, until, one) for one in requests[:2])
    return [
        _packet(login, 1) + b"".join(map(_packet, (*session, b"\x01"))) for session in chain.from_iterable(sessions)
    ]


def _mutate_packets(random: Random, data: bytes) -> bytes:
    """Change the payloads of packets, repeat or drop some; sometimes the sizes stay wrong."""
    packets = []
    while len(data) >= 4:
        size = int.from_bytes(data[:3], "little")
        packets.append((data[3], data[4 : 4 + size]))
        data = data[4 + size :]
    number = random.randrange(len(packets))
    kept, payload = packets[number]
    packets[number : number + 1] = random.choice(
        ([], [(kept, changed_bytes(random, payload))] * random.choice((1, 1, 2)))
    )
    joined_packets = b"".join(_packet(payload, kept) for kept, payload in packets)
    return changed_bytes(random, joined_packets) if joined_packets and random.random() < 0.2 else joined_packets


@cache
def _served() -> tuple[Any, ...]:
    logs = [SourceLogs([str(folder)], ServeOptions()) for folder in (MYSQL / "incident", MARIADB / "gtid")]
    accounts = Accounts({"root": hashes_of("secret")})
    return tuple(
        (one, ListenOptions(accounts=some, login_s=60, idle_s=60)) for one in logs for some in (None, accounts)
    )


def _check_packets(data: bytes, _folder: Path) -> None:
    """Check that a session ends, and that nothing of the logs is sent to a client without the password."""
    for logs, options in _served():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(data[: 1 << 16])
            theirs.shutdown(socket.SHUT_WR)
            serve_session(logs, options, ours)
            theirs.settimeout(0)
            sent = b""
            with suppress(BlockingIOError):
                while True:
                    sent += theirs.recv(1 << 16)
        assert options.accounts is None or (b"binlog.0" not in sent and b"shop" not in sent)


TARGETS: Final = {
    target.name: target
    for target in (
        _log_target("events", lambda code: True),
        _log_target("rows", _is_rows),
        _log_target("compressed", lambda code: "PAYLOAD" in code.name or "COMPRESSED" in code.name),
        _log_target("descriptions", lambda code: code == EventType.FORMAT_DESCRIPTION_EVENT),
        _log_target("gtid_events", lambda code: "GTID" in code.name),
        Target("spoilt", lambda: [joined(one.events, one) for one in log_seeds()], _mutate_spoilt, check_log),
        Target("json", _json_seeds, lambda random, data: data[:1] + changed_bytes(random, data[1:]), _check_json),
        Target("gtids", _gtid_seeds, mutate_text, _check_gtids),
        Target("ddl", _ddl_seeds, mutate_text, _check_ddl),
        Target("index_file", _index_seeds, mutate_text, _check_index_file),
        Target("key_index", _made("binlog.000001.keys.parquet", "index", "-q"), changed_bytes, _check_key_index),
        Target("ledger", _made("out/binlogio-export.json", "export", "-q", "-o", "DIR/out", "--format", "jsonl"),
               mutate_json, _check_ledger),
        Target("catalogue", _made("tables", "schema", "-q", "--save", "DIR/tables"), mutate_json, _check_catalogue),
        Target("position", _position_seeds, _mutate_position, _check_position),
        Target("scripts", _scripts, mutate_json, _check_script),
        Target("data", _data_seeds, _mutate_data, _check_data),
        Target("keyring", _keyring_seeds, _mutate_keyring, _check_keyring),
        Target("packets", _packet_seeds, _mutate_packets, _check_packets),
        Target("encrypted", _encrypted_seeds, _mutate_encrypted, _check_encrypted),
    )
}  # fmt: skip
