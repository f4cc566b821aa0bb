"""Reads a dump of `mysqldump` or `mariadb-dump`: its tables and rows, and the position at which it was made.

    dump := header  (USE | CREATE TABLE | INSERT | position | other statements)*  "-- Dump completed"

Rows become Arrow arrays, one batch for each INSERT, which `data_files.DataWriter` writes to a log. Statements other
than these, such as those of views, triggers and routines, are passed over.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlogio.arrow.types import GEOMETRY
from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.options import Position, ServerVariables
from binlogio.schema.types import BINARY_TYPES, GEOMETRY_TYPES
from binlogio_cli.write.data_files import DataFile, DataWriter
from binlogio_cli.write.tables import ScriptTables

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from binlogio.schema import ColumnDefinition, TableDefinition
    from binlogio.writer import BinlogWriter

_HEADER: Final = re.compile(rb"-- (?:MySQL|MariaDB) dump ")
_VERSION: Final = re.compile(rb"-- Server version\s+(\d+\.\d+\.\d+)\S*?(-MariaDB)?(?:-|\s|$)")
_HEADER_LINES: Final = 20
_DATABASE: Final = re.compile(rb"-- Host: .*?Database: (.+)")
_POSITION: Final = re.compile(rb"CHANGE .*?_LOG_FILE='([^']+)', (?:SOURCE|MASTER)_LOG_POS=(\d+)")
_GTIDS: Final = re.compile(rb"SET @@GLOBAL\.GTID_PURGED=(?:/\*.*?\*/)? *'([^']*)'", re.DOTALL)
_NAMES: Final = re.compile(rb"(?:/\*!\d+ )?SET NAMES (\w+)")
_UTF8: Final = (b"utf8mb4", b"utf8mb3", b"utf8")
_UTC: Final = re.compile(rb"(?:/\*!\d+ )?SET TIME_ZONE='\+00:00'")
_DELIMITER: Final = re.compile(rb"DELIMITER (\S+)")
_NAME: Final = rb"(`(?:[^`]|``)+`|[\w$\x80-\xff]+)"
_CREATE: Final = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?" + _NAME)
_USE: Final = re.compile(rb"USE " + _NAME + rb";")
_DATA: Final = re.compile(rb"-- Dumping data for table " + _NAME + rb"$")
_INSERT: Final = re.compile(
    rb"(?:INSERT|REPLACE) +(?:IGNORE +)?INTO "
    + _NAME
    + rb"(?: \(("
    + _NAME
    + rb"(?:, *"
    + _NAME
    + rb")*)\))? VALUES\s*"
)
_NAMES_IN: Final = re.compile(_NAME)
_ROW: Final = re.compile(rb"\s*\(")
_VALUE: Final = re.compile(
    rb"\s*(?:NULL|(?:_binary )?'([^'\\]*(?:(?:\\.|'')[^'\\]*)*)'|0x([0-9A-Fa-f]*)|b'([01]*)'|([-+.0-9][-+.0-9eE]*))"
    rb"\s*([,)])",
    re.DOTALL,
)
_AFTER_ROW: Final = re.compile(rb"\s*([,;])")
_ESCAPED: Final = re.compile(rb"\\(.)|''", re.DOTALL)
_ESCAPES: Final = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}
_CHANGES: Final = re.compile(
    rb"\s*(?:/\*!\d* *)?(?:INSERT|REPLACE|UPDATE|DELETE|TRUNCATE|LOAD\s+(?:DATA|XML))\s", re.IGNORECASE
)
_ROWS_PER_TRANSACTION: Final = 1 << 16
_MOST_WAITING: Final = 1 << 18  # bytes of INSERTs that are encoded together
_MOST_AFTER: Final = 1 << 16
_CUT: Final = "make the dump again; it ends with the line `-- Dump completed`"
_Values = list[bytes | None]


class DumpFile:
    """A dump, plain or compressed by gzip. Close it after use.

    `wants` selects tables by schema and name, `overrides` are server variables of the log. `position` and `gtids` are
    known after `write`: the position of the dump in the binary logs (--source-data, --master-data), and its GTIDs
    (GTID_PURGED), if it has them.

    Raises:
        UnsupportedFeature: the file is not a dump of one of the two programs.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path, wants: Callable[[str, str], bool], **overrides: Any) -> None:
        self.position: Position | None = None
        self.gtids: str | None = None
        self._path = path
        self._wants = wants
        self._schema = ""
        self._is_utc = False
        self._without_rows: set[tuple[str, str]] = set()  # tables that were created, and whose rows did not follow yet
        self._file: Any = _Gzip(path, "rb") if path.suffix == ".gz" else path.open("rb")
        try:
            settings = {"server_version": self._begin(), "sync_binlog": 0, "binlog_row_metadata": "FULL", **overrides}
            self.variables = ServerVariables(**settings)
        except BaseException:
            self.close()
            raise
        self.tables = ScriptTables(self.variables.server_version)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def write(self, writer: BinlogWriter) -> tuple[int, int]:
        """Write all tables, and the rows of the selected ones, to logs; return the number of rows and transactions.

        Raises:
            UnsupportedFeature: the dump is cut, or has something that is not understood.
            Refusal: a row does not fit its table.
            OSError: the dump cannot be read, or a log cannot be written.
        """
        writers: dict[str, DataWriter] = {}
        waiting: list[tuple[str, re.Match[bytes], list[_Values]]] = []  # INSERTs of one table with the same columns
        begin = 0

        def flush() -> None:
            for full_name, found, _ in waiting[:1]:
                table = self.tables.all[full_name]
                batch = self._batch(table, found, [row for _, _, rows in waiting for row in rows])
                target = writers.setdefault(full_name, DataWriter(writer, table, _ROWS_PER_TRANSACTION))
                target.write(DataFile(self._path, batch.schema, is_changes=False, batches=[batch]))
            waiting.clear()

        with writer.session() as session:
            for line in self._lines():
                if line.startswith(b"CREATE TABLE "):
                    flush()
                    sql = self._text(self._statement(line))
                    self.tables.follow(sql, self._schema)
                    if (created := _CREATE.match(line)) is not None:
                        self._without_rows.add((self._schema, self._name(created[1])))
                    session.schema = self._schema
                    session.ddl(sql)
                elif (insert := self._insert_of(line)) is not None:
                    full_name, found = insert
                    is_other = any((one, first[2]) != (full_name, found[2]) for one, first, _ in waiting[:1])
                    if is_other or self._file.tell() - begin >= _MOST_WAITING:
                        flush()
                    begin = begin if waiting else self._file.tell() - len(line)
                    waiting.append((full_name, found, list(self._rows(line, found.end(), full_name))))
            flush()
        lacking = sorted(dotted_name(*one) for one in self._without_rows if self._wants(*one))
        if lacking:
            raise self._refused("the dump lacks the rows of tables, as with --no-data", found=", ".join(lacking[:3]))
        done = writers.values()
        return sum(one.row_count for one in done), sum(one.transaction_count for one in done)

    def _insert_of(self, line: bytes) -> tuple[str, re.Match[bytes]] | None:
        """Return the table and the beginning of an INSERT; None for other statements and tables that are not selected.

        Raises:
            UnsupportedFeature: the statement changes rows, and is not understood.
        """
        if not line.startswith((b"INSERT ", b"REPLACE ")):
            if _CHANGES.match(line) is not None:
                raise self._refused("a statement that changes rows is not one of a dump", found=repr(line[:80]))
            return None
        found = _INSERT.match(line)
        if found is None:
            raise self._refused("the rows of an INSERT are not understood", found=repr(line[:80]))
        name = self._name(found[1])
        full_name = dotted_name(self._schema, name)
        if not self._wants(self._schema, name):
            self._statement(line)
            return None
        if full_name not in self.tables.all:
            raise self._refused("the dump has rows before the CREATE TABLE of their table", full_name)
        return full_name, found

    def _begin(self) -> str:
        """Read the header; return the version of the server."""
        found = version = None
        for line in (self._file.readline(4096) for _ in range(_HEADER_LINES)):
            found = found or _HEADER.match(line)
            if (database := _DATABASE.match(line)) is not None:
                self._schema = self._text(database[1]).strip()
            if (version := _VERSION.match(line)) is not None:
                break
        if found is None or version is None:
            raise UnsupportedFeature(
                "the file is not a dump of mysqldump or mariadb-dump with its comments",
                file=str(self._path),
                expected="the lines `-- MySQL dump` or `-- MariaDB dump`, and `-- Server version`",
            )
        return version[1].decode() + (version[2] or b"").decode()

    def _lines(self) -> Iterator[bytes]:
        """Yield the first lines of statements, and take note of what is not about rows.

        Raises:
            UnsupportedFeature: the dump is cut.
        """
        while line := self._file.readline():
            if line.startswith(b"-- Dump completed"):
                if (rest := self._file.read(_MOST_AFTER).strip()) != b"":
                    raise self._refused("the file has more after the end of the dump", found=repr(rest[:80]))
                return
            if (delimiter := _DELIMITER.match(line)) is not None and delimiter[1] != b";":
                while not self._next_line().startswith(b"DELIMITER ;"):
                    pass
            elif not self._noted(line):
                yield line
        raise UnsupportedFeature("the dump is cut, or has no comments", file=str(self._path), hint=_CUT)

    def _noted(self, line: bytes) -> bool:
        """Take note of a line about the dump itself; return False for other lines."""
        if line.startswith(b"USE "):
            use = _USE.match(line)
            if use is None:
                raise self._refused("the name of a database is not understood", found=repr(line[:80]))
            self._schema = self._name(use[1])
        elif (data := _DATA.match(line)) is not None:
            self._without_rows.discard((self._schema, self._name(data[1])))
        elif line.startswith(b"-- WHERE: "):
            raise self._refused("the dump has only some rows (--where)", found=self._text(line[3:80].strip()))
        elif (place := _POSITION.search(line)) is not None and line.startswith((b"CHANGE", b"-- CHANGE")):
            found = Position(self._text(place[1]), int(place[2]))
            if self.position not in (None, found):
                raise self._refused("the dump has several positions", expected=str(self.position), found=str(found))
            self.position = found
        elif line.startswith(b"SET @@GLOBAL.GTID_PURGED") and (gtids := _GTIDS.match(self._statement(line))):
            self.gtids = "".join(self._text(gtids[1]).split())
        elif (names := _NAMES.match(line)) is not None and names[1] not in _UTF8:
            raise self._refused("the dump has another character set", "SET NAMES", "utf8mb4", self._text(names[1]))
        elif _UTC.match(line):
            self._is_utc = True
        else:
            return False
        return True

    def _statement(self, line: bytes) -> bytes:
        """Return the statement that begins with a line: the lines up to one that ends with a semicolon."""
        lines = [line]
        while not lines[-1].rstrip().endswith(b";"):
            lines.append(self._next_line())
        return b"".join(lines).rstrip().rstrip(b";")

    def _next_line(self) -> bytes:
        line: bytes = self._file.readline()
        if not line:
            raise UnsupportedFeature("the dump is cut in a statement", file=str(self._path), hint=_CUT)
        return line

    def _rows(self, line: bytes, at: int, table: str) -> Iterator[_Values]:
        """Yield the rows of an INSERT; the values are unquoted texts."""
        row: _Values = []
        wanted = _ROW
        while True:
            found = wanted.match(line, at)
            if found is None and not line[at:].strip():  # the rows go on in the next line
                line, at = self._next_line(), 0
                continue
            if found is None:
                raise self._refused("a row of an INSERT is not understood", table, found=repr(line[at : at + 40]))
            at = found.end()
            if wanted is _ROW:
                wanted = _VALUE
            elif wanted is _VALUE:
                row.append(_plain(found))
                if found[5] == b")":
                    yield row
                    row, wanted = [], _AFTER_ROW
            elif found[1] == b";":
                if line[at:].strip():
                    raise self._refused("more than an INSERT is in a line", table, found=repr(line[at : at + 40]))
                return
            else:
                wanted = _ROW

    def _batch(self, table: TableDefinition, insert: re.Match[bytes], values: list[_Values]) -> pa.RecordBatch:
        """Return rows as Arrow arrays of the types that the encoder accepts.

        Raises:
            UnsupportedFeature: the INSERT lacks columns, as those that are generated, or has others.
        """
        names = [one.name for one in table.columns]
        if insert[2] is not None:
            names = [self._name(one) for one in _NAMES_IN.findall(insert[2])]
        columns = {one.name: one for one in table.columns}
        lacking = [one for one in columns if one not in names]
        if lacking:
            raise self._refused(
                "the dump lacks the values of columns, as those of generated ones",
                table.full_name,
                found=", ".join(lacking),
                hint="leave out the table with --exclude-table",
            )
        if any(len(row) != len(names) for row in values) or set(names) != set(columns):
            raise self._refused("the rows have other columns than the table", table.full_name, ", ".join(columns))
        arrays = [self._array(columns[name], [row[at] for row in values]) for at, name in enumerate(names)]
        return pa.RecordBatch.from_arrays(arrays, names)

    def _array(self, column: ColumnDefinition, values: _Values) -> pa.Array:
        kind = column.sql_type.name
        if (convert := _OF_BYTES.get(kind)) is not None:
            return convert(values)
        if kind == "timestamp" and not self._is_utc:
            raise self._refused("the dump has times of an unknown zone (--skip-tz-utc)", column.name)
        try:
            texts = pa.array([None if one is None else one.decode() for one in values], pa.string())
        except UnicodeDecodeError as exc:
            raise self._refused("a text is not UTF-8", column.name, found=repr(exc.object[:40])) from exc
        if (moments := _TIMES.get(kind)) is not None:
            with suppress(pa.ArrowInvalid):  # zero and other dates that no calendar has remain texts
                found = texts.cast(moments)
                return pc.assume_timezone(found, "UTC") if kind == "timestamp" else found
        return texts

    def _name(self, data: bytes) -> str:
        """Return a name without backticks."""
        text = self._text(data)
        return text[1:-1].replace("``", "`") if text.startswith("`") else text

    def _text(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as exc:
            raise self._refused("a statement is not UTF-8", found=repr(data[:40])) from exc

    def _refused(
        self,
        reason: str,
        field: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> UnsupportedFeature:
        return UnsupportedFeature(reason, file=str(self._path), field=field, expected=expected, found=found, hint=hint)


class _Gzip(gzip.GzipFile):
    """A file compressed by gzip, whose damage is an error with its name."""

    def read(self, size: int | None = -1) -> bytes:
        with self._located():
            return super().read(size)

    def readline(self, size: int | None = -1) -> bytes:
        with self._located():
            return super().readline(size)

    @contextmanager
    def _located(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise UnsupportedFeature("the gzip file is cut or damaged", file=str(self.name), found=str(exc)) from exc


def _plain(found: re.Match[bytes]) -> bytes | None:
    """Return the value of a literal: its text, or its bytes."""
    text, digits, bits, number = found.group(1, 2, 3, 4)
    if text is not None:
        return _ESCAPED.sub(_unescaped, text) if b"\\" in text or b"'" in text else text
    if digits is not None:
        return bytes.fromhex(digits.decode())
    if bits is not None:
        return int(bits or b"0", 2).to_bytes((len(bits) + 7) // 8, "big")
    return number


def _unescaped(found: re.Match[bytes]) -> bytes:
    return b"'" if found[1] is None else _ESCAPES.get(found[1], found[1])


def _bits(values: _Values) -> pa.Array:
    return pa.array([None if one is None else int.from_bytes(one, "big") for one in values], pa.uint64())


def _geometries(values: _Values) -> pa.Array:
    found = [None if one is None else {"srid": int.from_bytes(one[:4], "little"), "wkb": one[4:]} for one in values]
    return pa.array(found, GEOMETRY)


def _vectors(values: _Values) -> pa.Array:
    found = [None if one is None else memoryview(one).cast("f").tolist() for one in values]
    return pa.array(found, pa.list_(pa.float32()))


_OF_BYTES: Final[dict[str, Callable[[_Values], Any]]] = {
    **dict.fromkeys(BINARY_TYPES, partial(pa.array, type=pa.binary())),
    **dict.fromkeys(GEOMETRY_TYPES, _geometries),
    "bit": _bits,
    "vector": _vectors,
}
"""Types whose values are bytes in a dump."""
_TIMES: Final = {"date": pa.date32(), "datetime": pa.timestamp("us"), "timestamp": pa.timestamp("us")}
