"""DDL in logs: sessions, temporary tables, character sets and collations, failed statements, logs of real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio.constants import EventType, OptionalMetadataType
from binlogio.events import EVENT_CODECS
from binlogio.events.base import ParseContext
from binlogio.events.query import QueryEvent, SessionCharset, StatusVar
from binlogio.events.table_map import TableMapEvent
from binlogio.reader import BinlogReader
from binlogio.schema.ddl.catalogue import Catalogue
from binlogio.schema.ddl.first_words import body_may_define, may_define
from binlogio.schema.ddl.logged_ddl import follow_event
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.statements import SessionFacts
from binlogio.schema.given import Described
from binlogio.schema.source import with_hidden_columns
from binlogio.storage.log_file import LogFile
from corpus import Case, cases
from followed_ddl import MARIADB, MYSQL, START, after, follow_statement, shape

if TYPE_CHECKING:
    from binlogio.schema.types import Vendor

CODEC: Final = EVENT_CODECS[EventType.TABLE_MAP_EVENT]
OLD_MARIADB: Final = ServerDefaults(is_mariadb=True, version=(10, 1, 48))
CONTEXT: Final = ParseContext(server_version="9.7.0")
# Logs in which table maps have shapes that no CREATE TABLE of today gives: temporal types of before 5.6.
OLD_TYPES: Final = ("types_old_temporal",)


def test_temporary_tables_hide_the_real_one_from_their_session_only() -> None:
    catalogue = after(START)
    mine, yours = SessionFacts(thread_id=1), SessionFacts(thread_id=2)
    follow_statement(catalogue, "CREATE TEMPORARY TABLE t (x INT)", "s", MYSQL, mine)
    follow_statement(catalogue, "ALTER TABLE t ADD y INT", "s", MYSQL, mine)
    follow_statement(catalogue, "ALTER TABLE t ADD d INT", "s", MYSQL, yours)
    follow_statement(catalogue, "DROP TEMPORARY TABLE IF EXISTS t", "s", MYSQL, mine)
    follow_statement(catalogue, "ALTER TABLE t ADD e INT", "s", MYSQL, mine)

    assert shape(catalogue) == "a int, b varchar(10), c text, d int, e int"


T: Final = "CREATE TEMPORARY TABLE t (x INT)"
V: Final = "CREATE TEMPORARY TABLE v (x INT)"
BASE: Final = "a int, b varchar(10), c text"


@pytest.mark.parametrize(
    ("statements", "server", "expected"),
    [
        ((T, "RENAME TABLE t TO u", "ALTER TABLE t ADD d INT"), MARIADB, {"t": f"{BASE}, d int"}),
        ((T, "RENAME TABLE t TO u", "ALTER TABLE t ADD d INT", "DROP TABLE u"), MYSQL, {}),
        ((T, "RENAME TABLE t TO u", "DROP TABLE t", "ALTER TABLE u ADD d INT"), MYSQL, {"u": f"{BASE}, d int"}),
        ((T, "RENAME TABLE t TO w, t TO u"), MARIADB, {"u": BASE}),
        ((V, "RENAME TABLE v TO t, t TO w", "DROP TABLE t"), MARIADB, {}),
        ((T, "RENAME TABLE t TO u"), OLD_MARIADB, {}),
        (
            (T, "ALTER TABLE t RENAME TO u, ADD y INT", "ALTER TABLE t DROP b", "DROP TABLE u"),
            MYSQL,
            {"t": "a int, c text"},
        ),
        (
            (V, "ALTER TABLE v RENAME TO t", "ALTER TABLE t ADD d INT", "DROP TABLE t", "ALTER TABLE t DROP b"),
            MYSQL,
            {"t": "a int, c text"},
        ),
        (
            (T, "ALTER TABLE t NOSUCHCLAUSE, RENAME TO u", "ALTER TABLE u DROP x", "ALTER TABLE t DROP b"),
            MYSQL,
            {"t": "a int, c text"},
        ),
        (
            (T, "ALTER TABLE t ADD y INT", "CREATE TABLE u LIKE t", "DROP TABLE t"),
            MYSQL,
            {"t": BASE, "u": "x int, y int"},
        ),
        ((T, "ALTER TABLE t DROP nosuch", "CREATE TABLE u LIKE t"), MYSQL, {"t": BASE}),
        ((T, "CREATE INDEX i ON t (x)", "CREATE INDEX j ON t (nosuch)", "DROP TEMPORARY TABLE t"), MYSQL, {"t": BASE}),
        (("CREATE TEMPORARY TABLE T (x INT)", "CREATE INDEX i ON T (x)", "DROP TABLE T"), MYSQL, {"t": BASE}),
        (
            (T, "CREATE TEMPORARY TABLE IF NOT EXISTS t (z INT)", "CREATE TABLE u LIKE t"),
            MYSQL,
            {"t": BASE, "u": "x int"},
        ),
        (("CREATE TEMPORARY SEQUENCE t", "ALTER SEQUENCE t AS INT", "DROP SEQUENCE t"), MARIADB, {"t": BASE}),
        (
            ("CREATE TEMPORARY TABLE t (x NOSUCHTYPE)", "ALTER TABLE t ADD y INT", "CREATE TABLE u LIKE t"),
            MYSQL,
            {"t": BASE},
        ),
    ],
)
def test_statements_on_temporary_tables_leave_the_base_tables_known(
    statements: tuple[str, ...], server: ServerDefaults, expected: dict[str, str]
) -> None:
    """RENAME TABLE is about the temporary table in MariaDB, and about the base table in MySQL."""
    catalogue = after(START, *statements, server=server)

    assert {name: shape(catalogue, name) for (_, name), _ in catalogue.tables()} == expected


def test_a_failed_statement_on_a_temporary_table_leaves_the_base_table_known() -> None:
    """The event has an error number."""
    catalogue = after(START, T)
    for sql in ("ALTER TABLE t ADD y INT", "CREATE TEMPORARY TABLE t (z INT)", "DROP INDEX i ON t"):
        follow_statement(catalogue, sql, "s", MYSQL, failed="error 1010")

    assert shape(catalogue) == BASE


@pytest.mark.parametrize(
    ("statements", "collation", "assumed"),
    [
        (["CREATE DATABASE d CHARSET cp850", "CREATE TABLE d.t (c TEXT)"], "cp850_general_ci", False),
        (["CREATE DATABASE d", "ALTER DATABASE d COLLATE koi8r_bin", "CREATE TABLE d.t (c TEXT)"], "koi8r_bin", False),
        (["CREATE TABLE d.t (c TEXT)"], "utf8mb4_0900_ai_ci", True),
        (["CREATE TABLE d.t (c TEXT) COLLATE latin1_bin"], "latin1_bin", False),
    ],
)
def test_the_database_says_the_character_set_or_it_is_assumed(
    statements: list[str], collation: str, *, assumed: bool
) -> None:
    known = after(*statements).find("d", "t")

    assert known is not None
    assert known.table.columns[0].collation == collation
    assert bool(known.table.assumed) is assumed


def test_what_is_assumed_of_a_column_goes_with_it() -> None:
    """Until a statement says the character set."""
    start = "CREATE TABLE d.t (a TEXT, b TEXT CHARSET latin1, c TEXT)"
    more = "ALTER TABLE d.t RENAME COLUMN a TO x, DROP c, ADD d TEXT, ADD e TEXT CHARSET latin1"
    known, told = (
        after(start, more).find("d", "t"),
        after(start, "ALTER TABLE d.t CONVERT TO CHARSET utf8mb4").find("d", "t"),
    )

    assert known is not None
    assert known.table.assumed == {"x", "d"}
    assert told is not None
    assert not told.table.assumed


def _query(sql: bytes, *status: StatusVar, **fields: Any) -> QueryEvent:
    values = {"thread_id": 1, "exec_time": 0, "error_code": 0, "schema": "s", **fields}
    return QueryEvent(status_vars=status, sql=sql, **values)


def test_a_statement_is_in_the_character_set_of_its_client() -> None:
    catalogue = Catalogue()
    latin1 = StatusVar(4, SessionCharset(8, 8, 8))
    follow_event(catalogue, _query("CREATE TABLE t (ä INT, b TEXT)".encode("latin-1"), latin1), CONTEXT)
    known = catalogue.find("s", "t")

    assert shape(catalogue) == "ä int, b text"
    assert known is not None
    assert known.table.columns[1].collation == "latin1_swedish_ci"


def test_sessions_have_collations_of_their_own_for_character_sets() -> None:
    """MySQL's default_collation_for_utf8mb4 and MariaDB's character_set_collations.

    Ids that no server has count for nothing.
    """
    sql = b"CREATE TABLE t (b TEXT CHARSET utf8mb4, c TEXT CHARSET latin1)"
    found = []
    for variable in (StatusVar(18, 45), StatusVar(131, ((45, 46), (8, 47), (1999, 47))), StatusVar(18, 1999)):
        catalogue = Catalogue()
        follow_event(catalogue, _query(sql, variable), CONTEXT)
        known = catalogue.find("s", "t")

        assert known is not None
        found.append([one.collation for one in known.table.columns])

    assert found == [
        ["utf8mb4_general_ci", "latin1_swedish_ci"],
        ["utf8mb4_bin", "latin1_bin"],
        ["utf8mb4_0900_ai_ci", "latin1_swedish_ci"],
    ]


def test_names_that_are_no_text_are_kept_as_bytes() -> None:
    catalogue = Catalogue()
    follow_event(catalogue, _query(b"CREATE TABLE t (`\xff` INT)"), CONTEXT)

    assert shape(catalogue) == "\udcff int"


def test_a_statement_that_failed_half_way_leaves_nothing_known() -> None:
    catalogue = Catalogue()
    for event in (_query(START.encode()), _query(b"DROP TABLE t, u", error_code=1051)):
        follow_event(catalogue, event, CONTEXT)

    assert shape(catalogue) is None
    assert "1051" in catalogue.unknown["s", "t"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (b"CREATE TABLE", True),
        (b"\n\t drop table", True),
        (b"/*x*/ INSERT", True),
        (b"INSERT", False),
        (b"XA START", False),
    ],
)
def test_statements_are_judged_by_their_first_word(sql: bytes, *, expected: bool) -> None:
    body = EVENT_CODECS[EventType.QUERY_EVENT].build(_query(sql), CONTEXT)

    assert may_define(sql) is expected
    assert body_may_define(body) is expected
    assert not body_may_define(body[:12])


# -------------------------------------------------------------------------------------------------------- real logs


def _logged() -> list[Case]:
    return [case for case in cases() if case.folder.name not in OLD_TYPES]


@pytest.mark.parametrize("case", _logged(), ids=lambda case: case.id)
def test_the_ddl_of_a_log_leads_to_its_table_maps(case: Case) -> None:
    """Byte for byte: types, lengths, null bits, signs, character sets, names, members, keys, visibility."""
    logs = [LogFile(str(path), path.stat().st_size) for path in case.logs]
    keyring = None
    if case.keys is not None:
        from binlogio.storage.encryption import load_keyring  # noqa: PLC0415 - needs an extra

        keyring = load_keyring(case.keys)
    catalogue = Catalogue()
    with BinlogReader(logs, keyring=keyring) as reader:
        for event in reader:
            if isinstance(event, QueryEvent):
                follow_event(catalogue, event, reader.context)
            elif isinstance(event, TableMapEvent):
                known = catalogue.find(event.schema, event.table)

                assert known is not None, (event.schema, event.table, catalogue.unknown)
                assert CODEC.build(_as_logged(known.table.definition(), event, reader.context)) == CODEC.build(event)
    assert not catalogue.unknown or case.folder.name.startswith("format_statement")


def _as_logged(definition: Any, event: TableMapEvent, context: ParseContext) -> TableMapEvent:
    """Return the table map of the definition, with as much metadata as the one in the log."""
    level = "MINIMAL" if event.optional_metadata else "NO_LOG"
    if event.optional(OptionalMetadataType.COLUMN_NAME) is not None:
        level = "FULL"
    vendor: Vendor = "mariadb" if context.is_mariadb else "mysql"
    described = with_hidden_columns(Described(definition), event, vendor)
    made: TableMapEvent = described.definition.table_map(event.table_id, level, vendor, flags=event.flags)
    return made
