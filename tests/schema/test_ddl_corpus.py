"""The corpus of DDL, as three real servers recorded it: definitions and rows by the log are the server's, or unknown.

`fixtures/ddl_corpus.sql` has the cases, and `fixtures/ddl_corpus/unknown.txt` what is unknown, with the reasons.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from ddl_corpus import EQUAL, METADATA, RECORDS, UNKNOWN, WRONG, corpus_cases, judge, load

if TYPE_CHECKING:
    from pathlib import Path

KNOWN_OF_OLDER: Final = {"mysql": 36, "mariadb": 45, "mariadb118": 45}  # definitions that the statements alone give


def test_the_corpus_has_cases_of_every_server() -> None:
    cases = corpus_cases()

    assert sum(len(case.statements) for case in cases) > 900
    for kind in METADATA:
        records, _ = load(RECORDS / f"{kind}.tar.xz")

        assert [record["number"] for record in records] == [case.number for case in cases if kind in case.kinds]


@pytest.mark.parametrize("kind", METADATA)
def test_tables_of_a_log_are_those_of_the_server_or_unknown(kind: str, tmp_path: Path) -> None:
    """The log has the tables from the beginning."""
    verdicts = judge(*load(RECORDS / f"{kind}.tar.xz"), tmp_path)
    unknown = [f"{kind} {one}" for one in verdicts if one.result not in (EQUAL, WRONG)]

    assert [one for one in verdicts if one.result == WRONG] == []
    assert unknown == [line for line in UNKNOWN.read_text().splitlines() if line.startswith(f"{kind} ")]


@pytest.mark.parametrize("kind", METADATA)
def test_tables_older_than_the_log_are_unknown_and_never_wrong(kind: str, tmp_path: Path) -> None:
    """Names come from metadata alone, and from statements that define a whole table."""
    verdicts = judge(*load(RECORDS / f"{kind}.tar.xz"), tmp_path, is_older=True)
    counts = Counter((one.what, one.result) for one in verdicts)

    assert [one for one in verdicts if one.result == WRONG] == []
    assert counts["definition", EQUAL] == KNOWN_OF_OLDER[kind]
    assert [one.text for one in verdicts if one.what == "FULL" and one.result != EQUAL] == [
        "the type of x"
        for _ in range(kind != "mysql")  # UUID, which is BINARY in metadata
    ]
