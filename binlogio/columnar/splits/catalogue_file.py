"""The file of a catalogue of definitions, local or at a URI; it is replaced as a whole."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from binlogio.errors import UnsupportedFeature
from binlogio.schema.catalogue import DefinitionCatalogue
from binlogio.schema.given import read_text_file
from binlogio.storage.new_file import new_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.fs import FileSystem


def read_catalogue(place: str) -> DefinitionCatalogue | None:
    """Return the catalogue in a file, whose name is a path or a URI; None if there is no such file.

    Raises:
        UnsupportedFeature: the file is not a catalogue, or the URI is not supported.
        OSError: the file cannot be read.
    """
    try:
        if "://" in place:
            filesystem, path = _uri(place)
            with filesystem.open_input_stream(path) as file:
                data = file.read()
        else:
            data = read_text_file(Path(place))
        return DefinitionCatalogue.parse(data.decode())
    except FileNotFoundError:
        return None
    except ValueError as exc:
        raise UnsupportedFeature("not a catalogue of definitions", file=place, found=str(exc)) from exc
    except UnsupportedFeature as exc:
        exc.locate(file=place)
        raise


def write_catalogue(place: str, catalogue: DefinitionCatalogue) -> None:
    """Replace the file by the catalogue.

    Raises:
        UnsupportedFeature: the URI is not supported.
        OSError: the file cannot be written.
    """
    if "://" in place:
        filesystem, path = _uri(place)
        with filesystem.open_output_stream(path) as stream:
            stream.write("".join(catalogue.lines()).encode())
        return
    with new_file(Path(place), replaces=True) as file:
        file.writelines(line.encode() for line in catalogue.lines())


@contextmanager
def changed_catalogue(path: Path, *, replaces: bool = False) -> Iterator[DefinitionCatalogue]:
    """Return a context manager for the catalogue in a local file, which is written at the end of the `with` block.

    It is empty if there is no such file, or with `replaces`. Until then no other process changes the file.

    Raises:
        UnsupportedFeature: the file is not a catalogue.
        WriterStateError: it is a device, pipe or directory, or another process changes it.
        OSError: the file cannot be read or written.
    """
    with new_file(path, replaces=True) as file:
        found = None if replaces else read_catalogue(str(path))
        catalogue = DefinitionCatalogue() if found is None else found
        yield catalogue
        file.writelines(line.encode() for line in catalogue.lines())


def _uri(place: str) -> tuple[FileSystem, str]:
    from binlogio.storage.object_store import open_uri  # noqa: PLC0415 - imports pyarrow

    return open_uri(place)
