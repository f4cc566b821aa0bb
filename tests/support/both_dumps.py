"""Output of `dump` with and without the kernel's event formatter: the bytes, and the error that ends it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import binlogio
from binlogio.errors import BinlogError
from binlogio.reader import BinlogReader
from binlogio.selection.selection import Selection
from binlogio_cli.dump.filters import FilteredDump
from binlogio_cli.dump.json_output import JsonDump
from binlogio_cli.dump.sql_output import SqlDump
from binlogio_cli.dump.text_output import TextDump, TextStyle
from binlogio_cli.output import Output
from both_kernels import KERNELS, Said, kernel_set_to

FORMS = ("text", "types", "json", "sql")
ALL = Selection()


class SeenDump(TextDump):
    """Text output that records the events formatted by Python."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: list[Any] = []

    def event(self, event: Any) -> Iterator[str | bytes]:
        """Format an event."""
        self.seen.append(event)
        return super().event(event)


class SeenSqlDump(SqlDump):
    """SQL output that records the events formatted by Python."""

    def __init__(self, reader: BinlogReader) -> None:
        super().__init__(reader, gtids=True)
        self.seen: list[Any] = []

    def event(self, event: Any) -> Iterator[str]:
        """Format an event."""
        self.seen.append(event)
        return super().event(event)


def dumped_by(
    kernel: str, source: Any, form: str, selection: Selection = ALL, **options: Any
) -> tuple[bytes, Said | None]:
    """Return the output and the error of `dump` with one kernel.

    Without a selection, the compiled kernel reads the log in both cases.
    """
    written = io.BytesIO()
    output = Output(written, "surrogateescape" if form == "sql" else "backslashreplace")
    try:
        with kernel_set_to(kernel if selection else KERNELS[0]):
            opened = binlogio.open(source, **options)
        with opened as reader:
            style = TextStyle(verbosity=2 if form == "types" else 0)
            with kernel_set_to(kernel):
                dump: Any = SqlDump(reader, gtids=True) if form == "sql" else TextDump(reader, style)
                if form == "json":
                    dump = JsonDump(reader, style.zone)
                writer = dump.writer(selection)
            output.write_all(FilteredDump(reader, selection, dump, writer).choose())
            output.write_all(dump.foot())
    except BinlogError as exc:
        return written.getvalue(), Said.of(exc)
    return written.getvalue(), None


def assert_dumped_alike(
    data: Any, selection: Selection = ALL, *, forms: Sequence[str] = FORMS, **options: Any
) -> bytes:
    """Compare both kernels in all formats, or some; return the output in the first one.

    With a selection, the compiled kernel may skip errors in unselected groups that construct raises.
    """
    for form in forms:
        source = (lambda: io.BytesIO(data)) if isinstance(data, bytes) else (lambda: data)
        by_kernel, by_construct = (dumped_by(kernel, source(), form, selection, **options) for kernel in KERNELS)
        if selection and by_construct[1] is not None:
            assert by_kernel[0].startswith(by_construct[0])
        else:
            assert by_construct == by_kernel
        if form == forms[0]:
            text = by_kernel[0]
    return text
