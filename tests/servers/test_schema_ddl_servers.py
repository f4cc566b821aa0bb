"""DDL on real servers: definitions by a log are those of information_schema, and rows those of SELECT; or unknown.

`BINLOGIO_DDL_RECORDS` is a folder for the records of the corpus, which replace those in `fixtures/ddl_corpus`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from binlogio.schema.information_schema import QUERY, parse_information_schema
from binlogio.schema.types import MEMBER_TYPES, TEXT_TYPES
from ddl_corpus import EQUAL, METADATA, OPTIONS, WRONG, Recorder, corpus_cases, judge, plain_type, save
from real_servers import seeds, vendor

pytestmark = pytest.mark.server

SEEDS: Final = seeds("1-2")
STATEMENTS: Final = 100  # of a sequence
POINTS: Final = 5  # at which a sequence is compared


@pytest.mark.parametrize("kind", METADATA)
def test_the_corpus_is_followed_or_unknown(kind: str, tmp_path: Path) -> None:
    """Each case has metadata of every level, and tables that are in the log or older than it."""
    with vendor(kind).server("ddl", *OPTIONS) as server:
        recorder = Recorder(server)
        for case in corpus_cases():
            if kind in case.kinds:
                recorder.run(case)
    if (folder := os.environ.get("BINLOGIO_DDL_RECORDS")) is not None:
        save(Path(folder) / f"{kind}.tar.xz", recorder)

    assert recorder.refused == []
    for is_older in (False, True):
        folder_of_logs = tmp_path / str(is_older)
        folder_of_logs.mkdir()
        verdicts = judge(recorder.records, recorder.logs, folder_of_logs, is_older=is_older)

        assert [one for one in verdicts if one.result == WRONG] == []
        assert is_older or sum(one.result == EQUAL for one in verdicts) > 0.98 * len(verdicts)


@pytest.mark.parametrize("kind", METADATA)
def test_random_sequences_are_followed_or_unknown(kind: str, tmp_path: Path) -> None:
    """A failure names the seed as the number of the case."""
    with vendor(kind).server("ddlrandom", *OPTIONS) as server:
        recorder = Recorder(server)
        for seed in SEEDS:
            recorder.run_random(seed, STATEMENTS, POINTS)
    verdicts = judge(recorder.records, recorder.logs, tmp_path)

    assert [one for one in verdicts if one.result == WRONG] == []
    assert {one.case for one in verdicts if one.what == "definition"} >= set(SEEDS)


@pytest.mark.parametrize("kind", METADATA)
def test_the_query_for_information_schema_gives_the_same_columns(kind: str) -> None:
    """As the statements that made the tables."""
    import pymysql  # noqa: PLC0415

    first = {statement for case in corpus_cases() if kind in case.kinds for statement in case.start}
    with vendor(kind).server("ddlquery", *OPTIONS) as server:
        options = {"unix_socket": str(server.socket), "user": "root", "charset": "utf8mb4"}
        with pymysql.connect(**options) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE d CHARACTER SET latin1")
            cursor.execute("USE d")
            for statement in sorted(first, key=lambda text: "child" in text):
                cursor.execute(statement)
            cursor.execute(
                "SELECT table_name, column_name, column_type, collation_name FROM information_schema.columns WHERE "
                "table_schema = 'd' AND table_name <> 'seq' ORDER BY CAST(table_name AS BINARY), ordinal_position"
            )
            expected = [(*row[:2], plain_type(row[2]), row[3]) for row in cursor.fetchall()]
        found = [
            (
                table.name,
                column.name,
                plain_type(column.type),
                _shown_collation(column.collation, table.collation, text),
            )
            for table in parse_information_schema(server.sql(QUERY, names=True))
            for column in table.columns
            for text in [column.sql_type.name in (*TEXT_TYPES, *MEMBER_TYPES)]
        ]

        assert found == expected


def _shown_collation(own: str | None, table: str, is_text: bool) -> str | None:
    return own or (table if is_text else None)
