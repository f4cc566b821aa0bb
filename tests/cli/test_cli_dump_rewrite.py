"""`dump --rewrite-db` shows what `copy --rewrite-db` writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from binlogio_cli.messages import DAMAGE, OK
from corpus import FIXTURES, files

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

    from corpus import CorpusFile

SCHEMAS: Final = ("corpus", "shop", "bank")
RENAMES: Final = [word for name in SCHEMAS for word in ("--rewrite-db", f"{name}->a {name} elsewhere")]
PLACE: Final = {"file", "pos", "end", "log_pos", "checksum", "transaction_length", "inner"}
OF_THE_FILE: Final = {
    "FORMAT_DESCRIPTION_EVENT", "BINLOG_CHECKPOINT_EVENT", "ROTATE_EVENT", "STOP_EVENT", "TRANSACTION_PAYLOAD_EVENT",
}  # fmt: skip
INCIDENT: Final = str(FIXTURES / "mysql97" / "incident" / "binlog.000001")
LOGS: Final = [
    one
    for one in files()
    if not one.keys and not one.damaged and not one.encrypted and one.path.stat().st_size < 100_000
]


def dump(*words: object) -> Result:
    return CliRunner().invoke(cli, ["dump", *map(str, words)])


def events(*words: object) -> list[dict[str, Any]]:
    """Return the events of transactions that a dump shows, without where they are."""
    shown = dump("--format", "json", *words)
    assert shown.exit_code == OK, shown.stderr
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    return [
        {name: value for name, value in line.items() if name not in PLACE}
        for line in lines
        if line["type"] not in OF_THE_FILE
    ]


@pytest.mark.parametrize("one", LOGS, ids=lambda one: one.id)
def test_a_dump_with_other_names_is_that_of_a_copy_with_them(one: CorpusFile, tmp_path: Path) -> None:
    copied = CliRunner().invoke(cli, ["copy", *RENAMES, "-o", str(tmp_path / "copy"), str(one.path)])
    if copied.exit_code != OK:
        shown = dump(*RENAMES, one.path)
        assert (shown.exit_code, shown.stderr) == (copied.exit_code, copied.stderr)
        return

    assert events(*RENAMES, one.path) == events(tmp_path / "copy")
    sql = dump("--format", "sql", "--local-load", tmp_path, *RENAMES, one.path)
    assert sql.exit_code == OK
    assert not any(f"`{name}`." in sql.stdout for name in SCHEMAS)


def test_the_selection_is_by_the_names_in_the_log() -> None:
    rewrite = ("--rewrite-db", "shop->twin")
    chosen = dump(*rewrite, "-T", "shop.orders", INCIDENT)
    other = dump(*rewrite, "-T", "twin.orders", INCIDENT)

    assert chosen.stdout.count("INTO `twin`.`orders`") > 1
    assert "customers" not in chosen.stdout
    assert other.exit_code == 2
    assert "--table twin.orders: no event of the logs matches this table, found shop.orders" in other.stderr


def test_columns_of_a_renamed_table_are_those_of_its_ddl() -> None:
    shown = dump("--print-table-metadata", "--rewrite-db", "shop->twin", INCIDENT)

    assert "# Primary Key(id)" in shown.stdout
    plain = dump("--print-table-metadata", INCIDENT).stdout.replace("DATABASE shop", "DATABASE `shop`")
    assert shown.stdout == plain.replace("shop", "twin")


def test_a_name_for_two_things_is_refused_with_its_place(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    actions: list[dict[str, Any]] = [
        {"do": "ddl", "schema": "a", "sql": "CREATE TABLE t (shop INT)"},
        {"do": "ddl", "schema": "a", "sql": "CREATE VIEW v AS SELECT shop.shop FROM shop.t JOIN t shop"},
    ]
    script.write_text("".join(json.dumps(action) + "\n" for action in actions))
    written = CliRunner().invoke(cli, ["write", str(script), "--out", str(tmp_path)])
    assert written.exit_code == OK, written.stderr
    shown = dump("--rewrite-db", "shop->twin", tmp_path / "binlog.000001")

    assert shown.exit_code == DAMAGE
    assert "the table filter or the schema renames cannot be applied to a statement" in shown.stderr
    assert "binlog.000001" in shown.stderr
