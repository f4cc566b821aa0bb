"""What a writer accepts its reader gives back, from Python values and from Arrow.

All else is refused with the column and the row.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.errors import BinlogError
from binlogio.events.rows import WriteRowsEvent
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDocument
from binlogio.writer import BinlogWriter, Insert, Statement
from binlogio.writer.batches import BatchChange, BatchSession
from memory_storage import MemoryStorage

COLUMNS: Final = {
    "varchar": ColumnDefinition("v", "varchar(20)"),
    "char": ColumnDefinition("v", "char(5)"),
    "text": ColumnDefinition("v", "text"),
    **{
        name: ColumnDefinition("v", "varchar(20)", charset=name)
        for name in ("latin1", "ascii", "gbk", "sjis", "ucs2", "utf16", "utf32", "utf8mb3")
    },
    "binary": ColumnDefinition("v", "binary(3)"),
    "blob": ColumnDefinition("v", "blob"),
    "json": ColumnDefinition("v", "json"),
    "enum": ColumnDefinition("v", "enum('a','b')"),
    "set": ColumnDefinition("v", "set('a','b')"),
    "bit": ColumnDefinition("v", "bit(3)"),
    "tinyint": ColumnDefinition("v", "tinyint"),
    "bigint unsigned": ColumnDefinition("v", "bigint unsigned"),
    "year": ColumnDefinition("v", "year"),
    "date": ColumnDefinition("v", "date"),
    "time": ColumnDefinition("v", "time(2)"),
    "datetime": ColumnDefinition("v", "datetime(3)"),
    "timestamp": ColumnDefinition("v", "timestamp"),
    "decimal": ColumnDefinition("v", "decimal(5,2)"),
    "float": ColumnDefinition("v", "float"),
    "double": ColumnDefinition("v", "double"),
    "geometry": ColumnDefinition("v", "geometry"),
    "vector": ColumnDefinition("v", "vector(2)"),
}  # fmt: skip
BROKEN_JSON: Final = JsonDocument(b"\x00\x05\x00\xff\xff\x00")
REFUSED: Final[list[tuple[str, Any]]] = [
    *((name, b"\xff") for name in ("varchar", "char", "text", "ascii", "gbk", "ucs2", "utf16", "utf8mb3")),
    ("sjis", b"\x81"),
    ("utf16", b"\xd8\x00\x00\x00"),
    ("utf32", b"\x00\x11\x00\x00"),
    *((name, "a\ud800") for name in ("varchar", "char", "text", "latin1", "utf16")),
    ("json", b"text"),
    ("json", '{"a":'),
    ("json", '"\ud800"'),
    ("json", BROKEN_JSON),
    ("json", JsonDocument(b"junk")),
    ("enum", 127),
    ("enum", 3),
    ("enum", EnumValue("zz", 127)),
    ("enum", EnumValue("a", 2)),
    ("set", 255),
    ("set", 4),
    ("set", SetValue("a,zz", 255)),
    ("set", SetValue("a", 2)),
    ("time", "00:61:00"),
    ("time", "00:00:60"),
    ("geometry", Geometry(0, b"junk")),
    ("geometry", b"\x00\x00\x00\x00junk"),
    ("bit", 8),
    ("tinyint", 10**5000),
]


VARIABLES: Final = binlogio.ServerVariables(server_uuid="6d1b2c9a-5b0e-11f1-9d5e-0242ac110002")


def table(name: str) -> TableDefinition:
    return TableDefinition("s", "t", (ColumnDefinition("id", "int", nullable=False), COLUMNS[name]), ("id",))


def from_python(name: str, value: Any, *, use_kernel: bool) -> MemoryStorage:
    storage = MemoryStorage()
    log = BinlogWriter("binlog", storage=storage, variables=VARIABLES, clock=lambda: 10**15, use_kernel=use_kernel)
    with log, log.session("s") as session:
        session.execute(Statement("INSERT", [Insert(table(name), [(1, None), (2, value)])]))
    return storage


def from_arrow(name: str, array: pa.Array) -> MemoryStorage:
    storage = MemoryStorage()
    with BinlogWriter("binlog", storage=storage, clock=lambda: 10**15) as log:
        batch = pa.RecordBatch.from_arrays([pa.array(range(len(array)), pa.int32()), array], ["id", "v"])
        BatchSession(log, "s").write([BatchChange(table(name), after=batch)])
    return storage


def values(storage: MemoryStorage) -> list[Any]:
    """Return the values in the log; Arrow, typed and as JSON, must read them as well."""
    for reading in (binlogio.read_tables, binlogio.read_rows):
        assert list(reading(storage.streams(), zero_dates="text"))
    with binlogio.open(storage.streams()) as reader:
        rows = [row for event in reader if isinstance(event, WriteRowsEvent) for row in reader.rows(event)]
    return [row.after.values[1] for row in rows if row.after is not None]


@pytest.mark.parametrize("use_kernel", [True, False], ids=["kernel", "construct"])
@pytest.mark.parametrize(
    ("name", "value"), REFUSED, ids=lambda value: value if isinstance(value, str) and value in COLUMNS else ""
)
def test_what_cannot_be_read_again_is_refused(name: str, value: Any, *, use_kernel: bool) -> None:
    """With the column; nothing is written."""
    with pytest.raises(BinlogError) as caught:
        from_python(name, value, use_kernel=use_kernel)

    assert "s.t" in str(caught.value)
    str(caught.value).encode()


ARRAYS: Final = {
    "invalid UTF-8": ("varchar", pa.array([None, b"\xff"], pa.binary())),
    "invalid UTF-8, large": ("text", pa.array([None, b"\xff"], pa.large_binary())),
    "invalid GBK": ("gbk", pa.array([None, b"\xff\xff"], pa.binary())),
    "no JSON": ("json", pa.array([None, b"junk"], pa.binary())),
    "no JSON text": ("json", pa.array([None, "{"], pa.string())),
    "broken JSON": ("json", pa.array([None, BROKEN_JSON.binary], pa.binary())),
    "ENUM 127": ("enum", pa.array([None, 127], pa.uint16())),
    "ENUM 127, signed": ("enum", pa.array([None, 127], pa.int64())),
    "ENUM 127, dictionary": ("enum", pa.array([None, 127], pa.uint16()).dictionary_encode()),
    "SET 255": ("set", pa.array([None, 255], pa.uint64())),
    "no geometry": (
        "geometry",
        pa.array([None, {"srid": 0, "wkb": b"junk"}], pa.struct([("srid", pa.uint32()), ("wkb", pa.binary())])),
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_cannot_be_read_again_are_refused(name: str) -> None:
    """With column and row."""
    column, array = ARRAYS[name]

    with pytest.raises(BinlogError, match=r"row 1|row: 1") as caught:
        from_arrow(column, array)

    assert "v" in str(caught.value)


texts: Final = st.text(st.characters(), max_size=6)
some_values: Final = st.one_of(
    st.integers(-(2**65), 2**65),
    st.integers(-3, 300),
    st.floats(),
    texts,
    st.sampled_from(["a", "b", "a,b", "", "00:61:00", "-838:59:59.99", "2024-02-31", "0000-00-00"]),
    st.sampled_from(["2024-13-01 00:00:00", "24:00:00", "1e3", "{}"]),
    st.binary(max_size=6),
    st.datetimes(),
    st.dates(),
    st.timedeltas(dt.timedelta(-40), dt.timedelta(40)),
    st.decimals(),
    st.builds(JsonDocument, st.binary(max_size=6)),
    st.builds(
        JsonDocument.from_python,
        st.dictionaries(
            texts.map(lambda text: text.encode("utf-8", "replace").decode()), st.integers(-9, 9), max_size=2
        ),
    ),
    st.builds(EnumValue, st.sampled_from(["a", "b", "", "z"]), st.integers(-1, 300)),
    st.builds(SetValue, st.sampled_from(["a", "b", "a,b", "", "z"]), st.integers(-1, 300)),
    st.builds(Geometry, st.integers(0, 2**32 - 1), st.binary(max_size=21)),
    st.lists(st.floats(width=32), max_size=3),
    st.booleans(),
)  # fmt: skip


@settings(max_examples=700)
@given(st.sampled_from(list(COLUMNS)), some_values, st.booleans())
def test_whatever_is_accepted_is_read_back(name: str, value: Any, use_kernel: bool) -> None:
    """And what is read back gives the same bytes again."""
    try:
        storage = from_python(name, value, use_kernel=use_kernel)
    except BinlogError:
        return
    nothing, found = values(storage)
    again = from_python(name, found, use_kernel=use_kernel)

    assert nothing is None
    assert bytes(again.files["binlog.000001"]) == bytes(storage.files["binlog.000001"])


def _arrays() -> list[pa.Array]:
    ends = pa.array([1, 2], pa.int32())
    plain = [
        pa.array([None, "a"]),
        pa.array([None, b"\xff"]),
        pa.array([None, 1]),
        pa.array([None, 127], pa.uint8()),
        pa.array([None, 1.5]),
        pa.array([None, True]),
        pa.array([None, decimal.Decimal("1.50")]),
        pa.array([None, dt.datetime(2024, 1, 1)]),
        pa.array([None, dt.timedelta(hours=1)]),
        pa.array([None, [1.0, 2.0]], pa.list_(pa.float32())),
    ]
    odd = [
        pa.array([None, [("a", 1)]], pa.map_(pa.string(), pa.int32())),
        pa.array([None, {"a": 1}]),
        pa.nulls(2),
        pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
        pa.UnionArray.from_dense(
            pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])]
        ),
        pa.array([None, pa.MonthDayNano([1, 2, 3])]),
        pa.array([None, 1], pa.int64()).cast(pa.time64("us")),
        pa.array([None, ["a"]]),
        pa.array([None, [1.0, 2.0]], pa.large_list(pa.float32())),
    ]  # fmt: skip
    encoded = [pa.RunEndEncodedArray.from_arrays(ends, one) for one in plain]
    dictionaries = [one.dictionary_encode() for one in plain[:8]]
    nested = [pa.RunEndEncodedArray.from_arrays(ends, one) for one in dictionaries]
    return [*plain, *odd, *encoded, *dictionaries, *nested]


@pytest.mark.parametrize("name", COLUMNS)
def test_arrays_of_any_type_are_read_back_or_refused(name: str) -> None:
    """Run-end-encoded ones, dictionaries, unions, maps: with an error of ours where the column does not take them."""
    accepted = 0
    for array in _arrays():
        try:
            storage = from_arrow(name, array)
        except BinlogError as exc:
            str(exc).encode()
            continue
        accepted += 1
        assert len(values(storage)) == 2

    assert accepted


def test_run_end_encoded_columns_are_written_as_plain_ones() -> None:
    """What they say is the same."""
    plain = pa.array(["a", "a", None, "b"])
    encoded = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 4], pa.int32()), pa.array(["a", None, "b"]))

    assert values(from_arrow("varchar", encoded)) == values(from_arrow("varchar", plain)) == ["a", "a", None, "b"]


LONE: Final = "a\ud800"


def execute(where: str, binlog_format: str) -> None:
    """Execute a transaction with a name or text that is not in UTF-8."""
    variables = binlogio.ServerVariables(binlog_format=binlog_format)
    kind = f"enum('{LONE}')" if where == "member" else "varchar(20)"
    made = TableDefinition(
        "s", LONE if where == "table" else "t", (ColumnDefinition(LONE if where == "column" else "v", kind),)
    )
    statement = Statement(LONE if where == "sql" else "INSERT", [Insert(made, [(None,)])])
    with BinlogWriter("b", storage=MemoryStorage(), variables=variables) as log:
        session = log.session(LONE if where == "schema" else "s")
        session.begin()
        session.execute(statement)
        if where == "savepoint":
            session.savepoint(LONE)
        elif where == "ddl":
            session.ddl(LONE)
        session.commit()


@pytest.mark.parametrize(
    ("where", "binlog_format"),
    [
        *((where, "ROW") for where in ("schema", "ddl", "table", "column", "member", "savepoint")),
        *((where, "STATEMENT") for where in ("schema", "ddl", "sql", "savepoint")),
    ],
)
def test_names_and_texts_without_utf_8_are_refused(where: str, binlog_format: str) -> None:
    """Half of a surrogate pair is no character."""
    with pytest.raises(BinlogError) as caught:
        execute(where, binlog_format)

    str(caught.value).encode()
