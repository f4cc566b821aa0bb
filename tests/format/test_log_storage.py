"""The local disk against the one in memory, on which most of the writer is tested."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.storage.log_storage import LocalStorage, LogStorage
from memory_storage import MemoryStorage

NAMES = st.sampled_from(["a", "b"])
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), NAMES),
    st.tuples(st.just("append"), NAMES, st.binary(max_size=20)),
    st.tuples(st.just("overwrite"), NAMES, st.integers(0, 5), st.binary(max_size=3)),
    st.tuples(st.just("truncate"), NAMES, st.integers(0, 30)),
    st.tuples(st.just("sync"), NAMES),
    st.tuples(st.just("close"), NAMES),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("size"), NAMES),
    st.tuples(st.just("read"), NAMES, st.integers(0, 10), st.integers(-1, 10)),
    st.tuples(st.just("names")),
)


def outcome(storage: LogStorage, name: str, *arguments: Any) -> Any:
    """Return the result of an operation, or the class of its error."""
    try:
        result = getattr(storage, name)(*arguments)
    except OSError as exc:
        return type(exc)
    return sorted(result) if name == "names" else result


@given(st.lists(OPERATIONS, max_size=30))
def test_both_disks_do_the_same(operations: list[tuple[Any, ...]]) -> None:
    """Results, errors and bytes; what is outside a file is not asked for by the writer."""
    with TemporaryDirectory() as folder:
        local, memory = LocalStorage(Path(folder)), MemoryStorage()
        for name, *arguments in operations:
            if name in ("truncate", "overwrite") and arguments[0] in memory.files:
                room = memory.size(arguments[0])
                arguments[1] = min(arguments[1], room)
                if name == "overwrite":
                    arguments[2] = arguments[2][: room - arguments[1]]
            if name == "rename":  # a file that is written to keeps its name
                for one in arguments:
                    local.close(one)
            if name in ("sync", "append", "overwrite", "truncate", "rename") and arguments[0] not in memory.files:
                continue

            assert outcome(local, name, *arguments) == outcome(memory, name, *arguments), name
        for name in memory.names():
            assert local.read(name) == memory.read(name)
        for name in "ab":
            local.close(name)


def test_a_folder_is_made_with_the_first_file(tmp_path: Path) -> None:
    """Until then it has no names."""
    storage = LocalStorage(tmp_path / "data" / "logs")
    before = storage.names()
    storage.create("binlog.000001")
    storage.append("binlog.000001", memoryview(b"abc"))
    storage.sync_names()

    assert before == []
    assert storage.names() == ["binlog.000001"]
    assert storage.modified("binlog.000001") > 10**15
    with pytest.raises(FileExistsError):
        storage.create("binlog.000001")
    with pytest.raises(FileNotFoundError):
        storage.read("binlog.000002")
    storage.close("binlog.000001")
