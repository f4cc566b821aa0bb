"""The HTML page of `binlogio stats`: one file with inline SVG charts, without scripts or other files.

Colours follow the light or dark mode of the browser.
"""

from __future__ import annotations

import shlex
from glob import escape as glob_escape
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from binlogio.storage.index_file import base_name
from binlogio_cli.quantities import KIB, duration_text, moment_text, size_text, width_text, zone_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from binlogio.archive.stats import ArchiveStats, TimeStats, TransactionStats

_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1c2530; --soft: #5d6b7a; --line: #dde2e8;
  --one: #2f7d5b; --two: #3b6fb6; --three: #c2573f; --four: #8a6cc2; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --card: #1d2329; --ink: #e6eaee; --soft: #9aa7b4;
  --line: #323b44; --one: #57b98d; --two: #6d9fe6; --three: #e5806a; --four: #b197e8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 28px 20px 60px; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 26px; margin: 0 0 2px; } h2 { font-size: 18px; margin: 34px 0 10px; }
p { margin: 4px 0; color: var(--soft); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-top: 18px; }
.fact { background: var(--card); border-radius: 8px; padding: 12px 14px; } .fact b { display: block; font-size: 21px; }
.fact span { color: var(--soft); font-size: 13px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: right; padding: 5px 9px; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; } th.text, td.text { text-align: left; }
details code { color: var(--soft); user-select: all; white-space: normal; overflow-wrap: anywhere; }
td:last-child { white-space: normal; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; display: block; background: var(--card); border-radius: 8px; }
svg text { fill: var(--soft); font-size: 12px; } svg .label { fill: var(--ink); }
svg line { stroke: var(--line); } .one { fill: var(--one); } .two { fill: var(--two); } .three { fill: var(--three); }
.four { fill: var(--four); } .key { display: inline-block; width: 11px; height: 11px; border-radius: 3px;
  margin: 0 5px 0 14px; vertical-align: -1px; } .key.one { background: var(--one); }
.key.two { background: var(--two); } .key.three { background: var(--three); }
"""
_WIDTH: Final = 1040
_HEIGHT: Final = 240
_LEFT: Final = 92
_RIGHT: Final = 16
_TOP: Final = 16
_BOTTOM: Final = 34
_LINES: Final = 4
_MOST_BARS: Final = 15
_BAR: Final = 26
_NAME_WIDTH: Final = 300
_VALUE_WIDTH: Final = 210
_LONGEST_NAME: Final = 40


class _Shown(NamedTuple):
    """A cell that opens to the command that shows what it names."""

    text: str
    command: tuple[str, ...]

    @property
    def html(self) -> str:
        command = shlex.join(("binlogio", *self.command))
        return f"<details><summary>{escape(self.text)}</summary><code>{escape(command)}</code></details>"


def page_of(stats: ArchiveStats, zone: tzinfo, files: Sequence[str]) -> str:
    """Return the page of the statistics of `files`, with times in `zone`."""
    return "\n".join(_page(stats, zone, files)) + "\n"


def _page(stats: ArchiveStats, zone: tzinfo, files: Sequence[str]) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Binary logs: {stats.transactions:,} transactions</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield "<h1>Binary logs</h1>"
    if stats.first_time is not None and stats.last_time is not None:
        yield f"<p>{moment_text(stats.first_time, zone)} to {moment_text(stats.last_time, zone)}, {zone_text(zone)}</p>"
    yield from _facts(stats)
    yield from _times(stats, zone)
    tables = stats.tables[:_MOST_BARS]
    yield "<h2>Tables by bytes of rows</h2>"
    yield _operations_key()
    yield _bars(
        [(one.table, (one.insert_bytes, one.update_bytes, one.delete_bytes), size_text(one.bytes)) for one in tables]
    )
    yield from _table(
        ("Table", "Inserts", "Updates", "Deletes", "Row bytes", "Rows events", "Transactions"),
        [
            (
                _Shown(one.table, ("grep", "-T", glob_escape(one.table), *files)),
                one.inserts,
                one.updates,
                one.deletes,
                size_text(one.bytes),
                one.rows_events,
                one.transactions,
            )
            for one in stats.tables
        ],
    )
    yield "<h2>Event types by bytes</h2>"
    types = [one for one in stats.types if one.bytes][:_MOST_BARS]
    yield _bars([(one.type, (0, one.bytes, 0), f"{size_text(one.bytes)}, {one.events:,} events") for one in types])
    yield from _transactions("Biggest transactions", stats.biggest, zone)
    yield from _transactions("Transactions with most rows", [one for one in stats.most_rows if one.rows], zone)
    yield from _transactions("Longest transactions", [one for one in stats.longest if one.duration_us], zone)
    if stats.threads:
        yield "<h2>Threads by bytes</h2>"
        yield from _table(
            ("Thread", "Transactions", "Rows", "Bytes"),
            [(str(one.thread_id), one.transactions, one.rows, size_text(one.bytes)) for one in stats.threads],
        )
    if stats.savings:
        yield "<h2>Estimated savings</h2>"
        yield from _table(
            ("Setting", "Bytes", "Ratio", "Method"),
            [(one.setting, size_text(one.bytes), f"{one.ratio:.0%}", one.method) for one in stats.savings],
            texts=(0, 3),
        )
    for title, lines in (("GTIDs that no log has", stats.gaps), ("Not counted", (*stats.warnings, *stats.incomplete))):
        if lines:
            yield f"<h2>{title}</h2>"
            yield from (f"<p>{escape(line)}</p>" for line in lines)
    yield "</body>\n</html>"


def _facts(stats: ArchiveStats) -> Iterator[str]:
    rows = sum(one.rows for one in stats.tables)
    facts = [
        (f"{stats.logs:,}", "logs"),
        (size_text(stats.bytes), "of events"),
        (f"{stats.transactions:,}", "transactions"),
        (f"{rows:,}", "rows changed"),
        (f"{len(stats.tables):,}", "tables"),
    ]
    if stats.lag is not None:
        facts.append((duration_text(stats.lag.p95_us), "replication lag, 95 % are below"))
    yield '<div class="facts">'
    yield from (f'<div class="fact"><b>{escape(value)}</b><span>{name}</span></div>' for value, name in facts)
    yield "</div>"


def _times(stats: ArchiveStats, zone: tzinfo) -> Iterator[str]:
    """Yield the charts over time: rows by operation, bytes, and lag."""
    if not stats.buckets:
        return
    width = width_text(stats.bucket_s)
    if any(one.inserts or one.updates or one.deletes for one in stats.buckets):
        yield f"<h2>Rows changed per {width}</h2>"
        yield _operations_key()
        yield _columns(
            stats, [(one, (one.inserts, one.updates, one.deletes)) for one in stats.buckets], _count_text, zone
        )
    yield f"<h2>Bytes logged per {width}</h2>"
    yield _columns(stats, [(one, (0, one.bytes, 0)) for one in stats.buckets], size_text, zone)
    if stats.lag is not None:
        yield f"<h2>Largest replication lag per {width}</h2>"
        yield (
            f"<p>From the commit at the first server: mean {duration_text(stats.lag.mean_us)}, median below"
            f" {duration_text(stats.lag.median_us)}, most {duration_text(stats.lag.most_us)}</p>"
        )
        lags = [(one, (0, 0, one.most_lag_us)) for one in stats.buckets]
        yield _columns(stats, lags, lambda value: duration_text(int(value)), zone)


def _operations_key() -> str:
    names = (("one", "inserts"), ("two", "updates"), ("three", "deletes"))
    return "<p>" + "".join(f'<span class="key {color}"></span>{name}' for color, name in names) + "</p>"


def _count_text(value: float) -> str:
    return f"{value:,.0f}"


def _columns(
    stats: ArchiveStats, values: Sequence[tuple[TimeStats, tuple[int, int, int]]], text: Any, zone: tzinfo
) -> str:
    """Return a chart of stacked columns over time."""
    first, bucket_s = stats.buckets[0].begin, stats.bucket_s
    count = round((stats.buckets[-1].begin - first) / bucket_s) + 1  # a day may have 23 or 25 hours
    most = _round_up(max(sum(parts) for _, parts in values), KIB if text is size_text else 1000)
    step = (_WIDTH - _LEFT - _RIGHT) / count
    high = _HEIGHT - _TOP - _BOTTOM
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for line in range(_LINES + 1):
        y = _TOP + high * (1 - line / _LINES)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text(most * line / _LINES)}</text>')
    for bucket, amounts in values:
        x = _LEFT + round((bucket.begin - first) / bucket_s) * step
        y = float(_TOP + high)
        title = f"{moment_text(bucket.begin, zone)}: {' / '.join(text(amount) for amount in amounts if amount) or '0'}"
        parts.append(f"<g><title>{escape(title)}</title>")
        for color, amount in zip(("one", "two", "three"), amounts, strict=True):
            if amount:
                tall = high * amount / most
                y -= tall
                wide = max(min(step - 1, step * 0.9), 0.6)
                parts.append(f'<rect class="{color}" x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{tall:.2f}"/>')
        parts.append("</g>")
    for number in range(0, count, max(1, -(-count // 6))):
        shown = moment_text(first + number * bucket_s, zone)
        shown = shown[11:] if count * bucket_s <= 86400 else shown[5:16]
        x = _LEFT + (number + 0.45) * step
        anchor = "start" if number == 0 and step < 60 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 12}" text-anchor="{anchor}">{shown}</text>')
    return "".join([*parts, "</svg>"])


def _round_up(value: float, unit: int) -> float:
    """Return the next round number at or above `value`, in powers of `unit` (1000 or 1024)."""
    if value <= _LINES:
        return _LINES
    size = 1.0
    while value >= size * unit:
        size *= unit
    size *= float(10 ** (len(str(int(value / size))) - 1))
    return next(size * part for part in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if size * part >= value)


def _bars(rows: Sequence[tuple[str, tuple[int, int, int], str]]) -> str:
    """Return a chart of stacked bars: one per row, with its name and value."""
    if not rows:
        return "<p>none</p>"
    most = max(sum(amounts) for _, amounts, _ in rows) or 1
    room = _WIDTH - _NAME_WIDTH - _VALUE_WIDTH
    height = _BAR * len(rows) + 2 * _TOP
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">']
    for number, (name, amounts, value) in enumerate(rows):
        y = _TOP + number * _BAR
        shown = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        label = f'<text class="label" x="{_NAME_WIDTH - 10}" y="{y + 17}" text-anchor="end">'
        parts.append(f"{label}<title>{escape(name)}</title>{escape(shown)}</text>")
        x = float(_NAME_WIDTH)
        for color, amount in zip(("one", "two", "three"), amounts, strict=True):
            wide = room * amount / most
            if amount:
                parts.append(
                    f'<rect class="{color}" x="{x:.2f}" y="{y + 4}" width="{max(wide, 1):.2f}" height="{_BAR - 8}"/>'
                )
            x += wide
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 17}">{escape(value)}</text>')
    return "".join([*parts, "</svg>"])


def _transactions(title: str, found: Sequence[TransactionStats], zone: tzinfo) -> Iterator[str]:
    if not found:
        return
    yield f"<h2>{title}</h2>"
    yield from _table(
        ("Log", "From", "Bytes", "Rows", "Duration", "Time", "Thread", "GTID"),
        [
            (
                base_name(one.file),
                _Shown(f"{one.begin:,}", ("dump", "-v", "-j", str(one.begin), "--limit", "1", one.file)),
                size_text(one.bytes),
                one.rows,
                duration_text(one.duration_us),
                moment_text(one.time, zone),
                "" if one.thread_id is None else str(one.thread_id),
                one.gtid or "",
            )
            for one in found
        ],
        texts=(0, 7),
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]], texts: tuple[int, ...] = (0,)) -> Iterator[str]:
    """Yield a table; the columns `texts` are left-aligned."""
    if not rows:
        return
    kinds = ['class="text"' if column in texts else "" for column in range(len(names))]
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th {kind}>{name}</th>" for name, kind in zip(names, kinds, strict=True)) + "</tr></thead><tbody>"
    for row in rows:
        cells = (
            cell.html if isinstance(cell, _Shown) else f"{cell:,}" if isinstance(cell, int) else escape(str(cell))
            for cell in row
        )
        yield "<tr>" + "".join(f"<td {kind}>{cell}</td>" for cell, kind in zip(cells, kinds, strict=True)) + "</tr>"
    yield "</tbody></table></div>"
