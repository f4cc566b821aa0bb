"""Tokens of a statement: its verb, its functions and system variables, and a form of its text that sqlglot can parse.

Lists the functions and variables that the server treats as unsafe. Tables are found in `statement_text`.

    verb modifier* ...      with modifier := LOW_PRIORITY | DELAYED | HIGH_PRIORITY | QUICK | IGNORE
    name "(" is a call unless it follows a table's name, or `schema.` precedes it, which makes it a stored function
    "@@" (("GLOBAL" | "SESSION" | "LOCAL" | "PERSIST" | "PERSIST_ONLY") ".")? name

sqlglot's MySQL dialect does not support the modifiers, REPLACE, DO, STRAIGHT_JOIN between tables, CREATE ... IGNORE
SELECT and all names of system variables; these are removed from the text, and their meaning is stored here.

Source: sql/sql_yacc.yy; measured on a 9.7.4 server for 240 functions and its session variables: whether they give
warning 1592 (the manual lists fewer of both); recordings of it, group h.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from binlogio.schema.ddl.tokens import Token, iter_tokens
from binlogio.writer.rules.unsafe import UnsafeReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Other functions may also give another value on a replica, but the server does not warn of them (CONNECTION_ID, NOW and
# LAST_INSERT_ID are logged with the statement).
UNSAFE_FUNCTIONS: Final = frozenset(
    """AES_DECRYPT AES_ENCRYPT CURRENT_USER FOUND_ROWS GET_LOCK ICU_VERSION IS_FREE_LOCK IS_USED_LOCK LOAD_FILE
    MASTER_POS_WAIT RAND RANDOM_BYTES RELEASE_ALL_LOCKS RELEASE_LOCK ROW_COUNT SESSION_USER SLEEP SOURCE_POS_WAIT
    SYSDATE SYSTEM_USER USER UUID UUID_SHORT VERSION WAIT_FOR_EXECUTED_GTID_SET""".split()
)
# Native functions; all others are stored or loadable. Measured on a 9.7.4 and an 11.8 server, for each word of their
# programs.
NATIVE_FUNCTIONS: Final = frozenset(
    """ABS ACOS ADDDATE ADDTIME ADD_MONTHS AES_DECRYPT AES_ENCRYPT ANY_VALUE AREA ASBINARY ASCII ASIN ASTEXT ASWKB ASWKT
    ASYNCHRONOUS_CONNECTION_FAILOVER_RESET ATAN ATAN2 AVG BENCHMARK BIN BINLOG_GTID_POS BIN_TO_UUID BIT_AND BIT_COUNT
    BIT_LENGTH BIT_OR BIT_XOR BOUNDARY BUFFER CAST CEIL CEILING CENTROID CHAR CHARACTER_LENGTH CHARSET CHAR_LENGTH CHR
    COALESCE COERCIBILITY COLLATION COLUMN_ADD COLUMN_CHECK COLUMN_CREATE COLUMN_DELETE COLUMN_EXISTS COLUMN_JSON
    COLUMN_LIST COMPRESS CONCAT CONCAT_OPERATOR_ORACLE CONCAT_WS CONNECTION_ID CONTAINS CONV CONVERT CONVERT_TZ
    CONVEXHULL COS COT COUNT CRC32 CRC32C CROSSES CUME_DIST CURDATE CURRENT_DATE CURRENT_ROLE CURRENT_ROLE_IN
    CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURRENT_USER_IN CURTIME DATABASE DATE DATEDIFF DATE_ADD DATE_FORMAT
    DATE_SUB DAY DAYNAME DAYOFMONTH DAYOFWEEK DAYOFYEAR DECODE DECODE_HISTOGRAM DECODE_ORACLE DEGREES DENSE_RANK
    DES_DECRYPT DES_ENCRYPT DIMENSION DISJOINT ELT ENCODE ENCRYPT ENDPOINT ENVELOPE EQUALS ETAG EXP EXPORT_SET
    EXTERIORRING EXTRACT EXTRACTVALUE FIELD FIND_IN_SET FIRST_VALUE FLOOR FORMAT FORMAT_BYTES FORMAT_PICO_TIME
    FOUND_ROWS FROM_BASE64 FROM_DAYS FROM_UNIXTIME FROM_VECTOR GEOMCOLLECTION GEOMCOLLFROMTEXT GEOMCOLLFROMWKB
    GEOMETRYCOLLECTION GEOMETRYCOLLECTIONFROMTEXT GEOMETRYCOLLECTIONFROMWKB GEOMETRYFROMTEXT GEOMETRYFROMWKB GEOMETRYN
    GEOMETRYTYPE GEOMFROMTEXT GEOMFROMWKB GET_FORMAT GET_LOCK GLENGTH GREATEST GROUPING GROUP_CONCAT GTID_SUBSET
    GTID_SUBTRACT HEX HOUR ICU_VERSION IF IFNULL INET6_ATON INET6_NTOA INET_ATON INET_NTOA
    INNODB_REDO_LOG_SHARP_CHECKPOINT INNODB_SET_OPEN_FILES_LIMIT INSTR INTERIORRINGN INTERSECTS INTERVAL ISCLOSED
    ISEMPTY ISNULL ISRING ISSIMPLE IS_FREE_LOCK IS_IPV4 IS_IPV4_COMPAT IS_IPV4_MAPPED IS_IPV6 IS_USED_LOCK IS_UUID
    JSON_ARRAY JSON_ARRAYAGG JSON_ARRAY_APPEND JSON_ARRAY_INSERT JSON_ARRAY_INTERSECT JSON_COMPACT JSON_CONTAINS
    JSON_CONTAINS_PATH JSON_DEPTH JSON_DETAILED JSON_EQUALS JSON_EXISTS JSON_EXTRACT JSON_INSERT JSON_KEYS
    JSON_KEY_VALUE JSON_LENGTH JSON_LOOSE JSON_MERGE JSON_MERGE_PATCH JSON_MERGE_PRESERVE JSON_NORMALIZE JSON_OBJECT
    JSON_OBJECTAGG JSON_OBJECT_FILTER_KEYS JSON_OBJECT_TO_ARRAY JSON_OVERLAPS JSON_PRETTY JSON_QUERY JSON_QUOTE
    JSON_REMOVE JSON_REPLACE JSON_SCHEMA_VALID JSON_SCHEMA_VALIDATION_REPORT JSON_SEARCH JSON_SET JSON_STORAGE_FREE
    JSON_STORAGE_SIZE JSON_TYPE JSON_UNQUOTE JSON_VALID JSON_VALUE KDF LAG LAST_DAY LAST_INSERT_ID LAST_VALUE LCASE LEAD
    LEAST LEFT LENGTH LENGTHB LINEFROMTEXT LINEFROMWKB LINESTRING LINESTRINGFROMTEXT LINESTRINGFROMWKB LN LOAD_FILE
    LOCALTIME LOCALTIMESTAMP LOCATE LOG LOG10 LOG2 LOWER LPAD LPAD_ORACLE LTRIM LTRIM_ORACLE MAKEDATE MAKETIME MAKE_SET
    MASTER_GTID_WAIT MASTER_POS_WAIT MAX MBRCONTAINS MBRCOVEREDBY MBRCOVERS MBRDISJOINT MBREQUAL MBREQUALS MBRINTERSECTS
    MBROVERLAPS MBRTOUCHES MBRWITHIN MD5 MEDIAN MICROSECOND MID MIN MINUTE MLINEFROMTEXT MLINEFROMWKB MOD MONTH
    MONTHNAME MPOINTFROMTEXT MPOINTFROMWKB MPOLYFROMTEXT MPOLYFROMWKB MULTILINESTRING MULTILINESTRINGFROMTEXT
    MULTILINESTRINGFROMWKB MULTIPOINT MULTIPOINTFROMTEXT MULTIPOINTFROMWKB MULTIPOLYGON MULTIPOLYGONFROMTEXT
    MULTIPOLYGONFROMWKB NAME_CONST NATURAL_SORT_KEY NOW NTH_VALUE NTILE NULLIF NUMGEOMETRIES NUMINTERIORRINGS NUMPOINTS
    NVL NVL2 OCT OCTET_LENGTH OLD_PASSWORD ORD OVERLAPS PASSWORD PERCENT_RANK PERIOD_ADD PERIOD_DIFF PI POINT
    POINTFROMTEXT POINTFROMWKB POINTN POINTONSURFACE POLYFROMTEXT POLYFROMWKB POLYGON POLYGONFROMTEXT POLYGONFROMWKB
    POSITION POW POWER PS_CURRENT_THREAD_ID PS_THREAD_ID QUARTER QUOTE RADIANS RAND RANDOM_BYTES RANK REGEXP_INSTR
    REGEXP_LIKE REGEXP_REPLACE REGEXP_SUBSTR RELEASE_ALL_LOCKS RELEASE_LOCK REPEAT REPLACE REPLACE_ORACLE REVERSE RIGHT
    ROLES_GRAPHML ROUND ROW ROWNUM ROW_COUNT ROW_NUMBER RPAD RPAD_ORACLE RTRIM RTRIM_ORACLE SCHEMA SECOND SEC_TO_TIME
    SESSION_USER SETVAL SFORMAT SHA SHA1 SHA2 SIGN SIN SLEEP SOUNDEX SOURCE_POS_WAIT SPACE SQRT SRID STARTPOINT
    STATEMENT_DIGEST STATEMENT_DIGEST_TEXT STD STDDEV STDDEV_POP STDDEV_SAMP STRCMP STRING_TO_VECTOR STR_TO_DATE ST_AREA
    ST_ASBINARY ST_ASGEOJSON ST_ASTEXT ST_ASWKB ST_ASWKT ST_BOUNDARY ST_BUFFER ST_BUFFER_STRATEGY ST_CENTROID ST_COLLECT
    ST_CONTAINS ST_CONVEXHULL ST_CROSSES ST_DIFFERENCE ST_DIMENSION ST_DISJOINT ST_DISTANCE ST_DISTANCE_SPHERE
    ST_ENDPOINT ST_ENVELOPE ST_EQUALS ST_EXTERIORRING ST_FRECHETDISTANCE ST_GEOHASH ST_GEOMCOLLFROMTEXT
    ST_GEOMCOLLFROMTXT ST_GEOMCOLLFROMWKB ST_GEOMETRYCOLLECTIONFROMTEXT ST_GEOMETRYCOLLECTIONFROMWKB ST_GEOMETRYFROMTEXT
    ST_GEOMETRYFROMWKB ST_GEOMETRYN ST_GEOMETRYTYPE ST_GEOMFROMGEOJSON ST_GEOMFROMTEXT ST_GEOMFROMWKB
    ST_HAUSDORFFDISTANCE ST_INTERIORRINGN ST_INTERSECTION ST_INTERSECTS ST_ISCLOSED ST_ISEMPTY ST_ISRING ST_ISSIMPLE
    ST_ISVALID ST_LATFROMGEOHASH ST_LATITUDE ST_LENGTH ST_LINEFROMTEXT ST_LINEFROMWKB ST_LINEINTERPOLATEPOINT
    ST_LINEINTERPOLATEPOINTS ST_LINESTRINGFROMTEXT ST_LINESTRINGFROMWKB ST_LONGFROMGEOHASH ST_LONGITUDE ST_MAKEENVELOPE
    ST_MLINEFROMTEXT ST_MLINEFROMWKB ST_MPOINTFROMTEXT ST_MPOINTFROMWKB ST_MPOLYFROMTEXT ST_MPOLYFROMWKB
    ST_MULTILINESTRINGFROMTEXT ST_MULTILINESTRINGFROMWKB ST_MULTIPOINTFROMTEXT ST_MULTIPOINTFROMWKB
    ST_MULTIPOLYGONFROMTEXT ST_MULTIPOLYGONFROMWKB ST_NUMGEOMETRIES ST_NUMINTERIORRING ST_NUMINTERIORRINGS ST_NUMPOINTS
    ST_OVERLAPS ST_POINTATDISTANCE ST_POINTFROMGEOHASH ST_POINTFROMTEXT ST_POINTFROMWKB ST_POINTN ST_POINTONSURFACE
    ST_POLYFROMTEXT ST_POLYFROMWKB ST_POLYGONFROMTEXT ST_POLYGONFROMWKB ST_RELATE ST_SIMPLIFY ST_SRID ST_STARTPOINT
    ST_SWAPXY ST_SYMDIFFERENCE ST_TOUCHES ST_TRANSFORM ST_UNION ST_VALIDATE ST_WITHIN ST_X ST_Y SUBDATE SUBSTR SUBSTRING
    SUBSTRING_INDEX SUBSTR_ORACLE SUBTIME SUM SYSDATE SYSTEM_USER SYS_GUID TAN TIME TIMEDIFF TIMESTAMP TIMESTAMPADD
    TIMESTAMPDIFF TIME_FORMAT TIME_TO_SEC TOUCHES TO_BASE64 TO_CHAR TO_DAYS TO_SECONDS TO_VECTOR TRIM TRUNCATE UCASE
    UNCOMPRESS UNCOMPRESSED_LENGTH UNHEX UNIX_TIMESTAMP UPDATEXML UPPER USER UTC_DATE UTC_TIME UTC_TIMESTAMP UUID
    UUID_SHORT UUID_TO_BIN UUID_V4 UUID_V7 VALIDATE_PASSWORD_STRENGTH VARIANCE VAR_POP VAR_SAMP VECTOR_DIM
    VECTOR_TO_STRING VEC_DISTANCE VEC_DISTANCE_COSINE VEC_DISTANCE_EUCLIDEAN VEC_FROMTEXT VEC_TOTEXT VERSION
    VERSION_WITH_UPDATE WAIT_FOR_EXECUTED_GTID_SET WEEK WEEKDAY WEEKOFYEAR WEIGHT_STRING WITHIN WSREP_LAST_SEEN_GTID
    WSREP_LAST_WRITTEN_GTID WSREP_SYNC_WAIT_UPTO_GTID X Y YEAR YEARWEEK""".split()
)
_WITHOUT_PARENTHESES: Final = frozenset(("CURRENT_USER",))
# Variables whose session values are in the log, according to the server (IN_BINLOG in sql/sys_vars.cc).
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
# Words in front of a table name that may be followed by a list of columns.
_BEFORE_TABLE_NAME: Final = frozenset(("INTO", "TABLE", "INSERT", "REPLACE", "IGNORE"))
_VERBS_AFTER_WITH: Final = frozenset(("SELECT", "UPDATE", "DELETE", "TABLE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementWords:
    """Words of a statement, and what follows from them.

    Args:
        words: all words in capital letters; quoted ones are empty.
        texts: all words unchanged, without quotes.
        tokens: all words, with their places in the text.
        verb: the first word, or the one after the WITH clause.
        is_ignore: it has IGNORE, so that invalid rows are skipped.
        names_tables: a DELETE that names its tables before FROM or after USING, as one of several tables does.
        is_replace: rows replace others, in REPLACE and in CREATE TABLE ... REPLACE SELECT.
        unsafe: unsafe reasons for DELAYED, functions, system variables and locking clauses.
        calls: functions that are called, in capital letters; `SCHEMA.NAME` for those with a schema.
        sql: the text that sqlglot can parse.
    """

    words: tuple[str, ...]
    texts: tuple[str, ...]
    tokens: tuple[Token, ...]
    verb: str
    is_ignore: bool = False
    names_tables: bool = False
    is_replace: bool = False
    unsafe: frozenset[UnsafeReason] = frozenset()
    calls: frozenset[str] = frozenset()
    sql: str = ""

    def has(self, *phrase: str) -> bool:
        """Return whether these words occur consecutively."""
        return any(self.words[start : start + len(phrase)] == phrase for start in range(len(self.words)))


def read_words(sql: str) -> StatementWords:
    """Return the words of a statement.

    Raises:
        UnsupportedFeature: a quote or a comment does not end.
    """
    tokens: list[Token] = []
    for token in iter_tokens(sql):
        if token.upper == "@" and tokens and tokens[-1].upper == "@" and tokens[-1].end == token.start:
            tokens[-1] = Token("symbol", "@@", "@@", tokens[-1].start, token.end)
        else:
            tokens.append(token)
    words = tuple(token.upper for token in tokens)
    verb = _verb_index(words)
    texts = tuple(token.text for token in tokens)
    found = StatementWords(words=words, texts=texts, tokens=tuple(tokens), verb=words[verb] if words else "")
    calls = calls_of(words)
    unsafe = frozenset(_unsafe(found, calls))
    return _without_modifiers(replace(found, calls=calls, unsafe=unsafe), sql, verb)


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


def calls_of(words: Sequence[str]) -> frozenset[str]:
    """Return the functions called in some words, in capital letters; `SCHEMA.NAME` for those with a schema."""
    return frozenset(_calls(words))


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


def _without_modifiers(found: StatementWords, text: str, verb: int) -> StatementWords:
    """Return the words with `sql`, and with the meaning of the modifiers."""
    edits = dict(_edits_of_variables(found.words))
    ignore, is_delayed, is_replace = False, False, found.verb == "REPLACE"
    names_tables = False
    if found.verb in ("INSERT", "REPLACE", "UPDATE", "DELETE"):
        index = verb + 1
        while found.words[index : index + 1] and found.words[index] in _MODIFIERS:
            ignore |= found.words[index] == "IGNORE"
            is_delayed |= found.words[index] == "DELAYED"
            edits[index] = ""
            index += 1
        names_tables = found.verb == "DELETE" and (
            found.words[index : index + 1] != ("FROM",) or _has_using(found.words)
        )
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
    unsafe = found.unsafe | {UnsafeReason.INSERT_DELAYED} if is_delayed else found.unsafe
    return replace(
        found,
        is_ignore=ignore,
        names_tables=names_tables,
        is_replace=is_replace,
        unsafe=unsafe,
        sql=_edited(text, found.tokens, edits),
    )


def _has_using(words: Sequence[str]) -> bool:
    """Return whether USING occurs outside of parentheses, and so not in a subquery."""
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == "USING" and not depth:
            return True
    return False


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
    """Return a text without comments, in which some words are replaced."""
    parts, end = [], 0
    for index, token in enumerate(tokens):
        parts += [" " * (token.start > end), edits.get(index, text[token.start : token.end])]
        end = token.end
    return "".join(parts)
