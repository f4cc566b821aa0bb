"""Finds the log files of a read: those that the paths name, without those that an option excludes.

Works on paths and on Spark's file options. Opens no log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from binlogio.storage import find_logs, is_index_file, log_number, read_index

if TYPE_CHECKING:
    from binlogio.storage import LogFile
    from pyspark_binlogio.options import BinlogOptions


def find_log_files(options: BinlogOptions) -> list[LogFile]:
    """Return the logs, in the order in which they were written.

    Raises:
        OSError: a path matches no file, and `ignoreMissingFiles` is not set.
        BinlogError: a URI that cannot be opened.
    """
    return [
        log
        for path in options.paths
        for log in _find(path, options)
        if options.wants_file(Path(log.name).name)
        and not _is_before(log.name, options.starting_position)
        and not _is_after(log.name, options.ending_position)
    ]


def _is_before(name: str, position: tuple[str, int] | None) -> bool:
    if position is None:
        return False
    stem, number, _ = log_number(Path(name).name)
    start_stem, start, _ = log_number(position[0])
    return stem == start_stem and number < start


def _is_after(name: str, position: tuple[str, int] | None) -> bool:
    if position is None:
        return False
    stem, number, _ = log_number(Path(name).name)
    end_stem, end, _ = log_number(position[0])
    return stem == end_stem and number > end


def _find(path: str, options: BinlogOptions) -> Iterator[LogFile]:
    if options.recursive_file_lookup and "://" in path:
        from binlogio.storage import find_objects_below  # noqa: PLC0415 - imports pyarrow

        try:
            yield from find_objects_below(path)
        except FileNotFoundError:
            if not options.ignore_missing_files:
                raise
        return
    if options.recursive_file_lookup and Path(path).is_dir():
        folders = sorted(folder for folder, _, files in os.walk(path) if files)
        for folder in folders:
            yield from _find_one(folder, missing_ok=True)
        return
    yield from _find_one(path, missing_ok=options.ignore_missing_files)


def _find_one(path: str, *, missing_ok: bool) -> Iterator[LogFile]:
    """Yield the logs that a path names; those of an index file one by one, since old logs may have been purged."""
    if not missing_ok:
        yield from find_logs(path)
        return
    try:
        if is_index_file(path) and "://" not in path:
            for name in read_index(Path(path)):
                yield from _find_one(str(Path(path).parent / name), missing_ok=True)
        else:
            yield from find_logs(path)
    except FileNotFoundError:
        return
