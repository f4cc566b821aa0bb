"""What a run has to say: a table of work, what it should reach, what it aims at and what was measured; and a plot.

Knows the goals; nothing of how anything is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

Goal = tuple[str, str]

# Work by its log's kind: reach, aim.
GOALS: Final[dict[str, Goal]] = {
    "bulk to Arrow, all columns": ("at most 6 x CRC", "3 x"),
    "bulk to Arrow, mysqlbinlog -vv": ("12 x faster", "25 x"),
    "oltp to Arrow, all columns": ("at most 10 x CRC", "5 x"),
    "oltp to Arrow, mysqlbinlog -vv": ("8 x faster", "16 x"),
    "bulk rows to Python values": ("2 us a row", "0.7 us"),
    "bulk two columns of one table": ("3 x faster than all", "the scan"),
    "bulk header scan with CRC32": ("at most 1.5 x CRC", "1 x"),
    "oltp header scan with CRC32": ("at most 4 x CRC", "2 x"),
    "bulk to Arrow, python-mysql-replication": ("200 x faster", "500 x"),
    "oltp to Arrow, python-mysql-replication": ("200 x faster", "500 x"),
    "bulk from Arrow to a finished log": ("400 MB/s", "1 GB/s"),
    "session API, single-row transactions": ("25,000/s", "60,000/s"),
    "bulk two threads over two splits": ("1.7 x one", "1.9 x"),
    "oltp two threads over two splits": ("1.7 x one", "1.9 x"),
    "bulk through Spark, rows as JSON": ("at most 1.6 x ready batches", "1.3 x"),
    "bulk through Spark, rows of a table, typed": ("at most 1.6 x ready batches", "1.3 x"),
    "bulk through Spark, rows as JSON, a task and a core more": ("1.7 x", "1.9 x"),
    "bulk through Spark, rows of a table, typed, a task and a core more": ("1.7 x", "1.9 x"),
    "through Spark, planning 1,000 logs of 1 GiB": ("2 s, 1 MB read", ""),
    "peak memory of one large transaction": ("256 MB", "128 MB"),
    "import binlogio": ("150 ms", ""),
    "binlogio --version": ("250 ms", ""),
}
NONE: Final[Goal] = ("", "")
_ORDER: Final = ("zlib CRC32 pass", "header scan", "two columns", "to Arrow", "from Arrow")


@dataclass(slots=True)
class Report:
    """Lines and bars of a run, as they come."""

    lines: list[tuple[str, str, str, str]] = field(default_factory=list)
    speeds: dict[str, tuple[str, dict[str, float]]] = field(default_factory=dict)

    def add(self, work: str, measured: str, log: Path | None = None) -> None:
        """One line; the goals of work on a log are those of its kind."""
        kind = "" if log is None else kind_of(log) + " "
        reach, aim = GOALS.get(kind + work, NONE)
        self.lines.append((f"{log.name}: {work}" if log is not None else work, reach, aim, measured))

    def speed(self, log: Path, what: str, bytes_per_s: float) -> None:
        """Add a bar to the plot; a real log replaces the generated one of its kind."""
        name, bars = self.speeds.setdefault(kind_of(log), (log.name, {}))
        if name != log.name:
            bars = {}
            self.speeds[kind_of(log)] = log.name, bars
        bars[what] = bytes_per_s / 1e6

    def table(self) -> list[str]:
        """Return the lines, in columns."""
        rows = [("work", "reach", "aim", "measured"), *self.lines]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return [
            " | ".join((*(text.ljust(width) for text, width in zip(row[:3], widths, strict=True)), row[3]))
            for row in rows
        ]

    def plot(self, path: Path) -> None:
        """Draw the speeds, a panel a log, by decades.

        Raises:
            ImportError: matplotlib is not installed.
        """
        import matplotlib as mpl  # noqa: PLC0415 - of the extra `bench`

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
                color=["#2b6cb0" if what in _ORDER[1:] else "#a0aec0" for what, _ in bars],
            )
            panel.bar_label(drawn, [f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}" for _, speed in bars], padding=3)
            panel.set_xscale("log")
            panel.set_title(name, loc="left", fontsize="medium")
            panel.spines[["top", "right"]].set_visible(False)
        panels[-1, 0].set_xlabel("MB of log a second of one core")
        panels[-1, 0].margins(x=0.15)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def kind_of(log: Path) -> str:
    """`bulk` of `bulk.000001` and of `bulk.binlog`."""
    return log.name.split(".")[0]
