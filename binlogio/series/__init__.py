"""Which logs are these, and are they all there: identity of logs, progress of consumers, and missing logs.

    log_head      the first events of a log
    identity      what makes two files the same log; the fingerprint of the bytes before an offset
    progress      how far a consumer has read a log, as it is stored and compared
    positions     what positions and GTIDs of a selection mean in given logs
    start_log     the log in which a replica continues after a GTID set or position
    continuity    gaps between the given logs, and between them and what a consumer has
    gtid_history  the GTIDs of an archive, compared with those that the heads of later logs list
    growing_log   follows a log that grows, over rotation, purge and RESET

No other package compares two logs, or decides whether a log is missing. The package reads heads and ends of logs, never
whole logs, except compressed and encrypted ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.series.continuity import check_numbers, check_series
    from binlogio.series.identity import LogIdentity, log_identity
    from binlogio.series.log_head import LogHead, known_heads, of_each
    from binlogio.series.progress import LogMatch, LogProgress, recognizer

__all__ = [
    "LogHead",
    "LogIdentity",
    "LogMatch",
    "LogProgress",
    "check_numbers",
    "check_series",
    "known_heads",
    "log_identity",
    "of_each",
    "recognizer",
]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "continuity": "check_numbers check_series",
            "identity": "LogIdentity log_identity",
            "log_head": "LogHead known_heads of_each",
            "progress": "LogMatch LogProgress recognizer",
        },
    )
