"""Merges a stream of changes into Parquet files: a directory with a manifest that names the valid files.

A new state is written beside the old one, and replaces it atomically by a rename of the manifest. A crash leaves
the old state, with unreferenced files that the next batch removes. A batch reads the key columns of all files, and
rewrites the files that have keys of its changes; with too many files it rewrites all of them.

    path/manifest.json := {"files": ["data-.../part-....parquet" ...], "last": [...], "batches": {writer: number}}
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812

from binlogio.storage import is_list_of, read_stored
from pyspark_binlogio.state.rows import state_of, touched_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from pyspark_binlogio.state.stage import Stage

MANIFEST: Final = "manifest.json"
MOST_FILES: Final = 128
_DATA: Final = "data-"
_WITHOUT_IT: Final = (
    "only the manifest says which files are the table: put back a copy of it, or remove the directory and merge all "
    "changes again, with a new checkpoint"
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest: files of the table, previous ones (readers may have them open), the last batch of each writer."""

    files: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    batches: dict[str, int] | None = None

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """Read the manifest of a table; an empty one if there is no file.

        Raises:
            BinlogFormatError: it is damaged.
        """
        path = directory / MANIFEST
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return cls()
        return read_stored(data, cls._of, place=str(path), hint=_WITHOUT_IT)

    @classmethod
    def _of(cls, found: Any) -> Manifest:
        batches = found["batches"] or {}
        if not (is_list_of(str, found["files"]) and is_list_of(str, found["last"])):
            raise ValueError("files and last: expected lists of file names")
        if not is_list_of(int, list(batches.values())):
            raise ValueError("batches: expected integers")
        return cls(tuple(found["files"]), tuple(found["last"]), batches)

    def write(self, directory: Path) -> None:
        """Replace the manifest atomically and durably."""
        staged = directory / f".{MANIFEST}.{uuid.uuid4().hex}"
        with staged.open("w", encoding="utf-8") as file:
            json.dump({"files": self.files, "last": self.last, "batches": self.batches}, file)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(directory / MANIFEST)


@dataclass(frozen=True, slots=True)
class ParquetMerge:
    """The table in a directory of a local or mounted filesystem."""

    path: str

    def last_batch(self, writer: str) -> int | None:
        """Return the last batch of a writer that is in the table."""
        return (Manifest.read(Path(self.path)).batches or {}).get(writer)

    def apply(self, spark: SparkSession, stage: Stage, writer: str, batch: int) -> None:
        """Rewrite the files that the changes affect, and then the manifest with the batch's number."""
        directory = Path(self.path)
        directory.mkdir(parents=True, exist_ok=True)
        manifest = Manifest.read(directory)
        touched = _touched(spark, directory, manifest.files, stage)
        state = state_of(stage, _frame(spark, directory, touched))
        name = f"{_DATA}{uuid.uuid4().hex}"
        state.write.parquet(str(directory / name))
        new = [f"{name}/{path.name}" for path in sorted((directory / name).glob("*.parquet"))]
        files = (*(file for file in manifest.files if file not in touched), *new)
        batches = {**(manifest.batches or {}), writer: batch}
        replace(manifest, files=files, last=manifest.files, batches=batches).write(directory)
        _remove_others(directory, {*files, *manifest.files})


def read_parquet(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame | None:
    """Return the table as it is now; None where no batch was merged yet."""
    return _frame(spark, Path(path), Manifest.read(Path(path)).files)


def _frame(spark: SparkSession, directory: Path, files: Iterable[str]) -> DataFrame | None:
    paths = [str(directory / file) for file in files]
    return spark.read.parquet(*paths) if paths else None


def _touched(spark: SparkSession, directory: Path, files: tuple[str, ...], stage: Stage) -> tuple[str, ...]:
    """Return the files with keys of the changes; all files if there are too many, or the columns have changed."""
    table = _frame(spark, directory, files)
    if table is None or len(files) >= MOST_FILES or table.columns != list(stage.image.names):
        return files
    keys = touched_keys(stage)
    same = [table[name].eqNullSafe(keys[f"k{n}"]) for n, name in enumerate(stage.key)]
    names = table.select(*(table[name] for name in stage.key), F.col("_metadata.file_name").alias("_file"))
    found = {row["_file"] for row in names.join(keys, same, "left_semi").select("_file").distinct().collect()}
    return tuple(file for file in files if Path(file).name in found)


def _remove_others(directory: Path, files: set[str]) -> None:
    """Remove the files that no manifest names; a later batch removes what cannot be removed now."""
    for folder in directory.glob(f"{_DATA}*"):
        for path in folder.iterdir():
            if f"{folder.name}/{path.name}" not in files:
                with suppress(OSError):
                    path.unlink()
        with suppress(OSError):  # it has files of the table
            folder.rmdir()
