"""Parquet files as the target of a stream of changes: a directory with a manifest that names the files that count.

Knows how a new state takes the place of the last one at once: it is written beside it, and the manifest is replaced by rename. A crash
leaves the old state, with files that nobody refers to, which the next batch removes. Each batch writes the whole table.

    path/manifest.json := {"data": "data-...", "last": "data-..." | null, "batches": {writer: number}}
    path/data-.../*.parquet
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark_binlogio.replay_stage import Stage, state_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFEST: Final = "manifest.json"
_DATA: Final = "data-"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What counts: the directory with the table's files, the one before (which readers may still have open), and the batches that are in."""

    data: str | None = None
    last: str | None = None
    batches: dict[str, int] | None = None

    @classmethod
    def read(cls, directory: Path) -> Manifest:
        """The manifest of a table; an empty one where there is none."""
        try:
            found: dict[str, Any] = json.loads((directory / MANIFEST).read_text("utf-8"))
        except FileNotFoundError:
            return cls()
        return cls(**found)

    def write(self, directory: Path) -> None:
        """Put it in the place of the old one, as a whole and for good."""
        staged = directory / f".{MANIFEST}.{uuid.uuid4().hex}"
        with staged.open("w", encoding="utf-8") as file:
            json.dump({"data": self.data, "last": self.last, "batches": self.batches}, file)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(directory / MANIFEST)


@dataclass(frozen=True, slots=True)
class ParquetMerge:
    """The table in a directory of a local or mounted filesystem."""

    path: str

    def last_batch(self, writer: str) -> int | None:
        """The last batch of a writer that is in the table."""
        return (Manifest.read(Path(self.path)).batches or {}).get(writer)

    def apply(self, spark: SparkSession, stage: Stage, writer: str, batch: int) -> None:
        """Write the table anew, and then the manifest, with the batch's number."""
        directory = Path(self.path)
        directory.mkdir(parents=True, exist_ok=True)
        manifest = Manifest.read(directory)
        state = state_of(stage, read_parquet(spark, self.path))
        name = f"{_DATA}{uuid.uuid4().hex}"
        state.write.parquet(str(directory / name))
        batches = {**(manifest.batches or {}), writer: batch}
        replace(manifest, data=name, last=manifest.data, batches=batches).write(directory)
        for old in directory.glob(f"{_DATA}*"):
            if old.name not in (name, manifest.data):
                shutil.rmtree(old, ignore_errors=True)


def read_parquet(spark: SparkSession, path: str | os.PathLike[str]) -> DataFrame | None:
    """The table as it is now; None where no batch was merged yet."""
    data = Manifest.read(Path(path)).data
    return None if data is None else spark.read.parquet(str(Path(path) / data))
