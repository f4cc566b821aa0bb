"""MariaDB's GTID event in front of a group, in the place of BEGIN and XA START.

Knows which of its flags a group has. Where it stands, and which GTID it is, is given.

    standalone     a group without an end of its own: DDL, XA COMMIT, XA ROLLBACK
    ddl            tables are made or dropped; such a group is not called transactional
    transactional  ROLLBACK would undo all of it
    thread id      of the connection, since 11.5
    multi-engine   255 where no engine has anything to commit, or the group is prepared

Source: MariaDB sql/log_event_server.cc, Gtid_log_event::Gtid_log_event; fixtures mariadb1011/gtid; recordings of 10.11.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.constants import HEADER_SIZE, TIMESTAMP_BYTES, HeaderFlag
from binlogio.events.base import EventHeader
from binlogio.events.gtid import MariadbGtidEvent
from binlogio.events.gtid_mariadb import MariadbGtidExtraFlag, MariadbGtidFlag
from binlogio.writer.log.group import Group, GroupEnd, InDomain

if TYPE_CHECKING:
    from binlogio.format.encoder import Encoder
    from binlogio.gtid import MariadbGtid

ONE_PHASE: Final = 255  # of extra_engines: nothing was prepared, or nobody knows yet what will be
MAX_TEMPLATES: Final = 256
_STANDALONE: Final = int(MariadbGtidFlag.STANDALONE)  # operations of flags are slow
_TRANSACTIONAL: Final = int(MariadbGtidFlag.TRANSACTIONAL)
_ALLOW_PARALLEL: Final = int(MariadbGtidFlag.ALLOW_PARALLEL)
_DDL: Final = int(MariadbGtidFlag.DDL)
_PREPARED_XA: Final = int(MariadbGtidFlag.PREPARED_XA)
_COMPLETED_XA: Final = int(MariadbGtidFlag.COMPLETED_XA)
_NUMBER: Final = slice(HEADER_SIZE, HEADER_SIZE + 8)


class DomainGtids:
    """Makes the GTID frames of a log; remembers those that differ in time and number alone."""

    def __init__(self, encoder: Encoder, *, has_thread_ids: bool) -> None:
        self._encoder = encoder
        self._has_thread_ids = has_thread_ids
        self._templates: dict[tuple[int, int, int, int | None], bytes] = {}

    def frame(self, group: Group, gtid: MariadbGtid, commit_id: int | None) -> bytes:
        """The event of a group; `commit_id` is that of the groups that were committed with it, None where there are none."""
        flags = _flags(group)
        marks = group.marks
        if commit_id is not None or marks.xa is not None or marks.alter is not None or marks.has_no_engine:
            return self._encoded(group, gtid, flags, commit_id)
        key = gtid.domain_id, gtid.server_id, flags, self._thread_id(group)
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = self._encoded(group, gtid, flags, None)
        number = gtid.sequence_number.to_bytes(8, "little")
        timestamp = group.timestamp.to_bytes(4, "little")
        return timestamp + template[TIMESTAMP_BYTES.stop : _NUMBER.start] + number + template[_NUMBER.stop :]

    def _encoded(self, group: Group, gtid: MariadbGtid, flags: int, commit_id: int | None) -> bytes:
        has_no_engine, alter = group.marks.has_no_engine or group.is_xa, group.marks.alter
        flags_extra = int(MariadbGtidExtraFlag.MULTI_ENGINE) if has_no_engine else 0
        thread_id = self._thread_id(group)
        if thread_id is not None:
            flags_extra |= MariadbGtidExtraFlag.THREAD_ID
        event = MariadbGtidEvent(
            sequence_number=gtid.sequence_number,
            domain_id=gtid.domain_id,
            flags=flags | (0 if commit_id is None else MariadbGtidFlag.GROUP_COMMIT_ID),
            commit_id=commit_id,
            xid=group.marks.xa,
            flags_extra=flags_extra | (alter.flags if alter is not None else 0),
            extra_engines=ONE_PHASE if has_no_engine else None,
            sa_seq_no=alter.start_alter_sequence if alter is not None else None,
            thread_id=thread_id,
            header=EventHeader(timestamp=group.timestamp, server_id=gtid.server_id, flags=int(HeaderFlag.SUPPRESS_USE)),
        )
        return self._encoder.encode(event)

    def _thread_id(self, group: Group) -> int | None:
        return group.thread_id if self._has_thread_ids else None


def _flags(group: Group) -> int:
    wanted = group.assigned_gtid
    flags = 0 if isinstance(wanted, InDomain) and not wanted.allow_parallel else _ALLOW_PARALLEL
    if group.end is GroupEnd.STATEMENT:
        flags |= _STANDALONE
    if group.marks.is_ddl:
        flags |= _DDL
    elif group.marks.is_transactional:
        flags |= _TRANSACTIONAL
    if group.marks.xa is not None:
        flags |= _PREPARED_XA if group.is_xa else _COMPLETED_XA
    return flags
