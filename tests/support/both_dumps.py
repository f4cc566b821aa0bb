"""What `dump` writes of a log, with the kernel's writers and without: its bytes, and the error that ends it."""

from __future__ import annotations

import io
from typing import Any

import binlogio
from binlogio.errors import BinlogError
from binlogio_cli.dump.filters import DumpFilter, FilteredDump
from binlogio_cli.dump.json_output import JsonDump
from binlogio_cli.dump.sql_output import SqlDump
from binlogio_cli.dump.text_output import TextDump, TextStyle
from binlogio_cli.output import Output
from both_kernels import KERNELS, Said, kernel_set_to

FORMS = ("text", "types", "json", "sql")
ALL = DumpFilter()


def dumped_by(
    kernel: str, source: Any, form: str, selection: DumpFilter = ALL, **options: Any
) -> tuple[bytes, Said | None]:
    """Return what `dump` writes; events are read by the compiled kernel either way."""
    written = io.BytesIO()
    output = Output(written, "surrogateescape" if form == "sql" else "backslashreplace")
    try:
        with binlogio.open(source, **options) as reader:
            style = TextStyle(verbosity=2 if form == "types" else 0)
            with kernel_set_to(kernel):
                dump: Any = SqlDump(reader, gtids=True) if form == "sql" else TextDump(reader, style)
                if form == "json":
                    dump = JsonDump(reader, style.zone)
                writer = dump.writer(selection)
            output.write_all(FilteredDump(reader, selection, dump.event, writer).choose())
            output.write_all(dump.foot())
    except BinlogError as exc:
        return written.getvalue(), Said.of(exc)
    return written.getvalue(), None


def assert_dumped_alike(data: Any, selection: DumpFilter = ALL, **options: Any) -> bytes:
    """Compare both in all forms; returns the text."""
    for form in FORMS:
        source = (lambda: io.BytesIO(data)) if isinstance(data, bytes) else (lambda: data)
        by_kernel, by_construct = (dumped_by(kernel, source(), form, selection, **options) for kernel in KERNELS)
        assert by_construct == by_kernel
        if form == FORMS[0]:
            text = by_kernel[0]
    return text
