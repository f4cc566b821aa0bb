"""Operations on archives of binary logs, without a server: copy, verify, repair, search, index, statistics.

Each module has one public function; the command of the same name prints its result. `event_batches` reads logs as whole
events without parsing them; `new_logs` writes logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.archive.copy import CopyOptions, CopySummary, copy_logs
    from binlogio.archive.found_rows import RowVersion, SearchOptions, SearchSummary
    from binlogio.archive.grep import find_changes
    from binlogio.archive.history import HistoryOptions, HistoryStatement, row_history
    from binlogio.archive.info import LogInfo, log_infos
    from binlogio.archive.key_index import (
        IndexRefused,
        IndexSummary,
        index_log,
        index_logs,
        logs_with_key,
        logs_without_row,
    )
    from binlogio.archive.new_logs import NewLogs
    from binlogio.archive.repair import LostRange, RepairReport, repair_logs
    from binlogio.archive.row_keys import KeyRefused
    from binlogio.archive.stats import ArchiveStats, archive_stats
    from binlogio.archive.table_definitions import LoggedTables, logged_tables
    from binlogio.archive.verify import Finding, LogReport, verify_logs

__all__ = [
    "ArchiveStats", "CopyOptions", "CopySummary", "Finding", "HistoryOptions", "HistoryStatement", "IndexRefused",
    "IndexSummary", "KeyRefused", "LogInfo", "LogReport", "LoggedTables", "LostRange", "NewLogs", "RepairReport",
    "RowVersion", "SearchOptions", "SearchSummary", "archive_stats", "copy_logs", "find_changes", "index_log",
    "index_logs", "log_infos", "logged_tables", "logs_with_key", "logs_without_row", "repair_logs", "row_history",
    "verify_logs",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "copy": "CopyOptions CopySummary copy_logs",
            "found_rows": "RowVersion SearchOptions SearchSummary",
            "grep": "find_changes",
            "history": "HistoryOptions HistoryStatement row_history",
            "info": "LogInfo log_infos",
            "key_index": "IndexRefused IndexSummary index_log index_logs logs_with_key logs_without_row",
            "new_logs": "NewLogs",
            "repair": "LostRange RepairReport repair_logs",
            "row_keys": "KeyRefused",
            "stats": "ArchiveStats archive_stats",
            "table_definitions": "LoggedTables logged_tables",
            "verify": "Finding LogReport verify_logs",
        },
    )
