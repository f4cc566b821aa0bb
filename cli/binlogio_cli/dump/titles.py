"""Titles of events in text output: type and fields on one line, with the terms of mysqlbinlog."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ChecksumAlgorithm, EventType, QueryStatus, RowsFlag, TableMapFlag
from binlogio.events import control, format_description, group_replication, gtid, load, mariadb, query, rows
from binlogio.events.base import UnknownEvent
from binlogio.events.mariadb import MariadbGtidExtraFlag, MariadbGtidFlag
from binlogio.events.statement_context import IntvarEvent, IntvarKind, RandEvent, UserVarEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio_cli.quoting import safe, string_literal, table_name

if TYPE_CHECKING:
    from datetime import tzinfo

_MICROSECONDS: Final = 1_000_000


def title(event: Any) -> str:
    """Return the type and the fields of an event; as in mysqlbinlog, tabs separate most fields."""
    describe = _TITLES.get(type(event))
    return describe(event) if describe is not None else type(event).__name__


def short_time(seconds: int, zone: tzinfo) -> str:
    """Format the timestamp of a header as mysqlbinlog does: `261120 19:59:41`."""
    return datetime.fromtimestamp(seconds, zone).strftime("%y%m%d %H:%M:%S")


def iso_time(microseconds: int, zone: tzinfo = timezone.utc, separator: str = "T") -> str:
    """Format microseconds since 1970 as ISO 8601; a value beyond the calendar is returned as a number."""
    try:
        moment = datetime.fromtimestamp(microseconds // _MICROSECONDS, zone)
    except (OverflowError, ValueError, OSError):
        return str(microseconds)
    return moment.replace(microsecond=microseconds % _MICROSECONDS).isoformat(separator)


def utc_time(microseconds: int) -> str:
    """Format microseconds since 1970 as `2026-11-20 19:57:28.960020 UTC`."""
    return iso_time(microseconds, separator=" ").replace("+00:00", " UTC")


def flag_names(flags: int, kind: Any) -> str:
    """Return the names of the set flags, and unknown flags as a number."""
    names = [flag.name for flag in kind if flags & flag]
    rest = flags & ~sum(kind)
    return " ".join(str(name) for name in (*names, f"0x{rest:x}" if rest else None) if name)


def _format_description(event: format_description.FormatDescriptionEvent) -> str:
    checksums: dict[int | None, str] = {
        ChecksumAlgorithm.OFF: "  checksum NONE",
        ChecksumAlgorithm.CRC32: "  checksum CRC32",
    }
    in_use = "  in use, or not closed cleanly" if event.header.flags & 1 else ""
    start = f"Start: binlog v {event.binlog_version}, server v {safe(event.server_version)}"
    return f"{start}{checksums.get(event.checksum_algorithm, '')}{'  at startup' if event.created else ''}{in_use}"


def _query(event: query.QueryEvent) -> str:
    text = f"Query\tthread_id={event.thread_id}\texec_time={event.exec_time}\terror_code={event.error_code}"
    return text + xid_of(event)


def xid_of(event: query.QueryEvent) -> str:
    """Return the end of a statement's title: its XID, if the event has one."""
    xid = event.status(QueryStatus.DDL_LOGGED_WITH_XID)
    if xid is None:
        xid = event.status(QueryStatus.MARIADB_XID)
    return "" if xid is None else f"\tXid = {xid}"


def _gtid(event: Any) -> str:
    name = "Anonymous_GTID" if isinstance(event, gtid.AnonymousGtidEvent) else "GTID"
    rows_only = "no" if event.flags & gtid.GtidFlag.MAY_HAVE_SBR else "yes"
    facts = (
        ("last_committed", event.last_committed),
        ("sequence_number", event.sequence_number),
        ("rbr_only", rows_only),
        ("original_committed_timestamp", event.originally_committed),
        ("immediate_commit_timestamp", event.immediate_commit_timestamp),
        ("transaction_length", event.transaction_length),
    )
    return "\t".join((name, *(f"{key}={value}" for key, value in facts if value is not None)))


def _mariadb_gtid(event: mariadb.MariadbGtidEvent) -> str:
    commit = f" cid={event.commit_id}" if event.commit_id is not None else ""
    xid = f" XID {event.xid}" if event.xid is not None else ""
    thread = f" thread_id={event.thread_id}" if event.thread_id is not None else ""
    return f"GTID {event.gtid}{commit}{xid}{gtid_flags(event.flags)}{_alter(event)}{thread}"


def _alter(event: mariadb.MariadbGtidEvent) -> str:
    """Return the phase of a two-phase ALTER, and the sequence number of the group that started it."""
    flags = event.flags_extra or 0
    start = " START ALTER" if flags & MariadbGtidExtraFlag.START_ALTER else ""
    commit = f" COMMIT ALTER id= {event.sa_seq_no}" if flags & MariadbGtidExtraFlag.COMMIT_ALTER else ""
    rollback = f" ROLLBACK ALTER id= {event.sa_seq_no}" if flags & MariadbGtidExtraFlag.ROLLBACK_ALTER else ""
    return f"{start}{commit}{rollback}"


def gtid_flags(flags: int) -> str:
    """Return the flags of a MariaDB GTID for its title."""
    names = flag_names(flags, MariadbGtidFlag).lower()
    return f" {names}" if names else ""


def _rows(name: str) -> Callable[[Any], str]:
    return lambda event: f"{name}: table id {event.table_id}{rows_flags(event.flags)}"


def rows_flags(flags: int) -> str:
    """Return the flags of a rows event for its title."""
    names = flag_names(flags, RowsFlag)
    stated = f" flags: {' '.join(f'{flag}_F' if not flag.startswith('0x') else flag for flag in names.split())}"
    return stated if names else ""


def _table_map(event: TableMapEvent) -> str:
    triggers = " (has triggers)" if event.flags & TableMapFlag.HAS_TRIGGERS else ""
    return f"Table_map: {table_name(event.schema, event.table)} mapped to number {event.table_id}{triggers}"


def _payload(event: TransactionPayloadEvent) -> str:
    names: dict[int, str] = {kind.value: kind.name for kind in CompressionType}
    kind = names.get(event.compression_type, str(event.compression_type))
    return (
        f"Transaction_Payload\tpayload_size={len(event.payload)}\tcompression_type={kind}"
        f"\tuncompressed_size={event.uncompressed_size}"
    )


def _intvar(event: IntvarEvent) -> str:
    names: dict[int, str] = {kind.value: kind.name for kind in IntvarKind}
    return f"Intvar\t{names.get(event.kind, event.kind)}={event.value}"


def _user_var(event: UserVarEvent) -> str:
    return f"User_var\t@{safe(event.name)}"


def _block(name: str) -> Callable[[Any], str]:
    return lambda event: f"{name}: file_id: {event.file_id}  block_len: {len(event.block)}"


def _load(event: load.LoadEvent) -> str:
    return f"Load\t{table_name(event.schema, event.table)} from {string_literal(event.file.decode('utf-8', 'replace'))}"


def _unknown(event: UnknownEvent) -> str:
    kind = "Ignorable event" if event.ignorable else "Event"
    return f"{kind} of unknown type {event.header.type_code}, {len(event.body)} bytes"


def _heartbeat(event: control.HeartbeatEvent) -> str:
    return f"Heartbeat\t{safe(event.log)}"


_TITLES: Final[dict[type, Callable[[Any], str]]] = {
    format_description.FormatDescriptionEvent: _format_description,
    format_description.StartV3Event: lambda e: f"Start: binlog v {e.binlog_version}, server v {safe(e.server_version)}",
    query.QueryEvent: _query,
    control.StopEvent: lambda e: "Stop",
    control.RotateEvent: lambda e: f"Rotate to {safe(e.next_log)}  pos: {4 if e.position is None else e.position}",
    control.XidEvent: lambda e: f"Xid = {e.xid}",
    control.XaPrepareEvent: lambda e: f"XA PREPARE {e.xid_text}{' ONE PHASE' if e.one_phase else ''}",
    control.IncidentEvent: lambda e: f"Incident: {'LOST_EVENTS' if e.incident == 1 else e.incident}",
    control.HeartbeatEvent: _heartbeat,
    control.HeartbeatV2Event: lambda e: "Heartbeat",
    control.IgnorableEvent: lambda e: f"Ignorable event, {len(e.body)} bytes",
    control.RowsQueryEvent: lambda e: "Rows_query",
    control.SlaveEvent: lambda e: f"Slave: {safe(e.host)}:{e.port} {safe(e.log)} {e.position}",
    gtid.GtidEvent: _gtid,
    gtid.GtidTaggedEvent: _gtid,
    gtid.AnonymousGtidEvent: _gtid,
    gtid.PreviousGtidsEvent: lambda e: "Previous-GTIDs",
    mariadb.MariadbGtidEvent: _mariadb_gtid,
    mariadb.MariadbGtidListEvent: lambda e: f"Gtid list [{', '.join(map(str, e.gtids))}]",
    mariadb.AnnotateRowsEvent: lambda e: "Annotate_rows:",
    mariadb.BinlogCheckpointEvent: lambda e: f"Binlog checkpoint {safe(e.file)}",
    mariadb.StartEncryptionEvent: lambda e: f"Encryption scheme: {e.scheme}, key_version: {e.key_version}",
    TableMapEvent: _table_map,
    rows.WriteRowsEvent: _rows("Write_rows"),
    rows.UpdateRowsEvent: _rows("Update_rows"),
    rows.DeleteRowsEvent: _rows("Delete_rows"),
    rows.PartialUpdateRowsEvent: _rows("Update_rows_partial"),
    TransactionPayloadEvent: _payload,
    IntvarEvent: _intvar,
    RandEvent: lambda e: f"Rand\tseed1={e.seed1}\tseed2={e.seed2}",
    UserVarEvent: _user_var,
    load.BeginLoadQueryEvent: _block("Begin_load_query"),
    load.AppendBlockEvent: _block("Append_block"),
    load.CreateFileEvent: _block("Create_file"),
    load.LoadEvent: _load,
    load.ExecLoadEvent: lambda e: f"Exec_load: file_id={e.file_id}",
    load.DeleteFileEvent: lambda e: f"Delete_file: file_id={e.file_id}",
    load.ExecuteLoadQueryEvent: lambda e: (
        f"Execute_load_query\tthread_id={e.thread_id}\texec_time={e.exec_time}\terror_code={e.error_code}"
        f"\tfile_id={e.file_id}"
    ),
    group_replication.TransactionContextEvent: lambda e: (
        f"Transaction_context: thread_id: {e.thread_id} server_uuid={safe(e.server_uuid)}"
        f"\twrite_set={len(e.write_set)} items"
    ),
    group_replication.ViewChangeEvent: lambda e: f"View_change_event: view_id: {safe(e.view_id_text)}",
    UnknownEvent: _unknown,
}


def wire_name(type_code: int) -> str:
    """Return the server's name of an event type, or `UNKNOWN_EVENT_TYPE_n`."""
    try:
        return EventType(type_code).name
    except ValueError:
        return f"UNKNOWN_EVENT_TYPE_{type_code}"
