"""`binlogio dump`: what it shows of real files, what it leaves out, and that what it shows is safe."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

from binlogio.constants import BINLOG_MAGIC, EventType, QueryStatus
from binlogio.events.base import UnknownEvent
from binlogio.events.control import IncidentEvent, RotateEvent
from binlogio.events.load import AppendBlockEvent, BeginLoadQueryEvent, ExecuteLoadQueryEvent
from binlogio.events.query import SessionCharset, StatusVar
from binlogio.events.statement_context import IntvarEvent, UserVarEvent, UserVarType
from binlogio_cli.main import cli
from binlogio_cli.quoting import hexdump, identifier, safe, safe_lines, string_literal
from corpus import MARIADB, MYSQL, cases
from logs import description, encode, header, log, query, transaction

if TYPE_CHECKING:
    from pathlib import Path

GTID_ON: Final = str(MYSQL / "gtid_on" / "binlog.000001")
ROWS: Final = str(MYSQL / "rowimage_full" / "binlog.000001")
FULL_METADATA: Final = str(MYSQL / "metadata_full" / "binlog.000001")
CRASHED: Final = MYSQL / "crashed"
UUID: Final = "2f658ac8-e51b-11f1-a314-02fc00000001"


def dump(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["dump", *map(str, arguments)])


def text_of(*arguments: str | Path) -> str:
    result = dump(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def json_of(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text_of("--format", "json", *arguments).splitlines()]


def write(tmp_path: Path, *events: Any, **options: Any) -> Path:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*events, **options))
    return path


# ------------------------------------------------------------------------------------------------- what is shown


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_positions_are_those_that_the_server_shows(case: Any) -> None:
    """SHOW BINLOG EVENTS of the server, event by event, in both forms."""
    keys = ["--keyring", case.keys] if case.keys else []
    shown = case.load("events.json") or {}
    for path in (path for path in case.logs if path.name in shown):
        pairs = ((event["pos"], event["end_pos"]) for event in shown[path.name])
        size = path.stat().st_size if not case.keys else 1 << 32  # a log in use grew after it was copied
        expected = [
            (pos, end) for pos, end in pairs if pos < end <= size
        ]  # it shows events of payloads as having no length
        lines = json_of(*keys, path)
        text = text_of(*keys, "-vv", "--hexdump", path)

        assert [(line["pos"], line["end"]) for line in lines if "inner" not in line] == expected
        assert [int(offset) for offset in re.findall(r"^# at (\d+)$", text, re.MULTILINE)] == [
            pos for pos, _ in expected
        ]
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)


def test_row_changes_are_readable_without_asking() -> None:
    """Names where the log has them, values as SQL writes them."""
    text = text_of(FULL_METADATA)

    assert "### INSERT INTO `corpus`.`m1`\n### SET\n###   `id`=4000000000\n###   `näme`='ñ'\n" in text
    assert "###   `b`=0x00\n" in text
    assert "###   `u8`=18446744073709551615\n" in text
    assert "###   `d`=1.50\n" in text


def behind_ddl(path: str | Path) -> list[str]:
    """Options that leave out all up to the first CREATE TABLE of a log."""
    first = next(line for line in json_of(path) if str(line.get("sql", "")).startswith("CREATE TABLE"))
    return ["--start-position", str(first["end"])]


def test_columns_have_the_names_of_the_statement_that_made_them() -> None:
    """Where the metadata has none."""
    text = text_of(ROWS)

    assert "### UPDATE `corpus`.`pk`\n### WHERE\n###   `id`=1\n###   `a`=10\n" in text


def test_columns_without_names_have_numbers() -> None:
    """As the server's own tool shows them."""
    text = text_of(*behind_ddl(ROWS), ROWS)

    assert "### UPDATE `corpus`.`pk`\n### WHERE\n###   @1=1\n###   @2=10\n" in text
    assert "### DELETE FROM `corpus`.`pk`\n### WHERE\n###   @1=1\n" in text


def test_very_verbose_adds_types() -> None:
    """-vv, for those who must know."""
    text = text_of("-vv", FULL_METADATA)

    assert "###   `id`=4000000000 /* @1 INT UNSIGNED meta=0 nullable=0 is_null=0 */\n" in text
    assert re.search(r"=1\.50 /\* @\d+ DECIMAL\(10,2\) UNSIGNED meta=2562 ", text)


def test_partial_json_is_shown_as_functions() -> None:
    """The change, not only that there was one."""
    text = text_of(MYSQL / "partial_json" / "binlog.000001")

    assert re.search(r"###   `(\w+)`=JSON_REPLACE\(`\1`, '\$", text)


def test_payloads_are_opened() -> None:
    """Compressed transactions show what is in them, with a note before it."""
    path = MYSQL / "compressed" / "binlog.000001"
    text = text_of(path)
    inner = [line for line in json_of(path) if "inner" in line]

    assert re.search(
        r"Transaction_Payload\tpayload_size=\d+\tcompression_type=ZSTD\tuncompressed_size=\d+\n# The events", text
    )
    assert re.search(r"^# at \d+, event 1 of the payload$", text, re.MULTILINE)
    assert {"TABLE_MAP_EVENT", "WRITE_ROWS_EVENT", "XID_EVENT"} <= {line["type"] for line in inner}


def test_json_has_rows_by_column_name() -> None:
    """One object an event, before and after images in it."""
    updates = [line for line in json_of(FULL_METADATA) if line["type"] == "UPDATE_ROWS_EVENT"]
    (row,) = updates[0]["rows"]

    assert set(row) == {"before", "after"}
    assert (updates[0]["schema"], set(row["before"])) == ("corpus", set(row["after"]))


def test_mariadb_events_are_shown() -> None:
    """Names of MariaDB's own events, and its GTIDs."""
    text = text_of(MARIADB / "annotate_rows" / "binlog.000001")

    assert "\tGTID 0-1-1 " in text
    assert "\tGtid list []" in text
    assert "\tBinlog checkpoint binlog.000001" in text
    assert "\tAnnotate_rows:\n# INSERT " in text


def test_statements_stand_with_their_context() -> None:
    """The variables that the next statement needs, and the session's."""
    text = text_of(MYSQL / "format_statement" / "binlog.000001")

    assert re.search(r"^SET INSERT_ID=\d+/\*!\*/;$", text, re.MULTILINE)
    assert re.search(r"^SET @@RAND_SEED1=\d+, @@RAND_SEED2=\d+/\*!\*/;$", text, re.MULTILINE)
    assert re.search(r"^SET @`.*`:=_utf8mb4 x'[0-9a-f]+' COLLATE utf8mb4_\w+/\*!\*/;$", text, re.MULTILINE)
    assert "\tBegin_load_query: file_id: 1  block_len: " in text


def test_short_form_has_only_statements_and_rows() -> None:
    """No positions, no headers, no session variables."""
    text = text_of("--short-form", ROWS)

    assert "# at" not in text
    assert "server id" not in text
    assert "### INSERT INTO `corpus`.`pk`" in text
    assert text.startswith("CREATE DATABASE corpus\n")


def test_times_are_shown_in_the_zone_of_the_option() -> None:
    """UTC unless told otherwise."""
    utc = re.search(r"^#(\d{6} \d\d)", text_of(ROWS), re.MULTILINE)
    shifted = re.search(r"^#(\d{6} \d\d)", text_of("--time-zone", "Asia/Tokyo", ROWS), re.MULTILINE)

    assert utc is not None
    assert shifted is not None
    assert (utc[1], shifted[1]) == ("261120 19", "261121 04")


def test_result_file_takes_the_output(tmp_path: Path) -> None:
    """And nothing goes to standard output."""
    path = tmp_path / "out.sql"

    assert text_of("-r", path, ROWS) == ""
    assert path.read_text(encoding="utf-8") == text_of(ROWS)


def test_habits_from_the_servers_tool_do_no_harm() -> None:
    """The options that people type without thinking."""
    assert text_of("--no-defaults", "--base64-output=decode-rows", "-v", "-c", ROWS) == text_of(ROWS)


# ----------------------------------------------------------------------------------------------- what is left out


def test_database_filter_keeps_whole_groups_only_where_something_is_left() -> None:
    """Transactions of other databases leave no empty BEGIN and COMMIT behind."""
    lines = json_of("-d", "dätabase-2", FULL_METADATA)
    types = [line["type"] for line in lines if line["pos"] > 200]

    assert types.count("GTID_LOG_EVENT") == types.count("QUERY_EVENT") == 2  # CREATE DATABASE, the INSERT's BEGIN
    assert types.count("WRITE_ROWS_EVENT") == types.count("XID_EVENT") == types.count("TABLE_MAP_EVENT") == 1


@pytest.mark.parametrize("glob", ["pk2", "corpus.pk2", "*.pk2", "pk[2]"])
def test_table_filter_shows_rows_and_statements_of_the_table(glob: str) -> None:
    """Globs, with and without the database."""
    text = text_of("-s", "-T", glob, ROWS)

    assert "CREATE TABLE pk2 (" in text
    assert set(re.findall(r"^### (?:INSERT INTO|UPDATE|DELETE FROM) (.*)$", text, re.MULTILINE)) == {"`corpus`.`pk2`"}
    assert "CREATE TABLE pk (" not in text


def test_filters_may_be_repeated() -> None:
    """Either table."""
    text = text_of("-s", "-T", "pk", "-T", "nokey", ROWS)

    assert set(re.findall(r"^### INSERT INTO (.*)$", text, re.MULTILINE)) == {"`corpus`.`pk`", "`corpus`.`nokey`"}


def test_statement_of_another_table_takes_its_text_with_it() -> None:
    """ROWS_QUERY belongs to the rows behind it, not to its transaction."""
    lines = json_of(MYSQL / "rows_query" / "binlog.000001")
    tables = {line["table"] for line in lines if line["type"] == "TABLE_MAP_EVENT"}
    table = min(tables)
    kept = json_of("-T", table, MYSQL / "rows_query" / "binlog.000001")
    queries = [line["sql"] for line in kept if line["type"] == "ROWS_QUERY_LOG_EVENT"]

    assert queries
    assert len(queries) <= sum(line["type"].endswith("ROWS_EVENT") for line in kept)


def test_gtid_sets_choose_transactions() -> None:
    """Tagged ones as well."""
    kept = json_of("--include-gtids", f"{UUID}:2-4:tag:1", GTID_ON)
    gtids = [line["gtid"] for line in kept if "gtid" in line]

    assert gtids == [f"{UUID}:2", f"{UUID}:3", f"{UUID}:4", f"{UUID}:tag:1"]


def test_excluded_gtids_are_left_out() -> None:
    """The complement."""
    everything = [line["gtid"] for line in json_of(GTID_ON) if "gtid" in line]
    rest = [line["gtid"] for line in json_of("--exclude-gtids", f"{UUID}:1-4", GTID_ON) if "gtid" in line]

    assert rest == everything[4:]


def test_positions_cut_between_events() -> None:
    """The format description is there in any case."""
    lines = json_of("--start-position", "235", "--stop-position", "584", GTID_ON)

    assert [line["pos"] for line in lines] == [4, 235, 349, 426]


def test_times_choose_whole_groups(tmp_path: Path) -> None:
    """From the first group that begins in time up to the first that begins too late; their events' own times do not matter."""
    events = [*transaction(1), *transaction(2), *transaction(3)]
    timed = [event_at(event, 1000 + 10 * (index // 3) + 100 * (index % 3 == 2)) for index, event in enumerate(events)]
    path = write(tmp_path, *timed)
    lines = json_of("--start-datetime", "1970-01-01 00:16:50", "--stop-datetime", "1970-01-01T00:17:00Z", path)

    assert [line.get("xid", line.get("sql")) for line in lines[1:]] == ["BEGIN", "INSERT INTO t VALUES (2)", 2]


def event_at(event: Any, timestamp: int) -> Any:
    return replace(event, header=replace(event.header, timestamp=timestamp))


# -------------------------------------------------------------------------------------------------- tails, damage


@pytest.mark.parametrize("missing", [1, 30, 60])
def test_torn_tail_of_a_log_in_use_is_said_and_is_no_error(tmp_path: Path, missing: int) -> None:
    """The last whole event group is named."""
    path = tmp_path / "binlog.000001"
    path.write_bytes((CRASHED / "binlog.000001").read_bytes()[:-missing])
    result = dump(path)
    match = re.search(r"the last whole event group ends at (\d+)", result.stderr)

    assert result.exit_code == 0
    assert match is not None
    assert f"# at {match[1]}\n" in result.stdout  # where the next group begins


def test_torn_tail_of_an_earlier_file_is_said_too() -> None:
    """A server that crashed goes on in the next file."""
    result = dump(CRASHED / "binlog.truncated_body", GTID_ON)

    assert result.exit_code == 0
    assert result.stderr.count("the log was in use") == 1
    assert "# File " in result.stdout


def test_damage_is_shown_after_what_came_before_it() -> None:
    """Exit code 1, and the events up to there."""
    result = dump(CRASHED / "binlog.bitflip")

    assert result.exit_code == 1
    assert "# at 158\n" in result.stdout
    assert re.search(r"at \d+: \w+: the event's checksum is wrong", result.stderr)


def test_damage_in_rows_leaves_no_half_a_json_line() -> None:
    """Whoever reads the lines gets objects only."""
    path = MARIADB / "types_old_temporal" / "binlog.000001"  # fraction digits are in its DDL only
    result = dump("--format", "json", *behind_ddl(path), path)

    assert result.exit_code == 1
    assert all(json.loads(line) for line in result.stdout.splitlines())


def test_unverified_checksum_shows_the_event(tmp_path: Path) -> None:
    """For those who would rather see damaged events than none."""
    data = bytearray(log(*transaction(1)))
    data[-5] ^= 1  # the XID's number
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)

    assert dump(path).exit_code == 1
    assert "Xid = " in text_of("--no-verify-checksum", path)


# --------------------------------------------------------------------------------------------------------- safety

HOSTILE: Final = "\x1b]0;owned\x07\u202egpj\x9b2J`'\r"


def test_nothing_from_a_log_reaches_the_terminal_raw(tmp_path: Path) -> None:
    """Names, statements, messages, file names: escape sequences are shown, not sent."""
    events = [
        query(f"SELECT '{HOSTILE}'", schema=HOSTILE),
        UserVarEvent(
            HOSTILE, 0, UserVarType.STRING_RESULT, 255, HOSTILE.encode(), b"", header(EventType.USER_VAR_EVENT)
        ),
        IncidentEvent(1, HOSTILE, header(EventType.INCIDENT_EVENT)),
        RotateEvent(4, HOSTILE, header(EventType.ROTATE_EVENT)),
    ]
    path = write(tmp_path, *events)
    text = text_of(path)

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "use `\\x1b]0;owned\\x07\\u202egpj\\x9b2J``'\\x0d`/*!*/;" in text
    assert not re.search("[^\x20-\x7e\n]", text_of("--format", "json", path))


def test_bytes_that_are_no_text_are_shown_as_escapes(tmp_path: Path) -> None:
    """A statement in an unknown character set is not lost."""
    text = text_of(write(tmp_path, query_of(b"SELECT '\xff\xfe'")))

    assert "SELECT '\\xff\\xfe'\n" in text


def test_statement_of_another_character_set_is_shown_in_utf8_and_says_so(tmp_path: Path) -> None:
    """What stands beside the text fits it: in gbk, half of a character that is shown would be a backslash."""
    gbk = StatusVar(QueryStatus.CHARSET, SessionCharset(28, 28, 8))
    text = text_of(write(tmp_path, replace(query_of(b"SELECT '\x95\x5c'"), status_vars=(gbk,))))

    assert "SET @@session.character_set_client=utf8mb4 /* gbk in the log */, @@session.collation_connection=28" in text
    assert "\nSELECT '昞'\n" in text


def query_of(sql: bytes) -> Any:
    return replace(query(""), sql=sql)


def test_load_data_is_kept_together_by_a_filter(tmp_path: Path) -> None:
    """The blocks of the file go with their statement, or not at all."""
    load = ExecuteLoadQueryEvent(
        7,
        0,
        0,
        1,
        9,
        20,
        0,
        (),
        "wanted",
        b"LOAD DATA INFILE 'x' INTO TABLE t",
        header(EventType.EXECUTE_LOAD_QUERY_EVENT),
    )
    blocks = [
        BeginLoadQueryEvent(1, b"1\n", header(EventType.BEGIN_LOAD_QUERY_EVENT)),
        AppendBlockEvent(1, b"2\n", header(EventType.APPEND_BLOCK_EVENT)),
    ]
    path = write(tmp_path, IntvarEvent(2, 5, header(EventType.INTVAR_EVENT)), *blocks, load, *transaction(1))
    kept = [line["type"] for line in json_of("-d", "wanted", path)][1:]
    dropped = [line["type"] for line in json_of("-d", "d", path)][1:]

    assert kept == ["INTVAR_EVENT", "BEGIN_LOAD_QUERY_EVENT", "APPEND_BLOCK_EVENT", "EXECUTE_LOAD_QUERY_EVENT"]
    assert dropped == ["QUERY_EVENT", "QUERY_EVENT", "XID_EVENT"]


def test_unknown_ignorable_event_is_shown(tmp_path: Path) -> None:
    """Amazon Aurora pads with type 100."""
    padding = UnknownEvent(b"\0" * 8, header(100, flags=0x80))
    path = tmp_path / "binlog.000001"
    path.write_bytes(BINLOG_MAGIC + encode([description(), padding]))

    assert "\tIgnorable event of unknown type 100, 8 bytes\n" in text_of(path)
    assert json_of(path)[1]["type"] == "UNKNOWN_EVENT_TYPE_100"


@pytest.mark.parametrize(
    ("function", "text", "shown"),
    [
        (identifier, "a`b", "`a``b`"),
        (string_literal, 'it\'s "ü"', "'it''s \"ü\"'"),
        (string_literal, "a\\b", "_utf8mb4 0x615c62 /* a\\b */"),
        (string_literal, "*/\n\udcff", "_utf8mb4 0x2a2f0aff /* * /\\x0a\\xff */"),
        (safe, "\udc80\ud800\u2028", "\\x80\\ud800\\u2028"),
        (safe_lines, "a\r\nb\tc\rd", "a\nb\tc\\x0dd"),
    ],
)
def test_quoting_leaves_nothing_that_acts(function: Any, text: str, shown: str) -> None:
    """Quotes are doubled, controls are written out."""
    assert function(text) == shown


def test_hexdump_shows_offset_bytes_and_characters() -> None:
    """Sixteen a line."""
    lines = list(hexdump(bytes(range(0x38, 0x4A)), 100))

    assert lines == [
        "#       64  38 39 3a 3b 3c 3d 3e 3f  40 41 42 43 44 45 46 47  |89:;<=>?@ABCDEFG|",
        "#       74  48 49                                             |HI|",
    ]
