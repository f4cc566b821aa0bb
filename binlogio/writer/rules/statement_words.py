"""Tokens of a statement: its verb, its functions and system variables, and a form of its text that sqlglot can parse.

Lists the functions and variables that the server treats as unsafe. Tables are found in `statement_text`.

    verb modifier* ...      with modifier := LOW_PRIORITY | DELAYED | HIGH_PRIORITY | QUICK | IGNORE
    name "(" is a call unless it follows a table's name, or `schema.` precedes it, which makes it a stored function
    "@@" (("GLOBAL" | "SESSION" | "LOCAL" | "PERSIST" | "PERSIST_ONLY") ".")? name

sqlglot's MySQL dialect does not know the modifiers, REPLACE, DO, STRAIGHT_JOIN between tables, CREATE ... IGNORE SELECT
and all names of system variables; these are removed from the text, and their meaning is kept here.

Source: sql/sql_yacc.yy; a 9.7.4 server, asked for each of 240 functions and of its session variables whether it gives
warning 1592 (the manual has fewer of both); recordings of it, group h.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from binlogio.errors import UnsupportedFeature
from binlogio.writer.rules.unsafe import UnsafeReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot.tokenizer_core import Token

# A function that is not here may still give something else on a replica; the server does not warn of that
# (CONNECTION_ID, NOW and LAST_INSERT_ID are in the log beside the statement).
UNSAFE_FUNCTIONS: Final = frozenset(
    """AES_DECRYPT AES_ENCRYPT CURRENT_USER FOUND_ROWS GET_LOCK ICU_VERSION IS_FREE_LOCK IS_USED_LOCK LOAD_FILE
    MASTER_POS_WAIT RAND RANDOM_BYTES RELEASE_ALL_LOCKS RELEASE_LOCK ROW_COUNT SESSION_USER SLEEP SOURCE_POS_WAIT
    SYSDATE SYSTEM_USER USER UUID UUID_SHORT VERSION WAIT_FOR_EXECUTED_GTID_SET""".split()
)
_WITHOUT_PARENTHESES: Final = frozenset(("CURRENT_USER",))
# Variables whose session values the server takes to be in the log (IN_BINLOG in sql/sys_vars.cc).
LOGGED_VARIABLES: Final = frozenset(
    """auto_increment_increment auto_increment_offset character_set_client character_set_connection
    character_set_database character_set_server collation_connection collation_database collation_server
    default_collation_for_utf8mb4
    default_table_encryption enable_cascade_triggers foreign_key_checks generated_random_password_length identity
    immediate_server_version last_insert_id lc_time_names original_commit_timestamp original_server_version
    pseudo_thread_id rand_seed1 rand_seed2 sql_auto_is_null sql_require_primary_key time_zone timestamp unique_checks
    xa_detach_on_prepare""".split()
)
_GLOBAL_SCOPES: Final = frozenset(("GLOBAL", "PERSIST", "PERSIST_ONLY"))
_SESSION_SCOPES: Final = frozenset(("SESSION", "LOCAL"))
_MODIFIERS: Final = frozenset(("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE"))
# In front of the name of a table that may be followed by a list of columns.
_BEFORE_TABLE_NAME: Final = frozenset(("INTO", "TABLE", "INSERT", "REPLACE", "IGNORE"))
_VERBS_AFTER_WITH: Final = frozenset(("SELECT", "UPDATE", "DELETE", "TABLE"))
_QUOTED: Final = frozenset(("IDENTIFIER", "STRING", "NATIONAL_STRING", "HEX_STRING", "BIT_STRING", "HINT"))
# sqlglot reads the rest of a statement that begins with REPLACE, CALL and the like as one text, unless a token precedes
# it.
_BEFORE: Final = "+ "
_EXECUTED_COMMENT: Final = re.compile(r"/\*!\d{0,6}(.*?)\*/", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementWords:
    """Words of a statement, and what follows from them.

    Args:
        words: all of them in capital letters; those in quotes are empty.
        texts: all of them as they are, without quotes.
        verb: the first, or the one after the WITH clause.
        is_ignore: rows that cannot be are left out.
        is_replace: rows take the place of others, in REPLACE and in CREATE TABLE ... REPLACE SELECT.
        unsafe: for functions, system variables and locking clauses.
        calls: functions that are called, in capital letters; `SCHEMA.NAME` for those with a schema.
        sql: the text that sqlglot can parse.
    """

    words: tuple[str, ...]
    texts: tuple[str, ...]
    verb: str
    is_ignore: bool = False
    is_replace: bool = False
    unsafe: frozenset[UnsafeReason] = frozenset()
    calls: frozenset[str] = frozenset()
    sql: str = ""

    def has(self, *phrase: str) -> bool:
        """Return whether these words follow each other."""
        return any(self.words[start : start + len(phrase)] == phrase for start in range(len(self.words)))


def read_words(sql: str) -> StatementWords:
    """Return the words of a statement.

    Raises:
        UnsupportedFeature: sqlglot cannot split the text into tokens, or sqlglot is not installed.
    """
    text = _BEFORE + (_EXECUTED_COMMENT.sub(r" \1 ", sql) if "/*!" in sql else sql)
    tokens = _tokenize(text)[1:]
    words = tuple("" if token.token_type.name in _QUOTED else token.text.upper() for token in tokens)
    verb = _verb_index(words)
    found = StatementWords(words=words, texts=tuple(token.text for token in tokens), verb=words[verb] if words else "")
    calls = frozenset(_calls(words))
    unsafe = frozenset(_unsafe(found, calls))
    return _without_modifiers(replace(found, calls=calls, unsafe=unsafe), text, tokens, verb)


def _tokenize(text: str) -> list[Token]:
    try:
        from sqlglot.dialects.mysql import MySQL  # noqa: PLC0415 - needs an extra
        from sqlglot.errors import TokenError  # noqa: PLC0415
    except ImportError as exc:
        raise UnsupportedFeature(
            "sqlglot is required to analyze the text of a statement, and is not installed",
            hint="pip install 'binlogio[replay]', or describe the statement with `facts`",
        ) from exc
    try:
        return MySQL().tokenize(text)
    except TokenError as exc:
        raise UnsupportedFeature(
            "sqlglot cannot split the text into tokens", field="sql", found=repr(text[len(_BEFORE) :][:80])
        ) from exc


def _verb_index(words: Sequence[str]) -> int:
    start = next((index for index, word in enumerate(words) if word != "("), 0)
    if not words or words[start] != "WITH":
        return start if words else 0
    depth = 0
    for index, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in _VERBS_AFTER_WITH:
            return index
    return start


def _calls(words: Sequence[str]) -> Iterator[str]:
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        is_call = index + 1 < len(words) and words[index + 1] == "(" and before not in _BEFORE_TABLE_NAME
        if before == "." and is_call and index > 1:
            yield f"{words[index - 2]}.{word}"
        elif word and before not in (".", "@", "@@") and (is_call or word in _WITHOUT_PARENTHESES):
            yield word


def _unsafe(found: StatementWords, calls: frozenset[str]) -> Iterator[UnsafeReason]:
    if calls & UNSAFE_FUNCTIONS:
        yield UnsafeReason.SYSTEM_FUNCTION
    if any(not _is_logged(found, index) for index, word in enumerate(found.words) if word == "@@"):
        yield UnsafeReason.SYSTEM_VARIABLE
    if found.has("SKIP", "LOCKED"):
        yield UnsafeReason.SKIP_LOCKED
    if found.has("UPDATE", "NOWAIT") or found.has("SHARE", "NOWAIT"):
        yield UnsafeReason.NOWAIT


def _is_logged(found: StatementWords, index: int) -> bool:
    """Return whether the system variable at `index` has the same value on a replica."""
    scope = found.words[index + 1 : index + 2]
    if scope and scope[0] in _GLOBAL_SCOPES:
        return False
    name = index + 3 if scope and scope[0] in _SESSION_SCOPES else index + 1
    return any(text.lower() in LOGGED_VARIABLES for text in found.texts[name : name + 1])


def _without_modifiers(found: StatementWords, text: str, tokens: Sequence[Token], verb: int) -> StatementWords:
    """Return the same with `sql`, and with what the modifiers mean."""
    edits = dict(_edits_of_variables(found.words))
    ignore, is_replace = False, found.verb == "REPLACE"
    if found.verb in ("INSERT", "REPLACE", "UPDATE", "DELETE"):
        index = verb + 1
        while found.words[index : index + 1] and found.words[index] in _MODIFIERS:
            ignore |= found.words[index] == "IGNORE"
            edits[index] = ""
            index += 1
    if found.verb == "CREATE":
        before_select = _before_select(found.words)
        if before_select is not None:
            ignore, is_replace = found.words[before_select] == "IGNORE", found.words[before_select] == "REPLACE"
            edits[before_select] = ""
    if found.verb in ("REPLACE", "DO"):
        edits[verb] = "INSERT" if is_replace else "SELECT"
    for index, word in enumerate(found.words):
        if word == "STRAIGHT_JOIN" and found.words[index - 1] not in ("SELECT", "DISTINCT", "ALL"):
            edits[index] = "JOIN"
    return replace(found, is_ignore=ignore, is_replace=is_replace, sql=_edited(text, tokens, edits))


def _edits_of_variables(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    for index, word in enumerate(words):
        if word == "@@":
            length = 4 if words[index + 2 : index + 3] == (".",) else 2
            yield index, "1"
            yield from ((other, "") for other in range(index + 1, min(index + length, len(words))))


def _before_select(words: Sequence[str]) -> int | None:
    """Return the position of IGNORE or REPLACE before the SELECT of a CREATE TABLE."""
    for index, word in enumerate(words):
        following = words[index + 1 : index + 3]
        if (
            index > 1
            and word in ("IGNORE", "REPLACE")
            and "SELECT" in following
            and following[0] in ("SELECT", "AS", "(")
        ):
            return index
    return None


def _edited(text: str, tokens: Sequence[Token], edits: dict[int, str]) -> str:
    parts, end = [], len(_BEFORE)
    for index in sorted(edits):
        token = tokens[index]
        parts += [text[end : token.start], edits[index]]
        end = token.end + 1
    return "".join((*parts, text[end:]))
