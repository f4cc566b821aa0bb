"""The corpus: real binary logs and the tables and event lists of their servers.

The folders are `fixtures/` and `BINLOGIO_CORPUS` with the same layout (`<server>/<case>/` with `files.txt`,
`expected.json` and `events.json`, or single log files anywhere). The first bytes of a file give its type; its name
tells whether it was damaged on purpose.
"""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import BINLOG_MAGIC, ENCRYPTED_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator

SUPPORT: Final = Path(__file__).parent
ROOT: Final = SUPPORT.parents[1]
FIXTURES: Final = ROOT / "fixtures"
MYSQL: Final = FIXTURES / "mysql97"
MARIADB: Final = FIXTURES / "mariadb1011"
MARIADB118: Final = FIXTURES / "mariadb118"
_DAMAGED: Final = ("truncated", "bitflip")
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_KEYS: Final = ("keyring", "keys.txt")


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A log. `damaged`: it was truncated or changed on purpose; `keys`: the keyring of an encrypted log."""

    path: Path
    root: Path
    damaged: bool
    encrypted: bool
    keys: Path | None

    @property
    def id(self) -> str:
        """The path relative to the corpus folder, for test names."""
        return str(self.path.relative_to(self.root))


@dataclass(frozen=True, slots=True)
class Case:
    """A folder of logs with the resulting tables."""

    folder: Path
    root: Path
    logs: tuple[Path, ...]
    keys: Path | None

    @property
    def id(self) -> str:
        """The path relative to the corpus folder, for example `mysql97/types_int`."""
        return str(self.folder.relative_to(self.root))

    def load(self, name: str) -> Any:
        """Return a JSON file of the case, plain or gzipped; None if it does not exist."""
        plain, packed = self.folder / name, self.folder / f"{name}.gz"
        if plain.exists():
            return json.loads(plain.read_text("utf-8"))
        if packed.exists():
            return json.loads(gzip.decompress(packed.read_bytes()))
        return None


def roots() -> tuple[Path, ...]:
    """Return the folders of the corpus: `fixtures/` and BINLOGIO_CORPUS."""
    more = os.environ.get("BINLOGIO_CORPUS")
    return (FIXTURES, Path(more)) if more else (FIXTURES,)


def files() -> list[CorpusFile]:
    """Return all logs of the corpus, including compressed ones; the first bytes identify them."""
    return [file for root in roots() for path in sorted(root.rglob("*")) if (file := _file(path, root)) is not None]


def cases() -> list[Case]:
    """Return all folders with a list of logs (`files.txt`)."""
    return [_case(listing.parent, root) for root in roots() for listing in sorted(root.rglob("files.txt"))]


def _case(folder: Path, root: Path) -> Case:
    names = (folder / "files.txt").read_text("utf-8").split()
    return Case(folder, root, tuple(folder / name for name in names), _keys(folder))


def _file(path: Path, root: Path) -> CorpusFile | None:
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        magic = stream.read(4)
    if magic not in (BINLOG_MAGIC, ENCRYPTED_MAGIC, _ZSTD_MAGIC):
        return None
    keys = _keys(path.parent)
    plain = path.name.endswith(".decrypted") or keys is None
    return CorpusFile(path, root, any(word in path.name for word in _DAMAGED), not plain, keys)


def _keys(folder: Path) -> Path | None:
    return next((folder / name for name in _KEYS if (folder / name).exists()), None)


def frames_of(data: bytes, **options: Any) -> Iterator[Any]:
    """Yield the frames of a file in memory."""
    # A local import, because some users of this module need only its paths.
    from binlogio.format.framing import EventFramer, Framing  # noqa: PLC0415

    framer = EventFramer(**options)
    framer.feed(data)
    framer.finish()
    while not isinstance(frame := framer.next_frame(), Framing):
        yield frame
