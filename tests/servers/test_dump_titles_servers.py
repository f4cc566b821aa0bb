"""`dump -vv` beside `mysqlbinlog -vv` and `mariadb-binlog -vv`: positions and title of every event of the fixtures.

The differences are those of docs/dump.md and no others; values of rows and statements are not compared.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from real_servers import vendor

pytestmark = [pytest.mark.server]

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
FOLDERS: Final = {"mysql": "mysql97", "mariadb": "mariadb1011", "mariadb118": "mariadb118"}
UNREADABLE: Final = "types_old_temporal"  # the tool of MariaDB ends at the first table of this log
TITLE: Final = re.compile(r"#(\d{6} [ \d]\d:\d\d:\d\d server id \d+ +end_log_pos \d+)(?: CRC32 0x[0-9a-f]{8})?\s*(.*)")

# Expressions, and the text in place of what they match: in the title of the tool, and in ours.
THEIRS: Final = (
    (r" created \d{6} [ \d]\d:\d\d:\d\d", ""),
    (r"\txid=\d+$", ""),
    (r"^Query_compressed", "Query"),
    (r"^(Write|Update|Delete)_compressed_rows", r"\1_rows"),
    (r"^XID = ", "XA PREPARE "),
    (r"^Gtid list \[.*", "Gtid list ["),
)
OURS: Final = (
    (r"``", "`"),
    (r" +checksum (NONE|CRC32)", ""),
    (r" in use, or not closed cleanly\s*$", ""),
    (r"^(Execute_load_query\t.*)\tfile_id=\d+$", r"\1"),
    (r"^(Intvar|Rand|User_var)\t.*", r"\1"),
    (r" (standalone|allow_parallel|group_commit_id)(?= |$)", ""),
    (r" XID X'\w*',X'\w*',\d+", ""),
    (r" (prepared_xa|completed_xa)(?= |$)", ""),
    (r"^(GTID .*) transactional", r"\1 trans"),
    (r"^(XA PREPARE .*) ONE PHASE$", r"\1"),
    (r"^Gtid list \[.*", "Gtid list ["),
    (r"^(Begin_load_query|Append_block): .*", ""),
)
MARIADB_OURS: Final = (
    *OURS,
    (r" (NO_FOREIGN_KEY_CHECKS_F|RELAXED_UNIQUE_CHECKS_F)", ""),
    (r"^(Query\t.*)\tXid = \d+$", r"\1"),
)


def titles(text: str, differences: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """Return header and title of each event."""
    found = []
    for line in text.split("\n"):
        if match := TITLE.fullmatch(line):
            head, title = match[1], match[2].strip()
            for expression, instead in differences:
                title = re.sub(expression, instead, title)
            title = re.sub(r"\s+", " ", title).strip()
            found.append((re.sub(r"^(\d+)  ", r"\1 0", re.sub(r"id (\d+) +", r"id \1 ", head)), title))
    return found


def positions(text: str) -> set[int]:
    """Return the positions of events; those of a payload have the position of one."""
    return {int(found) for found in re.findall(r"^# at (\d+)", text, re.MULTILINE)}


@pytest.mark.parametrize("kind", FOLDERS)
def test_dump_has_the_positions_and_titles_of_the_servers_tool(kind: str) -> None:
    """Every fixture log of the vendor's version; fields that only one side prints are left out as listed."""
    server = vendor(kind)
    compared = 0
    with server.folder("titles") as folder:
        for log in sorted((FIXTURES / FOLDERS[kind]).glob("*/binlog.0*[0-9]")):
            if log.parent.name in {"encrypted", UNREADABLE}:
                continue
            shutil.copy(log, folder / log.name)
            done = server.run(
                "mariadb-binlog" if server.is_mariadb else "mysqlbinlog", "--no-defaults", "-vv",
                "--base64-output=decode-rows", server.inside(folder / log.name),
            )  # fmt: skip
            ours = CliRunner().invoke(cli, ["dump", "-vv", str(log)]).stdout
            theirs = done.stdout.decode("utf-8", "replace")

            assert positions(ours) == positions(theirs), log
            expected, found = titles(theirs, THEIRS), titles(ours, MARIADB_OURS if server.is_mariadb else OURS)
            if "Transaction_Payload" in theirs:  # the tool gives the events of a payload the payload's end_log_pos
                expected, found = (
                    [(head.split(" end_")[0], title) for head, title in side] for side in (expected, found)
                )
            assert found == expected, log
            compared += len(found)
    assert compared > 1000
