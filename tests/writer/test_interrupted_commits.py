"""Commits that an exception interrupts (KeyboardInterrupt): no session waits for ever, no acknowledged group is lost.

The exception is raised in front of each bytecode of the group commit, one after the other, in a thread that commits
beside two others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dis import opmap
from functools import partial
from threading import Event, Thread
from types import CodeType, FrameType
from typing import Any, Final

import pytest

from binlogio.errors import BinlogError, WriterStateError
from binlogio.writer.log import commit_stages, group_commit, group_log, log_file
from committers import Committer, spin_until

TRACED: Final = {module.__file__ for module in (commit_stages, group_commit, group_log, log_file)}
JOIN_TIMEOUT_S: Final = 60
NOP: Final = opmap["NOP"]  # that of a nested `try:` has no entry in the exception table, and no signal is handled there
MODES: Final[dict[str, dict[str, Any]]] = {
    "leader": {"sync_binlog": 1},
    "any order": {"sync_binlog": 1, "binlog_order_commits": False},
    "alone": {"sync_binlog": 0},
    "full log": {"sync_binlog": 1, "max_binlog_size": 4096},
}


class Interrupt(BaseException):
    """What a signal handler raises."""


class Interrupter:
    """Raises Interrupt in the thread that calls `start`, before bytecode number `at` (from 0) of the traced modules."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0
        self.where = ""

    def start(self) -> None:
        """Trace this thread from now on."""
        sys.settrace(self._enter)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in TRACED:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] != NOP:
            if self.count == self.at:
                self.count += 1
                self.where = _place(frame.f_code, frame.f_lineno)
                sys.settrace(None)
                raise Interrupt
            self.count += 1
        return self._step


def _place(code: CodeType, line: int) -> str:
    return f"{code.co_name}:{line}"


class Interrupted:
    """One commit that is interrupted beside two that are not, over a storage in memory."""

    def __init__(self, at: int, **variables: Any) -> None:
        self.committer = Committer(**variables)
        self.committer.commit("before")
        self.interrupter = Interrupter(at)
        self.acknowledged: list[str] = ["before"]
        self.failed: list[tuple[str, BaseException]] = []
        self.hooked: list[str] = []
        self.has_ended = Event()

    def run(self) -> None:
        """Queue the three commits after each other, where that is possible, and wait for them."""
        threads = [Thread(target=self._commit, args=("interrupted", self.interrupter.start), daemon=True)]
        threads += [Thread(target=self._commit, args=(f"other {n}", lambda: None), daemon=True) for n in range(2)]
        with self.committer.commits.quiet():
            for number, thread in enumerate(threads):
                thread.start()
                spin_until(partial(self._has_joined, number))
        for thread in threads:
            thread.join(JOIN_TIMEOUT_S)
        self.hanging = [thread.name for thread in threads if thread.is_alive()]

    def _has_joined(self, number: int) -> bool:
        return self.committer.commits.waiting.flush > number or self.has_ended.is_set()

    def _commit(self, text: str, begin: Callable[[], None]) -> None:
        group = self.committer.group(text, 3000, on_commit=partial(self.hooked.append, text))
        try:
            begin()
            self.committer.commits.commit(group)
        except (Interrupt, BinlogError) as exc:
            self.failed.append((text, exc))
        else:
            self.acknowledged.append(text)
        finally:
            sys.settrace(None)
            if text == "interrupted":
                self.has_ended.set()


class InterruptedAlone(Interrupted):
    """A commit without a hook that meets no other: the short way."""

    def run(self) -> None:
        """Commit in a thread of its own, then in another one."""
        threads = [
            Thread(target=self._commit_alone, args=("interrupted", self.interrupter.start), daemon=True),
            Thread(target=self._commit_alone, args=("other", lambda: None), daemon=True),
        ]
        for thread in threads:
            thread.start()
            thread.join(JOIN_TIMEOUT_S)
        self.hanging = [thread.name for thread in threads if thread.is_alive()]

    def _commit_alone(self, text: str, begin: Callable[[], None]) -> None:
        group = self.committer.group(text)
        try:
            begin()
            self.committer.commits.commit(group)
        except (Interrupt, BinlogError) as exc:
            self.failed.append((text, exc))
        else:
            self.acknowledged.append(text)
        finally:
            sys.settrace(None)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_an_exception_at_any_bytecode_of_a_commit_leaves_no_session_waiting(mode: str) -> None:
    """Every thread ends; what was acknowledged is in the log, once.

    And the next commit ends too, with a result or an error.
    """
    at, interrupted = 0, 0
    while True:
        run = (InterruptedAlone if mode == "alone" else Interrupted)(at, **MODES[mode])
        run.run()
        assert run.hanging == [], f"interrupted at {run.interrupter.where}"
        if not run.interrupter.where:
            break
        interrupted += 1
        _check(run)
        at += 1

    assert interrupted > 100


def _check(run: Interrupted) -> None:
    where = run.interrupter.where
    later: list[str] = []

    def commit_later() -> None:
        try:
            run.committer.commit("later")
        except WriterStateError:
            later.append("refused")
        else:
            later.append("written")

    thread = Thread(target=commit_later, daemon=True)
    thread.start()
    thread.join(JOIN_TIMEOUT_S)
    texts = run.committer.texts()
    errors = [exc for text, exc in run.failed if text != "interrupted"]

    assert later in (["refused"], ["written"]), where
    assert all(texts.count(text) == 1 for text in run.acknowledged), where
    assert all(texts.count(text) <= 1 for text in set(texts)), where
    assert set(run.hooked) <= {*texts}, where
    assert all(isinstance(exc, WriterStateError) for exc in errors), where
    assert errors == [] or later == ["refused"], where
