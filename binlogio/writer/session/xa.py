"""XA transactions by name: what XA commands say, and what a session keeps of them.

Knows the name as the log writes it. What the commands leave in the log is `xa_commands`' business.

    xid := X'gtrid',X'bqual',format_id
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class XaXid:
    """The name of an XA transaction: `gtrid`, `bqual`, and the number of their format."""

    gtrid: bytes
    bqual: bytes = b""
    format_id: int = 1

    @property
    def text(self) -> bytes:
        """As the log writes it: X'67',X'62',1."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}".encode()


@dataclass(slots=True)
class XaTransaction:
    """The XA transaction of a session. `is_idle` behind XA END."""

    xid: XaXid
    is_idle: bool = False
