"""Row changes of a real server as record batches: partial updates of JSON columns, and what was rolled back."""

from __future__ import annotations

import json
from typing import Any

import pytest

import binlogio
from binlogio.values.json.diff import is_operations
from real_servers import vendor

pytestmark = pytest.mark.server
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


ROLLED_BACK = """
CREATE DATABASE s; USE s; SET SESSION binlog_format=ROW;
CREATE TABLE t (id INT PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO t VALUES (1);
BEGIN; INSERT INTO t VALUES (2); CREATE TEMPORARY TABLE x (a INT); INSERT INTO t VALUES (3); ROLLBACK;
BEGIN; INSERT INTO t VALUES (4); SAVEPOINT a; INSERT INTO t VALUES (5); CREATE TEMPORARY TABLE y (a INT);
    ROLLBACK TO a; INSERT INTO t VALUES (6); COMMIT;
XA START 'a'; INSERT INTO t VALUES (7); XA END 'a'; XA PREPARE 'a'; XA ROLLBACK 'a';
XA START 'b'; INSERT INTO t VALUES (8); XA END 'b'; XA PREPARE 'b'; XA COMMIT 'b';
XA START 'c'; INSERT INTO t VALUES (9); XA END 'c'; XA COMMIT 'c' ONE PHASE;
SELECT id FROM t ORDER BY id;
"""


@pytest.mark.parametrize("kind", ["mysql", "mariadb", "mariadb118"])
def test_outcomes_are_what_the_server_did(kind: str) -> None:
    """MariaDB logs what was rolled back, because of the temporary tables. The server decides about XA later."""
    with vendor(kind).server("outcomes") as server:
        kept = [int(line) for line in server.sql(ROLLED_BACK).split()]
        rows = binlogio.read_rows(server.data / "binlog.000001", table="s.t", source_columns=["outcome"]).to_table()
    found = dict(zip((row["id"] for row in rows["after"].to_pylist()), rows["outcome"].to_pylist(), strict=True))
    prepared = [number for number, outcome in found.items() if outcome == "prepare"]

    assert prepared == [7, 8]
    assert [number for number, outcome in found.items() if outcome == "commit" or number == 8] == kept
    if kind != "mysql":
        assert [found[number] for number in (2, 3, 5)] == ["rollback", "rollback", "rollback to savepoint"]
