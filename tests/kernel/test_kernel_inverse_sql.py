"""Undo as SQL by the kernel and by Python: the same script, or the same error."""

from __future__ import annotations

import io
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.constants import OptionalMetadataType
from binlogio.errors import BinlogError
from binlogio.events.table_map import MetadataField
from binlogio.replay.undo import BinlogFile, OnStatement, SqlScript, undo
from binlogio.replay.undo.sql_script import _UndoneTable
from binlogio.schema import TableDefinition
from binlogio.values.json import JsonDocument
from both_kernels import KERNELS, Said
from corpus import CorpusFile, files
from log_cases import Rows, damaged_rows, raw_rows, rows
from logs import log
from row_events import group
from undo_logs import ONE, TWO, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("binlogio._kernel.row_decoder", reason="the kernel is not compiled")

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


MOST_CALLS: Final = {SqlScript: 3, BinlogFile: 20}  # of a transaction: a log gets positions and checksums at the end
FORMS: Final = (SqlScript, BinlogFile)


def undone_by(kernel: str, source: Any, form: type[Any] = SqlScript) -> bytes | Said:
    """Return the script or log that undoes a log; events are read by the compiled kernel either way."""
    try:
        with pytest.MonkeyPatch.context() as patch, binlogio.open(source) as reader:
            if kernel == "construct":  # as for tables whose rows the kernel does not reverse
                patch.setattr(_UndoneTable, "_inverse_sql", lambda *_, **__: None)
                patch.setattr(BinlogFile, "compiled", lambda *_: None)
            with undo(reader, form(), on_statement=OnStatement.SKIP) as ready:
                return b"".join(ready.pieces())
    except BinlogError as exc:
        return Said.of(exc)


def assert_undone_alike(source: Any) -> bytes | Said:
    """Compare both in both forms, and return the script that the kernel makes."""
    found = [
        [undone_by(kernel, io.BytesIO(source) if isinstance(source, bytes) else source, form) for form in FORMS]
        for kernel in KERNELS
    ]

    assert found[0] == found[1]
    return found[0][0]


@st.composite
def keyed(draw: st.DrawFn, cases: st.SearchStrategy[Rows]) -> Rows:
    """Give the table a primary key, of columns that its images have."""
    found = draw(cases)
    event = found.event
    present = [at for at in range(event.column_count) if event.present[at >> 3] >> (at & 7) & 1]
    key = tuple(draw(st.lists(st.sampled_from(present), min_size=1, max_size=3, unique=True))) if present else ()
    field = MetadataField(OptionalMetadataType.SIMPLE_PRIMARY_KEY, key)
    table = replace(found.table_map, optional_metadata=(*found.table_map.optional_metadata, field))
    return replace(
        found, table_map=replace(table, nullable=draw(st.sampled_from((table.nullable, (False,) * event.column_count))))
    )


TYPES: Final = {"id": "int", "doc": "json", "wide": "double", "single": "float"}
NUMBERS: Final = TableDefinition.from_json(
    {
        "schema": "d",
        "name": "t",
        "columns": [{"name": name, "type": kind, "nullable": name != "id"} for name, kind in TYPES.items()],
        "primary_key": ["id"],
    }
)


def python_calls(function: Callable[[], object]) -> Counter[str]:
    """Return the number of calls of Python functions, by name."""
    called: Counter[str] = Counter()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: called.update([frame.f_code.co_name] if event == "call" else []))
    try:
        function()
    finally:
        sys.setprofile(before)
    return called


def test_kernel_compares_documents_and_floating_numbers() -> None:
    """Python writes no statement of a table with such columns."""
    document = JsonDocument.from_text('{"a": [1, 0.5, "x"]}')
    values = (0.0, -0.0, 0.125, -3.5, 1e30)
    data = log(*group(rows_of(*((None, (at, document, one, one)) for at, one in enumerate(values)), table=NUMBERS)))
    assert_undone_alike(data)

    assert python_calls(lambda: undone_by("compiled", io.BytesIO(data)))["reversed_changes"] == 0


@pytest.mark.parametrize("form", FORMS)
def test_kernel_reverses_whole_groups(form: type[Any]) -> None:
    """Python does not walk over the events of small transactions: its calls do not depend on their number."""
    events = [*group(rows_of((None, ONE)), rows_of((TWO, None))), *group(rows_of((ONE, TWO)))]
    sources = [io.BytesIO(log(*events * count)) for count in (10, 70)]
    few, many = [python_calls(partial(undone_by, "compiled", source, form)).total() for source in sources]

    assert many - few < 120 * MOST_CALLS[form]


@settings(max_examples=250, suppress_health_check=SLOW)
@given(keyed(rows()))
def test_rows_of_every_type_are_undone_alike(case: Rows) -> None:
    """Tables of random columns, in all row images."""
    assert_undone_alike(case.log())


@settings(max_examples=250, suppress_health_check=SLOW)
@given(keyed(damaged_rows()))
def test_damaged_rows_end_in_the_same_error(case: Rows) -> None:
    """Images that are cut, too long, or that have other bytes."""
    assert_undone_alike(case.log())


@settings(max_examples=250, suppress_health_check=SLOW)
@given(keyed(raw_rows()))
def test_values_of_any_bytes_are_undone_alike(case: Rows) -> None:
    """One column of each type, bytes that no server would write among them."""
    assert_undone_alike(case.log())


@pytest.mark.parametrize("sizes", [(300_000,) * 5, (10, 700_000, 10, 10), (700_000, 700_000), (262_120, 262_120, 8)])
def test_large_rows_are_inserted_by_several_statements(sizes: tuple[int, ...]) -> None:
    """A statement has at most 1 MiB of rows, or one row."""
    deleted = [((number, "a", JsonDocument.from_text(f'"{"b" * size}"')), None) for number, size in enumerate(sizes)]
    script = assert_undone_alike(log(*group(rows_of(*deleted))))

    assert isinstance(script, bytes)
    assert script.count(b"INSERT INTO") > 1


@pytest.mark.parametrize("one", [one for one in files() if not one.keys], ids=lambda one: one.id)
def test_real_logs_are_undone_alike(one: CorpusFile) -> None:
    """All logs of the corpus, those that were damaged on purpose among them."""
    assert_undone_alike(one.path)
