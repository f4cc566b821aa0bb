"""GTIDs of the source at a server target: statements that set them, and the state of the server.

    MySQL      SET gtid_next = 'uuid:number' before a transaction; `gtid_executed` has the executed GTIDs, and the
               server skips a transaction that it has.
    MariaDB    SET gtid_domain_id, server_id, gtid_seq_no before a transaction; `gtid_binlog_state` has the last number
               of each domain and server.

A number that MariaDB has counts as having all lower ones of that domain and server. This holds only if transactions
commit in the order of the log, one event group of the log is one at the target, and no group at the target has a number
that the source did not give it. So `gtid_strict_mode` has to be ON, and the session refuses transactions that could
become several groups.

Source: MariaDB sql/rpl_gtid.cc, rpl_binlog_state::update_with_next_gtid; sql/log.cc, MYSQL_BIN_LOG::write_gtid_event.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from binlogio.dotted_names import dotted_name
from binlogio.errors import Hint, ReplayError
from binlogio.gtid import Gtid, GtidSet, MariadbGtid, Tag, Tsid, Uuid
from binlogio.replay.raw_groups import RawGroup
from binlogio.replay.steps import LoadStep, RowsStep, StatementStep
from binlogio.schema import statements

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from binlogio.replay.steps import LoggedTransaction, Step
    from binlogio.replay.targets import ReplayPlan
    from binlogio.replay.targets.mysql.connection import Connection
    from binlogio.replay.targets.mysql.server_tables import ServerTables

    Ask = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class MariadbBinlogState:
    """The last number of each domain and server at a MariaDB target, with `server_id`, the target's own."""

    last: dict[tuple[int, int], int]
    server_id: int

    @classmethod
    def parse(cls, text: str, server_id: int) -> MariadbBinlogState:
        """Parse `@@gtid_binlog_state`."""
        gtids = [MariadbGtid.parse(part) for part in text.split(",") if part.strip()]
        return cls({(one.domain_id, one.server_id): one.sequence_number for one in gtids}, server_id)

    def __contains__(self, gtid: MariadbGtid) -> bool:
        """Return whether the target has a transaction.

        Raises:
            ReplayError: its server_id is that of the target, whose own transactions look the same.
        """
        if gtid.server_id == self.server_id:
            raise ReplayError(
                "the target has the server_id of the source, so its own transactions look like those of the log",
                found=f"server_id {self.server_id}, GTID {gtid}",
                hint=("SET GLOBAL server_id to another number on the target", Hint.NEW_GTIDS),
            )
        return gtid.sequence_number <= self.last.get((gtid.domain_id, gtid.server_id), -1)


def gtid_statements(
    gtid: Gtid | MariadbGtid, before: Gtid | MariadbGtid | None = None
) -> list[tuple[bytes, int | None]]:
    """Return the statements that give the next transaction its GTID, for `Connection.run_all`.

    `before` is the GTID of the transaction before it in the same session, if that is known.
    """
    if isinstance(gtid, Gtid):
        return [(f"SET @@session.gtid_next = '{_source_text(gtid.uuid, gtid.tag)}:{gtid.gno}'".encode(), None)]
    source = f"SET @@session.gtid_domain_id = {gtid.domain_id}, @@session.server_id = {gtid.server_id}"
    number = f"SET @@session.gtid_seq_no = {gtid.sequence_number}"  # is compared with the domain's, so that comes first
    if isinstance(before, MariadbGtid) and (before.domain_id, before.server_id) == (gtid.domain_id, gtid.server_id):
        return [(number.encode(), None)]
    return [(source.encode(), None), (number.encode(), None)]


def checked_gtid(
    transaction: LoggedTransaction, tables: ServerTables, connection: Connection, most_event_bytes: int
) -> Gtid | MariadbGtid | None:
    """Return the GTID of a transaction; None for one that leaves no trace in the log of MariaDB.

    `most_event_bytes` is the size of events in one BINLOG statement; -1 if the rows are sent as SQL.

    Raises:
        ReplayError: it has none, or MariaDB could log it as several event groups, of which only the first had it.
    """
    gtid = transaction.gtid
    if not isinstance(gtid, MariadbGtid if connection.is_mariadb else Gtid):
        refusal = ReplayError(
            f"the transaction has no {'MariaDB' if connection.is_mariadb else 'MySQL'} GTID to keep",
            found="none" if gtid is None else str(gtid),
            hint=(Hint.NEW_GTIDS, "then start after the last transaction that the target has"),
        )
        refusal.locate(offset=transaction.start.offset)
        raise refusal
    if isinstance(gtid, Gtid):
        return gtid
    for step in transaction.steps:
        if isinstance(step, RowsStep | RawGroup) or (isinstance(step, StatementStep) and not step.is_wanted):
            continue
        statement = step.statement if isinstance(step, StatementStep) else None
        if isinstance(statement, statements.SavepointStatement | statements.RollbackTo):
            continue
        changes_rows = isinstance(statement, statements.OtherStatement) and statement.changes_rows
        if isinstance(step, LoadStep) or changes_rows:
            raise _several_groups(step, "a statement that changes rows, as SQL text")
        if isinstance(step, StatementStep) and len(transaction.steps) > 1:
            raise _several_groups(step, "a statement with its rows, such as CREATE TABLE ... SELECT")
    rows, changed = transaction.row_steps, transaction.tables
    lasting = [name for name in changed if not tables.is_transactional(*name, connection.ask)]
    is_one = sum(step.ended_statements for step in rows) == 1 and sum(step.size for step in rows) <= most_event_bytes
    if lasting and (len(lasting) < len(changed) or not is_one):
        raise _several_groups(rows[0], f"changes of {dotted_name(*lasting[0])}, which is not transactional or missing")
    return gtid if transaction.steps else None


def _several_groups(step: Step, what: str) -> ReplayError:
    refusal = ReplayError(
        "MariaDB could log the transaction as several event groups, which do not all have its GTID",
        found=what,
        hint=Hint.NEW_GTIDS,
    )
    refusal.locate(offset=step.offset)
    return refusal


@lru_cache(64)
def _source_text(uuid: Uuid, tag: Tag) -> str:
    return str(Tsid(uuid, tag))


def automatic_statement(gtid: Gtid | MariadbGtid) -> bytes:
    """Return the statement after which the server assigns GTIDs itself."""
    if isinstance(gtid, Gtid):
        return b"SET @@session.gtid_next = 'AUTOMATIC'"
    return b"SET @@session.gtid_seq_no = 0"


def executed_gtids(ask: Ask, *, is_mariadb: bool) -> GtidSet | MariadbBinlogState:
    """Return the GTIDs that a server has."""
    if not is_mariadb:
        ((executed,),) = ask("SELECT @@global.gtid_executed")
        return GtidSet.parse(str(executed))
    ((state, server_id),) = ask("SELECT @@global.gtid_binlog_state, @@global.server_id")
    return MariadbBinlogState.parse(str(state or ""), int(server_id))


def keeps_gtids(plan: ReplayPlan, ask: Ask, *, is_mariadb: bool, has_position: bool) -> bool:
    """Decide whether transactions keep the GTIDs that they have in the log.

    By default MySQL keeps them where it can (see `replay`), and MariaDB does not: the numbers of a restored server do
    not say which transactions of the source it has.

    Raises:
        ReplayError: they shall be kept, and the server cannot do that.
    """
    if is_mariadb:
        if plan.gtids == "keep":
            _check_mariadb(plan, ask)
        return plan.gtids == "keep"
    mode = str(ask("SELECT @@global.gtid_mode")[0][0])
    if plan.gtids == "keep" and mode == "OFF":
        raise _not_kept("gtid_mode=ON", "gtid_mode=OFF")
    is_usual = mode == "ON" and plan.is_whole and is_mysql_gtid(plan.first_gtid) and not has_position
    return plan.gtids == "keep" or (plan.gtids is None and is_usual)


def is_mysql_gtid(text: str | None) -> bool:
    """Return whether a GTID is one of MySQL: with colons, where MariaDB has hyphens only."""
    return text is not None and ":" in text


def _check_mariadb(plan: ReplayPlan, ask: Ask) -> None:
    ((log_bin, is_strict),) = ask("SELECT @@global.log_bin, @@global.gtid_strict_mode")
    if not log_bin:
        raise _not_kept("log_bin=ON, whose state says which transactions the target has", "log_bin=OFF")
    if not is_strict:
        raise _not_kept("gtid_strict_mode=ON (SET GLOBAL gtid_strict_mode = ON)", "gtid_strict_mode=OFF")
    two_phases = "SELECT global_value FROM information_schema.system_variables WHERE variable_name = '{}'"
    if ask(two_phases.format("BINLOG_ALTER_TWO_PHASE")) == [("ON",)]:  # since 10.8: two groups for each ALTER TABLE
        raise _not_kept("binlog_alter_two_phase=OFF", "binlog_alter_two_phase=ON")
    if not plan.in_order:
        raise _not_kept("commits in the order of the log", "preserve_commit_order=False")


def _not_kept(expected: str, found: str) -> ReplayError:
    return ReplayError(
        "the target cannot keep the GTIDs of the source", expected=expected, found=found, hint=Hint.NEW_GTIDS
    )
