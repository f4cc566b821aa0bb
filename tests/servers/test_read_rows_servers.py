"""Row changes of a real server as record batches: partial updates of JSON columns under binlog_row_image=MINIMAL."""

from __future__ import annotations

import json
from typing import Any

import pytest

import binlogio
from binlogio.values.json.diff import is_operations
from real_servers import vendor

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("kernel")]
SCRIPT = """
CREATE DATABASE s; USE s;
SET binlog_row_image=MINIMAL, binlog_row_value_options=PARTIAL_JSON;
CREATE TABLE t (id INT PRIMARY KEY, j JSON, k JSON, n INT);
INSERT INTO t VALUES (1, '{"a": 1, "b": [1, 2, {"c": "x"}], "s": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}',
    '[{"op": "replace"}]', 1);
UPDATE t SET j = JSON_SET(j, '$.a', 5);
UPDATE t SET j = JSON_REMOVE(JSON_REPLACE(j, '$.b[2].c', 'yé'), '$.b[0]'), k = JSON_ARRAY_INSERT(k, '$[0]', 7);
UPDATE t SET n = 3;
UPDATE t SET j = JSON_SET(j, '$.a', 5), n = 9;
UPDATE t SET j = '[{"op": "replace"}]';
"""


def test_partial_updates_of_minimal_images_are_documents_or_operations() -> None:
    """By read_rows and read_tables, without an option.

    Text that is no document is distinguished from text that looks like one.
    """
    with vendor("mysql").server("partial") as server:
        server.sql(SCRIPT)
        path = server.data / "binlog.000001"
        rows = binlogio.read_rows(path, table="s.t").to_table()["after"].to_pylist()[1:]
        batches = [batch for name, batch in binlogio.read_tables(path) if name == "s.t"]
        refused = binlogio.read_rows(path, table="s.t", json_diffs="error")

        with pytest.raises(binlogio.BinlogError, match="no document to which"):
            refused.to_table()
    documents: list[Any] = [row["j"] for row in rows]
    assert [image for batch in batches for image in batch["after"].to_pylist()][1:] == rows
    assert documents == [
        '[{"op":"replace","path":"$.a","value":5}]',
        '[{"op":"replace","path":"$.b[2].c","value":"yé"},{"op":"remove","path":"$.b[0]"}]',
        None,
        "[ ]",
        '[{"op": "replace"}]',
    ]
    assert [text is not None and is_operations(text) for text in documents] == [True, True, False, True, False]
    assert json.loads(rows[1]["k"]) == [7, {"op": "replace"}]
