"""Global transaction identifiers: MySQL's source, tag and number; MariaDB's domain, server and number.

Defines their text form and value ranges. Sets are in `binlogio.gtid.sets`, events in `binlogio.events`.

    gtid     := uuid (":" tag)? ":" gno                      -- MySQL, the tag since 8.3: 3e11fa47-...-c80aa942:dba:23
    gtid     := domain_id "-" server_id "-" sequence_number  -- MariaDB: 0-1-100
    position := (gtid ("," gtid)*)?                          -- MariaDB, one gtid for each domain

Source: libs/mysql/gtid/uuid.h, tag.h, tsid.h, gtid.h; MariaDB: sql/rpl_gtid.cc, gtid_parser_helper.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError
from binlogio.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UUID_SIZE: Final = 16
GNO_MIN: Final = 1
GNO_END: Final = (1 << 63) - 1
"""One more than the largest transaction number of MySQL (Gtid_event::GNO_END)."""

NUMBERS_END: Final = 1 << 64
"""One more than the largest number in a GTID of either vendor."""

WHITESPACE: Final = " \t\n\v\f\r"
"""The characters that the server skips between the parts of a GTID in text form."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TAG: Final = re.compile(r"(?:[a-zA-Z_][a-zA-Z0-9_]{0,31})?")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,19}")


def parse_number(text: str, what: str) -> int:
    """Parse a decimal number; `what` is the name of the field for the error.

    The server's strtoll reads 010 as 8 and 0x10 as 16; here these are errors.

    Raises:
        BinlogFormatError: the text has other characters than digits, a leading zero, or more than 20 digits.
    """
    if _NUMBER.fullmatch(text) is None:
        raise BinlogFormatError("not a plain decimal number", field=what, found=excerpt(text))
    return int(text)


def excerpt(text: str) -> str:
    """Return `text` in quotes, cut to 80 characters for an error message."""
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


@dataclass(frozen=True, slots=True, order=True)
class Uuid:
    """The UUID of a server (server_uuid) or of a replication group. UUIDs are ordered by their 16 bytes.

    Raises:
        BinlogFormatError: `data` does not have 16 bytes.
    """

    data: bytes

    def __post_init__(self) -> None:
        if len(self.data) != UUID_SIZE:
            raise BinlogFormatError("wrong length of a UUID", field="uuid", expected=UUID_SIZE, found=len(self.data))

    @classmethod
    def parse(cls, text: str) -> Uuid:
        """Parse a UUID with hyphens, in lower or upper case.

        Raises:
            BinlogFormatError: the text is not a UUID.
        """
        if _UUID.fullmatch(text) is None:
            raise BinlogFormatError("not a UUID", field="uuid", found=excerpt(text))
        return cls(bytes.fromhex(text.replace("-", "")))

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"

    def __str__(self) -> str:
        digits = self.data.hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


NIL_UUID: Final = Uuid(bytes(UUID_SIZE))
"""The UUID of an ANONYMOUS_GTID_LOG_EVENT: 16 zero bytes."""


class Tag(str):
    """The optional tag of a GTID: up to 32 letters, digits and underscores, in lower case.

    The empty string means that the GTID has no tag.

    Raises:
        BinlogFormatError: the text is too long, has other characters, or begins with a digit.
    """

    __slots__ = ()

    def __new__(cls, text: str = "") -> Tag:
        """Return the tag `text` in lower case, as the server stores it."""
        if _TAG.fullmatch(text) is None:
            raise BinlogFormatError(
                "not a tag: up to 32 letters, digits and underscores, not starting with a digit",
                field="tag",
                found=excerpt(text),
            )
        return super().__new__(cls, text.lower())


NO_TAG: Final = Tag()


@dataclass(frozen=True, slots=True, order=True)
class Tsid:
    """A source of transaction numbers: a UUID and a tag (the server's "tagged source identifier")."""

    uuid: Uuid
    tag: Tag = NO_TAG

    def __post_init__(self) -> None:
        if not isinstance(self.tag, Tag):
            object.__setattr__(self, "tag", Tag(self.tag))

    def __str__(self) -> str:
        return f"{self.uuid}:{self.tag}" if self.tag else str(self.uuid)


@dataclass(frozen=True, slots=True, order=True)
class Gtid:
    """The GTID of a MySQL transaction; `gno` is 1 to 2**63 - 2.

    Raises:
        BinlogFormatError: `gno` is out of range.
    """

    uuid: Uuid
    tag: Tag
    gno: int

    def __post_init__(self) -> None:
        if not isinstance(self.tag, Tag):
            object.__setattr__(self, "tag", Tag(self.tag))
        if not GNO_MIN <= self.gno < GNO_END:
            raise BinlogFormatError(
                "transaction number out of range", field="gno", expected="1 to 2**63 - 2", found=self.gno
            )

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """Parse a GTID: `uuid:gno` or `uuid:tag:gno`.

        Raises:
            BinlogFormatError: the text is not a GTID.
        """
        uuid, *middle = (part.strip(WHITESPACE) for part in text.split(":"))
        if len(middle) not in (1, 2):
            raise BinlogFormatError("not a GTID", expected="uuid:number or uuid:tag:number", found=excerpt(text))
        if len(middle) == 2 and not middle[0]:
            raise BinlogFormatError("empty tag", field="tag", found=excerpt(text))
        return cls(Uuid.parse(uuid), Tag(middle[0]) if len(middle) == 2 else NO_TAG, parse_number(middle[-1], "gno"))

    @property
    def tsid(self) -> Tsid:
        """The GTID without its number."""
        return Tsid(self.uuid, self.tag)

    def __str__(self) -> str:
        return f"{self.tsid}:{self.gno}"


@dataclass(frozen=True, slots=True, order=True)
class MariadbGtid:
    """The GTID of a MariaDB event group. `domain_id` and `server_id` have 32 bits, `sequence_number` 64 bits.

    Raises:
        BinlogFormatError: a part is out of range.
    """

    domain_id: int
    server_id: int
    sequence_number: int

    def __post_init__(self) -> None:
        for name, bits in ("domain_id", 32), ("server_id", 32), ("sequence_number", 64):
            if not 0 <= getattr(self, name) < 1 << bits:
                raise BinlogFormatError(
                    "GTID component out of range", field=name, expected=f"{bits} bits", found=getattr(self, name)
                )

    @classmethod
    def parse(cls, text: str) -> MariadbGtid:
        """Parse a GTID: `domain-server-number`.

        Raises:
            BinlogFormatError: the text is not a GTID.
        """
        parts = text.strip(WHITESPACE).split("-")
        if len(parts) != 3:
            raise BinlogFormatError("not a GTID", expected="domain-server-number", found=excerpt(text))
        domain_id, server_id, sequence_number = parts
        return cls(
            parse_number(domain_id, "domain_id"),
            parse_number(server_id, "server_id"),
            parse_number(sequence_number, "sequence_number"),
        )

    def __str__(self) -> str:
        return f"{self.domain_id}-{self.server_id}-{self.sequence_number}"


@dataclass(frozen=True, slots=True)
class MariadbGtidPosition:
    """The GTID position of a MariaDB server: the last GTID of each domain, sorted by domain.

    A position contains all GTIDs of its domains up to these. `of` and `parse` create it.
    """

    gtids: tuple[MariadbGtid, ...] = ()

    @classmethod
    def of(cls, gtids: Iterable[MariadbGtid]) -> MariadbGtidPosition:
        """Return the position after `gtids` in this order: the last GTID of each domain."""
        last = {gtid.domain_id: gtid for gtid in gtids}
        return cls(tuple(last[domain_id] for domain_id in sorted(last)))

    @classmethod
    def parse(cls, text: str) -> MariadbGtidPosition:
        """Parse a position, such as the value of @@gtid_slave_pos; empty text is the empty position.

        Raises:
            BinlogFormatError: a part is not a GTID, or two GTIDs have the same domain.
        """
        if not text.strip(WHITESPACE):
            return cls()
        gtids = [MariadbGtid.parse(part) for part in text.split(",")]
        position = cls.of(gtids)
        if len(position.gtids) != len(gtids):
            raise BinlogFormatError("multiple GTIDs of one domain", found=excerpt(text))
        return position

    def get(self, domain_id: int) -> MariadbGtid | None:
        """Return the last GTID of a domain; None if the position does not contain the domain."""
        return next((gtid for gtid in self.gtids if gtid.domain_id == domain_id), None)

    def add(self, gtid: MariadbGtid) -> MariadbGtidPosition:
        """Return a position in which `gtid` replaces the GTID of its domain."""
        return type(self).of((*self.gtids, gtid))

    def __contains__(self, gtid: MariadbGtid) -> bool:
        """Return whether the sequence number of `gtid` is at most that of the last GTID of its domain."""
        last = self.get(gtid.domain_id)
        return last is not None and gtid.sequence_number <= last.sequence_number

    def run_of(self, gtid: MariadbGtid) -> tuple[int, int]:
        """Return the range [first, end) of sequence numbers around `gtid` that are all in the position, or all not."""
        last = self.get(gtid.domain_id)
        if last is None:
            return 0, NUMBERS_END
        return (0, last.sequence_number + 1) if gtid in self else (last.sequence_number + 1, NUMBERS_END)

    def __iter__(self) -> Iterator[MariadbGtid]:
        return iter(self.gtids)

    def __len__(self) -> int:
        return len(self.gtids)

    def __str__(self) -> str:
        return ",".join(map(str, self.gtids))
