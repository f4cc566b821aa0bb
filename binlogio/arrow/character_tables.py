"""The kernel's tables of multi-byte character sets, built once for each set.

The characters themselves come from `binlogio.values.charsets`.
"""

from __future__ import annotations

from functools import cache

from binlogio._kernel.primitives import Characters
from binlogio.values.charsets import charset_named


@cache
def characters_of(charset: str) -> Characters:
    """Return the table of a character set, by the server's name for it."""
    found = charset_named(charset)
    return Characters(charset, found.decode, found.encode)
