"""Report of a run: a table of goals and results, a table of speeds, and a plot.

The module `measure` has the measurements.
"""

from __future__ import annotations

import platform
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench_logs import LOG_BYTES, kind_of

Goal = tuple[str, str]

_TEXT: Final[Goal] = ("2 x faster", "5 x faster")
_SQL: Final[Goal] = ("faster", "2 x faster")
_NOTHING: Final[Goal] = ("500 MB/s", "the CRC pass")

# Goals by work, in the order of the table: the required value and the target. The kind of the log precedes the work.
GOALS: Final[dict[str, Goal]] = {
    **{
        f"{kind} dump {what}": _SQL if "sql" in what else _TEXT
        for what in ("-vv", "as text", "--format json", "--format sql")
        for kind in ("bulk", "oltp", "mariadb")
    },
    **{
        f"{kind} dump, a {option} that selects nothing": _NOTHING
        for option in ("time", "GTID", "table")
        for kind in ("bulk", "oltp")
    },
    "oltp events as objects": ("4 us an event", "1.5 us"),
    "bulk reader.rows, Python values": ("2 us a row", "0.7 us"),
    "compressed transactions of one row, to Arrow": ("2 x plain", "1.3 x"),
    "bulk to Arrow, all columns": ("3.0 x CRC", "2.0 x"),
    "oltp to Arrow, all columns": ("3.0 x CRC", "2.0 x"),
    "bulk_minimal to Arrow, all columns": ("4.5 x CRC", "2.0 x"),
    "set-up of a table": ("0.1 ms", "0.03 ms"),
    "bulk from Arrow, transactions of 1,000 rows": ("500 MB/s", "1 GB/s"),
    "session API, transactions of one row": ("40,000 a CPU s", "80,000"),
    **{f"{kind} {what}": ("500 MB/s", "the CRC pass") for what in ("copy", "copy, split") for kind in ("bulk", "oltp")},
    "bulk export, Parquet": ("1.5 million rows/s", "2 x decoding"),
    "bulk undo": ("0.03 s/MB", "0.007 s/MB"),
    "oltp undo": ("0.06 s/MB", "0.013 s/MB"),
    "oltp replay into MySQL, CPU of the client": ("1 x the tools", "0.5 x"),
    "oltp replay into MySQL, wall time": ("3 x faster", "as a replica"),
    "bulk Spark, view events": ("100 MB/s a core", "as rows"),
    "bulk Spark, view transactions": ("100 MB/s a core", "as rows"),
    "oltp Spark, view events": ("100 MB/s a core", "as rows"),
    "oltp Spark, view transactions": ("100 MB/s a core", "as rows"),
    "start of dump, a log of 4 kB": ("0.15 s", "0.1 s"),
    "bulk two columns of one table": ("3 x faster than all", "the scan"),
    "bulk header scan with CRC32": ("1.5 x CRC", "1 x"),
    "oltp header scan with CRC32": ("4 x CRC", "2 x"),
    "bulk from Arrow, batches as read": ("400 MB/s", "1 GB/s"),
    "bulk two threads over two splits": ("1.7 x one", "1.9 x"),
    "oltp two threads over two splits": ("1.7 x one", "1.9 x"),
    "bulk through Spark, rows as JSON": ("1.3 x ready batches", ""),
    "bulk through Spark, rows of a table, typed": ("1.2 x ready batches", ""),
    "bulk through Spark, rows as JSON, a task and a core more": ("1.7 x", "1.9 x"),
    "bulk through Spark, rows of a table, typed, a task and a core more": ("1.7 x", "1.9 x"),
    "through Spark, planning 1,000 logs": ("0.5 s", ""),
    "through Spark, an idle micro-batch over 1,000 logs": ("60 ms", ""),
    'bulk Spark, count by .schema("pos bigint")': ("5 x less", ""),
    "peak memory of one large transaction": ("256 MB", "128 MB"),
    "import binlogio": ("0.15 s", ""),
    "binlogio --version": ("0.25 s", ""),
}
_PLACES: Final = {work: place for place, work in enumerate(GOALS)}
NONE: Final[Goal] = ("", "")
CRC_PASS: Final = "zlib CRC32 pass"  # noqa: S105 - a pass over the bytes
TO_ARROW: Final = "to Arrow"
_OURS: Final = ("header scan", "two columns", TO_ARROW, "from Arrow")
_ORDER: Final = (CRC_PASS, *_OURS)
_LOGS: Final = (
    "`bulk` has transactions of a thousand rows of three tables, `bulk_minimal` the same with "
    "`binlog_row_image=MINIMAL`, `oltp` transactions of one to three events of one row; `mariadb` repeats what MariaDB "
    "10.11 wrote."
)
_METHOD: Final = (
    "Figures are CPU seconds (user and system) of a process and of those that it starts, unless they say wall time; "
    "medians of pairs, in which ours and the other one are measured in turn. CRC is one `zlib.crc32` pass over the "
    "same log. Checksums are verified. `reach` and `aim` are the goals of the project."
)
_PEERS: Final = (
    "MB of log a second of one core, and in brackets how many times as fast binlogio decodes to Arrow. The Java "
    "library and python-mysql-replication do not verify checksums; the one in Java is measured after its code has been "
    "compiled. The servers' tools print text, which is discarded."
)


_DOORS: Final = (
    "MB of log a second of one core, and in brackets how many passes of `zlib.crc32` over the same bytes take as long: "
    "on another machine, the number in brackets is the one to compare. The logs have 2 to 40 MB; output is discarded."
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table."""

    work: str
    log: str
    reach: str
    aim: str
    measured: str
    place: int


@dataclass(slots=True)
class Report:
    """Table lines and plot bars of a run, in the order of measurement."""

    lines: list[Line] = field(default_factory=list)
    speeds: dict[str, tuple[str, dict[str, float]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    doors: dict[str, dict[str, str]] = field(default_factory=dict)
    crc_bytes_per_s: list[float] = field(default_factory=list)

    def add(self, work: str, measured: str, log: Path | None = None) -> None:
        """Add a line with the goals of `work` for the kind of `log`."""
        key = work if log is None else f"{kind_of(log)} {work}"
        reach, aim = GOALS.get(key, NONE)
        name = "" if log is None else log.name
        self.lines.append(Line(work, name, reach, aim, measured, _PLACES.get(key, len(_PLACES))))

    def speed(self, log: Path, what: str, bytes_per_s: float) -> None:
        """Add a bar to the plot; a real log replaces the generated one of its kind."""
        name, bars = self.speeds.setdefault(kind_of(log), (log.name, {}))
        if name != log.name:
            bars = {}
            self.speeds[kind_of(log)] = log.name, bars
        bars[what] = bytes_per_s / 1e6

    def door(self, door: str, kind: str, size: int, seconds: float, crc_passes: float) -> None:
        """Add a cell to the table of doors and kinds of logs: MB of log a second of one core, and passes of CRC."""
        self.crc_bytes_per_s.append(size * crc_passes / seconds)
        self.doors.setdefault(door, {})[kind] = f"{_rounded(size / seconds / 1e6)} ({_rounded(crc_passes)})"

    def lack(self, what: str, why: str) -> None:
        """Record why another program was not measured."""
        self.missing[what] = why

    def table(self) -> list[str]:
        """Return the table as lines of text with aligned columns."""
        rows = [
            ("work", "log", "reach", "aim", "measured"),
            *((line.work, line.log, line.reach, line.aim, line.measured) for line in self._sorted()),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        return [
            *(
                " | ".join((*(text.ljust(width) for text, width in zip(row[:4], widths, strict=True)), row[4]))
                for row in rows
            ),
            *(f"{what}: {why}" for what, why in self.missing.items()),
            *self._doors(),
        ]

    def markdown(self, command: str) -> str:
        """Return the report as a Markdown page of the documentation, with the speeds of all programs."""
        lines = self._sorted()
        return "\n".join(
            (
                "# Benchmarks",
                "",
                f"One run of `{command}`: {_machine()}{self._crc()}.",
                f"The logs are generated, {LOG_BYTES / 1e6:,.0f} MB each, `mariadb` a quarter of that. {_LOGS}",
                "",
                _METHOD,
                "",
                "![MB of log a second of one core, of binlogio and of others](throughput.svg)",
                "",
                "## Work and goals",
                "",
                *_markdown_table(
                    ("work", "log", "reach", "aim", "measured"),
                    [
                        (line.work, line.log, line.reach, line.aim, line.measured)
                        for line in lines
                        if line.reach or line.aim
                    ],
                ),
                "",
                "## Decode every row, beside others",
                "",
                _PEERS,
                "",
                *self._peers(),
                "",
                *(f"* {what}: {why}" for what, why in self.missing.items()),
                *([""] if self.missing else []),
                "## Every door, every kind of log",
                "",
                _DOORS,
                "",
                *self._doors(),
                "",
                "## Other measurements",
                "",
                *_markdown_table(
                    ("work", "log", "measured"),
                    [
                        (line.work, line.log, line.measured)
                        for line in lines
                        if not line.reach and not line.aim and not line.work.startswith(f"{TO_ARROW}, ")
                    ],
                ),
                "",
            )
        )

    def _crc(self) -> str:
        """Return what makes figures of two machines comparable: the speed of a CRC pass."""
        if not self.crc_bytes_per_s:
            return ""
        return f"; `zlib.crc32` passes over {statistics.median(self.crc_bytes_per_s) / 1e6:,.0f} MB/s"

    def _doors(self) -> list[str]:
        if not self.doors:
            return []
        kinds = list(dict.fromkeys(kind for cells in self.doors.values() for kind in cells))
        crc = f"{statistics.median(self.crc_bytes_per_s) / 1e6:,.0f}"
        return _markdown_table(
            ("MB/s (CRC passes)", *kinds),
            [(CRC_PASS, *[f"{crc} (1.0)"] * len(kinds))]
            + [(door, *(cells.get(kind, "") for kind in kinds)) for door, cells in self.doors.items()],
        )

    def _sorted(self) -> list[Line]:
        """Return the lines in the order of `GOALS`, then those without goals, grouped by work."""
        works = {work: number for number, work in enumerate(dict.fromkeys(line.work for line in self.lines))}
        return sorted(self.lines, key=lambda line: (line.place, works[line.work]))

    def _peers(self) -> list[str]:
        panels = [bars for _, bars in self.speeds.values()]
        found = {what: [bars.get(what) for bars in panels] for bars in panels for what in bars}
        ours = [bars.get(TO_ARROW) for bars in panels]
        return _markdown_table(
            ("", *(name for name, _ in self.speeds.values())),
            [
                (what, *(_beside(speed, own, what) for speed, own in zip(speeds, ours, strict=True)))
                for what, speeds in sorted(found.items(), key=lambda one: (_place(one[0]), -max(filter(None, one[1]))))
            ],
        )

    def plot(self, path: Path) -> None:
        """Draw the speeds: one panel per log, logarithmic scale.

        Raises:
            ImportError: matplotlib is not installed.
        """
        import matplotlib as mpl  # noqa: PLC0415 - optional dependency, extra `bench`

        mpl.use("svg")
        mpl.rcParams.update({"svg.hashsalt": "binlogio", "svg.fonttype": "none"})
        from matplotlib import pyplot as plt  # noqa: PLC0415

        count = sum(len(bars) for _, bars in self.speeds.values())
        heights = [len(bars) for _, bars in self.speeds.values()]
        figure, panels = plt.subplots(
            len(heights),
            1,
            squeeze=False,
            sharex=True,
            figsize=(8, 0.3 * count + 0.6 * len(heights)),
            height_ratios=heights,
        )
        for panel, (name, speeds) in zip(panels[:, 0], self.speeds.values(), strict=True):
            bars = sorted(speeds.items(), key=lambda bar: (_place(bar[0]), -bar[1]), reverse=True)
            drawn = panel.barh(
                [what for what, _ in bars],
                [speed for _, speed in bars],
                color=["#2b6cb0" if what in _OURS else "#a0aec0" for what, _ in bars],
            )
            panel.bar_label(drawn, [_rounded(speed) for _, speed in bars], padding=3)
            panel.set_xscale("log")
            panel.set_title(name, loc="left", fontsize="medium")
            panel.spines[["top", "right"]].set_visible(False)
        panels[-1, 0].set_xlabel("MB of log a second of one core")
        panels[-1, 0].margins(x=0.15)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def _beside(speed: float | None, ours: float | None, what: str) -> str:
    if speed is None:
        return ""
    if ours is None or what in _ORDER:
        return _rounded(speed)
    return f"{_rounded(speed)} ({_rounded(ours / speed)} x)"


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _markdown_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows),
    ]


def _machine() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
        cpu = next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.machine()
    return f"{cpu}, {platform.system()}, Python {platform.python_version()}"
