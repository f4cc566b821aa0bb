"""What a statement uses beside its tables, and its events therefore say.

Knows functions by name. What makes a statement unsafe is known by `statement_words`.

Source: sql/item_timefunc.cc, where time_zone_used is set; THD::query_start_timeval_trunc; recordings of a 9.7.4 server.
"""

from __future__ import annotations

from enum import Flag
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from binlogio.writer.rules.known_objects import DICTIONARY_VIEWS

if TYPE_CHECKING:
    from binlogio.writer.rules.statement_words import StatementWords

_LOCAL_TIMES: Final = frozenset(("CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME"))
_TIME_ZONE: Final = _LOCAL_TIMES | frozenset("NOW SYSDATE CURDATE CURTIME FROM_UNIXTIME UNIX_TIMESTAMP".split())
_FRACTIONS: Final = frozenset(
    "NOW CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP CURRENT_TIME CURTIME UTC_TIMESTAMP UTC_TIME".split()
)


class Uses(Flag):
    """What a statement uses.

    TIME_ZONE and the MICROSECONDS of its start: NOW(), NOW(6) and the like. THREAD_ID: CONNECTION_ID(). ANY_SCHEMA: views of the data
    dictionary in INFORMATION_SCHEMA, whose tables have foreign keys, so that a replica applies it alone.
    """

    NOTHING = 0
    TIME_ZONE = 1
    MICROSECONDS = 2
    THREAD_ID = 4
    ANY_SCHEMA = 8


def uses_of(words: StatementWords) -> Uses:
    """What the text of a statement tells of this."""
    found = Uses.NOTHING
    names = words.calls | (_LOCAL_TIMES & set(words.words))
    if names & _TIME_ZONE:
        found |= Uses.TIME_ZONE
    if any(words.has(name, "(", digit) for name in names & _FRACTIONS for digit in "123456"):
        found |= Uses.MICROSECONDS
    if "CONNECTION_ID" in names:
        found |= Uses.THREAD_ID
    texts = [text.upper() for text in words.texts]
    if ("INFORMATION_SCHEMA", ".") in pairwise(texts):
        found |= Uses.TIME_ZONE
        if any(texts[i] == "INFORMATION_SCHEMA" and name in DICTIONARY_VIEWS for i, name in enumerate(texts[2:])):
            found |= Uses.ANY_SCHEMA
    return found
