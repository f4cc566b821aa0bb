"""Names of tables in texts. As one text: `schema.table`; a part that contains a dot or a backtick is in backticks.

name := part "." part           part := text | "`" text with "``" for a backtick "`"
"""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = re.compile(r"`((?:[^`]|``)*)`\.(.*)", re.DOTALL)
_WORD: Final = re.compile(r"[\w$]+")


def dotted_name(schema: str, table: str) -> str:
    """Return the name of a table, which is different for every table."""
    return f"{_part(schema)}.{_part(table)}"


def split_name(name: str) -> tuple[str, str]:
    """Return schema and table; without backticks the first dot separates them. The table is empty without a dot."""
    quoted = _QUOTED.fullmatch(name)
    schema, table = (quoted[1].replace("``", "`"), quoted[2]) if quoted else name.partition(".")[::2]
    if len(table) > 1 and table[0] == table[-1] == "`":
        table = table[1:-1].replace("``", "`")
    return schema, table


def canonical_name(name: str) -> str:
    """Return the name of a table, with or without backticks, as `dotted_name` does; a name without a dot is kept."""
    schema, table = split_name(name)
    return dotted_name(schema, table) if table else name


def possible_names(sql: str) -> set[str]:
    """Return all words of a statement, and all texts between its quotes: the names in it are among them."""
    found = set(_WORD.findall(sql))
    for quote in ("`", '"'):
        found.update(part.replace("\0", quote) for part in sql.replace(2 * quote, "\0").split(quote))
    return found


def _part(text: str) -> str:
    needs_quotes = "." in text or "`" in text
    return "`" + text.replace("`", "``") + "`" if needs_quotes else text
