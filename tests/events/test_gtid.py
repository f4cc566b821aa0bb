"""GTIDs, their sets as text and as bytes, and the algebra against sets of Python."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.gtid import (
    EMPTY_GTID_SET,
    NIL_UUID,
    NO_TAG,
    Gtid,
    GtidSet,
    GtidSetEncoding,
    Interval,
    MariadbGtid,
    MariadbGtidPosition,
    MariadbGtidSet,
    Tag,
    Tsid,
    Uuid,
    build_gtid_set,
    parse_gtid_set,
)

A = "11111111-2222-3333-4444-555555555555"
B = "2f658ac8-e51b-11f1-a314-02fc00000001"
LAST = 2**63 - 2

# fixtures/mysql97/gtid_on/binlog.000002 at 127: two UUIDs, three tags, gaps, the largest number.
TAGGED = bytes.fromhex(
    "0105000000000001111111112222333344445555555555550002000000000000000a000000000000000b000000000000000c"
    "000000000000000d00000000000000111111112222333344445555555555550a6d797461670100000000000000feffffffff"
    "ffff7fffffffffffffff7f2f658ac8e51b11f1a31402fc0000000100010000000000000001000000000000000a0000000000"
    "00002f658ac8e51b11f1a31402fc00000001406f746865725f7461675f33325f636861726163746572735f6c6f6e675f5f5f"
    "780100000000000000010000000000000002000000000000002f658ac8e51b11f1a31402fc00000001067461670100000000"
    "00000001000000000000000500000000000000"
)
TAGGED_TEXT = f"{A}:10:12:mytag:{LAST},\n{B}:1-9:other_tag_32_characters_long___x:1:tag:1-4"
UNTAGGED = bytes.fromhex(
    "0100000000000000"
    "111111112222333344445555555555550200000000000000"
    "0a000000000000000b000000000000000c000000000000000d00000000000000"
)
UNTAGGED_TEXT = f"{A}:10:12"


def test_gtid_text_is_the_servers() -> None:
    tagged = Gtid.parse(f" {A.upper()} : MyTag : {LAST} ")

    assert Gtid(Uuid.parse(A), Tag("mytag"), LAST) == tagged
    assert f"{A}:mytag:{LAST}" == str(tagged)
    assert f"{A}:1" == str(Gtid.parse(f"{A}:1"))
    assert f"{A}:mytag" == str(tagged.tsid)
    assert str(Tsid(Uuid.parse(A))) == A


@pytest.mark.parametrize(
    "text",
    [
        "",
        A,
        f"{A}:",
        f"{A}::1",
        f"{A}:0",
        f"{A}:010",
        f"{A}:0x1",
        f"{A}:-1",
        f"{A}:{LAST + 1}",
        f"{A}:" + "9" * 5000,
        f"{A}:1tag:1",
        f"{A}:tag:tag:1",
        f"{A}:{'t' * 33}:1",
        f"{A}:täg:1",
        f"{A}:1-2",
        f"{A.replace('-', '')}:1",
        f"{{{A}}}:1",
        f"{A[:-1]}g:1",
        f"{A}:٣",
    ],
)
def test_text_that_is_no_gtid_is_refused(text: str) -> None:
    with pytest.raises(BinlogFormatError):
        Gtid.parse(text)


def test_a_plain_string_as_tag_becomes_a_tag() -> None:
    assert Gtid.parse(f"{A}:tag:1") == Gtid(Uuid.parse(A), "TAG", 1)  # type: ignore[arg-type]
    assert Tag("tag") == Tsid(Uuid.parse(A), "TAG").tag  # type: ignore[arg-type]


def test_uuid_of_another_size_is_refused() -> None:
    with pytest.raises(BinlogFormatError):
        Uuid(b"short")


def test_identifiers_survive_pickling() -> None:
    values = (
        Gtid.parse(f"{A}:tag:7"),
        GtidSet.parse(TAGGED_TEXT),
        MariadbGtid(0, 1, 100),
        MariadbGtidPosition.parse("0-1-2"),
    )

    copies = pickle.loads(pickle.dumps(values))  # noqa: S301  our own bytes

    assert values == copies
    assert isinstance(copies[0].tag, Tag)


def test_mariadb_gtid_text() -> None:
    gtid = MariadbGtid.parse(" 0-1-18446744073709551615\n")

    assert MariadbGtid(0, 1, 2**64 - 1) == gtid
    assert str(gtid) == "0-1-18446744073709551615"


@pytest.mark.parametrize(
    "text", ["", "0-1", "0-1-2-3", "0-1-", "4294967296-1-1", "0-4294967296-1", f"0-1-{2**64}", "0-01-1", "a-b-c"]
)
def test_text_that_is_no_mariadb_gtid_is_refused(text: str) -> None:
    with pytest.raises(BinlogFormatError):
        MariadbGtid.parse(text)


def test_mariadb_position_keeps_the_last_gtid_of_each_domain() -> None:
    position = MariadbGtidPosition.of([MariadbGtid(7, 1, 5), MariadbGtid(0, 1, 9), MariadbGtid(0, 2, 3)])

    assert str(position) == "0-2-3,7-1-5"
    assert MariadbGtidPosition.parse(" 7-1-5, 0-2-3") == position
    assert str(position.add(MariadbGtid(0, 1, 4))) == "0-1-4,7-1-5"
    assert MariadbGtid(0, 2, 3) == position.get(0)
    assert position.get(1) is None
    assert [MariadbGtid(0, 2, 3), MariadbGtid(7, 1, 5)] == list(position)
    assert len(position) == 2


def test_mariadb_position_contains_what_its_domain_has_passed() -> None:
    position = MariadbGtidPosition.parse("0-2-3")

    assert MariadbGtid(0, 1, 3) in position
    assert MariadbGtid(0, 2, 4) not in position
    assert MariadbGtid(1, 2, 1) not in position


def test_mariadb_position_text_edges() -> None:
    assert MariadbGtidPosition() == MariadbGtidPosition.parse(" ")
    assert str(MariadbGtidPosition()) == ""
    with pytest.raises(BinlogFormatError):
        MariadbGtidPosition.parse("0-1-1,0-2-2")


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("", ""),
        (" , ,\n", ""),
        (A, ""),
        (f"{A}:tag", ""),
        (f"{A}:5-3", ""),
        (f"{A}:5-0", ""),
        (f"{A}:1-3:2-5:7:6", f"{A}:1-7"),
        (f"{A}:3:1", f"{A}:1:3"),
        (f"{B}:1,{A}:2,{B}:2", f"{A}:2,\n{B}:1-2"),
        (f"{A.upper()} : 1 - 3 : TAG : 1 - 2,", f"{A}:1-3:tag:1-2"),
        (f"{A}:b:1:a:2,{A}:3", f"{A}:3:a:2:b:1"),
        (f"{A}:a:b:1", f"{A}:b:1"),
        (f"{A}:1-{LAST}", f"{A}:1-{LAST}"),
        (TAGGED_TEXT, TAGGED_TEXT),
    ],
)
def test_set_text_is_normalised_as_the_server_does(text: str, normal: str) -> None:
    assert normal == str(GtidSet.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "x",
        ":1",
        f"{A}:",
        f"{A}:0",
        f"{A}:0-1",
        f"{A}:1-",
        f"{A}:1-2-3",
        f"{A}:1-{LAST + 1}",
        f"{A}:{LAST + 1}",
        f"{A}:1 2",
        f"{A};1",
    ],
)
def test_text_that_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(BinlogFormatError):
        GtidSet.parse(text)


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (bytes(8), "", GtidSetEncoding.UNTAGGED),
        (bytes.fromhex("0100000000000001"), "", GtidSetEncoding.TAGGED),
        (UNTAGGED, UNTAGGED_TEXT, GtidSetEncoding.UNTAGGED),
        (TAGGED, TAGGED_TEXT, GtidSetEncoding.TAGGED),
    ],
)
def test_both_encodings_of_a_set_parse_and_build(data: bytes, text: str, encoding: GtidSetEncoding) -> None:
    gtid_set = GtidSet.parse(text)

    assert gtid_set == parse_gtid_set(data)
    assert data == build_gtid_set(gtid_set, encoding)


def test_the_encoding_is_the_oldest_that_can_hold_the_set() -> None:
    assert build_gtid_set(GtidSet.parse(UNTAGGED_TEXT)) == UNTAGGED
    assert build_gtid_set(GtidSet.parse(TAGGED_TEXT)) == TAGGED


def test_a_set_with_tags_does_not_fit_the_untagged_encoding() -> None:
    with pytest.raises(BinlogFormatError):
        build_gtid_set(GtidSet.parse(TAGGED_TEXT), GtidSetEncoding.UNTAGGED)


@pytest.mark.parametrize("data", [UNTAGGED, TAGGED])
def test_a_set_cut_at_any_byte_is_refused(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(BinlogFormatError):
            parse_gtid_set(data[:end])


@pytest.mark.parametrize("intervals", [(), (Interval(-1, 2),), (Interval(1, 2), Interval(2, 3)), (Interval(1, 2**64),)])
def test_a_set_that_was_not_made_by_its_methods_is_not_built(intervals: tuple[Interval, ...]) -> None:
    with pytest.raises(BinlogFormatError):
        build_gtid_set(GtidSet(((Tsid(NIL_UUID), intervals),)))


def _one(*intervals: tuple[int, int], head: str = "0100000000000000", tag: bytes = b"") -> bytes:
    pairs = b"".join(number.to_bytes(8, "little") for pair in intervals for number in pair)
    return bytes.fromhex(head) + bytes(16) + tag + len(intervals).to_bytes(8, "little") + pairs


@pytest.mark.parametrize(
    "data",
    [
        UNTAGGED + b"\0",
        _one(),
        _one((0, 2)),
        _one((5, 5)),
        _one((5, 4)),
        _one((1, 2**63)),
        _one((2**63 + 1, 2**63 + 2)),
        _one((1, 3), (3, 4)),
        _one((5, 6), (1, 2)),
        _one((1, 2), (1, 2)),
        bytes.fromhex("0200000000000000") + 2 * _one((1, 2))[8:],
        bytes.fromhex("ffffffffffffff00") + bytes(16),
        bytes.fromhex("0100000000000000") + bytes(16) + b"\xff" * 8,
        bytes.fromhex("0100000000000000") + bytes(16) + b"\xff" * 7 + b"\x0f",
        bytes.fromhex("0001000000000001") + bytes(16),
        _one((1, 2), head="0101000000000001", tag=b"\x02T"),
        _one((1, 2), head="0101000000000001", tag=b"\x021"),
        _one((1, 2), head="0101000000000001", tag=b"\x02\xe4"),
        _one((1, 2), head="0101000000000001", tag=b"\x42" + b"t" * 33),
        _one((1, 2), head="0101000000000001", tag=b"\xff" * 9),
    ],
)
def test_a_damaged_set_is_refused(data: bytes) -> None:
    with pytest.raises(BinlogFormatError):
        parse_gtid_set(data)


def test_a_set_in_a_later_format_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeature):
        parse_gtid_set(bytes.fromhex("0200000000000002"))


@given(
    st.binary(max_size=200)
    | st.builds(lambda at, new: TAGGED[:at] + new + TAGGED[at + len(new) :], st.integers(0, 290), st.binary(max_size=4))
)
def test_garbage_is_a_set_or_an_error(data: bytes) -> None:
    try:
        gtid_set = parse_gtid_set(data)
    except BinlogError:
        return
    assert gtid_set == parse_gtid_set(build_gtid_set(gtid_set))


@given(st.text(alphabet=f"{A}:, -123tag\n") | st.text())
def test_garbage_text_is_a_set_or_an_error(text: str) -> None:
    try:
        gtid_set = GtidSet.parse(text)
    except BinlogFormatError:
        return
    assert gtid_set == GtidSet.parse(str(gtid_set))


# ------------------------------------------------------------------------------------------------------------- algebra

SOURCES = tuple(Tsid(Uuid.parse(uuid), Tag(tag)) for uuid in (A, B) for tag in ("", "a", "b"))
GTIDS = st.builds(lambda tsid, gno: Gtid(tsid.uuid, tsid.tag, gno), st.sampled_from(SOURCES), st.integers(1, 12))
MODELS = st.frozensets(GTIDS, max_size=40)


def _assert_normal(gtid_set: GtidSet) -> None:
    assert sorted(gtid_set.sources) == list(gtid_set.sources)
    for _, intervals in gtid_set.sources:
        assert intervals
        assert all(interval.start < interval.end for interval in intervals)
        assert all(before.end < after.start for before, after in itertools.pairwise(intervals))


@given(MODELS, MODELS)
def test_algebra_is_that_of_pythons_sets(left: frozenset[Gtid], right: frozenset[Gtid]) -> None:
    one, two = GtidSet.from_gtids(left), GtidSet.from_gtids(right)
    for expected, actual in (left | right, one | two), (left & right, one & two), (left - right, one - two):
        _assert_normal(actual)
        assert expected == set(actual.gtids())
        assert len(expected) == actual.count
        assert bool(expected) == bool(actual)
        assert GtidSet.from_gtids(expected) == actual
        assert hash(GtidSet.from_gtids(expected)) == hash(actual)

    assert (left <= right) == (one <= two) == one.issubset(two)
    assert left.isdisjoint(right) == one.isdisjoint(two)
    assert (left == right) == (one == two)


@given(MODELS, GTIDS)
def test_add_and_contains_are_those_of_pythons_sets(model: frozenset[Gtid], gtid: Gtid) -> None:
    gtid_set = GtidSet.from_gtids(model)
    more = gtid_set.add(gtid)

    _assert_normal(more)
    assert (gtid in model) == (gtid in gtid_set)
    assert gtid in more
    assert model | {gtid} == set(more.gtids())


@given(MODELS)
def test_text_and_bytes_of_any_set_come_back(model: frozenset[Gtid]) -> None:
    gtid_set = GtidSet.from_gtids(model)

    assert gtid_set == GtidSet.parse(str(gtid_set))
    assert gtid_set == parse_gtid_set(build_gtid_set(gtid_set))
    assert gtid_set == parse_gtid_set(build_gtid_set(gtid_set, GtidSetEncoding.TAGGED))
    assert gtid_set == GtidSet.from_intervals(gtid_set)


def test_the_largest_sets_are_no_trouble() -> None:
    everything = GtidSet.parse(f"{A}:1-{LAST},{B}:1-{LAST}")

    assert everything.count == 2 * LAST
    assert Gtid.parse(f"{B}:{LAST}") in everything
    assert everything - everything == EMPTY_GTID_SET
    assert f"{A}:2-{LAST}" == str(GtidSet.parse(f"{A}:1-{LAST}") - GtidSet.parse(f"{A}:1"))


def test_the_intervals_of_a_source() -> None:
    gtid_set = GtidSet.parse(TAGGED_TEXT)

    assert (Interval(10, 11), Interval(12, 13)) == gtid_set.intervals(Tsid(Uuid.parse(A)))
    assert gtid_set.intervals(Tsid(NIL_UUID, NO_TAG)) == ()
    assert (Tsid(Uuid.parse(A), Tag("mytag")), Interval(LAST, LAST + 1)) == list(gtid_set)[2]


@pytest.mark.parametrize("interval", [(0, 1), (2, 2), (3, 2), (1, 2**63)])
def test_an_interval_out_of_range_is_refused(interval: tuple[int, int]) -> None:
    with pytest.raises(BinlogFormatError):
        GtidSet.from_intervals([(SOURCES[0], Interval(*interval))])


def test_set_of_mariadb_has_exactly_its_gtids() -> None:
    """Ranges that touch are one; another server of the domain is another interval."""
    found = MariadbGtidSet.parse(" 0-2-7 ..9,0-1-3,0-2-10,7-1-18446744073709551615, 0-1-3")

    assert str(found) == "0-1-3,0-2-7..10,7-1-18446744073709551615"
    assert MariadbGtidSet.parse(str(found)) == found
    assert [number for number in range(1, 13) if MariadbGtid(0, 2, number) in found] == [7, 8, 9, 10]
    assert MariadbGtid(0, 1, 3) in found
    assert MariadbGtid(0, 1, 2) not in found
    assert MariadbGtid(1, 1, 3) not in found
    assert str(MariadbGtidSet.parse("")) == ""


@pytest.mark.parametrize("text", ["0-1-5..4", "0-1-5..", "0-1-1..0-1-2", "0-1-..5", "0-1-1,,0-1-2", "0-1-01"])
def test_text_that_is_no_set_of_mariadb_is_refused(text: str) -> None:
    """Instead of another set than was meant."""
    with pytest.raises(BinlogFormatError):
        MariadbGtidSet.parse(text)
