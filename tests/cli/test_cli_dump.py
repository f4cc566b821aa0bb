"""`binlogio dump`: text and JSON output of real files, complete and damaged."""

from __future__ import annotations

import json
import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pytest

from binlogio.constants import BINLOG_MAGIC
from binlogio.events.base import UnknownEvent
from corpus import MARIADB, MARIADB118, MYSQL, cases
from dumped_logs import CRASHED, FULL_METADATA, GTID_ON, ROWS, behind_ddl, dump, json_of, text_of
from logs import description, encode, header, log, transaction

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_positions_are_those_that_the_server_shows(case: Any) -> None:
    """Text and JSON agree with SHOW BINLOG EVENTS of the server, event by event."""
    keys = ["--keyring", case.keys] if case.keys else []
    shown = case.load("events.json")
    for path in case.logs:
        ends = [event["pos"] for event in shown[path.name][1:]]  # inside of a group MariaDB 11.8 shows none
        pairs = ((event["pos"], event["end_pos"] or end) for event, end in zip_longest(shown[path.name], ends))
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


def test_what_mariadb_11_8_writes_is_shown() -> None:
    """The title of a GTID event has the thread, and a VECTOR is SQL of that server."""
    text = text_of(MARIADB118 / "metadata_full" / "binlog.000001")

    assert re.search(r"\tGTID 0-1-1 standalone allow_parallel ddl thread_id=[1-9]", text)
    assert "###   `v`=VEC_FromText('[1,2,3]')\n" in text
    assert "###   `u`='123e4567-e89b-12d3-a456-426655440000'\n" in text


def test_character_set_of_a_newer_mariadb_is_named() -> None:
    """A server that writes 579 for its own statements does not take that number for character_set_client."""
    text = text_of(MARIADB118 / "format_statement" / "binlog.000001")

    assert "@@session.character_set_client=utf8mb3, @@session.collation_connection=2304" in text
    assert "character_set_client=579" not in text


def test_directory_is_read_without_the_gtid_index_files_in_it() -> None:
    """binlog_gtid_index=ON puts binlog.000001.idx beside the log."""
    folder = MARIADB118 / "gtid"
    logs = [folder / "binlog.000001", folder / "binlog.000002"]

    assert (folder / "binlog.000001.idx").stat().st_size
    assert [line["pos"] for line in json_of(folder)] == [line["pos"] for line in json_of(*logs)]


def test_row_changes_are_readable_without_asking() -> None:
    """Columns have the names of the log, and values are SQL literals."""
    text = text_of(FULL_METADATA)

    assert "### INSERT INTO `corpus`.`m1`\n### SET\n###   `id`=4000000000\n###   `näme`='ñ'\n" in text
    assert "###   `b`=0x00\n" in text
    assert "###   `u8`=18446744073709551615\n" in text
    assert "###   `d`=1.50\n" in text


def test_columns_have_the_names_of_the_statement_that_made_them() -> None:
    """Columns without names in the metadata are @1, @2 and so on."""
    text = text_of(ROWS)

    assert "### UPDATE `corpus`.`pk`\n### WHERE\n###   `id`=1\n###   `a`=10\n" in text


def test_columns_without_names_have_numbers(tmp_path: Path) -> None:
    """They look as in the server's own tool."""
    text = text_of(behind_ddl(ROWS, tmp_path))

    assert "### UPDATE `corpus`.`pk`\n### WHERE\n###   @1=1\n###   @2=10\n" in text
    assert "### DELETE FROM `corpus`.`pk`\n### WHERE\n###   @1=1\n" in text


def test_very_verbose_adds_types() -> None:
    """-vv adds the types of columns."""
    text = text_of("-vv", FULL_METADATA)

    assert "###   `id`=4000000000 /* @1 INT UNSIGNED meta=0 nullable=0 is_null=0 */\n" in text
    assert re.search(r"=1\.50 /\* @\d+ DECIMAL\(10,2\) UNSIGNED meta=2562 ", text)


def test_partial_json_is_shown_as_functions() -> None:
    """The output has the change itself, not only a count."""
    text = text_of(MYSQL / "partial_json" / "binlog.000001")

    assert re.search(r"###   `(\w+)`=JSON_REPLACE\(`\1`, '\$", text)


def test_payloads_are_opened() -> None:
    """The events of compressed transactions are shown, after a note."""
    path = MYSQL / "compressed" / "binlog.000001"
    text = text_of(path)
    inner = [line for line in json_of(path) if "inner" in line]

    assert re.search(
        r"Transaction_Payload\tpayload_size=\d+\tcompression_type=ZSTD\tuncompressed_size=\d+\n# The events", text
    )
    assert re.search(r"^# at \d+, event 1 of the payload$", text, re.MULTILINE)
    assert {"TABLE_MAP_EVENT", "WRITE_ROWS_EVENT", "XID_EVENT"} <= {line["type"] for line in inner}


def test_json_has_rows_by_column_name() -> None:
    """Each event is one object, with before and after images."""
    updates = [line for line in json_of(FULL_METADATA) if line["type"] == "UPDATE_ROWS_EVENT"]
    (row,) = updates[0]["rows"]

    assert set(row) == {"before", "after"}
    assert (updates[0]["schema"], set(row["before"])) == ("corpus", set(row["after"]))


def test_mariadb_events_are_shown() -> None:
    """MariaDB's own events have their names, and its GTIDs are shown."""
    text = text_of(MARIADB / "annotate_rows" / "binlog.000001")

    assert "\tGTID 0-1-1 " in text
    assert "\tGtid list []" in text
    assert "\tBinlog checkpoint binlog.000001" in text
    assert "\tAnnotate_rows:\n# INSERT " in text


def test_statements_stand_with_their_context() -> None:
    """Session variables of the next statement are shown."""
    text = text_of(MYSQL / "format_statement" / "binlog.000001")

    assert re.search(r"^SET INSERT_ID=\d+/\*!\*/;$", text, re.MULTILINE)
    assert re.search(r"^SET @@RAND_SEED1=\d+, @@RAND_SEED2=\d+/\*!\*/;$", text, re.MULTILINE)
    assert re.search(r"^SET @`.*`:=_utf8mb4 x'[0-9a-f]+' COLLATE utf8mb4_\w+/\*!\*/;$", text, re.MULTILINE)
    assert "\tBegin_load_query: file_id: 1  block_len: " in text


def test_short_form_has_only_statements_and_rows() -> None:
    """The short form has no positions, no headers and no session variables."""
    text = text_of("--short-form", ROWS)

    assert "# at" not in text
    assert "server id" not in text
    assert "### INSERT INTO `corpus`.`pk`" in text
    assert text.startswith("CREATE DATABASE corpus\n")


def test_times_are_shown_in_the_zone_of_the_option() -> None:
    """Times are in UTC by default."""
    utc = re.search(r"^#(\d{6} \d\d)", text_of(ROWS), re.MULTILINE)
    shifted = re.search(r"^#(\d{6} \d\d)", text_of("--time-zone", "Asia/Tokyo", ROWS), re.MULTILINE)

    assert utc is not None
    assert shifted is not None
    assert (utc[1], shifted[1]) == ("261120 19", "261121 04")


def test_result_file_takes_the_output(tmp_path: Path) -> None:
    """The file has the output, and standard output is empty."""
    path = tmp_path / "out.sql"

    assert text_of("-r", path, ROWS) == ""
    assert path.read_text(encoding="utf-8") == text_of(ROWS)


def test_habits_from_the_servers_tool_do_no_harm() -> None:
    """Options that users of mysqlbinlog type by habit are accepted."""
    assert text_of("--no-defaults", "--base64-output=decode-rows", "-v", "-c", ROWS) == text_of(ROWS)


# ---------------------------------------------------------------------------------------------------- tails, damage


@pytest.mark.parametrize("missing", [1, 30, 60])
def test_torn_tail_of_a_log_in_use_is_said_and_is_no_error(tmp_path: Path, missing: int) -> None:
    """The message names the end of the last complete event group."""
    path = tmp_path / "binlog.000001"
    path.write_bytes((CRASHED / "binlog.000001").read_bytes()[:-missing])
    result = dump(path)
    match = re.search(r"the last complete event group ends at (\d+)", result.stderr)

    assert result.exit_code == 0
    assert match is not None
    assert f"# at {match[1]}\n" in result.stdout  # where the next group begins


def test_torn_tail_of_an_earlier_file_is_said_too() -> None:
    """A server that crashed continues in the next file."""
    result = dump(CRASHED / "binlog.truncated_body", GTID_ON)

    assert result.exit_code == 0
    assert result.stderr.count("the log was in use") == 1
    assert "# File " in result.stdout


def test_damage_is_shown_after_what_came_before_it() -> None:
    """The exit code is 1, and the events before the damage are shown."""
    result = dump(CRASHED / "binlog.bitflip")

    assert result.exit_code == 1
    assert "# at 158\n" in result.stdout
    assert re.search(r"at \d+: \w+: the event's checksum is wrong", result.stderr)


def test_damage_in_rows_leaves_no_half_a_json_line(tmp_path: Path) -> None:
    """Every line is a JSON object."""
    path = MARIADB / "types_old_temporal" / "binlog.000001"  # fraction digits are in its DDL only
    result = dump("--format", "json", behind_ddl(path, tmp_path))
    lines = [json.loads(line) for line in result.stdout.splitlines()]

    assert result.exit_code == 1
    assert lines[-1]["type"] == "TABLE_MAP_EVENT"


def test_unverified_checksum_shows_the_event(tmp_path: Path) -> None:
    """Without verification damaged events are shown."""
    data = bytearray(log(*transaction(1)))
    data[-5] ^= 1  # the XID's number
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)

    assert dump(path).exit_code == 1
    assert "Xid = " in text_of("--no-verify-checksum", path)


def test_unknown_ignorable_event_is_shown(tmp_path: Path) -> None:
    """Amazon Aurora pads with type 100."""
    padding = UnknownEvent(b"\0" * 8, header(100, flags=0x80))
    path = tmp_path / "binlog.000001"
    path.write_bytes(BINLOG_MAGIC + encode([description(), padding]))

    assert "\tIgnorable event of unknown type 100, 8 bytes\n" in text_of(path)
    assert json_of(path)[1]["type"] == "UNKNOWN_EVENT_TYPE_100"


def test_the_definition_of_tables_is_shown_on_request(tmp_path: Path) -> None:
    """As FULL metadata has it, or as the DDL in the log leaves it."""
    full, ddl = (
        text_of("--print-table-metadata", MYSQL / name / "binlog.000001") for name in ("metadata_full", "gtid_on")
    )

    assert (
        "mapped to number 266\n# Columns(`id` int unsigned NOT NULL,\n#         `n\u00e4me` varchar(30) NOT NULL"
        in full
    )
    assert "#         `e` enum('a','\u00e9','it''s') CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci,\n" in full
    assert "#         `inv` int INVISIBLE,\n#         `gen` bigint)\n# Primary Key(id, n\u00e4me)\n# at 1518\n" in full
    assert "# Primary Key(b(7), a)\n" in full
    assert "`v` varchar(100) CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci)\n# Primary Key(id)\n" in ddl
    lines = re.findall(r"^# (?:Columns\(|        `|Primary Key).*\n", full, re.MULTILINE)
    assert "".join(line for line in full.splitlines(keepends=True) if line not in lines) == text_of(
        MYSQL / "metadata_full" / "binlog.000001"
    )
    short = text_of("--print-table-metadata", "--short-form", MYSQL / "metadata_full" / "binlog.000001")
    assert [line for line in short.splitlines(keepends=True) if line in lines] == lines
    log = MYSQL / "gtid_on" / "binlog.000001"
    unknown = text_of("--print-table-metadata", behind_ddl(log, tmp_path))
    assert "# Columns are not known: " in unknown
