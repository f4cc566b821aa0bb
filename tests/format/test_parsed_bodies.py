"""Bodies that a log repeats: parsed once, they are what their codecs make of every one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from construct import ConstructError
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogError
from binlogio.events import codec_for
from binlogio.events.base import HEADER, parse_header
from binlogio.format.decoder import ParsedBodies
from binlogio.format.framing import EventFrame
from corpus import MARIADB, MYSQL, frames_of

LOGS = sorted(path for folder in (MYSQL, MARIADB) for path in folder.glob("*/*.0*") if "encrypted" not in str(path))
SAMPLE = [frame for frame in frames_of(Path(MYSQL / "rowimage_minimal" / "binlog.000001").read_bytes()) if frame.body]


def parsed(parse: Any, *arguments: Any) -> Any:
    try:
        return parse(*arguments)
    except BinlogError as exc:
        return type(exc), str(exc)


def by_codec(frame: EventFrame) -> Any:
    return parsed(codec_for(frame.header.type_code).parse, frame.header, frame.body, frame.context)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}-{path.name}")
def test_events_of_real_logs_are_those_of_their_codecs(path: Path) -> None:
    """The first time, when nothing is known, and the second time, when all is."""
    frames, known = list(frames_of(path.read_bytes())), ParsedBodies()
    for frame in frames + frames:
        assert parsed(known.parse, frame) == by_codec(frame)


@given(st.data())
def test_bodies_that_are_nearly_known_are_parsed_again(data: st.DataObject) -> None:
    """One byte is another one, or the end is missing, or there is more."""
    frame, known = data.draw(st.sampled_from(SAMPLE)), ParsedBodies()
    known.parse(frame)
    body = bytearray(frame.body[: data.draw(st.integers(0, len(frame.body)))] + data.draw(st.binary(max_size=3)))
    if body and data.draw(st.booleans()):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    other = replace(frame, body=bytes(body))

    assert parsed(known.parse, other) == by_codec(other)


def test_another_format_description_makes_all_unknown() -> None:
    """The same bytes may mean something else in another file."""
    known = ParsedBodies()
    for frame in SAMPLE:
        known.parse(frame)
    for frame in SAMPLE:
        other = replace(frame, context=replace(frame.context, post_header_sizes=(4,) * 40))

        assert parsed(known.parse, other) == by_codec(other)


def test_no_more_is_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of many tables pushes bodies out, which are parsed again."""
    monkeypatch.setattr("binlogio.format.decoder._MOST_BODIES", 2)
    monkeypatch.setattr("binlogio.format.decoder._MOST_BYTES", 60)
    known = ParsedBodies()
    for frame in SAMPLE + SAMPLE:
        assert known.parse(frame) == by_codec(frame)
        assert len(known) <= 2


@given(st.binary(max_size=24))
def test_a_header_is_what_its_layout_says(data: bytes) -> None:
    """Field by field, or too short."""
    try:
        expected = dict(HEADER.parse(data))
    except ConstructError:
        with pytest.raises(BinlogError):
            parse_header(data, 4)
        return
    found = parse_header(data, 4)

    assert {name: getattr(found, name) for name in expected if name != "_io"} == {
        name: value for name, value in expected.items() if name != "_io"
    }
