"""Unsafe reasons: why a statement may have a different effect on a replica, and the server's message for each reason.

Reasons are found by `logging_format` (from tables) and `statement_text` (from the text).

Source: sql/sql_lex.h, enum_binlog_stmt_unsafe; share/messages_to_clients.txt, ER_BINLOG_UNSAFE_*; the recordings of a
9.7.4 server.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnsafeReason(IntEnum):
    """An unsafe reason. Warnings are given in this order.

    The numbers are not written to logs. INSERT_DELAYED occurs only in servers before 5.7 and in MariaDB.
    """

    LIMIT = 0
    INSERT_DELAYED = 1
    SYSTEM_TABLE = 2
    AUTOINC_COLUMNS = 3
    UDF = 4
    SYSTEM_VARIABLE = 5
    SYSTEM_FUNCTION = 6
    NONTRANS_AFTER_TRANS = 7
    MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE = 8
    MIXED_STATEMENT = 9
    INSERT_IGNORE_SELECT = 10
    INSERT_SELECT_UPDATE = 11
    WRITE_AUTOINC_SELECT = 12
    REPLACE_SELECT = 13
    CREATE_IGNORE_SELECT = 14
    CREATE_REPLACE_SELECT = 15
    CREATE_SELECT_AUTOINC = 16
    UPDATE_IGNORE = 17
    INSERT_TWO_KEYS = 18
    AUTOINC_NOT_FIRST = 19
    FULLTEXT_PLUGIN = 20
    SKIP_LOCKED = 21
    NOWAIT = 22
    XA = 23
    DEFAULT_EXPRESSION_IN_SUBSTATEMENT = 24
    ACL_TABLE_READ_IN_DML_DDL = 25
    CREATE_SELECT_WITH_GIPK = 26

    @property
    def message(self) -> str:
        """The server's message."""
        return _MESSAGES[self]


_UNPREDICTABLE: Final = "This order cannot be predicted and may differ on source and the replica."
_ROWS_OF_SELECT: Final = (
    "is unsafe because the order in which rows are retrieved by the SELECT determines which (if any) rows are"
)

_MESSAGES: Final[Mapping[UnsafeReason, str]] = MappingProxyType(
    {
        UnsafeReason.LIMIT: (
            "The statement is unsafe because it uses a LIMIT clause. This is unsafe because the set of rows "
            "included cannot be predicted."
        ),
        UnsafeReason.INSERT_DELAYED: (
            "The statement is unsafe because it uses INSERT DELAYED. This is unsafe because the times when rows are "
            "inserted cannot be predicted."
        ),
        UnsafeReason.SYSTEM_TABLE: (
            "The statement is unsafe because it uses the general log, slow query log, or performance_schema table(s). "
            "This is unsafe because system tables may differ on replicas."
        ),
        UnsafeReason.AUTOINC_COLUMNS: (
            "Statement is unsafe because it invokes a trigger or a stored function that inserts into an "
            "AUTO_INCREMENT column. "
            "Inserted values cannot be logged correctly."
        ),
        UnsafeReason.UDF: (
            "Statement is unsafe because it uses a UDF which may not return the same value on the replica."
        ),
        UnsafeReason.SYSTEM_VARIABLE: (
            "Statement is unsafe because it uses a system variable that may have a different value on the replica."
        ),
        UnsafeReason.SYSTEM_FUNCTION: (
            "Statement is unsafe because it uses a system function that may return a different value on the replica."
        ),
        UnsafeReason.NONTRANS_AFTER_TRANS: (
            "Statement is unsafe because it accesses a non-transactional table after accessing a transactional table "
            "within the same transaction."
        ),
        UnsafeReason.MULTIPLE_ENGINES_AND_SELF_LOGGING_ENGINE: (
            "Mixing self-logging and non-self-logging engines in a statement is unsafe."
        ),
        UnsafeReason.MIXED_STATEMENT: (
            "Statement accesses nontransactional table as well as transactional or temporary table, and writes "
            "to any of them."
        ),
        UnsafeReason.INSERT_IGNORE_SELECT: f"INSERT IGNORE... SELECT {_ROWS_OF_SELECT} ignored. {_UNPREDICTABLE}",
        UnsafeReason.INSERT_SELECT_UPDATE: (
            f"INSERT... SELECT... ON DUPLICATE KEY UPDATE {_ROWS_OF_SELECT} updated. {_UNPREDICTABLE}"
        ),
        UnsafeReason.WRITE_AUTOINC_SELECT: (
            "Statements writing to a table with an auto-increment column after selecting from another table "
            "are unsafe because "
            f"the order in which rows are retrieved determines what (if any) rows will be written. {_UNPREDICTABLE}"
        ),
        UnsafeReason.REPLACE_SELECT: f"REPLACE... SELECT {_ROWS_OF_SELECT} replaced. {_UNPREDICTABLE}",
        UnsafeReason.CREATE_IGNORE_SELECT: f"CREATE... IGNORE SELECT {_ROWS_OF_SELECT} ignored. {_UNPREDICTABLE}",
        UnsafeReason.CREATE_REPLACE_SELECT: f"CREATE... REPLACE SELECT {_ROWS_OF_SELECT} replaced. {_UNPREDICTABLE}",
        UnsafeReason.CREATE_SELECT_AUTOINC: (
            f"CREATE TABLE... SELECT...  on a table with an auto-increment column {_ROWS_OF_SELECT} inserted. "
            f"{_UNPREDICTABLE}"
        ),
        UnsafeReason.UPDATE_IGNORE: (
            "UPDATE IGNORE is unsafe because the order in which rows are updated determines which (if any) "
            "rows are ignored. "
            f"{_UNPREDICTABLE}"
        ),
        UnsafeReason.INSERT_TWO_KEYS: (
            "INSERT... ON DUPLICATE KEY UPDATE  on a table with more than one UNIQUE KEY is unsafe"
        ),
        UnsafeReason.AUTOINC_NOT_FIRST: (
            "INSERT into autoincrement field which is not the first part in the composed primary key is unsafe."
        ),
        UnsafeReason.FULLTEXT_PLUGIN: (
            "Statement is unsafe because it uses a fulltext parser plugin which may not return the same value "
            "on the replica."
        ),
        UnsafeReason.SKIP_LOCKED: (
            "Statement is unsafe because it uses SKIP LOCKED. The set of inserted values is non-deterministic."
        ),
        UnsafeReason.NOWAIT: (
            "Statement is unsafe because it uses NOWAIT. Whether the command will succeed or fail is not deterministic."
        ),
        UnsafeReason.XA: (
            "Statement is unsafe because it is being used inside a XA transaction. Concurrent XA transactions "
            "may deadlock "
            "on replicas when replicated using statements."
        ),
        UnsafeReason.DEFAULT_EXPRESSION_IN_SUBSTATEMENT: (
            "Statement is unsafe because it invokes a trigger or a stored function that modifies a table that "
            "has a column "
            "with a DEFAULT expression that may return a different value on the replica."
        ),
        UnsafeReason.ACL_TABLE_READ_IN_DML_DDL: (
            "The statement is unsafe because it updates a table depending on ACL table read operation. As "
            "storage engine row "
            "locks are skipped for ACL table, it may not have same effect on source and replica."
        ),
        UnsafeReason.CREATE_SELECT_WITH_GIPK: (
            "Generating an invisible primary key for a table created using CREATE TABLE ... SELECT ... is "
            "disallowed when "
            "binlog_format=STATEMENT. It cannot be guaranteed that the SELECT retrieves rows in the same order "
            "on source and "
            "replica. Therefore, it cannot be guaranteed that the value generated for the generated implicit "
            "primary key "
            "column will be the same on source and replica for all rows. Use binlog_format=ROW or MIXED to "
            "execute this "
            "statement."
        ),
    }
)
