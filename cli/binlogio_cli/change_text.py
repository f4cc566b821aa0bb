"""Shared code of `history` and `grep`: opens logs and output, and formats row changes as text and as JSON lines."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from binlogio.archive.found_rows import RowVersion
from binlogio.dotted_names import dotted_name
from binlogio.series.positions import selected_logs
from binlogio.storage import find_logs, load_keyring
from binlogio_cli.output import STDOUT, Output, OutputFile, open_output
from binlogio_cli.progress import watched_logs
from binlogio_cli.quoting import json_text, safe, safe_lines
from binlogio_cli.selection import check_selected, earlier_definitions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, tzinfo

    from binlogio.archive.history import HistoryStatement
    from binlogio.selection.selection import Selection
    from binlogio.storage import LogFile
    from binlogio_cli.selection import Reading

_NOT_LOGGED: Final = "(not in the log)"


@contextmanager
def opened_search(
    files: tuple[str, ...], selection: Selection, reading: Reading, output: str | None, *, force: bool, quiet: bool
) -> Iterator[tuple[list[LogFile], Output, dict[str, Any]]]:
    """Provide the selected logs, the output stream, and the fields of `SearchOptions`.

    Raises:
        Refusal: the selection or the output is invalid.
        OSError: a log does not exist, or the output cannot be written.
    """
    given = find_logs(files)
    logs = selected_logs(selection, given)
    names = tuple(log.name for log in logs)
    keyring = None if reading.keyring is None else load_keyring(reading.keyring)
    within = selection.ranges(names)
    options = {"where": selection.event_filter(), "within": within, **reading.options, "keyring": keyring}
    if selection.start is not None:
        options["definitions"] = earlier_definitions(reading.definitions, given, logs, keyring)
    check_selected(selection, given, logs, keyring)
    target = OutputFile.checked(output, (*names, *files, *reading.other_inputs), force=force)
    is_shown = not (quiet or (output in (None, STDOUT) and sys.stdout.isatty()))
    with open_output(target) as stream, watched_logs(names, is_shown=is_shown) as watch:
        yield logs, stream, {**options, "watch": watch}
        stream.flush()


def change_json(one: RowVersion | HistoryStatement, zone: tzinfo) -> str:
    """Return a change or a statement as a line of JSON, with times in `zone`."""
    values: dict[str, Any] = {"kind": "change" if isinstance(one, RowVersion) else "statement", **asdict(one)}
    values.pop("columns", None)
    for name in ("timestamp", "commit_timestamp"):
        moment: datetime | None = values.get(name)
        values[name] = None if moment is None else moment.astimezone(zone).isoformat()
    for name in ("before", "after"):
        if values.get(name) is not None:
            values[name] = json.loads(values[name])
    return json_text(values) + "\n"


def change_text(one: RowVersion | HistoryStatement, zone: tzinfo, *, names_table: bool = False) -> Iterator[str]:
    """Yield the text of a change or a statement; `names_table` adds table and key to changes."""
    moment = one.timestamp.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")
    op = one.op.upper() if isinstance(one, RowVersion) else "STATEMENT"
    facts = [f"{one.file}:{one.pos}"]
    if names_table and isinstance(one, RowVersion):
        facts.insert(0, dotted_name(one.schema, one.table))
    if one.gtid is not None:
        facts.append(f"gtid {one.gtid}")
    facts.append(f"server {one.server_id}")
    if isinstance(one, RowVersion) and one.thread_id is not None:
        facts.append(f"thread {one.thread_id}")
    if isinstance(one, RowVersion) and one.outcome not in (None, "commit", "statement"):
        facts.append(f"outcome: {one.outcome}")
    yield f"{moment}  {op}  {'  '.join(map(safe, facts))}\n"
    if isinstance(one, RowVersion):
        for line in _changes(one, names_key=names_table):
            yield f"    {line}\n"
        statement = one.statement
    else:
        statement = one.sql
    if statement is not None:
        label = "  by  " if isinstance(one, RowVersion) else "    "
        text = safe_lines(statement).replace("\n", "\n" + " " * len(label))
        yield f"{label}{text}\n"
    yield "\n"


def _changes(one: RowVersion, *, names_key: bool) -> Iterator[str]:
    """Yield the columns of a change (of an update only the changed ones), then the columns that are not in the log.

    `names_key` adds the key to updates that do not change it.
    """
    before, after = (json.loads(image) if image is not None else None for image in (one.before, one.after))
    if before is None or after is None:
        image = before or after or {}
        for name, value in image.items():
            yield f"{safe(name)}: {_value(value)}"
    else:
        image = {**before, **after}
        for name in image:
            old = _value(before[name]) if name in before else _NOT_LOGGED
            if name in after and (name not in before or before[name] != after[name]):
                yield f"{safe(name)}: {old} -> {_value(after[name])}"
            elif name in one.key and (names_key or name not in after):
                yield f"{safe(name)}: {old}"
    absent = [safe(name) for name in one.columns if name not in image]
    if absent:
        yield f"{_NOT_LOGGED}: {', '.join(absent)}"
    if one.old_key is not None or one.new_key is not None:
        change = "from" if one.old_key is not None else "to"
        key = ", ".join(f"{name}={value}" for name, value in (one.old_key or one.new_key or {}).items())
        yield safe(f"(the key changes {change} {key})")


def _value(value: object) -> str:
    return "NULL" if value is None else json_text(value)
