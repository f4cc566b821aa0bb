"""The request of a read: parsed options, with the keyring, the table definitions and the filters loaded.

The piece of a log that a task reads is in `partitions`, the views are in `views`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlogio.event_filter import EVERY_EVENT, EventFilter, Range, parse_gtid_state
from binlogio.schema import GivenDefinitions, load_definitions
from pyspark_binlogio.option_values import refused

if TYPE_CHECKING:
    from binlogio.storage import Keyring
    from pyspark_binlogio.options import BinlogOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a read, the same for all its tasks. `columns` selects columns of the table; None selects all."""

    options: BinlogOptions
    where: EventFilter = EVERY_EVENT
    keyring: Keyring | None = field(default=None, repr=False)
    definitions: GivenDefinitions | None = None
    columns: tuple[str, ...] | None = None


def request_of(options: BinlogOptions) -> Request:
    """Return the request of a read by its options.

    Raises:
        BinlogOptionError: `schemaFile` looks like JSON, and is invalid.
        BinlogError: the keyring is invalid, or a definition is not supported.
        OSError: one of their files cannot be read.
    """
    keyring = None
    if options.keyring is not None:
        from binlogio.storage import load_keyring  # noqa: PLC0415 - seldom needed

        keyring = load_keyring(options.keyring)
    known, wanted = (
        None if text is None else parse_gtid_state(text) for text in (options.starting_gtids, options.ending_gtids)
    )
    times = Range()
    if options.starting_timestamp is not None:
        times = times.within(Range(start=options.starting_timestamp))
    if options.ending_timestamp is not None:
        times = times.within(Range(end=options.ending_timestamp))
    where = EventFilter(timestamp=times, known_gtids=known, wanted_gtids=wanted)
    return Request(options=options, where=where, keyring=keyring, definitions=given_definitions(options.schema_file))


def given_definitions(schema_file: str | None) -> GivenDefinitions | None:
    """Return the definitions of option `schemaFile`: a file, or JSON itself.

    JSON definitions that do not fit a table are ignored.

    Raises:
        BinlogOptionError: it looks like JSON, and is invalid.
        UnsupportedFeature: a statement in it is not supported, or defines no table.
        OSError: the file cannot be read.
    """
    if schema_file is None or not schema_file.lstrip().startswith("{"):
        return load_definitions(schema_file)
    try:
        tables = json.loads(schema_file)
    except (ValueError, RecursionError) as exc:
        raise refused("schemaFile", schema_file, f"a file, or JSON ({exc})") from exc
    return GivenDefinitions(tables, passes_over=True)
