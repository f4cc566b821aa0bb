"""The compiled kernel and construct say the same of damaged logs, and give the same rows before they do."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio.columnar.batches.refusals import OPENED_TYPES
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, HEADER_SIZE, EventType
from binlogio.constants import ColumnType as T
from binlogio.events.base import ParseContext
from binlogio.events.control import XidEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.rows.image import RowChange, RowImage, encode_rows
from binlogio.rows.plan import resolve_plan
from binlogio.selection.event_filter import EventFilter, Range
from binlogio.storage.compression import compress_zstd
from both_kernels import KERNELS, Said, error_of_events, records_and_error_by, records_by, rows_and_error_by, tables_by
from corpus import FIXTURES
from encode_cases import KINDS
from gtid_cases import BY_CLASS as GTID_CODECS
from gtid_cases import CASES as GTID_CASES
from log_cases import table_map_of
from logs import OFF, header, log, moved, query, raw_events, with_checksum
from rowimage_cases import UTF8MB4, column

VERSION_SIZE = 2 + 50 + 4 + 1  # bytes of a format description before the sizes of post-headers
OPTIONS = st.sampled_from(
    (
        {},
        {"tables": ["*.t1"]},
        {"tables": ["no.such"]},
        {"batch_rows": 2},
        {"zero_dates": "null"},
        {"where": EventFilter(ops=frozenset({"update"}))},
        {"where": EventFilter(pos=Range(600, 900))},
    )
)


def _description_end(data: bytes | bytearray) -> int:
    return len(BINLOG_MAGIC) + int.from_bytes(data[13:17], "little")


def _with_sizes(data: bytes, code: int, size: int) -> bytes:
    """Return the log with another size for the post-headers of a type."""
    spoilt, end = bytearray(data), _description_end(data)
    spoilt[len(BINLOG_MAGIC) + HEADER_SIZE + VERSION_SIZE + code - 1] = size
    return BINLOG_MAGIC + with_checksum(spoilt[len(BINLOG_MAGIC) : end]) + bytes(spoilt[end:])


@pytest.mark.parametrize("case", ["mysql97/gtid_off", "mysql97/checksum_none", "mariadb1011/gtid"])
@pytest.mark.parametrize("tables", [None, ["no.such"]])
def test_format_description_of_other_post_headers_is_refused_alike(case: str, tables: Any) -> None:
    """Only where an event of the type is opened; those of tables that are not selected are not."""
    data = min((FIXTURES / case).glob("binlog.00000?"), key=lambda path: path.stat().st_size).read_bytes()
    room = _description_end(data) - len(BINLOG_MAGIC) - HEADER_SIZE - VERSION_SIZE - 1 - CHECKSUM_SIZE
    found = []
    for code in sorted(code for code in OPENED_TYPES if code <= room):
        for size in (0, 6, 8, 10, 255):
            spoilt = _with_sizes(data, code, size)
            compiled, construct = (tables_by(kernel, spoilt, zero_dates="null", tables=tables) for kernel in KERNELS)
            found.append(compiled)

            assert compiled == construct, (code, size)
    assert any(isinstance(one, Said) for one in found)
    assert any(not isinstance(one, Said) for one in found)


# -------------------------------------------------------------------------------------------------- rows before errors

MAPS = {
    number: replace(
        table_map_of(
            [column(T.LONG), column(T.VARCHAR, 80, collation_id=UTF8MB4), column(T.DATETIME2, 6)][: number + 1]
        ),
        table_id=number,
        table=f"t{number}",
    )
    for number in (1, 2)
}


def _change(number: int, kind: str, rows: int) -> list[Any]:
    """Return a table map, and a rows event of so many rows."""
    plan = resolve_plan(MAPS[number])
    image = RowImage(plan, (7, "text", None)[: number + 1])
    change = RowChange(None if kind == "insert" else image, None if kind == "delete" else image)
    bitmap = bytes([(1 << (number + 1)) - 1])
    after = {"present_after": bitmap} if kind == "update" else {}
    images = encode_rows([change] * rows, plan, bitmap, *after.values())
    return [
        MAPS[number],
        KINDS[kind](
            table_id=number,
            flags=1,
            extra=b"",
            column_count=number + 1,
            present=bitmap,
            images=images,
            header=header(),
            **after,
        ),
    ]


@settings(max_examples=75)
@given(
    st.lists(
        st.tuples(st.sampled_from((1, 2)), st.sampled_from(sorted(KINDS)), st.integers(1, 4)), min_size=2, max_size=9
    ),
    OPTIONS,
    st.data(),
)
def test_rows_of_the_events_before_the_first_bad_one_are_given_out(
    changes: list[tuple[int, str, int]], options: Any, data: st.DataObject
) -> None:
    """Two tables take turns, and one or two of the events are damaged, table maps among them."""
    events = [event for change in changes for event in _change(*change)]
    spoilt = bytearray(log(query("BEGIN"), *events, XidEvent(1, header(EventType.XID_EVENT))))
    found = [one for one in raw_events(spoilt) if one[1][4] in OPENED_TYPES]
    for at, event in data.draw(st.lists(st.sampled_from(found), min_size=1, max_size=2)):
        end = at + len(event)
        place = data.draw(st.integers(at + HEADER_SIZE, end - CHECKSUM_SIZE - 1))
        spoilt[place] = data.draw(st.sampled_from((0, 0x7F, 0xFF)) | st.integers(0, 255))
        spoilt[at:end] = with_checksum(spoilt[at:end])
    compiled, construct = (rows_and_error_by(kernel, bytes(spoilt), **options) for kernel in KERNELS)

    assert compiled == construct


def test_rows_of_a_table_whose_batches_are_full_are_given_out_before_the_error_of_another() -> None:
    """The failing event of one table comes in the same window as more rows of the other than a batch takes."""
    bad = _change(1, "delete", 1)
    images = bytearray(bad[1].images)
    images[1 + 4] = 0xFF  # the length of the text
    data = log(*_change(2, "update", 3), *_change(2, "insert", 2), bad[0], replace(bad[1], images=bytes(images)))
    found = [rows_and_error_by(kernel, data, batch_rows=2) for kernel in KERNELS]
    rows, said = found[0]

    assert found[0] == found[1]
    assert said is not None
    assert [len(records) for records in rows.values()] == [5]


@pytest.mark.parametrize("tables", [["d.t1"], None])
def test_two_tables_that_fail_in_one_window_show_nothing_of_what_is_behind(tables: Any) -> None:
    """The second one's rows have no values after the first one's error."""
    good, bad = _change(2, "insert", 3), _change(2, "insert", 3)
    images = bytearray(bad[1].images)
    images[1 + 4] = 0xFF  # the length of the text
    bad[1] = replace(bad[1], images=bytes(images))
    other = [replace(event, table_id=9) for event in bad]
    other[0] = replace(other[0], table="t3")
    data = log(*good, *bad, *other, *_change(1, "insert", 2))
    found = [rows_and_error_by(kernel, data, tables=None if tables is None else ["d.t2", "d.t3"]) for kernel in KERNELS]
    rows, said = found[0]

    assert found[0] == found[1]
    assert said is not None
    assert [len(records) for records in rows.values()] == [3]


def test_names_of_enum_members_before_the_first_bad_number_are_given_out() -> None:
    """Rows of an earlier event in the same window."""
    table = table_map_of([column(T.ENUM, 0xF701, members=("a", "bb", "ccc"))])
    good, bad = (
        WriteRowsEvent(7, 1, b"", 1, b"\1", images, header(EventType.WRITE_ROWS_EVENT))
        for images in (b"\0\1\0\3\0\0", b"\0\2\0\4")
    )
    data = log(table, good, table, bad)
    (compiled, said), (construct, said_too) = (rows_and_error_by(kernel, data) for kernel in KERNELS)

    assert (compiled, said) == (construct, said_too)
    assert said is not None
    ((first, second, third),) = compiled.values()
    assert "'c0': 'a'" in first[2]
    assert "'c0': 'ccc'" in second[2]
    assert "'c0': ''" in third[2]


def test_table_that_is_another_one_and_back_keeps_its_rows_in_order() -> None:
    """Table maps of one name and other columns take turns within a window."""
    other = replace(MAPS[2], table="t1")
    changes = [_change(1, "insert", 1), [other, _change(2, "insert", 1)[1]]] * 3
    data = log(*(event for change in changes for event in change))
    positions = []
    for kernel in KERNELS:
        tables, said = rows_and_error_by(kernel, data)
        positions.append({name[1]: [record[:2] for record in records] for name, records in tables.items()})

        assert said is None
    assert positions[0] == positions[1]
    assert [len(records) for records in positions[0].values()] == [3, 3]


def test_records_of_all_tables_come_up_to_the_first_bad_event() -> None:
    """Images as JSON, by either."""
    bad = _change(2, "insert", 3)
    data = log(*_change(1, "insert", 2), *_change(2, "delete", 2), bad[0], replace(bad[1], images=bad[1].images[:-1]))
    compiled, construct = (records_and_error_by(kernel, data) for kernel in KERNELS)

    assert compiled == construct
    assert len(compiled[0]) == 4
    assert compiled[1] is not None


@pytest.mark.parametrize("options", [{}, {"where": EventFilter(ops=frozenset({"update"}))}])
def test_name_that_is_no_utf8_and_map_that_is_missing_are_told_alike(options: Any) -> None:
    """Of records of all tables too."""
    strange = replace(MAPS[1], schema="\udcff")
    event = _change(1, "insert", 1)[1]
    for data in (log(strange, event), log(event)):
        compiled, construct = (records_by(kernel, data, **options) for kernel in KERNELS)

        assert compiled == construct


# -------------------------------------------------------------------------------------------------- GTID events

GTID_BODIES: Any = {
    (int(codec.type_code), bytes.fromhex(body))
    for _, event, body in GTID_CASES
    if (codec := GTID_CODECS[type(event)]).type_code in OPENED_TYPES
}


def _raw_event(type_code: int, body: bytes, offset: int) -> bytes:
    end = offset + HEADER_SIZE + len(body) + CHECKSUM_SIZE
    head = struct.pack("<IBIIIH", 1_700_000_000, type_code, 7, end - offset, end, 0)
    return with_checksum(head + body + bytes(CHECKSUM_SIZE))


def _said_of_gtids(type_code: int, bodies: list[bytes]) -> list[Any]:
    """Return what both kernels report for a GTID event with each of these bodies, and a row after it."""
    start, answers = log(in_use=True), []
    rows = [event for _, event in raw_events(log(*_change(1, "insert", 1)), len(start))]
    for body in bodies:
        data = start + _raw_event(type_code, body, len(start))
        for event in rows:
            data += moved(event, len(data))
        compiled, construct = (rows_and_error_by(kernel, data) for kernel in KERNELS)
        answers.append(compiled[1])

        assert compiled == construct, body.hex()
    return answers


@pytest.mark.parametrize(("type_code", "body"), sorted(GTID_BODIES), ids=lambda one: str(one)[:60])
def test_gtid_event_that_is_cut_or_changed_at_any_byte_is_judged_alike(type_code: int, body: bytes) -> None:
    """Each layout of both vendors: the same GTID, or the same error."""
    cut = [body[:end] for end in range(len(body))]
    longer = [body + more for more in (b"\0", b"\1", bytes(8), b"\xff" * 8)]
    changed = [body[:at] + bytes([value]) + body[at + 1 :] for at in range(len(body)) for value in {0xFF, body[at] ^ 1}]
    answers = _said_of_gtids(type_code, [body, *cut, *longer, *changed])

    assert answers[0] is None
    assert any(answers[1 : 1 + len(cut)])


@pytest.mark.parametrize("flags_extra", [0, 1, 2, 4, 8, 0x10, 0x11, 0x14, 0x1D, 0x20, 0xFF])
@pytest.mark.parametrize("flags", [0, 2, 0x40, 0x80, 0x42, 0xC2])
def test_mariadb_gtid_event_of_any_length_and_any_flags_is_judged_alike(flags: int, flags_extra: int) -> None:
    """What is announced is there, and the event is at least as long as the shortest one that servers write."""
    head = struct.pack("<QIB", 5, 1, flags)
    commit_id, xid = bytes(8) if flags & 2 else b"", b"\1\0\0\0\1\1gb" if flags & 0xC0 else b""
    for fill in (b"\0", b"\x2a"):
        whole = head + commit_id + xid + bytes([flags_extra]) + fill * 24

        _said_of_gtids(EventType.MARIADB_GTID_EVENT, [whole[:end] for end in range(12, len(whole) + 1)])


@pytest.mark.parametrize("more", [-1, 1, 18, 40])
@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.NONE])
def test_payload_that_claims_another_size_is_refused_by_all(more: int, compression: int) -> None:
    """The events in it are whole; those that the claimed size has room for are given out."""
    encoder = Encoder(ParseContext(checksum_algorithm=OFF))
    inner = [query("BEGIN"), *_change(1, "insert", 2), XidEvent(1, header(EventType.XID_EVENT))]
    plain = b"".join(encoder.encode(event) for event in inner)
    payload = compress_zstd(plain, 1) if compression == CompressionType.ZSTD else plain
    code = EventType.TRANSACTION_PAYLOAD_EVENT
    data = log(TransactionPayloadEvent.create(payload, compression, len(plain) + more, header(code)))
    compiled, construct = (rows_and_error_by(kernel, data) for kernel in KERNELS)
    events = error_of_events(data)

    assert compiled == construct
    assert events is not None
    assert events == compiled[1]


@pytest.mark.parametrize(
    "spoil", [lambda frame: b"no" + frame[2:], lambda frame: frame[:-1] + b"\0"], ids=["magic", "end"]
)
def test_rows_of_many_payloads_are_given_up_to_a_damaged_one(spoil: Any) -> None:
    """The plain bytes of the payloads together are more than one block of memory has."""
    encoder, code = Encoder(ParseContext(checksum_algorithm=OFF)), EventType.TRANSACTION_PAYLOAD_EVENT
    events = []
    for number in range(300):
        inner = [query("BEGIN"), *_change(1 + number % 2, "insert", 100), XidEvent(1, header(EventType.XID_EVENT))]
        plain = b"".join(encoder.encode(event) for event in inner)
        payload = compress_zstd(plain, 1)
        events.append(TransactionPayloadEvent.create(payload, CompressionType.ZSTD, len(plain), header(code)))
    damaged = log(*events[:290], replace(events[290], payload=spoil(events[290].payload)), *events[291:])
    compiled, construct = (rows_and_error_by(kernel, damaged) for kernel in KERNELS)
    rows, error = rows_and_error_by(KERNELS[0], log(*events))

    assert compiled == construct
    assert compiled[1] is not None
    assert error is None
    assert sum(map(len, compiled[0].values())) == 290 * 100
    assert all(found == rows[table][: len(found)] for table, found in compiled[0].items())


@pytest.mark.parametrize("tables", [None, ["no.such"]])
@pytest.mark.parametrize("is_whole", [True, False])
def test_payload_inside_a_payload_is_refused_by_all(tables: Any, is_whole: bool) -> None:
    """No server writes one. Its rows would be lost if it were passed over."""
    encoder = Encoder(ParseContext(checksum_algorithm=OFF))
    code = EventType.TRANSACTION_PAYLOAD_EVENT
    rows = b"".join(encoder.encode(event) for event in _change(1, "insert", 2))
    nested = encoder.encode(TransactionPayloadEvent.create(rows, CompressionType.NONE, len(rows), header(code)))
    if not is_whole:
        nested = nested[:9] + (len(nested) - 5).to_bytes(4, "little") + nested[13:-5]
    plain = encoder.encode(query("BEGIN")) + rows + nested
    data = log(TransactionPayloadEvent.create(plain, CompressionType.NONE, len(plain), header(code)))
    found = [rows_and_error_by(kernel, data, tables=tables) for kernel in KERNELS]
    events = error_of_events(data)

    assert found[0] == found[1]
    assert events is not None
    assert "inside another" in events.text
    assert events == found[0][1]
    assert tables or len(found[0][0]) == 1


@pytest.mark.parametrize("tables", [rows_and_error_by, records_and_error_by])
def test_rows_of_a_table_map_from_before_the_ddl_have_the_names_that_the_ddl_gives(tables: Any) -> None:
    """No server writes a statement between a table map and its rows; if a log has one, all readers name it alike."""
    data = (FIXTURES / "mysql97" / "rotated" / "binlog.000001").read_bytes()
    events = [event for _, event in raw_events(data)]
    maps = [event for event in events if event[4] == EventType.TABLE_MAP_EVENT]
    others = [event for event in events if event[4] != EventType.TABLE_MAP_EVENT]
    changed = data[:4]
    for event in (*others[:2], maps[0], *others[2:]):
        changed += moved(event, len(changed))
    compiled, construct = (tables(kernel, changed) for kernel in KERNELS)

    assert compiled == construct
    assert "'v': 'file 1'" in str(compiled) or '"v":"file 1"' in str(compiled)
