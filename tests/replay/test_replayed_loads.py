"""LOAD DATA in a log: whose file a statement gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import binlogio
from binlogio.constants import EventType
from binlogio.events.load import (
    AppendBlockEvent,
    BeginLoadQueryEvent,
    DeleteFileEvent,
    ExecLoadEvent,
    ExecuteLoadQueryEvent,
    LoadEvent,
    LoadOptions,
)
from binlogio.replay.filters import EVERYTHING
from binlogio.replay.key_source import KeySource
from binlogio.replay.steps import LoadStep, LoggedTransaction, RefusedStep, StatementStep
from binlogio.replay.transactions import TransactionReader
from logs import header, log, query
from row_events import END

if TYPE_CHECKING:
    from pathlib import Path


def begin(block: bytes) -> BeginLoadQueryEvent:
    return BeginLoadQueryEvent(1, block, header(EventType.BEGIN_LOAD_QUERY_EVENT))


def append(block: bytes) -> AppendBlockEvent:
    return AppendBlockEvent(1, block, header(EventType.APPEND_BLOCK_EVENT))


DELETE = DeleteFileEvent(1, header(EventType.DELETE_FILE_EVENT))
EXECUTE = ExecuteLoadQueryEvent(
    7, 0, 0, 1, 9, 20, 0, (), "d", b"LOAD DATA INFILE 'x' INTO TABLE t", header(EventType.EXECUTE_LOAD_QUERY_EVENT)
)


def transactions(tmp_path: Path, *groups: list[Any]) -> list[LoggedTransaction]:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*(event for group in groups for event in (query("BEGIN"), *group, END))))
    with binlogio.open(path) as reader:
        return list(TransactionReader(reader, KeySource(reader), EVERYTHING))


def test_file_of_a_load_that_failed_is_not_part_of_the_next_one(tmp_path: Path) -> None:
    """A server that was started again counts its files from 1 again."""
    failed, done = transactions(tmp_path, [begin(b"old"), append(b"er")], [begin(b"new"), append(b"er"), EXECUTE])

    (step,) = done.steps
    assert failed.steps == ()
    assert isinstance(step, LoadStep)
    assert step.data == b"newer"


def test_load_whose_file_is_not_in_the_log_is_refused(tmp_path: Path) -> None:
    """Neither an empty file nor the rest of one takes its place."""
    for blocks in ([], [append(b"rest")], [begin(b"gone"), DELETE]):
        (found,) = transactions(tmp_path, [*blocks, EXECUTE])

        (step,) = found.steps
        assert isinstance(step, RefusedStep)
        assert step.offset
        assert "file of a LOAD DATA is not in the log" in str(step.refusal)
        assert "start with the log that has its BEGIN_LOAD_QUERY_EVENT" in str(step.refusal)


def test_load_of_a_server_before_5_0_is_refused(tmp_path: Path) -> None:
    """Its rows would be missing; whether it carries the file, or names one."""
    options = LoadOptions(b"\t", b'"', b"\n", b" ", b"\\", 0, 0)
    for event in (
        LoadEvent(7, 0, 0, options, (), "t", "d", b"x", header(EventType.LOAD_EVENT)),
        ExecLoadEvent(1, header(EventType.EXEC_LOAD_EVENT)),
    ):
        (found,) = transactions(tmp_path, [event])

        (step,) = found.steps
        assert isinstance(step, RefusedStep)
        assert step.offset
        assert "LOAD DATA of a server before 5.0 is in the log as SQL text" in str(step.refusal)


@pytest.mark.parametrize(
    "sql",
    [
        "LOAD DATA LOCAL INFILE '/etc/shadow' INTO TABLE t",
        "load /* why */ xml concurrent local infile '/etc/shadow' into table t",
        "/*!50000 LOAD DATA LOCAL*/ INFILE '/etc/shadow' INTO TABLE t",
        "/*M! LOAD DATA LOCAL*/ INFILE '/etc/shadow' INTO TABLE t",
        "LOAD DATA/*!99999 LOCAL*/ INFILE '/etc/shadow' INTO TABLE t",
        "-- first\n# second\nLOAD DATA LOW_PRIORITY LOCAL INFILE '/etc/shadow' INTO TABLE t",
    ],
)
def test_load_of_a_file_of_the_client_is_refused(tmp_path: Path, sql: str) -> None:
    """The server would ask this machine for it."""
    for event in (query(sql), query(sql, "")):
        (found,) = transactions(tmp_path, [event])

        (step,) = found.steps
        assert isinstance(step, RefusedStep)
        assert "would send a file of this machine to the target" in str(step.refusal)


@pytest.mark.parametrize(
    "sql", ["LOAD DATA INFILE 'LOCAL' INTO TABLE t", "LOAD DATA INFILE 'x' INTO TABLE local", "# LOAD DATA LOCAL\nDO 1"]
)
def test_load_of_a_file_of_the_server_is_a_statement(tmp_path: Path, sql: str) -> None:
    """The target may refuse it."""
    (found,) = transactions(tmp_path, [query(sql)])

    assert isinstance(found.steps[0], StatementStep)
