"""What the logs of a server version look like, as far as files and the first events of groups go: a frozen set of choices for each.

Knows versions and facts. Does nothing: the writer asks.

    8.0.20 to 8.0.25   checksums, GTIDs, anonymous GTIDs, commit times, transaction_length and server versions in the GTID event
    9.0 and later      the same, tagged GTIDs, the logical clock always by WRITESET

The sizes are those in files that such servers wrote: 8.0.22, 9.0.1, 9.6.0, 9.7.4. Versions whose format description nobody has shown, and those
whose rows and Query events look otherwise, are refused.
Source: libs/mysql/binlog/event/control_events.cpp, Format_description_event; Gtid_event.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from binlogio.errors import UnsupportedFeature
from binlogio.events.format_description import server_version_numbers

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """The choices of a server version.

    Args:
        name: what the flavour is called.
        post_header_sizes: of the format description, from type 1 on.
        has_checksum: the format description names a checksum algorithm.
        has_gtids: a file begins with PREVIOUS_GTIDS, and groups may have a GTID.
        has_anonymous_gtids: groups without a GTID begin with ANONYMOUS_GTID, which has a logical clock.
        has_commit_times: GTID events say when and by which version, and how long the group is.
        has_tags: GTIDs may have a tag.
        always_writeset: binlog_transaction_dependency_tracking is gone, and WRITESET.
    """

    name: str
    post_header_sizes: tuple[int, ...]
    has_checksum: bool = False
    has_gtids: bool = False
    has_anonymous_gtids: bool = False
    has_commit_times: bool = False
    has_tags: bool = False
    always_writeset: bool = False


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(text))


_8_0: Final = "000d0008000000000400040000006100041a08000000080808020000000a0a0a2a2a001234000a28"
_9_0: Final = "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"

_FLAVOURS: Final[tuple[tuple[Version, Version, Flavour], ...]] = (
    (
        (8, 0, 20),
        (8, 0, 26),
        Flavour(
            name="8.0",
            post_header_sizes=_sizes(_8_0),
            has_checksum=True,
            has_gtids=True,
            has_anonymous_gtids=True,
            has_commit_times=True,
        ),
    ),
    (
        (9, 0, 0),
        (10, 0, 0),
        Flavour(
            name="9.0",
            post_header_sizes=_sizes(_9_0),
            has_checksum=True,
            has_gtids=True,
            has_anonymous_gtids=True,
            has_commit_times=True,
            has_tags=True,
            always_writeset=True,
        ),
    ),
)


@lru_cache(maxsize=64)
def flavour_of(server_version: str) -> Flavour:
    """The choices of a version such as `9.7.4`.

    Raises:
        UnsupportedFeature: nobody has shown what its logs look like.
    """
    numbers = server_version_numbers(server_version)
    if "MariaDB" not in server_version:
        for since, until, flavour in _FLAVOURS:
            if since <= numbers < until:
                return flavour
    known = ", ".join(f"{_text(since)} to before {_text(until)}" for since, until, _ in _FLAVOURS)
    raise UnsupportedFeature(
        "logs of this version cannot be written",
        field="server_version",
        expected=f"MySQL {known}",
        found=server_version,
    )


def _text(version: Version) -> str:
    return ".".join(map(str, version))
