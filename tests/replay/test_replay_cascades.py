"""Foreign keys that change rows of other tables without logging it (MySQL before 9.6, MariaDB)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.constants import BINLOG_MAGIC, RowsFlag
from binlogio.errors import ReplayError
from binlogio.options import Position
from binlogio.replay import ReplayFilter, SqliteTarget, replay
from binlogio.replay.undo import SqlScript, undo
from binlogio.schema import TableDefinition
from binlogio.schema.ddl.catalogue import Catalogue
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL
from binlogio_cli.main import cli
from followed_ddl import follow_statement
from logs import description, encode, query, rotate
from real_servers import Instance, vendor
from row_events import group, rows_of
from target_servers import OPTIONS, url

if TYPE_CHECKING:
    from pathlib import Path

PARENT: Final = TableDefinition.from_json(
    {
        "schema": "d",
        "name": "parent",
        "columns": [{"name": "id", "type": "int", "nullable": False}, {"name": "v", "type": "int"}],
        "primary_key": ["id"],
    }
)
CHILD: Final = replace(PARENT, name="child")
MAKE_PARENT: Final = "CREATE TABLE parent (id INT PRIMARY KEY, v INT) ENGINE=InnoDB"
MAKE_CHILD: Final = (
    "CREATE TABLE child (id INT PRIMARY KEY, v INT,"
    " FOREIGN KEY (v) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE SET NULL) ENGINE=InnoDB"
)
INSERTS: Final = [
    *group(rows_of((None, (1, 1)), (None, (2, 2)), table=PARENT)),
    *group(rows_of((None, (7, 1)), table=CHILD)),
]


def flagged(events: list[Any], flags: int = 0) -> list[Any]:
    """Return the rows events with the flags of a server.

    Without USE_SQL_FOREIGN_KEY it does not log what foreign keys do.
    """
    return [replace(e, flags=RowsFlag.STMT_END | flags) if hasattr(e, "images") else e for e in events]


def delete(flags: int = 0) -> list[Any]:
    return flagged(group(rows_of(((1, 1), None), table=PARENT)), flags)


def update(before: tuple[int, int], after: tuple[int, int]) -> list[Any]:
    return flagged(group(rows_of((before, after), table=PARENT)))


def written(tmp_path: Path, *events: Any, version: str = "8.0.36") -> Path:
    path = tmp_path / "binlog.000001"
    made = [query(MAKE_PARENT), query(MAKE_CHILD)]
    path.write_bytes(BINLOG_MAGIC + encode([description(version=version), *made, *flagged(INSERTS), *events]))
    return path


def counts(path: Path, **options: Any) -> tuple[int, int]:
    """Return how many rows the tables of a SQLite database have in the end."""
    definitions = options.pop("definitions", None)
    target = SqliteTarget.open(":memory:")
    with binlogio.open(path, definitions=definitions) as reader:
        replay(reader, target, **options)
    execute = target.connection.execute
    return tuple(execute(f'SELECT COUNT(*) FROM "d.{name}"').fetchone()[0] for name in ("parent", "child"))


@pytest.mark.parametrize("version", ["8.0.36", "5.7.44", "10.11.18-MariaDB"])
def test_change_that_a_foreign_key_continued_is_refused(tmp_path: Path, version: str) -> None:
    """The children would stay as orphans; with the option they do."""
    for change, left in ((delete(), (1, 1)), (update((1, 1), (5, 1)), (2, 1))):
        path = written(tmp_path, *change, version=version)
        with pytest.raises(
            ReplayError, match=r"a foreign key \(ON DELETE or ON UPDATE\) changed rows of d\.child"
        ) as caught:
            counts(path)

        assert caught.value.offset
        assert "ignore_cascades" in str(caught.value)
        assert counts(path, ignore_cascades=True) == left


def test_change_that_no_foreign_key_continued_is_applied(tmp_path: Path) -> None:
    """Other columns; foreign keys that were switched off; a server that logs what they do.

    A table that is not wanted.
    """
    assert counts(written(tmp_path, *update((1, 1), (1, 5)))) == (2, 1)
    assert counts(written(tmp_path, *delete(RowsFlag.NO_FOREIGN_KEY_CHECKS))) == (1, 1)
    assert counts(written(tmp_path, *delete(RowsFlag.USE_SQL_FOREIGN_KEY), version="9.7.4")) == (1, 1)
    only = ReplayFilter(tables=("d.parent",))
    target = SqliteTarget.open(":memory:")
    with binlogio.open(written(tmp_path, *delete())) as reader:
        assert replay(reader, target, wanted=only).deletes == 1


def test_given_definitions_tell_of_foreign_keys(tmp_path: Path) -> None:
    """A schema dump, and single texts."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(BINLOG_MAGIC + encode([description(version="8.0.36"), *flagged(INSERTS), *delete()]))
    dump = tmp_path / "schema.sql"
    dump.write_text(f"USE d;\n{MAKE_PARENT};\n{MAKE_CHILD};\n")
    for definitions in (str(dump), {"d.parent": MAKE_PARENT, "d.child": MAKE_CHILD}):
        with pytest.raises(ReplayError, match=r"a foreign key \(ON DELETE or ON UPDATE\) changed rows of d\.child"):
            counts(path, definitions=definitions)


def test_undo_says_what_is_not_taken_back(tmp_path: Path) -> None:
    """The rows of the child are not in the log."""
    path = written(tmp_path, *delete(), *update((2, 2), (2, 5)))
    arguments = ["undo", "--table", "d.*", "--output", str(tmp_path / "undo.sql"), str(path)]
    result = CliRunner().invoke(cli, arguments)
    with binlogio.open(path) as reader, undo(reader, SqlScript(), wanted=ReplayFilter(tables=("d.*",))) as ready:
        lost = ready.summary.lost_cascades

    assert result.exit_code == 0
    assert "warning: 1 rows event of d.parent changed rows of d.child by a foreign key" in result.stderr
    assert lost == {("d.parent", "d.child"): 1}


MADE: Final = (
    "CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES q (id), CONSTRAINT f FOREIGN KEY (a) REFERENCES q (id),"
    " FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE)"
)


def children(*statements: str) -> list[str]:
    """Return the tables whose rows change with those of d.p."""
    catalogue = Catalogue()
    for sql in statements:
        follow_statement(catalogue, sql, "d", NEWEST_MYSQL)
    return [".".join(one.child) for one in catalogue.cascades.of_parent(("d", "p"))]


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["CREATE TABLE c (a INT REFERENCES p (id) ON DELETE SET NULL)"], ["d.c"]),
        (["CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES d.p (id) MATCH FULL ON UPDATE NO ACTION ON DELETE CASCADE)"], ["d.c"]),  # noqa: E501
        (["CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (id) ON DELETE RESTRICT ON UPDATE NO ACTION)"], []),
        (["CREATE TABLE c (a INT)", "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE"], ["d.c"]),  # noqa: E501
        (["ALTER TABLE x.c ADD FOREIGN KEY (a) REFERENCES d.p (id) ON DELETE CASCADE"], ["x.c"]),
        (["CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE, b NO SUCH TYPE)"], ["d.c"]),
        (["CREATE TABLE c (a INT REFERENCES p (id) ON DELETE CASCADE)", "ALTER TABLE c SOMETHING UNKNOWN"], ["d.c"]),
        (["CREATE TABLE c (a INT REFERENCES p (id) ON DELETE CASCADE)", "RENAME TABLE c TO x.e"], ["x.e"]),
        (["CREATE TABLE c (a INT REFERENCES q (id) ON DELETE CASCADE)", "RENAME TABLE q TO p"], ["d.c"]),
        (["CREATE TABLE c (a INT REFERENCES p (id) ON DELETE CASCADE)", "DROP TABLE c"], []),
        (["CREATE TABLE c (a INT REFERENCES p (id) ON DELETE CASCADE)", "DROP DATABASE d"], []),
        (["CREATE TABLE c (a INT REFERENCES p (id) ON DELETE CASCADE)", "CREATE TABLE e LIKE c"], ["d.c"]),
        (["CREATE TEMPORARY TABLE c (a INT REFERENCES p (id) ON DELETE CASCADE)"], []),
    ],
)  # fmt: skip
def test_statements_tell_of_foreign_keys(statements: list[str], found: list[str]) -> None:
    """Also those whose other parts are not understood: a foreign key is never forgotten with the columns."""
    assert children(*statements) == found


def test_a_parent_without_a_schema_is_in_that_of_the_child() -> None:
    """Both servers look for it there, whatever the session's default database."""
    catalogue = Catalogue()
    follow_statement(catalogue, "CREATE TABLE d.c (a INT REFERENCES p (id) ON DELETE CASCADE)", "x", NEWEST_MYSQL)

    assert [one.child for one in catalogue.cascades.of_parent(("d", "p"))] == [("d", "c")]
    assert catalogue.cascades.of_parent(("x", "p")) == ()


ADD: Final = "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id) ON DELETE CASCADE"


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["CREATE TABLE c (a INT)", ADD, "ALTER TABLE c DROP FOREIGN KEY F"], []),
        (["CREATE TABLE c (a INT)", ADD, "ALTER TABLE c DROP CONSTRAINT IF EXISTS `f`, DROP a"], []),
        (["CREATE TABLE c (a INT)", ADD, "ALTER TABLE c DROP FOREIGN KEY other"], ["d.c"]),
        (["CREATE TABLE c (a INT)", ADD, "ALTER TABLE e DROP FOREIGN KEY f"], ["d.c"]),
        (["CREATE TABLE c (a INT)", ADD, f"{ADD}, DROP FOREIGN KEY f"], ["d.c"]),
        (["CREATE TABLE c (a INT)", ADD, "ALTER TABLE c DROP FOREIGN KEY f, RENAME TO e, SOMETHING UNKNOWN"], []),
        (["CREATE TABLE c (a INT)", ADD, "ALTER TABLE c ADD CHECK (a DROP FOREIGN KEY f)"], ["d.c"]),
        ([MADE, "ALTER TABLE c DROP FOREIGN KEY c_ibfk_2"], []),
        ([MADE, "ALTER TABLE c DROP FOREIGN KEY c_ibfk_1"], ["d.c"]),
        ([MADE, "RENAME TABLE c TO e", "ALTER TABLE e DROP FOREIGN KEY e_ibfk_2"], []),
        ([MADE.replace("f FOREIGN", "c_ibfk_9 FOREIGN"), "ALTER TABLE c DROP FOREIGN KEY c_ibfk_2"], ["d.c"]),
        (["CREATE TABLE c (a INT, FOREIGN KEY i (a) REFERENCES p (id) ON DELETE CASCADE)",
          "ALTER TABLE c DROP FOREIGN KEY c_ibfk_1"], ["d.c"]),
    ],
)  # fmt: skip
def test_dropped_foreign_key_does_not_count(statements: list[str], found: list[str]) -> None:
    """If its name is certain; the names that the server makes are counted in CREATE TABLE."""
    assert children(*statements) == found


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("is_dropped", [False, True])
def test_foreign_keys_of_earlier_logs_count_in_later_replays(tmp_path: Path, workers: int, is_dropped: bool) -> None:
    """The target keeps them, until a log drops them; a transaction that is rolled back keeps nothing."""
    drop = [query("ALTER TABLE child DROP FOREIGN KEY child_ibfk_1")] if is_dropped else []
    later = tmp_path / "binlog.000002"
    first = written(tmp_path, rotate("binlog.000002"))
    later.write_bytes(BINLOG_MAGIC + encode([description(version="8.0.36"), *drop, *delete()]))
    with closing(SqliteTarget.open(tmp_path / "x.db")) as target, binlogio.open(first) as reader:
        replay(reader, target, workers=workers)
    with closing(SqliteTarget.open(tmp_path / "x.db")) as target, binlogio.open([first, later]) as reader:
        if is_dropped:
            assert replay(reader, target, workers=workers).deletes == 1
            assert target.cascades == ()
        else:
            with pytest.raises(ReplayError, match=r"a foreign key \(ON DELETE or ON UPDATE\) changed rows of d\.child"):
                replay(reader, target, workers=workers)
            assert [one.child for one in target.cascades] == [("d", "child")]


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize("applies_events", [True, False])
@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_server_carries_foreign_keys_out(tmp_path: Path, kind: str, applies_events: bool) -> None:
    """By events and by SQL; one without the foreign key is refused before the row is changed."""
    from binlogio.replay.targets.mysql.target import MysqlTarget  # noqa: PLC0415

    def rows(server: Instance) -> list[str]:
        return server.sql(
            "SELECT id, v FROM d.parent UNION ALL SELECT 100 + id, v FROM d.child ORDER BY 1"
        ).splitlines()

    version = "8.0.36" if kind == "mysql" else "10.11.18-MariaDB"
    log = written(tmp_path, *update((2, 2), (3, 2)), *delete(), version=version)
    with vendor(kind).server("cascades", *OPTIONS[kind]) as server:
        server.sql("CREATE DATABASE d")
        with (
            closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
            binlogio.open(log) as reader,
        ):
            replay(reader, target)
        found = rows(server)
        server.sql("DROP DATABASE d; DROP DATABASE binlogio_replay; CREATE DATABASE d")
        with (
            closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
            binlogio.open(log) as reader,
        ):
            stop = ReplayFilter(stop=places(log)[-1])
            replay(reader, target, wanted=stop)
            server.sql("ALTER TABLE d.child DROP FOREIGN KEY child_ibfk_1")
        with (
            closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
            binlogio.open(log) as reader,
            pytest.raises(ReplayError, match=r"a foreign key \(ON DELETE or ON UPDATE\) changed rows of d\.child"),
        ):
            replay(reader, target)
        without_key = rows(server)

    assert found == ["3\t2"]
    assert without_key == ["1\t1", "3\t2", "107\t1"]


def places(log: Path) -> list[Position]:
    """Return the positions at which the transactions of a log begin."""
    with binlogio.open(log) as reader:
        return [Position(log.name, e.header.offset) for e in reader if getattr(e, "sql", b"") == b"BEGIN"]
