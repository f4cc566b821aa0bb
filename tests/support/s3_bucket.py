"""A bucket of a local S3 server (`moto`), with URIs that include the endpoint and the credentials."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from moto import server as moto_server
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Iterator


class Bucket:
    """A bucket of the server."""

    def __init__(self, endpoint: str) -> None:
        self._query = f"?scheme=http&region=us-east-1&endpoint_override={quote(endpoint, safe='')}"
        self.filesystem = fs.S3FileSystem(
            access_key="key", secret_key="secret",  # noqa: S106 - the server does not check credentials
            endpoint_override=endpoint, scheme="http", region="us-east-1",
            allow_bucket_creation=True,
        )  # fmt: skip
        self.filesystem.create_dir("logs")

    def uri(self, path: str) -> str:
        """Return the URI of an object."""
        return f"s3://key:secret@logs/{path}{self._query}"

    def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        with self.filesystem.open_output_stream(f"logs/{path}") as stream:
            stream.write(data)

    def get(self, path: str) -> bytes:
        """Return the bytes of an object."""
        with self.filesystem.open_input_file(f"logs/{path}") as file:
            return bytes(file.read())

    def remove(self, path: str) -> None:
        """Remove an object."""
        self.filesystem.delete_file(f"logs/{path}")

    def names(self, folder: str) -> list[str]:
        """Return the names of all objects in a folder, relative to the folder."""
        found = self.filesystem.get_file_info(fs.FileSelector(f"logs/{folder}", recursive=True, allow_not_found=True))
        return sorted(one.path.removeprefix(f"logs/{folder}/") for one in found if one.type == fs.FileType.File)


@contextmanager
def s3_bucket() -> Iterator[Bucket]:
    """Provide an empty bucket."""
    server: Any = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Bucket(f"{host}:{port}")
    finally:
        server.stop()
        gc.collect()
