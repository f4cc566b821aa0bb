"""Why a statement may do something else on a replica: the reasons, and what the server says about each.

Knows texts only. Reasons are found by `logging_format` (from tables) and `statement_analysis` (from the text).

Source: sql/sql_lex.h, enum_binlog_stmt_unsafe; share/messages_to_clients.txt, ER_BINLOG_UNSAFE_*.
"""

from __future__ import annotations

from enum import IntEnum


class UnsafeReason(IntEnum):
    """A reason, in the server's order, which is that of its warnings.

    INSERT_DELAYED left the server in 8.0, where the numbers behind it moved; they are in no log.
    """

    LIMIT = 0
    SYSTEM_TABLE = 1
    AUTOINC_COLUMNS = 2
    UDF = 3
    SYSTEM_VARIABLE = 4
    SYSTEM_FUNCTION = 5
    NONTRANS_AFTER_TRANS = 6
    MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE = 7
    MIXED_STATEMENT = 8
    INSERT_IGNORE_SELECT = 9
    INSERT_SELECT_UPDATE = 10
    WRITE_AUTOINC_SELECT = 11
    REPLACE_SELECT = 12
    CREATE_IGNORE_SELECT = 13
    CREATE_REPLACE_SELECT = 14
    CREATE_SELECT_AUTOINC = 15
    UPDATE_IGNORE = 16
    INSERT_TWO_KEYS = 17
    AUTOINC_NOT_FIRST = 18
    FULLTEXT_PLUGIN = 19
    SKIP_LOCKED = 20
    NOWAIT = 21
    XA = 22
    DEFAULT_EXPRESSION_IN_SUBSTATEMENT = 23
    ACL_TABLE_READ_IN_DML_DDL = 24
    CREATE_SELECT_WITH_GIPK = 25
