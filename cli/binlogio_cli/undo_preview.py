"""`undo --preview`: prints the rows as they are after the reversed changes and as they would be, and the next commands.

The changes are those that `grep` finds, with before and after image exchanged.
"""

from __future__ import annotations

import shlex
from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from binlogio.archive.found_rows import SearchOptions
from binlogio.archive.grep import find_changes
from binlogio.dotted_names import dotted_name
from binlogio.selection.event_filter import EventFilter, Range
from binlogio_cli.change_text import change_text
from binlogio_cli.messages import ARGUMENTS, say
from binlogio_cli.output import Output
from binlogio_cli.selection import output_zone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.archive.found_rows import RowVersion
    from binlogio.reader import BinlogReader
    from binlogio.replay.filters import ReplayFilter
    from binlogio.replay.undo import Undo
    from binlogio.selection.selection import Selection
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile
    from binlogio_cli.selection import Reading

_MOST_ROWS: Final = 20  # shown of each table
_MOST_EVENTS: Final = 1 << 10  # rows events that are searched for them first
_OPPOSITE: Final = {"insert": "delete", "update": "update", "delete": "insert"}
_SCRIPT: Final = "undo.sql"
_LOG: Final = "undo.000001"


def show_preview(
    ready: Undo,
    logs: Sequence[LogFile],
    keyring: Keyring | None,
    selection: Selection,
    reading: Reading,
    wanted: ReplayFilter,
    stream: Output,
) -> None:
    """Print what the undo would do to rows, newest first. Logs before the reversed changes may define their tables.

    Raises:
        BinlogError, OSError: a log cannot be read.
    """
    shown: dict[str, deque[RowVersion]] = {}
    notes: list[str] = []
    totals: Counter[str] = Counter()
    for (table, _), count in ready.summary.rows.items():
        totals[table] += count

    def wants(schema: str, table: str) -> bool:
        return (wanted.schema(schema), table) in ready.tables

    for most in (None,) if wanted.rewrite_db else (_MOST_EVENTS, None):  # all, if the last ones do not have all tables
        shown, notes = {}, []
        counts: Counter[str] = Counter()
        places = _last_places(ready, logs, most)
        within = {log.name: Range(0, 0) for log in logs}
        within |= {name: Range(min(found), max(found) + 1) for name, found in places.items()}
        options = SearchOptions(
            where=EventFilter(ops=selection.operations), within=within, **{**reading.options, "keyring": keyring}
        )
        condition = None if selection.condition is None else selection.condition.text
        for one in find_changes(logs, condition, options, wants=wants, note=notes.append) if places else ():
            if one.pos in places.get(one.file, ()):
                name = dotted_name(one.schema, one.table)
                counts[name] += 1
                shown.setdefault(name, deque(maxlen=_MOST_ROWS)).append(one)
        if not wanted.rewrite_db and all(
            len(shown.get(name, ())) == min(count, _MOST_ROWS) for name, count in totals.items()
        ):
            counts = totals
            break
    for note in notes:
        say(note)
    for name, changes in sorted(shown.items()):
        for one in reversed(changes):
            inverse = replace(one, op=_OPPOSITE[one.op], before=one.after, after=one.before)
            stream.write_all(change_text(inverse, output_zone(), names_table=True))
        if counts[name] > len(changes):
            stream.write(f"{name}: {counts[name] - len(changes)} older changes are not shown\n\n")


def _last_places(ready: Undo, logs: Sequence[LogFile], most: int | None) -> dict[str, set[int]]:
    """Return the offsets of the last `most` reversed rows events, by log; None: of all."""
    found: dict[str, set[int]] = {}
    for log in reversed(logs):
        places = ready.places.get(log.name)
        if places and most != 0:
            last = places if most is None else sorted(places)[-most:]
            found[log.name] = set(last)
            most = None if most is None else most - len(last)
    return found


def say_commands(reader: BinlogReader) -> None:
    """Print the commands that write and apply the undo."""
    arguments = click.get_current_context().meta.get(ARGUMENTS, ())
    is_mariadb = reader.context.is_mariadb
    client = f"{'mariadb' if is_mariadb else 'mysql'} --binary-mode"
    place, apply = _SCRIPT, f"{client} < {_SCRIPT}"
    if click.get_current_context().params["form"] == "binlog":
        tool = "mariadb-binlog" if is_mariadb else "mysqlbinlog --skip-gtids"
        place, apply = _LOG, f"{tool} {_LOG} | {client}"
    say("this was a preview; the undo is written and applied by")
    say(f"  {shlex.join(['binlogio', *(one for one in arguments if one != '--preview'), '--output', place])}")
    say(f"  {apply}")
