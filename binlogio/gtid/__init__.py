"""Global transaction identifiers (GTIDs) of MySQL and MariaDB, and sets of GTIDs.

All public names can be imported from here: `Gtid` and `GtidSet` of MySQL, `MariadbGtid`, `MariadbGtidPosition`,
`MariadbGtidSet` and `MariadbDomains` of MariaDB, and their parts. `identifiers` defines single GTIDs and their text
form, `sets` the set operations, `layout` the binary form. GTID events are in `binlogio.events`.
"""

from __future__ import annotations

from binlogio.gtid.identifiers import (
    GNO_END,
    GNO_MIN,
    NIL_UUID,
    NO_TAG,
    Gtid,
    MariadbGtid,
    MariadbGtidPosition,
    Tag,
    Tsid,
    Uuid,
)
from binlogio.gtid.layout import GtidSetEncoding, build_gtid_set, parse_gtid_set
from binlogio.gtid.sets import EMPTY_GTID_SET, GtidSet, Interval, MariadbDomains, MariadbGtidSet

__all__ = [
    "EMPTY_GTID_SET",
    "GNO_END",
    "GNO_MIN",
    "NIL_UUID",
    "NO_TAG",
    "Gtid",
    "GtidSet",
    "GtidSetEncoding",
    "Interval",
    "MariadbDomains",
    "MariadbGtid",
    "MariadbGtidPosition",
    "MariadbGtidSet",
    "Tag",
    "Tsid",
    "Uuid",
    "build_gtid_set",
    "parse_gtid_set",
]
