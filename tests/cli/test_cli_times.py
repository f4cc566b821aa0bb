"""Times as people give them: relative to now, of today, in a zone or an offset."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from binlogio_cli.selection import DayTime, LocalZone, time_of
from corpus import FIXTURES


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("-90s", 90), ("-15m", 900), ("-1h", 3600), ("1 hour ago", 3600), ("2 days ago", 172_800), ("now", 0)],
)
def test_times_relative_to_now(text: str, seconds: int) -> None:
    before = time.time()
    found = time_of(text)

    assert isinstance(found, float)
    assert before <= found + seconds <= time.time()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("today", "2026-11-20T00:00:00"),
        ("yesterday", "2026-11-19T00:00:00"),
        ("12:00", "2026-11-20T12:00:00"),
        ("9:05:07", "2026-11-20T09:05:07"),
        ("yesterday 23:59", "2026-11-19T23:59:00"),
    ],
)
def test_times_of_a_day(text: str, expected: str) -> None:
    found = time_of(text)
    zone = timezone(timedelta(hours=2))

    assert isinstance(found, DayTime)
    assert found.at(datetime(2026, 11, 20, 1, 2, 3, tzinfo=zone)).isoformat() == f"{expected}+02:00"


@pytest.mark.parametrize("text", ["", "24:00", "12:60", "now 12:00", "tomorrow", "-1y", "1 hour", "12"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        time_of(text)


@pytest.mark.parametrize("command", ["dump", "stats", "undo"])
@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize(
    ("text", "reason", "first", "second"),
    [
        ("2026-10-25T02:30:00", "is twice", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"),
        ("20260329023000", "does not exist", "2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"),
    ],
)
def test_times_that_clocks_show_twice_or_never_are_refused(
    command: str, is_local: bool, text: str, reason: str, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has both moments, which are accepted."""
    if is_local:
        monkeypatch.setenv("TZ", "Europe/Berlin")
        time.tzset()
    zone = () if is_local else ("--time-zone", "Europe/Berlin")
    log = str(FIXTURES / "mysql97" / "incident" / "binlog.000001")
    refused = [
        CliRunner().invoke(cli, [command, *zone, option, text, log])
        for option in ("--start-datetime", "--stop-datetime")
    ]
    taken = [CliRunner().invoke(cli, ["dump", *zone, "--start-datetime", one, log]) for one in (first, second)]
    monkeypatch.undo()
    time.tzset()

    assert [one.exit_code for one in refused] == [2, 2]
    assert all(reason in one.stderr and f"such as {first} or {second}" in one.stderr for one in refused)
    assert [one.exit_code for one in taken] == [0, 0]


def test_times_of_a_repeated_hour_are_shown_with_their_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    shown = [datetime.fromtimestamp(seconds, LocalZone()).isoformat() for seconds in (1792888200, 1792891800)]
    monkeypatch.undo()
    time.tzset()

    assert shown == ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]


def test_an_offset_is_a_zone() -> None:
    log = str(FIXTURES / "mysql97" / "incident" / "binlog.000001")
    shown = [
        CliRunner().invoke(cli, ["grep", "id > 0", log, "--time-zone", zone]).stdout.splitlines()[0][:29]
        for zone in ("UTC", "+02:00", "-0330")
    ]
    moments = [datetime.strptime(text[:19], "%Y-%m-%d %H:%M:%S") for text in shown]  # noqa: DTZ007

    assert moments[1] - moments[0] == timedelta(hours=2)
    assert moments[2] - moments[0] == timedelta(hours=-3, minutes=-30)
    assert CliRunner().invoke(cli, ["grep", "id > 0", log, "--time-zone", "+25:00"]).exit_code == 2
