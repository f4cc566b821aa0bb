"""Conditions on row changes select what SQLite selects by the same text, and the types of columns are respected."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlogio
from binlogio.columnar.row_choice import RowChoice
from binlogio.errors import BinlogError, ConditionError, UnsupportedFeature
from binlogio.events import RowsEvent
from binlogio.events.rows import UpdateRowsEvent
from binlogio.selection.event_filter import Operation
from binlogio.selection.row_condition import RowCondition
from binlogio.selection.selection import Selection
from both_kernels import KERNELS, kernel_set_to
from corpus import FIXTURES

COLUMNS: Final = {"a": pa.int32(), "b": pa.uint64(), "d": pa.decimal128(6, 2), "f": pa.float64(), "s": pa.string()}
ORDERS: Final = (str(FIXTURES / "mysql97" / "incident" / "binlog.0*"), "shop.orders")

rows = st.fixed_dictionaries({
    "a": st.none() | st.integers(-3, 3),
    "b": st.none() | st.integers(0, 3),
    "d": st.none() | st.integers(-300, 300).map(lambda cents: Decimal(cents) / 100),
    "f": st.none() | st.sampled_from([-1.5, 0.0, 0.25, 2.0]),
    "s": st.none() | st.text("aAb%_", max_size=3),
})  # fmt: skip
numbers = st.integers(-4, 4).map(str) | st.sampled_from(["0.5", "1.005", "-2.5", "1e2", "99999999", "2.00"])
numeric = st.sampled_from(["a", "b", "d", "f"])
texts = st.text("aAb", max_size=3).map(lambda text: f"'{text}'")
operators = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
comparisons = st.one_of(
    st.builds("{} {} {}".format, numeric, operators, numbers),
    st.builds("{2} {1} {0}".format, numeric, operators, numbers),
    st.builds("s {} {}".format, operators, texts),
    st.builds("{} IS {}NULL".format, st.sampled_from(list(COLUMNS)), st.sampled_from(["", "NOT "])),
    st.builds("{} {}IN ({}, {})".format, numeric, st.sampled_from(["", "NOT "]), numbers, numbers),
    st.builds("{} {}BETWEEN {} AND {}".format, numeric, st.sampled_from(["", "NOT "]), numbers, numbers),
    st.builds("s {}LIKE {}".format, st.sampled_from(["", "NOT "]), st.text("aA%_", max_size=3).map(lambda t: f"'{t}'")),
    st.just("a = b"),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)


def batch_of(images: list[dict[str, Any] | None], kinds: dict[str, pa.DataType] = COLUMNS) -> pa.RecordBatch:
    """Return inserts, each with an after image or none."""
    kind = pa.struct(list(kinds.items()))
    present = [None if image is None else bytes([(1 << len(kinds)) - 1]) for image in images]
    return pa.RecordBatch.from_pydict(
        {
            "schema": ["d"] * len(images),
            "table": ["t"] * len(images),
            "before": pa.array([None] * len(images), kind),
            "after": pa.array(images, kind),
            "before_present": pa.array([None] * len(images), pa.binary()),
            "after_present": pa.array(present, pa.binary()),
        }
    )


@given(st.lists(rows, min_size=1, max_size=8), conditions)
def test_a_condition_selects_what_sqlite_selects(images: list[dict[str, Any]], text: str) -> None:
    """The same text, with the three values of SQL's logic."""
    target = sqlite3.connect(":memory:")
    target.execute("PRAGMA case_sensitive_like=ON")
    target.execute("CREATE TABLE t (n INTEGER, a INTEGER, b INTEGER, d REAL, f REAL, s TEXT)")
    for number, image in enumerate(images):
        values = [image[name] for name in COLUMNS]
        plain = [float(value) if isinstance(value, Decimal) else value for value in values]
        target.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", [number, *plain])
    expected = [number for (number,) in target.execute(f"SELECT n FROM t WHERE {text} ORDER BY n")]
    mask = RowCondition(text).mask(batch_of([*images, None]))

    assert [number for number, is_wanted in enumerate(mask.to_pylist()) if is_wanted] == expected


def ids_of(text: str) -> list[tuple[str, int]]:
    """Return operation and id of the orders that match."""
    source, table = ORDERS
    condition = RowCondition(text)
    batches = (batch.filter(condition.mask(batch)) for batch in binlogio.read_rows(source, table=table))
    return [(row["op"], (row["after"] or row["before"])["id"]) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 1001", [("insert", 1001), ("update", 1001), ("update", 1001)]),
        ("before.status = 'new' AND after.status = 'paid'", [("update", 1001), ("update", 1003), ("update", 1004)]),
        ("before.total <> after.total", [("update", 1004)]),
        ("before.id = 1002", [("delete", 1002)]),
        ("after.id IS NULL", []),
        ("id IS NULL", []),
        ("placed_at >= '2026-11-20 09:12:00'", [("insert", 1007), ("insert", 1008)]),
        ("placed_at = '2026-11-20T09:00:01.25' AND status <> 'new'", [("update", 1001), ("update", 1001)]),
        ("`status` REGEXP '^s.*d$'", [("update", 1001)]),
    ],
)
def test_images_of_a_real_log(text: str, expected: list[tuple[str, int]]) -> None:
    assert ids_of(text) == expected


def test_an_absent_column_is_not_null() -> None:
    """With MINIMAL images, it is known for an update if the before image has it, and else undecided."""
    log = FIXTURES / "mysql97" / "rowimage_minimal" / "binlog.000001"
    absent = filled = 0
    for _, batch in binlogio.read_tables(log):
        for number, column in enumerate(batch.schema.field("after").type):
            condition = RowCondition(f"after.`{column.name}` IS NULL OR after.`{column.name}` IS NOT NULL")
            before, after = (
                [bool(one and one[number // 8] >> number % 8 & 1) for one in batch.column(bits).to_pylist()]
                for bits in ("before_present", "after_present")
            )
            has_after = batch.column("after").is_valid().to_pylist()
            known = [there and (old or new) for old, new, there in zip(before, after, has_after, strict=True)]
            undecided = [there and not one for one, there in zip(known, has_after, strict=True)]
            found = condition.compare(batch)
            absent += undecided.count(True)
            filled += sum(one and not new for one, new in zip(known, after, strict=True))

            assert found.mask.to_pylist() == known
            assert found.undecided.to_pylist() == undecided
            assert found.lacking == (column.name if any(undecided) else "")

    assert absent
    assert filled


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.uint64(), (1 << 64) - 1, "c = 18446744073709551615 AND c > 18446744073709551614.5"),
        (pa.int8(), -128, "c > -128.5 AND c < 1000 AND c <> 1000 AND c >= -1e100 AND NOT c = 1000"),
        (pa.decimal256(65, 30), Decimal(f"{10**20}.{1:030}"), f"c > {10**20} AND c < {10**20 + 1}"),
        (pa.decimal128(38, 38), Decimal("0.1"), "c = 0.1 AND c < 1 AND c > -5 AND c > -1"),
        (pa.decimal256(65), Decimal("9" * 65), f"c = {'9' * 65} AND c > {'9' * 64}8 AND c > -{'9' * 65}"),
        (pa.float32(), 0.5, "c = 0.5 AND c BETWEEN 0 AND 1"),
        (pa.binary(), b"\x00\xff", "c = x'00ff' AND c <> 'x' AND c = 0x00FF"),
        (pa.timestamp("us", "UTC"), datetime(2026, 11, 20, 9, tzinfo=timezone.utc), "c = '2026-11-20 09:00:00'"),
        (pa.timestamp("us"), datetime(2026, 11, 20, 9), "c <= '2026-11-20 09:00:00.000001' AND c > '2026-11-19'"),
        (pa.date32(), date(2026, 11, 20), "c = '2026-11-20' AND c > '2026-11-19'"),
        (pa.duration("us"), timedelta(hours=-30, seconds=-1), "c = '-30:00:01' AND c < '00:00'"),
        (pa.dictionary(pa.int32(), pa.string()), "new", "c = 'new' AND c LIKE 'n%' AND c IN ('old', 'new')"),
        (pa.string(), None, "NOT (c = 'a' OR c <> 'a') OR c IS NULL"),
    ],
    ids=str,
)
def test_values_are_compared_by_the_type_of_the_column(kind: pa.DataType, value: object, text: str) -> None:
    assert RowCondition(text).mask(batch_of([{"c": value}], {"c": kind})).to_pylist() == [True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a column or a value, found the end"),
        ("id", "expected an operator such as =, <> or <, found the end"),
        ("id = 1 OR", "expected a column or a value, found the end"),
        ("(id = 1", "expected ), found the end"),
        ("id = 1 id = 2", "expected AND, OR or the end, found 'id = 2'"),
        ("id = 'x", "a closing quote"),
        ("id NOT = 1", "expected IN, BETWEEN, LIKE or REGEXP, found '= 1'"),
        ("id = x'1'", "expected pairs of hex digits, found 1"),
        ("id LIKE 1", "expected a text in quotes, found '1'"),
        ("id = NULL", "IS NULL and IS NOT NULL compare with NULL), found 'NULL'"),
        ("id = 1e99999999999999999999", "expected a smaller exponent, found '1e9"),
        pytest.param("(" * 10_000 + "id = 1" + ")" * 10_000, "more than 100 nested", id="parentheses"),
        pytest.param("NOT " * 10_000 + "id = 1", "more than 100 nested", id="NOT"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConditionError, match="the condition cannot be read") as caught:
        RowCondition(text)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("totl = 1", "shop.orders has no column totl (did you mean total?)"),
        ("id = 'x'", "the value does not fit column id, expected uint64, found 'x'"),
        ("status > 1", "the value does not fit column status, expected string, found Decimal('1')"),
        ("placed_at = 'noon'", "the value does not fit column placed_at"),
        ("status REGEXP '('", "'(' is not a regular expression"),
        ("total = status", "columns total and status cannot be compared"),
    ],
)
def test_what_does_not_fit_the_table_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        ids_of(text)

    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["'1:2:x'", "'1:2:inf'", "'999999999999999999:0:0'", "'12'", "'a:b'"])
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConditionError, match="the value does not fit column c"):
        RowCondition(f"c = {text}").mask(batch_of([{"c": timedelta()}], {"c": pa.duration("us")}))


words = st.lists(st.sampled_from("id = 1 ' ( ) AND OR NOT IN x'0 - . before LIKE".split())).map(" ".join)


@given(st.text(max_size=20) | words)
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with contextlib.suppress(BinlogError):
        RowCondition(text)


CHOICES: Final = [
    ("incident", "total > 30 OR status = 'paid'", None),
    ("incident", "id BETWEEN 1001 AND 1003", frozenset({"update", "delete"})),
    ("rowimage_full", "a IS NOT NULL", None),
    ("rowimage_minimal", "a IS NULL OR NOT a IS NULL AND c IS NOT NULL", None),
    ("compressed", "id > 5 AND id <> 20", frozenset({"insert", "update"})),
    ("types_temporal", "id = 3 OR NOT id > 1", None),
    ("partial_json", "id > 0", None),
]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("case", "condition", "operations"), CHOICES)
def test_rows_of_events_are_chosen_as_those_of_batches(
    case: str, condition: str, operations: frozenset[Operation] | None, kernel: str
) -> None:
    """The rows that are taken out of each event have the bytes of those that the batches select."""
    logs = sorted(str(path) for path in (FIXTURES / "mysql97" / case).glob("binlog.0*"))
    where = RowCondition(condition)
    expected, count = [], 0
    for _, batch in binlogio.read_tables(logs, zero_dates="text", json_diffs="operations", statement_changes="skip"):
        count += batch.num_rows
        if where.columns <= {field.name for field in batch.schema.field("before").type}:
            rows = batch.filter(where.compare(batch).mask).select(["file", "pos", "op", "before", "after"]).to_pylist()
            expected += [
                (row["file"], row["pos"], row["op"]) for row in rows if operations is None or row["op"] in operations
            ]
    choice, found = RowChoice(Selection(operations=operations, condition=where)), []
    with kernel_set_to(kernel), binlogio.open(logs) as reader:
        for event in reader:
            if not isinstance(event, RowsEvent):
                continue
            chosen = choice.of(event, reader.plan(event))
            if chosen is not None:
                place = reader.position.file, event.header.offset, event.operation.op
                rows = list(reader.rows(chosen))
                assert all(row in list(reader.rows(event)) for row in rows)
                found += [place for _ in rows]
    assert choice.found_columns
    assert sorted(found) == sorted(expected)
    assert 0 < len(found) <= count


@pytest.mark.parametrize("operator", ["=", "<>", "<", ">=", "<=>"])
def test_dates_as_text_are_compared_as_dates(operator: str) -> None:
    """With any number of digits in column and condition; zero and invalid dates, which are not typed, come as text."""
    log = FIXTURES / "mysql97" / "types_temporal" / "binlog.000001"
    texts = binlogio.read_tables(log, zero_dates="text")
    compared = matching = 0
    for (_, typed), (_, text) in zip(binlogio.read_tables(log, zero_dates="null"), texts, strict=True):
        for field in typed.schema.field("after").type:
            if not (pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)):
                continue
            values = typed.column("after").field(field.name)
            for value in filter(None, values.unique().to_pylist()):
                written = value.replace(tzinfo=None) if isinstance(value, datetime) else value
                for one in (str(written), str(written).replace(" ", "T").replace("-0", "-")):
                    condition = RowCondition(f"after.`{field.name}` {operator} '{one}'")
                    found = pc.and_(condition.compare(text).mask, values.is_valid())
                    expected = pc.and_(condition.compare(typed).mask, values.is_valid())
                    compared += 1
                    matching += expected.true_count
                    assert found.equals(expected), condition.text

    assert compared > 100
    assert matching > 100


def test_an_event_without_a_column_of_the_condition_is_refused_where_that_matters() -> None:
    log = str(FIXTURES / "mysql97" / "rowimage_minimal" / "binlog.000001")
    choice = RowChoice(Selection(condition=RowCondition("b IS NULL")), refuses_unknown=True)
    with binlogio.open(log) as reader:
        updates = (event for event in reader if isinstance(event, UpdateRowsEvent))
        with pytest.raises(UnsupportedFeature, match="the condition needs column b"):
            [choice.of(event, reader.plan(event)) for event in updates]
