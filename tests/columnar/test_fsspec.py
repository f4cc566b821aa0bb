"""Logs on filesystems of fsspec: given as they are, or named by a URI that pyarrow does not know."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator

import pytest

import binlogio
from binlogio import read_rows
from corpus import MYSQL

fsspec = pytest.importorskip("fsspec")
LOG = MYSQL / "rowimage_full" / "binlog.000001"
COUNT = sum(1 for _ in binlogio.open(LOG))


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a directory with ranges of bytes, silently."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""

    def do_GET(self) -> None:
        """Send the log, or a range of it."""
        data = LOG.read_bytes()
        if not self.path.startswith("/binlog.000001"):
            self.send_error(404)
            return
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        part = data[int(first) : int(last) + 1 if last else None]
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def do_HEAD(self) -> None:
        """Send the size of the log."""
        self.send_response(200 if self.path.startswith("/binlog.000001") else 404)
        self.send_header("Content-Length", str(LOG.stat().st_size))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()


@pytest.fixture
def address() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(RangeHandler))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_filesystem_of_fsspec_is_accepted() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/logs/binlog.000001", LOG.read_bytes())

    assert sum(1 for _ in binlogio.open("/logs", filesystem=memory)) == COUNT
    assert sum(1 for _ in binlogio.open("/logs/binlog.0*", filesystem=memory)) == COUNT
    assert read_rows("/logs", filesystem=memory).to_table().num_rows == read_rows(LOG).to_table().num_rows


def test_a_uri_that_pyarrow_does_not_know_is_opened_by_fsspec() -> None:
    fsspec.filesystem("memory").pipe_file("/logs/binlog.000001", LOG.read_bytes())

    assert sum(1 for _ in binlogio.open("memory://logs/binlog.000001")) == COUNT
    assert sum(1 for _ in binlogio.open("memory://logs/binlog.*")) == COUNT
    with pytest.raises(FileNotFoundError):
        binlogio.open("memory://logs/binlog.000009")


def test_a_log_is_read_over_http(address: str) -> None:
    """With a query, as in an address that is signed."""
    assert sum(1 for _ in binlogio.open(f"{address}/binlog.000001?Signature=a*b")) == COUNT
    assert read_rows(f"{address}/binlog.000001").to_table().num_rows == read_rows(LOG).to_table().num_rows
    with pytest.raises(OSError):
        binlogio.open(f"{address}/other.000001")


def test_an_unknown_uri_is_refused_in_one_sentence() -> None:
    with pytest.raises(binlogio.BinlogError, match="cannot open"):
        binlogio.open("nowhere://logs/binlog.000001")
