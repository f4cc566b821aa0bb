"""The history of a row in object stores: few bytes of a log with an index are read, and the answer is the same."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest
from pyarrow import fs

from binlogio.archive import HistoryOptions, IndexSummary, SearchSummary, index_logs, logs_with_key, row_history
from binlogio.options import ServerVariables
from binlogio.storage import find_logs
from binlogio.writer import BinlogWriter, Insert, Statement, Update
from corpus import MYSQL
from written_logs import UUID, T

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.storage import LogFile

fsspec = pytest.importorskip("fsspec")
from fsspec.implementations.local import LocalFileSystem  # noqa: E402

FILLING: Final = 1 << 16  # bytes of a group


class CountingFiles(LocalFileSystem):  # type: ignore[misc]
    """Local files; counts the bytes and the ranges that are read."""

    bytes_read = 0
    ranges = 0

    def open(self, path: Any, mode: str = "rb", **options: Any) -> Any:
        """Open a file that counts."""
        file = super().open(path, mode, **options)
        read = file.read

        def counted(*size: int) -> bytes:
            data: bytes = read(*size)
            self.bytes_read += len(data)
            self.ranges += 1
            return data

        file.read = counted
        return file


def write_large_log(folder: Path) -> None:
    """Write a log of some MiB in which row 7 changes twice."""
    settings = ServerVariables(server_version="9.7.4", server_uuid=UUID)
    with BinlogWriter(folder / "binlog", variables=settings) as writer:
        session = writer.session()
        for number in range(100):
            rows = [(number * 2000 + one, "x" * 40) for one in range(FILLING // 50)]
            session.execute(Statement("INSERT", [Insert(T, rows)]))
            session.commit()
        session.execute(Statement("UPDATE", [Update(T, [((7, "x" * 40), (7, "changed"))])]))
        session.commit()


def test_few_bytes_are_read_of_a_log_with_an_index(tmp_path: Path) -> None:
    write_large_log(tmp_path)
    files = CountingFiles(skip_instance_cache=True)
    filesystem = fs.PyFileSystem(fs.FSSpecHandler(files))
    logs: list[LogFile] = find_logs(str(tmp_path), filesystem=filesystem)
    (made,) = index_logs(logs)
    assert isinstance(made, IndexSummary)
    size = (tmp_path / "binlog.000001").stat().st_size
    found: dict[bool, list[Any]] = {}
    read = {}
    for uses_index in (True, False):
        files.bytes_read = files.ranges = 0
        options = HistoryOptions(use_indexes=uses_index)
        found[uses_index] = list(row_history(logs, "shop.t", "7", options))
        read[uses_index] = files.bytes_read
        if uses_index:
            assert files.ranges < 80
    assert [one.op for one in found[True]] == ["insert", "update"]
    assert found[True] == found[False]
    assert read[False] >= size
    assert read[True] < size // 3


def test_logs_without_the_key_are_left_out(tmp_path: Path) -> None:
    for path in (MYSQL / "incident").glob("binlog.0*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    made = [one.index for one in index_logs(find_logs(tmp_path)) if isinstance(one, IndexSummary)]
    assert [Path(one).name for one in logs_with_key(made, "shop.orders", "1006")] == ["binlog.000002.keys.parquet"]
    assert logs_with_key(made, "shop.orders", "id=1002") == made
    assert logs_with_key(made, "shop.orders", "77") == []
    Path(made[0]).write_bytes(b"PAR1")
    assert logs_with_key(made, "shop.orders", "77") == made[:1]


@pytest.fixture
def bucket() -> Iterator[tuple[Any, str]]:
    """Provide a file system with an empty bucket, and the query of its URIs."""
    pytest.importorskip("moto.server")
    from moto import server as moto_server  # noqa: PLC0415 - not everywhere

    server: Any = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        address = f"{host}:{port}"
        filesystem = fs.S3FileSystem(
            access_key="key", secret_key="secret",  # noqa: S106 - of a server that asks for nothing
            endpoint_override=address, scheme="http", region="us-east-1", allow_bucket_creation=True,
        )  # fmt: skip
        filesystem.create_dir("logs")
        yield filesystem, f"?scheme=http&region=us-east-1&endpoint_override={quote(address, safe='')}"
    finally:
        server.stop()
        gc.collect()


def test_indexes_are_beside_logs_in_s3_or_in_a_local_directory(bucket: tuple[Any, str], tmp_path: Path) -> None:
    filesystem, query = bucket
    for path in (MYSQL / "incident").glob("binlog.0*"):
        with filesystem.open_output_stream(f"logs/{path.name}") as stream:
            stream.write(path.read_bytes())
    uri = f"s3://key:secret@logs/{query}"
    expected = [(one.pos, one.gtid) for one in row_history(find_logs(MYSQL / "incident"), "shop.orders", "1004")]
    for folder in (None, str(tmp_path)):
        list(index_logs(find_logs(uri), folder=folder))
        summary = SearchSummary()
        options = HistoryOptions(index_folder=folder)
        found = row_history(find_logs(uri), "shop.orders", "1004", options, summary=summary)
        assert [(one.pos, one.gtid) for one in found] == expected
        assert (summary.logs_by_index, summary.logs_read) == (2, 0)
    assert len(list(tmp_path.iterdir())) == 2
