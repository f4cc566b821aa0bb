"""XA transactions: their xids, and the events that XA commands write to the log.

Events between XA START and XA END are cached as in any transaction.

    xid      := X'gtrid',X'bqual',format_id
    prepared := XA START query  event*  XA END query  XA_PREPARE          -- XA PREPARE, or XA COMMIT ... ONE PHASE
    later    := XA COMMIT query | XA ROLLBACK query                       -- a separate group
    undone   := XA START query  event*  XA END query  XA ROLLBACK query   -- if non-transactional tables are changed

A transaction that has cached nothing writes nothing, neither when it is prepared nor later.

In MariaDB the GTID event replaces XA START and has the xid; XA COMMIT ... ONE PHASE is a COMMIT there.
Source: sql/xa.cc; sql/binlog.cc, do_binlog_xa_commit_rollback; oracle rule D17.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.errors import LoggingError, UnsupportedFeature
from binlogio.events.control import XaPrepareEvent
from binlogio.events.mariadb import MariadbXid
from binlogio.writer.log.group import GroupEnd, GroupMarks
from binlogio.writer.query_events import boundary_event
from binlogio.writer.session.transaction import XaTransaction, end_of_rollback

if TYPE_CHECKING:
    from binlogio.writer.session.connection import ConnectionState
    from binlogio.writer.session.transaction import XaXid


def xa_start(connection: ConnectionState, xid: XaXid) -> None:
    """XA START.

    Raises:
        LoggingError: the session is in a transaction.
        UnsupportedFeature: a server of this version does not log XA PREPARE.
    """
    if not connection.server_format.logs_xa_prepare:
        raise UnsupportedFeature(
            "XA transactions of servers that do not log XA PREPARE are not supported",
            field="server_version",
            expected="MySQL 5.7.9 or MariaDB 10.5 or later",
            found=connection.variables.server_version,
            hint="log what XA COMMIT commits as an ordinary transaction",
        )
    if connection.xa is not None or connection.in_transaction:
        raise _wrong_state("XAER_OUTSIDE: Some work is done outside global transaction", 1400, "ER_XAER_OUTSIDE")
    connection.xa = XaTransaction(xid)
    if not connection.server_format.has_domains:
        connection.caches.xa_start = b"XA START " + xid.text


def xa_end(connection: ConnectionState, xid: XaXid) -> None:
    """XA END.

    Raises:
        LoggingError: it is not the transaction of the session.
    """
    _own(connection, xid, is_idle=False).is_idle = True


def xa_prepare(connection: ConnectionState, xid: XaXid) -> None:
    """XA PREPARE: the transaction is logged, and waits for XA COMMIT or XA ROLLBACK of any session.

    Raises:
        LoggingError: it is not the transaction of the session, or not ended.
        OSError: the log cannot be written.
    """
    _own(connection, xid, is_idle=True)
    _flush(connection, xid, one_phase=0)


def xa_commit(connection: ConnectionState, xid: XaXid, *, one_phase: bool = False) -> None:
    """XA COMMIT of a prepared transaction, or (ONE PHASE) of the session's own.

    Raises:
        LoggingError: it is not the transaction of the session, or not ended.
        OSError: the log cannot be written.
    """
    if one_phase:
        _own(connection, xid, is_idle=True)
        if connection.server_format.has_domains:
            connection.end_by_commit()
        else:
            _flush(connection, xid, one_phase=1)
    else:
        _log_end(connection, xid, b"XA COMMIT ")


def xa_rollback(connection: ConnectionState, xid: XaXid) -> None:
    """XA ROLLBACK of a prepared transaction, or of the session's own, which is logged only if it cannot be undone.

    Raises:
        LoggingError: the session's own transaction is not ended.
        OSError: the log cannot be written.
    """
    if connection.xa is not None:
        _own(connection, xid, is_idle=True)
        _roll_back(connection, xid)
    else:
        _log_end(connection, xid, b"XA ROLLBACK ")


def _roll_back(connection: ConnectionState, xid: XaXid) -> None:
    """End the session's own transaction; MySQL logs its xid if the end must be logged."""
    caches, context = connection.caches, connection.context()
    if connection.server_format.has_domains or end_of_rollback(caches.transaction) is None:
        connection.end_by_rollback(context)
        return
    connection.warnings += connection.transaction.rollback_warnings()
    try:
        caches.transaction.close(connection.builder.encode(boundary_event(context, b"XA END " + xid.text)))
        rollback = connection.builder.encode(boundary_event(context, b"XA ROLLBACK " + xid.text))
        caches.flush_xa(rollback, context.timestamp, end=GroupEnd.ROLLBACK)
    finally:
        connection.forget()


def _flush(connection: ConnectionState, xid: XaXid, *, one_phase: int) -> None:
    caches, context = connection.caches, connection.context()
    try:
        if not caches.transaction.is_empty:
            end = connection.builder.encode(boundary_event(context, b"XA END " + xid.text))
            prepare = XaPrepareEvent(
                one_phase=one_phase,
                format_id=xid.format_id,
                gtrid=xid.gtrid,
                bqual=xid.bqual,
                header=context.header(),
            )
            caches.transaction.close(end)
            marks = connection.marks(ends_statement=False)._replace(xa=_in_gtid(xid))
            caches.flush_xa(connection.builder.encode(prepare), context.timestamp, marks=marks)
        elif not one_phase:
            connection.unlogged_xids.add(xid)
    finally:
        connection.forget()


def _log_end(connection: ConnectionState, xid: XaXid, command: bytes) -> None:
    if xid in connection.unlogged_xids:
        connection.unlogged_xids.discard(xid)
        return
    context = connection.context()
    frame = connection.builder.encode(boundary_event(context, command + xid.text))
    marks = GroupMarks(is_transactional=True, xa=_in_gtid(xid))
    connection.caches.write_statement((frame,), context.timestamp, is_transactional=False, marks=marks)


def _in_gtid(xid: XaXid) -> MariadbXid:
    return MariadbXid(xid.format_id, xid.gtrid, xid.bqual)


def _own(connection: ConnectionState, xid: XaXid, *, is_idle: bool) -> XaTransaction:
    if connection.xa is None or connection.xa.is_idle is not is_idle:
        state = "NON-EXISTING" if connection.xa is None else "IDLE" if connection.xa.is_idle else "ACTIVE"
        raise _wrong_state(
            f"XAER_RMFAIL: The command cannot be executed when global transaction is in the  {state} state",
            1399,
            "ER_XAER_RMFAIL",
        )
    if connection.xa.xid != xid:
        raise _wrong_state("XAER_NOTA: Unknown XID", 1397, "ER_XAER_NOTA")
    return connection.xa


def _wrong_state(reason: str, errno: int, symbol: str) -> LoggingError:
    return LoggingError(reason, errno=errno, symbol=symbol)
