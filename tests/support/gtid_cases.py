"""GTID events of both vendors and their bodies, in the layout of each server version: `CASES`, for parser and builder.

Servers wrote the bodies (fixtures mysql97/gtid_on, mysql97/gtid_off, mariadb1011/gtid, mariadb1011/group_commit; a
MariaDB 11.8.6 server). The bodies of older servers are these without the fields that later versions added.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from binlogio.constants import EventType
from binlogio.events import EVENT_CODECS
from binlogio.events.base import EventCodec
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidFlag, GtidTaggedEvent, PreviousGtidsEvent
from binlogio.events.mariadb import (
    MariadbGtidEvent,
    MariadbGtidExtraFlag,
    MariadbGtidFlag,
    MariadbGtidListEvent,
    MariadbGtidListFlag,
    MariadbXid,
)
from binlogio.gtid import GtidSet, GtidSetEncoding, MariadbGtid, Tag, Tsid, Uuid

GTID_CODECS: tuple[EventCodec[Any], ...] = tuple(
    EVENT_CODECS[code]
    for code in (
        EventType.GTID_LOG_EVENT,
        EventType.ANONYMOUS_GTID_LOG_EVENT,
        EventType.PREVIOUS_GTIDS_LOG_EVENT,
        EventType.GTID_TAGGED_LOG_EVENT,
        EventType.MARIADB_GTID_EVENT,
        EventType.MARIADB_GTID_LIST_EVENT,
    )
)
GTID, ANONYMOUS, PREVIOUS, TAGGED, MARIADB, MARIADB_LIST = GTID_CODECS
BY_CLASS: dict[type, EventCodec[Any]] = {codec.event_class: codec for codec in GTID_CODECS}

A = Uuid.parse("11111111-2222-3333-4444-555555555555")
B = Uuid.parse("2f658ac8-e51b-11f1-a314-02fc00000001")
STANDALONE, GROUP, TRANS, PARALLEL = (
    MariadbGtidFlag.STANDALONE,
    MariadbGtidFlag.GROUP_COMMIT_ID,
    MariadbGtidFlag.TRANSACTIONAL,
    MariadbGtidFlag.ALLOW_PARALLEL,
)
DDL, PREPARED, COMPLETED = MariadbGtidFlag.DDL, MariadbGtidFlag.PREPARED_XA, MariadbGtidFlag.COMPLETED_XA

TODAY = GtidEvent(
    uuid=B,
    gno=9,
    last_committed=10,
    sequence_number=16,
    immediate_commit_timestamp=1795204781646484,
    original_commit_timestamp=1600000000123456,
    transaction_length=317,
    immediate_server_version=90704,
    original_server_version=80034,
)
TODAY_BODY = (
    "002f658ac8e51b11f1a31402fc000000010900000000000000020a00000000000000100000000000000094224fafba608640"
    "e2a50731af05fc3d0150620180a2380100"
)
NOTHING_ELSE: dict[str, None] = dict.fromkeys(
    (
        "last_committed",
        "sequence_number",
        "immediate_commit_timestamp",
        "original_commit_timestamp",
        "transaction_length",
        "immediate_server_version",
        "original_server_version",
    )
)
TAGGED_EVENT = GtidTaggedEvent(
    uuid=B,
    tag=Tag("tag"),
    gno=1,
    last_committed=7,
    sequence_number=8,
    immediate_commit_timestamp=1795204781599072,
    transaction_length=293,
    immediate_server_version=90704,
)
TAGGED_BODY = (
    "026e000000025eca2902210395033622c5038d022804f1030000000204040606746167081c0a200c7f60694eafba60061095041283120b"
)

CASES: list[tuple[str, Any, str]] = [
    ("9.7, from an older source", TODAY, TODAY_BODY),
    (
        "9.7, statement",
        GtidEvent(
            flags=GtidFlag.MAY_HAVE_SBR,
            uuid=B,
            gno=1,
            last_committed=0,
            sequence_number=1,
            immediate_commit_timestamp=1795204781533426,
            transaction_length=191,
            immediate_server_version=90704,
        ),
        "012f658ac8e51b11f1a31402fc0000000101000000000000000200000000000000000100000000000000f2684dafba6006bf50620100",
    ),
    ("8.3, group replication", replace(TODAY, commit_group_ticket=2**64 - 1), TODAY_BODY + "f" * 16),
    (
        "a later server",
        replace(TODAY, commit_group_ticket=3, trailing=b"new"),
        TODAY_BODY + "0300000000000000" + "6e6577",
    ),
    (
        "8.0.2",
        replace(TODAY, immediate_server_version=None, original_server_version=None),
        TODAY_BODY[: -2 * 8],
    ),
    (
        "8.0.1",
        replace(TODAY, transaction_length=None, immediate_server_version=None, original_server_version=None),
        TODAY_BODY[: -2 * 11],
    ),
    (
        "5.7",
        GtidEvent(uuid=B, gno=9, last_committed=10, sequence_number=16),
        TODAY_BODY[: 2 * 42],
    ),
    (
        "5.7.2, another logical clock",
        GtidEvent(uuid=B, gno=9, trailing=b"\x01\x0a\0\0\0\0\0\0\0"),
        TODAY_BODY[: 2 * 25] + "010a00000000000000",
    ),
    ("5.6", replace(TODAY, **NOTHING_ELSE), TODAY_BODY[: 2 * 25]),  # type: ignore[arg-type]
    (
        "anonymous",
        AnonymousGtidEvent(
            flags=GtidFlag.MAY_HAVE_SBR,
            last_committed=0,
            sequence_number=1,
            immediate_commit_timestamp=1795204781533426,
            transaction_length=191,
            immediate_server_version=90704,
        ),
        "01" + 24 * "00" + "0200000000000000000100000000000000f2684dafba6006bf50620100",
    ),
    (
        "anonymous, 5.7",
        AnonymousGtidEvent(last_committed=0, sequence_number=1),
        25 * "00" + "02" + 8 * "00" + "01" + 7 * "00",
    ),
    ("tagged", TAGGED_EVENT, TAGGED_BODY),
    (
        "tagged, the largest number",
        GtidTaggedEvent(
            uuid=A,
            tag=Tag("mytag"),
            gno=2**63 - 2,
            last_committed=10,
            sequence_number=14,
            immediate_commit_timestamp=1795204781640293,
            transaction_length=317,
            immediate_server_version=90704,
        ),
        (
            "02760000000222222222444466668888aaaaaaaaaaaa04fffcffffffffffffff060a6d7974616708280a380c7f650a4fafba"
            "600610f5041283120b"
        ),
    ),
    ("no tags yet", PreviousGtidsEvent(), 8 * "00"),
    ("no GTIDs, tags met", PreviousGtidsEvent(encoding=GtidSetEncoding.TAGGED), "0100000000000001"),
    (
        "previous",
        PreviousGtidsEvent(GtidSet.parse(f"{A}:10:12"), GtidSetEncoding.UNTAGGED),
        "0100000000000000"
        + A.data.hex()
        + "02000000000000000a000000000000000b000000000000000c000000000000000d00000000000000",
    ),
    (
        "previous, not sorted",
        PreviousGtidsEvent(GtidSet.parse(f"{A}:1,{B}:1"), GtidSetEncoding.UNTAGGED, (Tsid(B), Tsid(A))),
        "0200000000000000"
        + "".join(
            uuid.data.hex() + "01" + "0000000000000001" * 1 + "00000000000000" + "02" + 7 * "00" for uuid in (B, A)
        ),
    ),
    (
        "MariaDB, DDL",
        MariadbGtidEvent(sequence_number=1, domain_id=0, flags=STANDALONE | PARALLEL | DDL),
        "01000000000000000000000029000000000000",
    ),
    (
        "MariaDB, large numbers",
        MariadbGtidEvent(sequence_number=2**64 - 616, domain_id=2**32 - 1, flags=TRANS | PARALLEL),
        "98fdffffffffffffffffffff0c000000000000",
    ),
    (
        "MariaDB, group commit",
        MariadbGtidEvent(sequence_number=5, domain_id=0, flags=GROUP | TRANS | PARALLEL, commit_id=77),
        "0500000000000000000000000e4d00000000000000",
    ),
    (
        "MariaDB, XA PREPARE",
        MariadbGtidEvent(
            sequence_number=9,
            domain_id=0,
            flags=TRANS | PARALLEL | PREPARED,
            xid=MariadbXid(5, b"x1", b"b"),
            flags_extra=MariadbGtidExtraFlag.MULTI_ENGINE,
            extra_engines=255,
        ),
        "0900000000000000000000004c05000000020178316201ff",
    ),
    (
        "MariaDB, XA COMMIT",
        MariadbGtidEvent(
            sequence_number=10,
            domain_id=0,
            flags=STANDALONE | TRANS | PARALLEL | COMPLETED,
            xid=MariadbXid(5, b"x1", b"b"),
        ),
        "0a00000000000000000000008d050000000201783162",
    ),
    (
        "MariaDB, START ALTER",
        MariadbGtidEvent(
            sequence_number=13,
            domain_id=0,
            flags=STANDALONE | PARALLEL | DDL,
            flags_extra=MariadbGtidExtraFlag.START_ALTER,
        ),
        "0d000000000000000000000029020000000000",
    ),
    (
        "MariaDB, COMMIT ALTER",
        MariadbGtidEvent(
            sequence_number=14,
            domain_id=0,
            flags=STANDALONE | PARALLEL | DDL,
            flags_extra=MariadbGtidExtraFlag.COMMIT_ALTER,
            sa_seq_no=13,
        ),
        "0e000000000000000000000029040d00000000000000",
    ),
    (
        "MariaDB 11.8, DDL",
        MariadbGtidEvent(
            sequence_number=1,
            domain_id=0,
            flags=STANDALONE | PARALLEL | DDL,
            flags_extra=MariadbGtidExtraFlag.THREAD_ID,
            thread_id=6,
        ),
        "01000000000000000000000029100600000000",
    ),
    (
        "MariaDB 11.8, XA PREPARE",
        MariadbGtidEvent(
            sequence_number=4,
            domain_id=0,
            flags=TRANS | PARALLEL | PREPARED,
            xid=MariadbXid(5, b"x1", b"b"),
            flags_extra=MariadbGtidExtraFlag.MULTI_ENGINE | MariadbGtidExtraFlag.THREAD_ID,
            extra_engines=255,
            thread_id=6,
        ),
        "0400000000000000000000004c05000000020178316211ff06000000",
    ),
    (
        "MariaDB 11.8, XA COMMIT",
        MariadbGtidEvent(
            sequence_number=5,
            domain_id=0,
            flags=STANDALONE | TRANS | PARALLEL | COMPLETED,
            xid=MariadbXid(5, b"x1", b"b"),
            flags_extra=MariadbGtidExtraFlag.THREAD_ID,
            thread_id=6,
        ),
        "0500000000000000000000008d0500000002017831621006000000",
    ),
    (
        "MariaDB, padded further",
        MariadbGtidEvent(sequence_number=2, domain_id=0, flags=TRANS, trailing=bytes(12)),
        "02000000000000000000000004" + 12 * "00",
    ),
    ("MariaDB, empty list", MariadbGtidListEvent(), "000000000000"),
    (
        "MariaDB, list",
        MariadbGtidListEvent((MariadbGtid(0, 1, 15), MariadbGtid(2**32 - 1, 99, 2**64 - 616), MariadbGtid(7, 1, 1))),
        "0300000000000000010000000f00000000000000ffffffff6300000098fdffffffffffff07000000010000000100000000000000",
    ),
    (
        "MariaDB, list with flags",
        MariadbGtidListEvent((MariadbGtid(0, 1, 15),), flags=MariadbGtidListFlag.IGN_GTIDS),
        "0100002000000000010000000f00000000000000",
    ),
]
