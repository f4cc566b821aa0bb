"""`row_history` and `binlogio history`: the changes of rows by reading logs and by indexes, against a plain search."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import ColumnDefinition, TableDefinition
from binlogio.archive import (
    HistoryOptions,
    KeyRefused,
    RowVersion,
    SearchSummary,
    find_changes,
    index_logs,
    row_history,
)
from binlogio.archive.key_index import IndexSummary, KeyIndex, index_place
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.options import ServerVariables
from binlogio.selection.event_filter import EventFilter, Range
from binlogio.storage import find_logs
from binlogio.writer import BinlogWriter, Delete, Insert, Statement, Update
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL
from written_logs import ITEMS, UUID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.storage import LogFile

CASES: Final = tuple(
    MYSQL / name
    for name in (
        "rowimage_minimal", "metadata_minimal", "ddl_mix", "multi_table_stmt", "rotated", "types_string", "types_int",
        "compressed", "gtid_off", "incident",
    )
) + tuple(MARIADB / name for name in ("rowimage_minimal", "metadata_minimal", "compressed", "incident"))  # fmt: skip
RENAMED: Final = ("ddl_mix", "compressed")  # statements change columns that the log does not name: indexes say so
MOST_KEYS: Final = 4  # of a table
Key = tuple[tuple[str, Any], ...]
Place = tuple[str, int, int]


def closed_logs(folder: Path, to: Path) -> list[LogFile]:
    """Copy the logs of a case that are not in use, and return the copies."""
    for name in (folder / "files.txt").read_text(encoding="utf-8").split():
        if name.startswith("binlog.") and name.rpartition(".")[2].isdigit():
            data = bytearray((folder / name).read_bytes())
            (to / name).write_bytes(data)
    return find_logs(to)


def searched(logs: list[LogFile], table: str, key: str, **options: Any) -> tuple[list[Any], SearchSummary]:
    """Return what a search finds, and what it did."""
    summary = SearchSummary()
    return list(row_history(logs, table, key, HistoryOptions(**options), summary=summary)), summary


def plain_search(logs: list[LogFile], table: str, columns: tuple[str, ...]) -> dict[Key, list[Place]]:
    """Return the places of the changes of each row, by the JSON text of all rows."""
    found: defaultdict[Key, list[Place]] = defaultdict(list)
    for row in (
        binlogio.read_rows([log.name for log in logs], tables=(table,), statement_changes="skip").to_table().to_pylist()
    ):
        before, after = (json.loads(row[name]) if row[name] is not None else None for name in ("before", "after"))
        keys = []
        if before is not None:
            keys.append({name: before.get(name) for name in columns})
        if after is not None:
            keys.append({name: after.get(name, (before or {}).get(name)) for name in columns})
        for key in {tuple(key.items()) for key in keys if None not in key.values()}:
            found[key].append((row["file"], row["pos"], row["row"]))
    return found


def as_text(key: Key) -> str:
    """Return a key as `binlogio history` takes it."""
    return ",".join(f"{name}='{str(value).replace(chr(39), chr(39) * 2)}'" for name, value in key)


def keys_of(logs: list[LogFile]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the tables of the indexes, with the columns of their keys."""
    seen = set()
    for log in logs:
        with KeyIndex(*index_place(log)) as index:
            for one in index.tables:
                names = (f"{one.schema}.{one.table}", one.columns)
                if one.columns and names not in seen:
                    seen.add(names)
                    yield names


@pytest.mark.parametrize("folder", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_index_and_reading_find_what_a_plain_search_finds(folder: Path, tmp_path: Path) -> None:
    logs = closed_logs(folder, tmp_path)
    made = list(index_logs(logs))
    assert any(isinstance(one, IndexSummary) for one in made)
    indexed = [log for log, one in zip(logs, made, strict=True) if isinstance(one, IndexSummary)]
    compared = 0
    for table, columns in keys_of(indexed):
        rows = plain_search(logs, table, columns)
        for key in sorted(rows, key=lambda one: (-len(rows[one]), str(one)))[:MOST_KEYS]:
            by_index, summary = searched(logs, table, as_text(key))
            by_reading, _ = searched(logs, table, as_text(key), use_indexes=False)
            assert by_index == by_reading
            places = [(one.file, one.pos, one.row) for one in by_index if isinstance(one, RowVersion)]
            assert places == rows[key], (table, key)
            compared += summary.logs_by_index == len(indexed)
            assert summary.logs_by_index == len(indexed) or folder.name in RENAMED, (table, key)
    assert compared or folder.name in RENAMED


def test_index_by_other_keys_is_made_again(tmp_path: Path) -> None:
    shutil.copytree(MYSQL / "incident", tmp_path / "x")
    logs = find_logs(tmp_path / "x")
    by_customer = {"shop.orders": ("customer_id",)}
    made = [len(list(index_logs(logs, key_columns=keys))) for keys in (None, by_customer, by_customer, None)]

    asked = ["history", "shop.orders", "1", "--key-columns", "customer_id", str(tmp_path / "x")]

    assert made == [2, 2, 0, 0]
    assert "6 changes of shop.orders 1 in 2 logs (2 by index)" in CliRunner().invoke(cli, asked).stderr


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("compresses", [False, True], ids=["plain", "compressed"])
def test_random_changes_of_a_composite_key(image: str, compresses: bool, tmp_path: Path) -> None:
    random = Random(f"{image}{compresses}")
    state = write_random_logs(tmp_path, random, binlog_row_image=image, binlog_transaction_compression=compresses)
    logs = find_logs(tmp_path)
    assert all(isinstance(one, IndexSummary) for one in index_logs(logs))
    rows = plain_search(logs, "shop.items", ("tenant", "code"))
    assert set(rows) >= {(("tenant", tenant), ("code", code)) for tenant, code in state}
    for key in random.sample(sorted(rows), 6):
        by_index, summary = searched(logs, "shop.items", as_text(key))
        by_reading, _ = searched(logs, "shop.items", as_text(key), use_indexes=False)
        assert by_index == by_reading
        assert [(one.file, one.pos, one.row) for one in by_index] == rows[key]
        assert summary.logs_read == 0


def write_random_logs(folder: Path, random: Random, **variables: Any) -> dict[tuple[int, str], int | None]:
    """Write logs of random changes, and return the rows at the end."""
    settings = ServerVariables(server_version="9.7.4", server_uuid=UUID, max_binlog_size=16384, **variables)
    rows: dict[tuple[int, str], int | None] = {}
    with BinlogWriter(folder / "binlog", variables=settings) as writer:
        session = writer.session()
        for _ in range(120):
            changes: list[Any] = []
            key = random.randrange(3), random.choice(("a", "b,c", "d'e", "", "ü"))
            if key not in rows:
                rows[key] = random.randrange(100)
                changes.append(Insert(ITEMS, [(*key, rows[key])]))
            elif random.random() < 0.3:
                changes.append(Delete(ITEMS, [(*key, rows.pop(key))]))
            else:
                new = (random.randrange(3), key[1]) if random.random() < 0.3 else key
                if new != key and new in rows:
                    continue
                before = (*key, rows.pop(key))
                rows[new] = random.choice((None, random.randrange(100)))
                changes.append(Update(ITEMS, [(before, (*new, rows[new]))]))
            session.execute(Statement("CHANGE", changes))
            session.commit()
    return rows


def test_a_changed_key_is_reported_and_followed(tmp_path: Path) -> None:
    settings = ServerVariables(server_version="9.7.4", server_uuid=UUID)
    with BinlogWriter(tmp_path / "binlog", variables=settings) as writer:
        session = writer.session()
        for change in (
            Insert(ITEMS, [(1, "a", 1), (5, "b", 1)]),
            Update(ITEMS, [((1, "a", 1), (2, "a", 1))]),
            Update(ITEMS, [((2, "a", 1), (2, "a", 7))]),
            Insert(ITEMS, [(1, "a", 9)]),
        ):
            session.execute(Statement("CHANGE", [change]))
            session.commit()
    logs = find_logs(tmp_path)
    for uses_index in (False, True):
        alone, _ = searched(logs, "shop.items", "1,a", use_indexes=uses_index)
        followed, _ = searched(logs, "shop.items", "1,a", use_indexes=uses_index, follow_key=True)
        backwards, _ = searched(logs, "shop.items", "2,a", use_indexes=uses_index)
        assert [(one.op, one.new_key) for one in alone] == [
            ("insert", None),
            ("update", {"tenant": "2", "code": "a"}),
            ("insert", None),
        ]
        assert [json.loads(one.after)["amount"] for one in followed] == [1, 1, 7]
        assert [one.old_key for one in backwards] == [{"tenant": "1", "code": "a"}, None]
        list(index_logs(logs))


def test_changes_far_apart_in_one_transaction_are_all_found(tmp_path: Path) -> None:
    """Each is read from the begin of the transaction, which the range before has read to its end."""
    settings = ServerVariables(server_version="9.7.4", server_uuid=UUID)
    with BinlogWriter(tmp_path / "binlog", variables=settings) as writer:
        session = writer.session()
        session.execute(Statement("CHANGE", [Insert(ITEMS, [(2, "a", 0)])]))
        session.commit()
        session.begin()
        for number in range(4):
            session.execute(Statement("CHANGE", [Update(ITEMS, [((2, "a", number), (2, "a", number + 1))])]))
            rows = [(1, f"filler {number} {row}", row) for row in range(6000)]
            session.execute(Statement("CHANGE", [Insert(ITEMS, rows)]))
        session.commit()
    logs = find_logs(tmp_path)
    list(index_logs(logs))
    found, summary = searched(logs, "shop.items", "2,a")

    assert summary.logs_by_index == len(logs)
    assert [json.loads(one.after)["amount"] for one in found] == [0, 1, 2, 3, 4]
    assert found[2].pos - found[1].pos > 1 << 16


def test_index_that_is_not_of_the_log_is_noticed_and_not_used(tmp_path: Path) -> None:
    folder = MYSQL / "incident"
    log = tmp_path / "binlog.000002"
    shutil.copy(folder / "binlog.000002", log)
    (made,) = index_logs(find_logs([log]), folder=str(tmp_path / "missing" / "indexes"))
    assert isinstance(made, IndexSummary)
    assert made.index == str(tmp_path / "missing" / "indexes" / "binlog.000002.keys.parquet")
    (made,) = index_logs(find_logs([log]))
    assert isinstance(made, IndexSummary)
    index = Path(made.index)
    data = index.read_bytes()
    expected = searched(find_logs([log]), "shop.orders", "1004", use_indexes=False)[0]

    def notes_with(index_data: bytes, log_data: bytes) -> list[str]:
        index.write_bytes(index_data)
        log.write_bytes(log_data)
        notes: list[str] = []
        summary = SearchSummary()
        found = list(row_history(find_logs([log]), "shop.orders", "1004", note=notes.append, summary=summary))
        if log_data is whole:
            assert found == expected
        assert (summary.logs_read, summary.logs_by_index) == (1, 0)
        return notes

    whole = log.read_bytes()
    assert "is damaged" in notes_with(data[:-20], whole)[0]
    for at in range(8, len(data), 97):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        index.write_bytes(damaged)
        assert searched(find_logs([log]), "shop.orders", "1004")[0] == expected
    (note,) = notes_with(data, (folder / "binlog.000001").read_bytes())
    assert "is of another log" in note
    foreign = (MARIADB / "incident" / "binlog.000002").read_bytes()
    assert "is of another log" in notes_with(data, foreign)[0]


def test_logs_in_use_get_no_index(tmp_path: Path) -> None:
    data = bytearray((MYSQL / "incident" / "binlog.000002").read_bytes())
    data[4 + 17] |= 1  # the flag of the format description
    (tmp_path / "binlog.000002").write_bytes(data)
    result = CliRunner().invoke(cli, ["index", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "no index is made of a log in use" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["binlog.000002"]


def test_keys_that_the_table_does_not_have_are_refused() -> None:
    logs = find_logs(MYSQL / "incident")
    for table, key, reason in (
        ("orders", "1", "is not the name of a table"),
        ("shop.orders", "abc", "'abc' is not a value of column id: expected uint64"),
        ("shop.orders", "1,2", "'1,2' is not a value of column id"),
        ("shop.orders", "nix=1", "shop.orders has no column nix: it has id, customer_id"),
        ("shop.orders", "id=1,2", "name all columns, or none"),
    ):
        with pytest.raises(KeyRefused, match=reason):
            list(row_history(logs, table, key))


def test_tables_without_a_key_are_searched_by_named_columns() -> None:
    logs = find_logs(MYSQL / "rowimage_full")
    with pytest.raises(KeyRefused, match=r"the primary key of corpus\.nokey is not known: give KEY as column=value"):
        list(row_history(logs, "corpus.nokey", "1"))
    found, _ = searched(logs, "corpus.nokey", "a=1")
    assert found
    for one in found:
        if isinstance(one, RowVersion):
            images = (json.loads(image) for image in (one.before, one.after) if image is not None)
            assert 1 in (image["a"] for image in images)


def test_streams_are_refused_and_compressed_logs_are_read(tmp_path: Path) -> None:
    log = MYSQL / "incident" / "binlog.000002"
    (tmp_path / "binlog.000002.gz").write_bytes(gzip.compress(log.read_bytes()))
    expected, _ = searched(find_logs(log), "shop.orders", "1004")
    (made,) = index_logs(find_logs(tmp_path))
    assert isinstance(made, IndexSummary)
    for uses_index in (True, False):
        found, summary = searched(find_logs(tmp_path), "shop.orders", "1004", use_indexes=uses_index)
        assert [replace(one, file="") for one in found] == [replace(one, file="") for one in expected]
        assert summary.logs_by_index == uses_index
    with log.open("rb") as stream, pytest.raises(UnsupportedFeature, match="a search reads a log twice"):
        searched(find_logs(stream), "shop.orders", "1004")


def test_history_for_people_and_as_json(tmp_path: Path) -> None:
    arguments = ["history", "shop.orders", "1004", str(MYSQL / "incident"), "--time-zone", "UTC"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert 'total: "250.00" -> "199.00"' in result.stdout
    assert "CREATE TABLE orders" in result.stdout
    assert "2 changes of shop.orders 1004 in 2 logs (2 read)" in result.stderr
    output = tmp_path / "out.jsonl"
    assert CliRunner().invoke(cli, [*arguments, "--json", "-o", str(output)]).exit_code == 0
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line.get("op") for line in lines] == [None, "insert", "update"]
    assert lines[2]["after"]["status"] == "paid"


def test_changes_that_are_logged_as_text_are_shown(tmp_path: Path) -> None:
    (log,) = closed_logs(MYSQL / "format_statement", tmp_path)
    by_reading, _ = searched([log], "corpus.child", "1")
    assert isinstance(next(index_logs([log])), IndexSummary)
    by_index, summary = searched([log], "corpus.child", "1")
    assert by_index == by_reading
    assert (summary.logs_by_index, summary.versions) == (1, 0)
    texts = [one.sql for one in by_index]
    assert any(text.startswith("CREATE TABLE child") for text in texts)
    assert any(text.startswith("INSERT") for text in texts)
    result = CliRunner().invoke(cli, ["history", "corpus.child", "1", log.name])
    assert f"no row of this table in 1 log (1 by index), but {len(texts)} statements" in result.stderr


def test_minimal_images_show_what_the_log_lacks() -> None:
    logs = str(MYSQL / "rowimage_minimal")
    result = CliRunner().invoke(cli, ["history", "corpus.pk", "1", logs, "--json"])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    update = next(line for line in lines if line.get("op") == "update")
    assert set(update["before"]) == {"id"}
    result = CliRunner().invoke(cli, ["history", "corpus.pk", "1", logs])
    assert "(not in the log) -> " in result.stdout


ALTERED: Final[tuple[dict[str, Any], ...]] = (
    {"do": "ddl", "sql": "CREATE DATABASE d"},
    {"do": "ddl", "sql": "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)"},
    {"do": "execute", "sql": "INSERT INTO d.t VALUES (1, 10)", "changes": [
        {"insert": "d.t", "rows": [{"id": 1, "v": 10}]}]},
    {"do": "ddl", "sql": "ALTER TABLE d.t ADD COLUMN w INT"},
    {"do": "execute", "sql": "UPDATE d.t SET v = 11", "changes": [
        {"update": "d.t", "before": [{"id": 1, "v": 10, "w": None}], "after": [{"id": 1, "v": 11, "w": None}]}]},
    {"do": "ddl", "sql": "ALTER TABLE d.t RENAME COLUMN id TO pk"},
    {"do": "execute", "sql": "UPDATE d.t SET v = 12", "changes": [
        {"update": "d.t", "before": [{"pk": 1, "v": 11, "w": None}], "after": [{"pk": 1, "v": 12, "w": None}]}]},
)  # fmt: skip


def written(folder: Path, lines: Iterable[dict[str, Any]]) -> list[str]:
    """Write the logs of a script, and return their names."""
    (folder / "script.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    arguments = ["write", str(folder / "script.jsonl"), "--out", str(folder / "logs"), "--basename", "binlog"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    return [log.name for log in find_logs(folder / "logs")]


@pytest.fixture
def altered(tmp_path: Path) -> str:
    """Return a log in which a table gets a column, and its key another name."""
    (name,) = written(tmp_path, ALTERED)
    return name


def test_index_in_a_folder_whose_name_is_not_utf_8(altered: str, tmp_path: Path) -> None:
    folder = os.fsdecode(os.fsencode(tmp_path / "keys") + b"\xff")
    result = CliRunner().invoke(cli, ["index", "--index-dir", folder, altered])
    _, summary = searched(find_logs(altered), "d.t", "1", index_folder=folder)

    assert result.exit_code == 0
    assert (summary.logs_by_index, summary.versions) == (1, 3)


def test_name_of_a_log_that_is_not_utf_8_is_written_as_by_dump(altered: str) -> None:
    r"""As an escape of JSON, \udcff, from which the bytes can be restored."""
    log = os.path.join(os.path.dirname(altered), os.fsdecode(b"binlog\xff.000001"))  # noqa: PTH118, PTH120
    os.rename(altered, log)  # noqa: PTH104
    commands = (["dump", "--format", "json"], ["grep", "--json", "v = 12"], ["history", "--json", "d.t", "1"])
    found = [CliRunner().invoke(cli, [*command, log]).stdout.splitlines() for command in commands]

    assert all(found)
    assert {json.loads(line)["file"] for lines in found for line in lines} == {log}


def test_changes_have_the_columns_of_their_time(altered: str) -> None:
    """By the primary key, whatever its column is called."""
    found, _ = searched(find_logs(altered), "d.t", "1", statements=False)
    result = CliRunner().invoke(cli, ["history", "d.t", "1", altered])

    assert [one.columns for one in found] == [("id", "v"), ("id", "v", "w"), ("pk", "v", "w")]
    assert "not in the log" not in result.stdout


def test_minimal_images_have_the_columns_of_their_time(tmp_path: Path) -> None:
    """Those of an UPDATE after ADD COLUMN have as many columns as the table had before; another table is alike."""
    minimal: dict[str, Any] = {"do": "variables", "binlog_row_image": "MINIMAL"}
    change = {"columns": ["v"], **ALTERED[4]["changes"][0]}
    alike = (
        {"do": "ddl", "sql": "CREATE TABLE d.u (id INT PRIMARY KEY, v INT, w INT)"},
        {**ALTERED[4], "changes": [{**change, "update": "d.u"}]},
    )
    names = written(tmp_path, (minimal, *ALTERED[:4], {**ALTERED[4], "changes": [change]}, *alike))
    by_key, _ = searched(find_logs(names), "d.t", "1", statements=False)
    by_condition = list(find_changes(find_logs(names), "id = 1"))
    of_all = [("t", ("id", "v")), ("t", ("id", "v", "w")), ("u", ("id", "v", "w"))]

    assert [one.columns for one in by_key] == [columns for _, columns in of_all[:2]]
    assert [(one.table, one.columns) for one in by_condition] == of_all


def test_changes_without_the_columns_of_the_search_are_noted(altered: str) -> None:
    history = CliRunner().invoke(cli, ["history", "d.t", "id=1", altered])
    grep = CliRunner().invoke(cli, ["grep", "id = 1", altered])

    for result in (history, grep):
        assert result.exit_code == 0
        assert "whose changes were not compared, d.t " in result.stderr
        assert "it has pk, v, w" in result.stderr
    assert history.stdout.count("UPDATE") == grep.stdout.count("UPDATE") == 1


@pytest.mark.parametrize(
    "options", [["--start-datetime", "2026-02-01"], ["--operation", "update"], ["--stop-datetime", "2026-01-01"]]
)
def test_tables_without_selected_changes_are_not_noted(tmp_path: Path, options: list[str]) -> None:
    """The table lacks the column only at changes outside the selection."""
    times = ({"at": f"2026-0{month}-01T00:00:00Z"} for month in (1, 2))
    lines = (ALTERED[0] | next(times), *ALTERED[1:3], ALTERED[3] | next(times), ALTERED[4])
    names = written(tmp_path, lines)
    history, grep = ["history", "d.t", "w=1"], ["grep", "w IS NULL"]
    results = [CliRunner().invoke(cli, [*command, *options, *names]) for command in (history, grep)]
    whole = [CliRunner().invoke(cli, [*command, *names]) for command in (history, grep)]

    assert [one.exit_code for one in (*results, *whole)] == [0] * 4
    assert not [one.stderr for one in results if "not compared" in one.stderr]
    assert all("not compared, d.t " in one.stderr for one in whole)


def test_changes_that_the_second_pass_compares_are_not_noted(tmp_path: Path) -> None:
    """The first pass does not know the key, because the first log, whose index was used, contains the CREATE TABLE."""
    update = {"update": "d.t", "before": [{"id": 1, "v": 10}], "after": [{"id": 1, "v": 11}]}
    minimal: dict[str, Any] = {"do": "variables", "binlog_row_metadata": "MINIMAL"}
    logs = find_logs(
        written(
            tmp_path,
            (minimal, *ALTERED[:3], {"do": "flush_logs"}, {"do": "execute", "sql": "UPDATE d.t", "changes": [update]}),
        )
    )
    list(index_logs(logs[:1]))
    notes: list[str] = []
    found = list(row_history(logs, "d.t", "1", HistoryOptions(statements=False), note=notes.append))

    assert [(one.op, one.columns) for one in found if isinstance(one, RowVersion)] == [
        ("insert", ("id", "v")),
        ("update", ("id", "v")),
    ]
    assert notes == []


def test_another_order_of_the_key_is_refused_without_names(tmp_path: Path) -> None:
    """`1,2` would be another row after the ALTER TABLE."""
    columns = (ColumnDefinition("a", "int", nullable=False), ColumnDefinition("b", "int", nullable=False))
    with BinlogWriter(str(tmp_path / "binlog")) as writer, writer.session("d") as session:
        for key in (("a", "b"), ("b", "a")):
            table = TableDefinition("d", "t", columns, key)
            session.execute(Statement("INSERT INTO t VALUES (1, 2)", [Insert(table, [(1, 2)])]))
    logs = find_logs(tmp_path)

    with pytest.raises(KeyRefused, match=r"the order of the primary key of d\.t changes from a, b to b, a"):
        searched(logs, "d.t", "1,2")
    assert len(searched(logs, "d.t", "a=1,b=2")[0]) == 2


def test_an_index_has_the_order_of_the_primary_key(tmp_path: Path) -> None:
    """The order of the columns in the table is another one."""
    columns = tuple(ColumnDefinition(name, "int", nullable=False) for name in ("a", "b"))
    table = TableDefinition("d", "t", columns, ("b", "a"))
    with BinlogWriter(str(tmp_path / "binlog")) as writer, writer.session("d") as session:
        for row in ((1, 2), (2, 1)):
            session.execute(Statement("INSERT INTO t", [Insert(table, [row])]))
    logs = find_logs(tmp_path)
    assert all(isinstance(one, IndexSummary) for one in index_logs(logs))
    by_index, summary = searched(logs, "d.t", "2,1")

    assert summary.logs_by_index == 1
    assert [json.loads(one.after) for one in by_index] == [{"a": 1, "b": 2}]
    assert by_index == searched(logs, "d.t", "2,1", use_indexes=False)[0]


def test_tables_with_the_same_columns_have_their_own_keys_in_an_index(tmp_path: Path) -> None:
    """Also those that `key_columns` names."""
    columns = tuple(ColumnDefinition(name, "int", nullable=False) for name in ("a", "b"))
    tables = [TableDefinition("d", name, columns, key) for name, key in (("t", ("a",)), ("u", ("b",)), ("v", ("a",)))]
    with BinlogWriter(str(tmp_path / "binlog")) as writer, writer.session("d") as session:
        for table in (*tables, *tables):
            session.execute(Statement("INSERT", [Insert(table, [(1, 2)])]))
    logs = find_logs(tmp_path)
    list(index_logs(logs, key_columns={"d.v": ("b",)}))

    with KeyIndex(*index_place(logs[0])) as index:
        assert {one.table: one.columns for one in index.tables} == {"t": ("a",), "u": ("b",), "v": ("b",)}
    for name, value in (("d.t", "1"), ("d.u", "2"), ("d.v", "b=2")):
        assert len(searched(logs, name, value)[0]) == 2, name


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
def test_a_log_with_a_flipped_bit_is_refused_or_its_index_is_right(checksum: str, tmp_path: Path) -> None:
    settings = ServerVariables(server_version="9.7.4", server_uuid=UUID, binlog_checksum=checksum)
    with BinlogWriter(tmp_path / "binlog", variables=settings) as writer, writer.session() as session:
        for change in (Insert(ITEMS, [(1, "a", 1), (5, "b", 1)]), Update(ITEMS, [((1, "a", 1), (2, "a", 1))])):
            session.execute(Statement("CHANGE", [change]))
    log = tmp_path / "binlog.000001"
    data = log.read_bytes()
    random = Random(checksum)
    made = 0
    for bit in (0, *random.sample(range(8 * 300, 8 * len(data)), 60)):
        log.write_bytes(data[: bit // 8] + bytes([data[bit // 8] ^ (bit > 0) << bit % 8]) + data[bit // 8 + 1 :])
        logs = find_logs(log)
        try:
            (summary,) = index_logs(logs, replace_all=True)
        except BinlogError:
            continue
        made += isinstance(summary, IndexSummary)
        for key in ("1,a", "2,a", "5,b"):
            assert answer(logs, key, use_indexes=True) == answer(logs, key, use_indexes=False), (bit, key)

    assert made == 1 if checksum == "CRC32" else made > 20


def answer(logs: list[LogFile], key: str, *, use_indexes: bool) -> list[Any] | str:
    """Return what a search of `shop.items` finds, or its refusal."""
    try:
        return searched(logs, "shop.items", key, use_indexes=use_indexes)[0]
    except KeyRefused as exc:
        return str(exc)


def test_a_key_without_names_is_not_searched_in_an_index_of_another_key(tmp_path: Path) -> None:
    logs = closed_logs(MYSQL / "incident", tmp_path)
    assert all(
        isinstance(one, IndexSummary)
        for one in index_logs(logs, key_columns={"shop.orders": ("customer_id",)}, replace_all=True)
    )
    notes: list[str] = []
    found = list(row_history(logs, "shop.orders", "1004", HistoryOptions(), note=notes.append))

    assert found == searched(logs, "shop.orders", "1004", use_indexes=False)[0]
    assert any(isinstance(one, RowVersion) for one in found)
    assert "has shop.orders not by its primary key, or by several orders" in notes[0]
    assert searched(logs, "shop.orders", "customer_id=4")[1].logs_by_index == 2


@pytest.mark.parametrize("indexed", [False, True])
def test_another_order_of_the_key_outside_the_selection_is_no_reason_to_refuse(indexed: bool, tmp_path: Path) -> None:
    """The key has the order of the selected rows, before or after the ALTER TABLE."""
    columns = tuple(ColumnDefinition(name, "int", nullable=False) for name in ("a", "b", "c"))
    now = [1000]
    writer = BinlogWriter(str(tmp_path / "binlog"), clock=lambda: now[0] * 1_000_000)
    with writer, writer.session("d") as session:
        for key in (("a", "b"), ("b", "a"), ("b", "a")):
            table = TableDefinition("d", "t", columns, key)
            for row in ((1, 2, now[0]), (2, 1, now[0])):
                session.execute(Statement("INSERT INTO t", [Insert(table, [row])]))
            now[0] += 1000
    logs = find_logs(tmp_path)
    if indexed:
        list(index_logs(logs))

    def rows(start: int, end: int) -> list[tuple[int, int, int]]:
        found = searched(logs, "d.t", "1,2", where=EventFilter(timestamp=Range(start, end)))[0]
        return [tuple(json.loads(one.after).values()) for one in found]

    assert rows(0, 1500) == [(1, 2, 1000)]
    assert rows(1500, 4000) == [(2, 1, 2000), (2, 1, 3000)]
    with pytest.raises(KeyRefused, match=r"the order of the primary key of d\.t changes"):
        rows(0, 4000)
