"""The corpus of DDL: its cases, their execution on a server, and the comparison of definitions and rows by a log.

`fixtures/ddl_corpus.sql` has the cases. Each has three logs: its first tables; its statements; and one INSERT into each
table of its databases with each `binlog_row_metadata`, whose values differ by column. A reader of all three knows the
tables from the beginning. A reader of the last two begins at the statements: the tables are older than the log.

    record := {"cases": [case...], "server"}
    case   := {"number", "logs": count, "tables": [[schema, table, definition]...], "rows": [[schema, table, metadata,
               values | null]...]}
    definition := {"engine", "collation", "columns": [column...], "keys": [[name, is_unique, parts]...]}
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import zip_longest
from random import Random
from typing import TYPE_CHECKING, Any, Final

import server_tables
from binlogio.columnar.rows_reader import read_rows
from binlogio.constants import EventType
from binlogio.errors import BinlogError
from binlogio.events.query import QueryEvent
from binlogio.events.rows import RowsEvent
from binlogio.reader import open as open_logs
from binlogio.schema.ddl.catalogue import Catalogue
from binlogio.schema.ddl.logged_ddl import follow_event
from binlogio.values.absent import ABSENT
from binlogio.values.charsets import UNKNOWN_COLLATION
from binlogio.values.native import NATIVE_TYPES
from corpus import FIXTURES
from expected_values import expected_row, ours
from random_ddl import DdlGenerator
from row_records import image_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from binlogio.reader import BinlogReader
    from binlogio.schema.ddl.catalogue import KnownTable
    from binlogio.schema.ddl.parsed_table import ParsedTable
    from real_servers import Instance


CORPUS: Final = FIXTURES / "ddl_corpus.sql"
RECORDS: Final = FIXTURES / "ddl_corpus"
UNKNOWN: Final = RECORDS / "unknown.txt"
MARKS: Final = {"my": ("mysql",), "m10": ("mariadb",), "m11": ("mariadb118",), "ma": ("mariadb", "mariadb118")}
METADATA: Final = {"mysql": ("MINIMAL", "FULL"), **dict.fromkeys(MARKS["ma"], ("NO_LOG", "MINIMAL", "FULL"))}
LOGS: Final = 3  # of each case
OPTIONS: Final = ("--binlog-format=ROW", "--binlog-checksum=NONE", "--default-time-zone=+00:00")
_ATTEMPTS: Final = 8
_START: Final = re.compile(r"start (\w+): (.*)")
_MARK: Final = re.compile(r"\[([\w,]+)\] (.*)")
_BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_WIDTH: Final = re.compile(r"\b(tinyint|smallint|mediumint|int|bigint|year)\(\d+\)")
_MEMBERS: Final = re.compile(r"'(?:[^']|'')*'")
_SAMPLES: Final = {
    **dict.fromkeys(("ascii", "swe7"), "z"), "utf8mb4": "😀", "greek": "\u03b1", "hebrew": "א", "euckr": "가",
    **dict.fromkeys(("cp1251", "koi8r"), "я"), **dict.fromkeys(("sjis", "ujis", "gbk", "big5", "gb18030"), "中"),
}  # fmt: skip
_SHAPES: Final = {
    "linestring": "LINESTRING(0 0,{0} 1)",
    "polygon": "POLYGON((0 0,{0} 0,0 1,0 0))",
    "multipoint": "MULTIPOINT(({0} 1))",
    "multilinestring": "MULTILINESTRING((0 0,{0} 1))",
    "multipolygon": "MULTIPOLYGON(((0 0,{0} 0,0 1,0 0)))",
}


@dataclass(frozen=True, slots=True)
class DdlCase:
    """A case: statements after its first tables; `refused` are the numbers of those that the server refuses."""

    number: int
    statements: tuple[str, ...]
    kinds: tuple[str, ...]
    refused: frozenset[int]
    start: tuple[str, ...]

    @property
    def schema(self) -> str:
        """The database of the case."""
        return f"c{self.number}"

    def executed(self, statement: str) -> str:
        """Return a statement with the names of the case's databases."""
        return statement.replace("@DB", self.schema).replace("@OTHER", f"{self.schema}o")


def corpus_cases(text: str | None = None) -> list[DdlCase]:
    """Return all cases of the corpus."""
    start: dict[str, str] = {}
    found: list[tuple[list[str], tuple[str, ...]]] = []
    for line in (CORPUS.read_text("utf-8") if text is None else text).splitlines():
        if not line or line.startswith("-- ") or line == "--":
            continue
        if (first := _START.fullmatch(line)) is not None:
            start[first[1]] = first[2]
        elif line.startswith("  "):
            found[-1][0].append(line[2:])
        else:
            mark = _MARK.fullmatch(line)
            kinds = tuple(kind for name in mark[1].split(",") for kind in MARKS[name]) if mark else tuple(METADATA)
            found.append(([mark[2] if mark else line], kinds))
    cases = []
    for number, (lines, kinds) in enumerate(found):
        words = {word.casefold() for line in lines for word in re.findall(r"\w+", line)}
        wanted = tuple(sql for name, sql in start.items() if name in words or (name == "parent" and "child" in words))
        refused = frozenset(at for at, line in enumerate(lines) if line.startswith("! "))
        statements = tuple(line.removeprefix("! ") for line in lines)
        cases.append(DdlCase(number, statements, kinds, refused, wanted))
    return cases


# ------------------------------------------------------------------------------------------------------- the server


def table_records(cursor: Any, schemas: tuple[str, ...], *, is_mysql: bool) -> list[list[Any]]:
    """Return [schema, table, definition] of all tables and sequences, as information_schema has them."""
    found = []
    for schema in schemas:
        cursor.execute(
            "SELECT table_name, engine, table_collation FROM information_schema.tables WHERE table_schema = %s"
            " AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED', 'SEQUENCE') ORDER BY CAST(table_name AS BINARY)",
            (schema,),
        )
        for table, engine, collation in cursor.fetchall():
            columns = _columns(cursor, schema, table, is_mysql=is_mysql)
            keys = _keys(cursor, schema, table)
            definition = {"engine": engine, "collation": collation, "columns": columns, "keys": keys}
            found.append([schema, table, definition])
    return found


def _columns(cursor: Any, schema: str, table: str, *, is_mysql: bool) -> list[dict[str, Any]]:
    names = ("name", "type", "data_type", "nullable", "charset", "collation", "extra", "default", "srid")
    cursor.execute(
        "SELECT column_name, column_type, data_type, is_nullable, character_set_name, collation_name, extra, "
        f"column_default, {'srs_id' if is_mysql else 'NULL'} FROM information_schema.columns "
        "WHERE table_schema = %s AND BINARY table_name = %s ORDER BY ordinal_position",
        (schema, table),
    )
    columns = [
        {name: value for name, value in zip(names, row, strict=True) if value not in (None, "")}
        for row in cursor.fetchall()
    ]
    return [
        {"charset": None, **one, "encoding": server_tables.encoding_of({"charset": None, **one})} for one in columns
    ]


def _keys(cursor: Any, schema: str, table: str) -> list[list[Any]]:
    cursor.execute(
        "SELECT index_name, non_unique, column_name, sub_part FROM information_schema.statistics "
        "WHERE table_schema = %s AND BINARY table_name = %s ORDER BY CAST(index_name AS BINARY), seq_in_index",
        (schema, table),
    )
    keys: dict[str, list[Any]] = {}
    for name, non_unique, column, size in cursor.fetchall():
        keys.setdefault(name, [name, not int(non_unique), []])[2].append([column or "", int(size or 0)])
    return list(keys.values())


def inserted_row(cursor: Any, schema: str, table: str, definition: dict[str, Any], number: int) -> list[Any]:
    """Insert a row whose values differ by column and by `number`; return its values, none if they cannot be read.

    Raises:
        LookupError: the server refuses every row.
    """
    from pymysql import Error  # noqa: PLC0415

    columns, name = definition["columns"], f"`{schema}`.`{table.replace('`', '``')}`"
    given = [(i, one) for i, one in enumerate(columns, 1) if not _is_filled(one)]
    names = ", ".join("`" + one["name"].replace("`", "``") + "`" for _, one in given)
    try:
        before = server_tables.rows_of(cursor, schema, table, columns)
    except Error as exc:  # its tablespace is gone
        raise LookupError(str(exc)) from exc
    refused = ""
    for attempt in range(_ATTEMPTS):
        values = ", ".join(_literal(one, i, number, attempt) for i, one in given)
        try:
            sql = f"INSERT INTO {name} ({names}) VALUES ({values})"
            if connection_is_mariadb(cursor):
                sql = sql.replace("TO_VECTOR(", "VEC_FromText(")
            cursor.execute(f"SELECT NEXTVAL({name})" if _is_sequence(columns) else sql)
            break
        except Error as exc:
            refused = str(exc)
    else:
        raise LookupError(refused)
    left = list(server_tables.rows_of(cursor, schema, table, columns))
    for row in before:
        if row in left:
            left.remove(row)
    return left[0] if left else []


def connection_is_mariadb(cursor: Any) -> bool:
    """Return whether the server of a connection is MariaDB."""
    return "MariaDB" in str(cursor.connection.get_server_info())


def _is_filled(column: dict[str, Any]) -> bool:
    """Return whether the server gives a column its value."""
    extra = column.get("extra", "").upper().replace("DEFAULT_GENERATED", "")
    return "GENERATED" in extra or column["name"] == "my_row_id"


def _is_sequence(columns: list[dict[str, Any]]) -> bool:
    return bool(columns[0]["name"] == "next_not_cached_value")


def _literal(column: dict[str, Any], i: int, number: int, attempt: int) -> str:  # noqa: C901 - one case a type
    """Return a value as SQL; a first attempt may be refused by a CHECK, a key or a partition."""
    kind, text = column["data_type"], column["type"]
    n = (i * 5 + number + attempt * 40) % 120 + 1
    if kind in _BITS:
        if "unsigned" in text:
            return str((1 << _BITS[kind]) - 1 - n if attempt < _ATTEMPTS - 2 else n)
        return str(-n if attempt % 2 == 0 else n)
    if kind == "bit":
        return str(n % (1 << int(re.findall(r"\d+", text)[0])))
    if kind in ("enum", "set"):
        members = len(_MEMBERS.findall(text))
        return str(1 + n % (members if kind == "enum" else (1 << members) - 1 or 1))
    if kind in ("decimal", "float", "double"):
        return f"{n}.5"
    if kind == "year":
        return str(2000 + n)
    if kind in ("date", "time", "datetime", "timestamp"):
        times = {"date": f"2001-{number + 1:02}-{n % 28 + 1:02}", "time": f"{n % 24:02}:{number:02}:{i % 60:02}.123456"}
        return f"'{times.get(kind) or times['date'] + ' ' + times['time']}'"
    if kind == "json":
        return f"'{{\"k\": {n}}}'"
    if kind == "vector":
        return f"TO_VECTOR('[{','.join([f'{n}.5'] * int((re.findall(r'[0-9]+', text) or ['3'])[0]))}]')"
    if kind in ("uuid", "inet4", "inet6"):
        forms = {"uuid": f"00000000-0000-4000-8000-{n:012}", "inet4": f"10.0.0.{n}", "inet6": f"::{n}"}
        return f"'{forms[kind]}'"
    if server_tables.encoding_of(column) == "geometry":
        shape = _SHAPES.get(kind, "POINT({0} 1)").format(n)
        shape = f"GEOMETRYCOLLECTION({shape})" if "collection" in kind else shape
        return f"ST_GeomFromText('{shape}', {column.get('srid', 0)})"
    if server_tables.encoding_of(column) == "hex":
        size = int((re.findall(r"\d+", text) or ["4"])[0])
        return f"x'{bytes((0xE9, n, number + 1, 1))[:size].hex()}'" if size else "''"
    size = int((re.findall(r"\d+", text) or ["9"])[0])
    sample = _SAMPLES.get(column["charset"] or "", "é")
    return f"'{(sample + chr(97 + i % 26) + str(number) + str(attempt or ''))[:size]}'"


class Recorder:
    """Executes cases on a server, and collects its logs and what it says of the tables.

    `refused` has the cases with a statement that the server does not accept, and `uninserted` the tables without a row.
    """

    def __init__(self, server: Instance) -> None:
        self._server = server
        self.kind: Final = server.vendor.kind
        self.records: list[dict[str, Any]] = []
        self.logs: list[list[bytes]] = []
        self.refused: list[tuple[DdlCase, str, str]] = []
        self.uninserted: list[tuple[DdlCase, str, str]] = []

    def run(self, case: DdlCase) -> None:
        """Execute a case on a connection of its own."""
        from pymysql import Error, connect  # noqa: PLC0415

        statement = ""
        with connect(
            unix_socket=str(self._server.socket), user="root", charset="utf8mb4", autocommit=True
        ) as connection:
            cursor = connection.cursor()
            names = [self._next_log(cursor)]
            try:
                for statement in (*_databases(case), *case.start):
                    cursor.execute(statement)
                names.append(self._next_log(cursor))
                for number, statement in enumerate(case.statements):
                    if number in case.refused:
                        self._refuse(cursor, case.executed(statement))
                    else:
                        cursor.execute(case.executed(statement))
            except Error as exc:
                self.refused.append((case, statement, str(exc)))
                _drop(cursor, case)
                return
            names.append(self._next_log(cursor))
            record = self._record(cursor, case, METADATA[self.kind])
            self._next_log(cursor)
            self.records.append(record)
            self.logs.append([(self._server.data / name).read_bytes() for name in names])
            _drop(cursor, case)

    def run_random(self, seed: int, statements: int, points: int) -> list[str]:
        """Execute random statements on three tables until the server has accepted so many; return these.

        There are so many records of a case, in equal distances. Each has a log of statements and a log of rows.
        """
        from pymysql import Error, connect  # noqa: PLC0415

        random = Random(seed)
        accepted: list[str] = []
        generator = DdlGenerator(random, is_mariadb=self.kind != "mysql")
        case = DdlCase(seed, (), (self.kind,), frozenset(), ())
        with connect(
            unix_socket=str(self._server.socket), user="root", charset="utf8mb4", autocommit=True
        ) as connection:
            cursor = connection.cursor()
            name = self._next_log(cursor)
            for statement in (*_databases(case), *generator.begin()):
                cursor.execute(statement)
            cursor.execute("SET sql_mode = ''")
            for point in range(points):
                goal = statements * (point + 1) // points
                while len(accepted) < goal:
                    statement = generator.statement()
                    with suppress(Error):
                        cursor.execute(statement)
                        accepted.append(statement)
                rows = self._next_log(cursor)
                record = self._record(cursor, case, METADATA[self.kind][-2 - point % 2 : -1])
                names, name = (name, rows), self._next_log(cursor)
                self.records.append({**record, "continues": point > 0})
                self.logs.append([(self._server.data / one).read_bytes() for one in names])
            _drop(cursor, case)
        return accepted

    @staticmethod
    def _refuse(cursor: Any, statement: str) -> None:
        from pymysql import Error  # noqa: PLC0415

        try:
            cursor.execute(statement)
        except Error:
            return
        raise Error(f"the server accepts {statement}")

    def _next_log(self, cursor: Any) -> str:
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOG STATUS" if self.kind == "mysql" else "SHOW MASTER STATUS")
        return str(cursor.fetchone()[0])

    def _record(self, cursor: Any, case: DdlCase, levels: Sequence[str]) -> dict[str, Any]:
        cursor.execute("UNLOCK TABLES")
        cursor.execute("SET NAMES utf8mb4")
        cursor.execute(
            "SET /*M! check_constraint_checks = 0, */ sql_mode = '', foreign_key_checks = 0, "
            "autocommit = 1, time_zone = '+00:00'"
        )
        tables = table_records(cursor, _schemas(cursor, case), is_mysql=self.kind == "mysql")
        rows = []
        for number, metadata in enumerate(levels):
            cursor.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
            for schema, table, definition in tables:
                try:
                    row = inserted_row(cursor, schema, table, definition, number)
                except LookupError as exc:
                    self.uninserted.append((case, table, str(exc)))
                else:
                    rows.append([schema, table, metadata, row or None])
        return {"number": case.number, "tables": tables, "rows": rows}


def _databases(case: DdlCase) -> Iterator[str]:
    yield f"CREATE DATABASE {case.schema} CHARACTER SET latin1"
    if any("@OTHER" in statement for statement in case.statements):
        yield f"CREATE DATABASE {case.schema}o CHARACTER SET utf8mb4"
    yield f"USE {case.schema}"


def _schemas(cursor: Any, case: DdlCase) -> tuple[str, ...]:
    names = (case.schema, f"{case.schema}o", f"{case.schema}_x")
    cursor.execute("SELECT schema_name FROM information_schema.schemata")
    there = {name for (name,) in cursor.fetchall()}
    return tuple(name for name in names if name in there)


def _drop(cursor: Any, case: DdlCase) -> None:
    """Drop the databases of a case, without a trace in the log."""
    cursor.execute("UNLOCK TABLES")
    cursor.execute("SET sql_log_bin = 0, foreign_key_checks = 0")
    for name in _schemas(cursor, case):
        cursor.execute(f"DROP DATABASE {name}")


# --------------------------------------------------------------------------------------------------- the stored form


def save(path: Path, recorder: Recorder) -> None:
    """Write the records of a server and its logs."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        records = "".join(json.dumps(record, default=_as_text) + "\n" for record in recorder.records)
        _add(archive, "records.jsonl", records.encode())
        for record, logs in zip(recorder.records, recorder.logs, strict=True):
            for part, data in enumerate(logs, 1):
                _add(archive, f"{record['number']}.{part}", data)


def _as_text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def load(path: Path) -> tuple[list[dict[str, Any]], list[list[bytes]]]:
    """Return the records of a server, and the logs of each."""
    with tarfile.open(path, "r:xz") as archive:
        files = {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]
    records = [json.loads(line) for line in files["records.jsonl"].decode().splitlines()]
    return records, [[files[f"{record['number']}.{part}"] for part in range(1, LOGS + 1)] for record in records]


# --------------------------------------------------------------------------------------------------- the comparison

EQUAL: Final = "equal"
WRONG: Final = "WRONG"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one table of a case: `what` is "definition", or the metadata of the row.

    `result` is EQUAL, WRONG with the difference in `text`, or "unknown" with the reason.
    """

    case: int
    table: str
    what: str
    result: str
    text: str = ""

    def __str__(self) -> str:
        """Return the verdict as a line of text."""
        return f"{self.case} {self.table} {self.what}: {self.text or self.result}"


def plain_type(text: str) -> str:
    """Return a type without display widths, which a log does not have, and without synonyms."""
    kind = _WIDTH.sub(r"\1", text).replace(" zerofill", "").replace("geomcollection", "geometrycollection")
    kind = re.sub(r"x'([0-9a-f]+)'", lambda found: f"'{_as_text(bytes.fromhex(found[1]))}'", kind)  # of binary members
    kind = re.sub(r" /\*M?!100301 COMPRESSED\*/", " compressed", kind)
    kind = re.sub("[\udc80-\udcff]", "?", kind)  # a byte of a binary member, as information_schema may show it
    return re.sub(r"^(float|double)\(.*\)", r"\1", kind)


def server_facts(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a definition of a server that a log has, in the form of `our_facts`."""
    columns = []
    for one in definition["columns"]:
        extra = one.get("extra", "").upper().replace("DEFAULT_GENERATED", "")
        collation = one.get("collation")
        columns.append(
            {
                "name": one["name"],
                "type": plain_type(one["type"]),
                "collation": None if collation == "binary" else collation,
                "nullable": one["nullable"] == "YES",
                "visible": "INVISIBLE" not in extra,
                "auto_increment": "AUTO_INCREMENT" in extra,
                "is_generated": "GENERATED" in extra,
                "virtual": "VIRTUAL GENERATED" in extra,
                "default_now": one.get("default", "").lower().startswith("current_timestamp"),
                "on_update_now": "ON UPDATE" in extra,
            }
        )
    return {"collation": definition["collation"], "engine": definition["engine"], "columns": columns}


def our_facts(table: ParsedTable) -> dict[str, Any]:
    """Return the facts of a definition from DDL."""
    columns = []
    for one in table.columns:
        if table.is_versioned and not one.visible and one.name in ("row_start", "row_end"):
            continue  # which information_schema does not list
        is_alias = table.is_mariadb and one.type == "json"
        kind, collation = ("longtext", "utf8mb4_bin") if is_alias else (one.type, one.collation)
        columns.append(
            {
                "name": one.name,
                "type": plain_type(kind),
                "collation": None if collation == "binary" else collation,
                "nullable": one.nullable,
                "visible": one.visible,
                "auto_increment": one.auto_increment,
                "is_generated": one.generated_from is not None,
                "virtual": one.virtual,
                "default_now": one.default_now,
                "on_update_now": one.on_update_now,
            }
        )
    return {"collation": table.collation, "engine": table.engine, "columns": columns}


def _key_differences(table: ParsedTable, theirs: list[list[Any]]) -> Iterator[str]:
    """Yield the keys that a server does not have, or has otherwise.

    A definition lacks the indexes of foreign keys. Of a key that may have been there it does not know that it is
    unique.
    """
    found = {name.casefold(): (is_unique, [(one, size) for one, size in parts]) for name, is_unique, parts in theirs}
    for key in table.keys:
        server = found.pop(key.name.casefold(), None)
        if server is None and not key.is_unique:
            continue  # it was added IF NOT EXISTS
        if server is None:
            yield f"there is no key {key.name}"
        elif _column_names(table.parts_with_row_end(key)) != _column_names(server[1]):
            yield f"key {key.name}: {key.parts} is {server[1]}"
        elif key.is_unique and not server[0]:
            yield f"key {key.name} is not unique"
    yield from (f"key {name} is unknown" for name, (is_unique, _) in found.items() if is_unique)


def _column_names(parts: Iterable[Sequence[Any]]) -> list[str]:
    """Return the columns of a key, without the hidden one of a table with system versioning."""
    return [name.casefold() for name, _ in parts if name != "row_end"]


_NO_CHARSET: Final = "the character set of the database is not in the log"


def definition_verdict(known: KnownTable | None, reason: str | None, theirs: dict[str, Any]) -> tuple[str, str]:
    """Return the result of a comparison with a server, and the difference or the reason."""
    if known is None:
        return ("unknown", reason) if reason is not None else (WRONG, "it is unknown without a reason")
    table = known.table
    ours_, server = our_facts(table), server_facts(theirs)
    unknown = []
    if table.collation_is_assumed:
        ours_["collation"] = server["collation"]
        unknown.append(_NO_CHARSET)
    for one, other in zip(ours_["columns"], server["columns"], strict=False):
        if one["name"].casefold() in table.assumed:
            one["collation"], one["type"] = other["collation"], other["type"]
            unknown.append(_NO_CHARSET)
    ours_["engine"], server["engine"] = ours_["engine"].upper(), server["engine"].upper()
    if known.is_tentative:
        unknown.append("CREATE TABLE IF NOT EXISTS may have found another table")
    if ours_["engine"] == "INNODB" != server["engine"]:
        ours_["engine"] = server["engine"]
        unknown.append("the engine of a statement that names none is not in the log")
    wrong = [
        f"{name}: {ours_[name]} is {server[name]}" for name in ("collation", "engine") if ours_[name] != server[name]
    ]
    wrong += [f"{one} is {other}" for one, other in zip_longest(ours_["columns"], server["columns"]) if one != other]
    wrong += _key_differences(table, theirs["keys"])
    if wrong:
        return WRONG, "; ".join(wrong)
    return ("unknown", unknown[0]) if unknown else (EQUAL, "")


def judge(  # noqa: C901 - one pass over the events
    records: list[dict[str, Any]], logs: list[list[bytes]], folder: Path, *, is_older: bool = False
) -> list[Verdict]:
    """Read the logs of cases by `open` and by `read_rows`; return the results.

    Each case has the same number of logs, of which the last one has its rows. `is_older`: the tables of the beginning
    are older than the log. A record with `continues` belongs to the case before it.
    """
    first, last = 2 if is_older else 1, len(logs[0])
    paths = []
    for index, parts in enumerate(logs):
        for part in range(first, last + 1):
            paths.append(folder / f"binlog.{index * last + part:06}")
            paths[-1].write_bytes(parts[part - 1])
    verdicts: list[Verdict] = []
    decoded: list[tuple[Any, ...]] = []
    catalogue, at = Catalogue(), (-1, 0)
    rows: list[Any] = []
    texts: list[bytes] = []
    with open_logs(paths, ignore_missing_logs=True) as reader:
        for event in reader:
            index, part = divmod(int(reader.position.file.rpartition(".")[2]) - 1, last)
            if (index, part + 1) != at:
                at = index, part + 1
                if at[1] == first and not records[index].get("continues"):
                    catalogue = Catalogue()
                catalogue.begin_log()
                if at[1] == last:
                    rows, texts = list(records[index]["rows"]), []
                    verdicts += _definition_verdicts(records[index], catalogue)
            if isinstance(event, QueryEvent) and event.header.type_code == EventType.QUERY_EVENT:
                follow_event(catalogue, event, reader.context)
                texts.append(event.sql)
            if isinstance(event, RowsEvent):
                decoded += _decoded(reader, event)
            if isinstance(event, RowsEvent) and at[1] == last:
                table = reader.table_map(event)
                if table.schema == "mysql":  # transaction_registry of MariaDB
                    continue
                while rows and rows[0][:2] != [table.schema, table.table]:
                    missed = rows.pop(0)
                    is_text = any(sql.startswith(f"INSERT INTO `{missed[0]}`.`{missed[1]}`".encode()) for sql in texts)
                    # A sequence logs a row when its cache is used up; versions by transaction are logged as text.
                    if missed[3] is not None and not is_text:
                        verdicts.append(Verdict(records[index]["number"], table.table, "row", WRONG, f"no {missed}"))
                verdicts.append(_row_verdict(records[index], reader, event, rows.pop(0)))
    batches = read_rows(paths, ignore_missing_logs=True, statement_changes="skip").to_table()
    found = zip(*(batches[name].to_pylist() for name in ("file", "pos", "op", "before", "after")), strict=True)
    verdicts += [
        Verdict(-1, str(one[0]), "read_rows", WRONG, f"{other} is {one}")
        for one, other in zip_longest(decoded, found)
        if one != other
    ]
    return verdicts


def _decoded(reader: BinlogReader, event: RowsEvent) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an event as `read_rows` has them."""
    place = reader.position.file, event.header.offset, event.operation.op
    for change in reader.rows(event):
        yield (*place, image_text(change.before), image_text(change.applied()))


def _definition_verdicts(record: dict[str, Any], catalogue: Catalogue) -> Iterator[Verdict]:
    number = record["number"]
    there = {(schema, table) for schema, table, _ in record["tables"]}
    for name, _ in catalogue.tables():
        if name not in there:
            yield Verdict(number, ".".join(name), "definition", WRONG, "the server has no such table")
    for schema, table, theirs in record["tables"]:
        known, reason = catalogue.find(schema, table), catalogue.reason((schema, table))
        if catalogue.is_ambiguous((schema, table)):
            known, reason = None, "the log has a table whose name differs in case"
        if known is None and reason is None and (schema, table) not in catalogue._dropped:
            reason = "no statement in the log defines it"
        yield Verdict(number, f"{schema}.{table}", "definition", *definition_verdict(known, reason, theirs))


def _row_verdict(record: dict[str, Any], reader: BinlogReader, event: RowsEvent, expected: Any) -> Verdict:
    number, plan = record["number"], reader.plan(event)
    name = f"{plan.schema}.{plan.table}"
    _, _, metadata, values = expected
    (theirs,) = (one for schema, table, one in record["tables"] if [schema, table] == expected[:2])
    changes = list(reader.rows(event))
    if any(column.name is None for column in plan.columns):
        reason = reader.unnamed_tables.get(name, "no statement in the log defines it")
        return Verdict(number, name, metadata, "unknown", reason)
    columns = {one["name"]: one for one in theirs["columns"]}
    names = [column.name for column in plan.columns if column.name in columns or not _is_hidden(str(column.name))]
    if names != list(columns):
        return Verdict(number, name, metadata, WRONG, f"{names} is {list(columns)}")
    if values is None:
        return Verdict(number, name, metadata, EQUAL)
    result, text = EQUAL, ""
    image = changes[0].after
    assert image is not None
    found = {column.name: (column, value) for column, value in zip(plan.columns, image.values, strict=True)}
    for spec, value in zip(theirs["columns"], values, strict=True):
        column, ours_ = found[spec["name"]]
        if value is not None and spec["charset"] and column.collation_id in (None, UNKNOWN_COLLATION):
            result, text = "unknown", f"the character set of {spec['name']}"
            continue
        if spec["data_type"] in NATIVE_TYPES and isinstance(ours_, bytes):
            result, text = "unknown", f"the type of {spec['name']}"
            continue
        if "zerofill" in spec["type"] and spec["encoding"] == "decimal":
            value = format(Decimal(value), "f")  # noqa: PLW2901
        try:
            (wanted,) = expected_row([value], {"columns": [spec]}, replace(plan, columns=(column,)))
            got = ours(ours_, spec, column)
        except (AssertionError, BinlogError) as exc:
            return Verdict(number, name, metadata, WRONG, f"{spec['name']}: {ours_!r} is {value!r}: {exc}")
        if got not in (wanted, ABSENT):
            return Verdict(number, name, metadata, WRONG, f"{spec['name']}: {got!r} is {wanted!r}")
    return Verdict(number, name, metadata, result, text)


def _is_hidden(name: str) -> bool:
    return name in ("row_start", "row_end", "my_row_id") or name.startswith("DB_ROW_HASH_")
