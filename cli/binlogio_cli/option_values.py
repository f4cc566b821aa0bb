"""Times and GTID sets as options of several commands have them.

Knows the texts, and how a refusal names the option and what was expected. Knows no command.
"""

from __future__ import annotations

from datetime import datetime

import click

from binlogio.errors import BinlogError
from binlogio.gtid import GtidSet


def parse_time(ctx: click.Context, param: click.Parameter, text: str | None) -> datetime | None:
    """A time in ISO 8601, with a time zone if it says one.

    Raises:
        BadParameter: it is none.
    """
    if text is None:
        return None
    try:
        return datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") else text)
    except ValueError as exc:
        raise click.BadParameter(f"{text!r} is no time; give it as '2026-11-20 12:00:00'", ctx, param) from exc


def parse_gtids(ctx: click.Context, param: click.Parameter, text: str | None) -> GtidSet | None:
    """A GTID set of MySQL.

    Raises:
        BadParameter: it is none.
    """
    if text is None:
        return None
    try:
        return GtidSet.parse(text)
    except BinlogError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc
