"""SQL output of `dump`, for the client program: `binlogio dump --format sql FILE | mysql`.

Statements have their session context; row changes are BINLOG statements. Names and values are copied from the log byte
for byte, so this output is for a pipe and not for a terminal.

Source: client/mysqlbinlog.cc; sql/log_event.cc, the print methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from binlogio.constants import HeaderFlag, QueryStatus
from binlogio.errors import ReplayError
from binlogio.events.control import IncidentEvent, XaPrepareEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import GtidEvent, GtidTaggedEvent
from binlogio.events.load import (
    OLD_LOADS,
    AppendBlockEvent,
    BeginLoadQueryEvent,
    DeleteFileEvent,
    ExecuteLoadQueryEvent,
)
from binlogio.events.mariadb import MariadbGtidEvent, MariadbGtidFlag
from binlogio.events.query import QueryEvent
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.replay.targets.mysql.binlog_statements import BinlogStatements
from binlogio.replay.targets.mysql.statement_context import (
    context_of,
    load_statement,
    part_of_context,
    settings_of_mariadb,
)
from binlogio.schema.ddl.tokens import MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES
from binlogio.values.charsets import MULTI_BYTE, charset_of
from binlogio.values.column import has_old_temporal
from binlogio_cli.dump.client_text import DELIMITER, client_lines, is_read_as_it_is
from binlogio_cli.dump.event_writer import EventWriter, PlainSession, QueryTexts
from binlogio_cli.dump.statement_text import SQL_ESCAPING, SQL_ONLY_ASCII, SQL_UTF_8, client_collation

if TYPE_CHECKING:
    from binlogio._kernel.event_texts import Session
    from binlogio.reader import BinlogReader
    from binlogio.selection.selection import Selection

_UTF8MB4: Final = 45
_MODES_OF_OTHER_QUOTES: Final = MODE_ANSI_QUOTES | MODE_NO_BACKSLASH_ESCAPES
_SETTINGS: Final = 0  # index of the MariaDB settings in the kernel's settings
_IF_NOT_PREPARED: Final = "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1953 BEGIN END; "
_MISREAD: Final = (  # MariaDB executes no comments of MySQL versions from 5.7 on
    "/*!90000 SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'MySQL 9 misreads row events with columns of TIME, DATETIME "
    "and TIMESTAMP of servers before 5.6; use binlogio replay' */"
)
_LARGE: Final = 1 << 18  # bytes of images from which a BINLOG statement is written in pieces
_MOST_NUMBERS: Final = 1 << 12
# The client reads UTF-8, regardless of its options.
_HEAD: Final = (f"DELIMITER {DELIMITER}\n", f"/*!\\C utf8mb4 */{DELIMITER}\n")


class SqlDump:
    """Formats events as SQL. With `gtids`, transactions keep their GTIDs.

    `is_logged` False: the server does not log the statements. `is_idempotent`: a MySQL server replaces existing rows
    and ignores missing rows. `load_files` is the directory for the files of LOAD DATA; without it, LOAD DATA is
    rejected. `requires_rows`: the session of a MySQL server accepts row changes only.
    """

    def __init__(
        self,
        reader: BinlogReader,
        *,
        gtids: bool,
        is_logged: bool = True,
        is_idempotent: bool = False,
        load_files: str | None = None,
        requires_rows: bool = False,
    ) -> None:
        self._requires_rows = requires_rows
        self._reader = reader
        self._gtids = gtids
        self._is_logged = is_logged
        self._is_idempotent = is_idempotent
        self._load_files = None if load_files is None else Path(load_files).absolute()
        self._loaded: dict[int, Path] = {}  # files by file_id, until their LOAD DATA
        self.session: Session | PlainSession = PlainSession()
        self._numbers: dict[str, int] = {}
        self._last_number = 0
        self._is_begun = False
        self._binlog = BinlogStatements()
        self._maps: list[TableMapEvent] = []  # table maps of the current statement
        self._writer: EventWriter | None = None
        self._tails = 0  # torn tails of the reader before the last format description

    style: Final = "SQL"

    @property
    def has_gtids(self) -> bool:
        """Whether transactions keep their GTIDs."""
        return self._gtids

    def end_statement(self) -> None:
        """Discard the table maps of the statement."""
        self._maps = []

    def discard(self, statement: object = None) -> None:
        """Remove the file of a LOAD DATA that is not written; None: all files without a LOAD DATA."""
        if statement is None:
            self._drop_files(*self._loaded)
        elif isinstance(statement, ExecuteLoadQueryEvent):
            self._drop_files(statement.file_id)

    def writer(self, selection: Selection) -> EventWriter | None:
        """Return the kernel's event formatter; None without the compiled kernel."""
        self._writer = EventWriter.of(self._reader, selection, self)
        if self._writer is not None:
            self.session = self._writer.kernel.session
        return self._writer

    def table_texts(self, table: TableMapEvent) -> tuple[bytes, bytes] | None:
        """Return the bytes of the table map in BINLOG statements; None if its rows need more than these."""
        if has_old_temporal(table.column_types) and not self._is_mariadb:
            return None
        return b"", self._binlog.map_frame(table)

    def rest_text(self, event: Any) -> bytes:
        """Return the SQL of an event."""
        return "".join(self.event(event)).encode("utf-8", "surrogateescape")

    def query_texts(self, event: QueryEvent) -> QueryTexts | None:
        """Return the SQL before a statement, without the thread id and the timestamp; None if it has no such parts."""
        if event.is_unfinished_alter:
            return None
        text = "".join(self._context(event))
        before, thread, rest = text.partition(f"pseudo_thread_id={event.thread_id},")
        between, time, after = rest.partition(f", @@session.timestamp={event.header.timestamp}")
        if not thread or not time or before.count("`") not in (0, 2):
            return None
        if not before.endswith("SET @@session.") or ", @@session.timestamp=" in after:
            return None
        if event.status(QueryStatus.MICROSECONDS) is not None or event.status(QueryStatus.MARIADB_HRNOW) is not None:
            after = after.lstrip(".0123456789")
        parts = (f"{before}pseudo_thread_id=", f",{between}, @@session.timestamp=", after)
        number, setting = self._setting_of_mariadb(event)
        charset = charset_of(client_collation(event))
        reading = SQL_ONLY_ASCII if charset is not None and charset.name in MULTI_BYTE else SQL_UTF_8
        if self._has_escapes(event):
            reading |= SQL_ESCAPING
        first, middle, last = (part.encode("utf-8", "surrogateescape") for part in parts)
        settings = ((_SETTINGS, number, setting.encode()),) if number else ()
        return QueryTexts(first, middle, last, reading, settings)

    def images(self, table: TableMapEvent) -> None:
        """Return None: rows are not decoded."""

    def foot(self) -> Iterator[str]:
        """Yield the SQL after the last event; an incomplete transaction is rolled back."""
        if self._is_begun and self._reader.is_in_group:
            yield from _lines("ROLLBACK")
        if self.session.wrote_gtid:
            yield from _lines("SET @@session.gtid_next = 'AUTOMATIC'")
        if self._is_begun and self._is_idempotent:
            yield from _lines("/*!50700 SET @@session.rbr_exec_mode = STRICT */")
        if self._is_begun and not self._is_logged:
            yield from _lines("SET @@session.sql_log_bin = @binlogio_sql_log_bin")
        if self._is_begun:
            yield "DELIMITER ;\n"

    def event(self, event: Any) -> Iterator[str]:
        """Yield the SQL of one event; nothing for events without an effect on data.

        Raises:
            ReplayError: the event cannot be expressed in SQL.
        """
        if not self._is_begun:
            self._is_begun = True
            yield from _HEAD
            if not self._is_logged:
                yield from _lines("SET @binlogio_sql_log_bin = @@session.sql_log_bin, @@session.sql_log_bin = 0")
            if self._is_idempotent:
                yield from _lines("/*!50700 SET @@session.rbr_exec_mode = IDEMPOTENT */")
            if self._requires_rows and not self._is_mariadb:
                yield from _lines("/*!80019 SET @@session.require_row_format = 1 */")
        show = _SHOWN.get(type(event))
        if show is not None:
            yield from show(self, event)

    @property
    def _is_mariadb(self) -> bool:
        return self._reader.context.is_mariadb

    def description(self, event: FormatDescriptionEvent) -> Iterator[str]:
        """Yield the format description, which the server requires for the following rows events."""
        self.discard()
        tails = self._reader.torn_tails
        if any(good.offset < tail.offset for good, tail in tails[self._tails :]):
            yield from _lines("ROLLBACK")
        self._tails = len(tails)
        if self.session.wrote_gtid and not self._is_mariadb:  # a server refuses BINLOG with a GTID that it has
            yield from _lines("SET @@session.gtid_next = 'AUTOMATIC'")
        yield from _lines(self._binlog.describe(event))
        if not self._is_mariadb:
            yield from _lines("/*!50700 SET @@session.gtid_next = 'AUTOMATIC' */")  # reset by the format description

    def table_map(self, event: TableMapEvent) -> Iterator[str]:
        """Keep the table map for the rows of its statement; MariaDB rows only need their own table map."""
        self._binlog.map_frame(event)  # of equal table maps, the first header is kept
        if not self._is_mariadb:
            self._maps.append(event)
        return iter(())

    def rows(self, event: Any) -> Iterator[str]:
        """Yield a BINLOG statement with the rows.

        It has all table maps of the statement: without the table map of the child table, MySQL 9.7 logs the changes of
        a foreign key without a table map, and no replica can read such a log.
        """
        table = self._reader.table_map(event)
        if has_old_temporal(table.column_types) and not self._is_mariadb:
            yield from _lines(_MISREAD)
        if len(event.images) < _LARGE or not self._is_sent_unchanged(self._binlog.pieces(table, event, self._maps)):
            yield from _lines(self._binlog.rows([(table, event)], self._maps))
            return
        yield from self._binlog.pieces(table, event, self._maps)
        yield f"\n{DELIMITER}\n"

    @staticmethod
    def _is_sent_unchanged(pieces: Iterator[str]) -> bool:
        """Return whether the client sends a BINLOG statement unchanged: it looks for the word DELIMITER everywhere."""
        before = ""
        for piece in pieces:
            if "delimiter" in before + piece.lower():
                return False
            before = piece[-8:].lower()
        return True

    def query(self, event: QueryEvent) -> Iterator[str]:
        """Yield the statement, preceded by its session variables."""
        self.end_statement()  # the previous statement may be incomplete
        if event.is_unfinished_alter:
            return
        yield self._changed_setting(event)
        yield from self._context(event)
        collation, escapes = client_collation(event), self._has_escapes(event)
        yield from client_lines(event.sql, collation, escapes=escapes, inserts=True)

    def _context(self, event: QueryEvent | ExecuteLoadQueryEvent) -> Iterator[str]:
        is_suppressed = event.header.flags & HeaderFlag.SUPPRESS_USE
        named = replace(event, schema="") if is_suppressed else event
        for sql in context_of(named, (), is_mariadb=self._is_mariadb):
            yield from _lines(sql)

    def _changed_setting(self, event: QueryEvent | ExecuteLoadQueryEvent) -> str:
        """Return the lines with MariaDB-only settings; empty if the last statement had the same settings."""
        number, lines = self._setting_of_mariadb(event)
        if number in (0, self.session[_SETTINGS]):
            return ""
        self.session[_SETTINGS] = number
        return lines

    def _setting_of_mariadb(self, event: QueryEvent | ExecuteLoadQueryEvent) -> tuple[int, str]:
        """Return the number and the lines of the MariaDB-only settings; the number is 0 without any."""
        settings = settings_of_mariadb(event, self._reader.context) if self._is_mariadb else ""
        if not settings:
            return 0, ""
        number = self._numbers.get(settings)
        if number is None:
            if len(self._numbers) >= _MOST_NUMBERS:  # numbers are not reused, so that settings are only written again
                self._numbers.clear()
            self._last_number += 1
            number = self._numbers[settings] = self._last_number
        return number, "".join(_lines(f"SET @@session.timestamp = DEFAULT{settings}"))

    @staticmethod
    def _has_escapes(event: QueryEvent | ExecuteLoadQueryEvent) -> bool:
        mode = event.status(QueryStatus.SQL_MODE)
        return mode is not None and not int(mode) & _MODES_OF_OTHER_QUOTES

    def part(self, event: Any) -> Iterator[str]:
        """Yield the context event of the next statement: INSERT_ID, seeds of RAND() or a user variable."""
        for sql in part_of_context(event, is_mariadb=self._is_mariadb):
            yield from _lines(sql)

    def gtid(self, event: Any) -> Iterator[str]:
        """Yield the statement that sets the GTID of the transaction."""
        if self._gtids and event.gtid is not None:
            self.session.wrote_gtid = True
            yield from _lines(f"SET @@session.gtid_next = '{event.gtid}'")

    def mariadb_gtid(self, event: MariadbGtidEvent) -> Iterator[str]:
        """Yield the statements that set the GTID of the transaction and start it.

        The session of a prepared XA transaction cannot set a GTID (1953). The server then assigns the next number to
        its XA COMMIT, which is that of the log.
        """
        if self._gtids:
            settings = (
                ("gtid_domain_id", event.domain_id),
                ("server_id", event.header.server_id),
                ("gtid_seq_no", event.sequence_number),
            )
            sql = "SET " + ", ".join(f"@@session.{name} = {value}" for name, value in settings)
            is_end_of_xa = event.flags & MariadbGtidFlag.COMPLETED_XA
            yield from _lines(f"{_IF_NOT_PREPARED}{sql}; END" if is_end_of_xa else sql)
        if event.flags & MariadbGtidFlag.PREPARED_XA:
            yield from _lines(f"XA START {event.xid}")
        elif not event.standalone:
            yield from _lines("START TRANSACTION")

    def begin_load(self, event: BeginLoadQueryEvent) -> Iterator[str]:
        """Write the first block of a file for LOAD DATA; yield nothing."""
        if self._load_files is not None:
            self._drop_files(event.file_id)
            for number in count():
                path = self._load_files / f"SQL_LOAD_MB-{event.file_id}-{number}"
                with suppress(FileExistsError), path.open("xb") as file:
                    self._loaded[event.file_id] = path
                    file.write(event.block)
                    break
        return iter(())

    def append_block(self, event: AppendBlockEvent) -> Iterator[str]:
        """Write another block of a file; yield nothing."""
        if event.file_id in self._loaded:
            with self._loaded[event.file_id].open("ab") as file:
                file.write(event.block)
        return iter(())

    def delete_file(self, event: DeleteFileEvent) -> Iterator[str]:
        """Remove the file of a LOAD DATA that failed; yield nothing."""
        self._drop_files(event.file_id)
        return iter(())

    def load(self, event: ExecuteLoadQueryEvent) -> Iterator[str]:
        """Yield a LOAD DATA LOCAL statement with the written file.

        Raises:
            ReplayError: there is no directory for the file, the log does not have the file, or the client would not
                send the statement unchanged.
        """
        if self._load_files is None:
            raise _refusal(
                event, "LOAD DATA needs its file beside the SQL", "give --local-load DIR, or use binlogio replay"
            )
        path = self._loaded.pop(event.file_id, None)
        if path is None:
            reason = f"the file of a LOAD DATA (file_id {event.file_id}) is not in what is dumped"
            raise _refusal(event, reason, "start with the log that has its BEGIN_LOAD_QUERY_EVENT")
        escapes = self._has_escapes(event)
        name = str(path).replace("\\", "\\\\") if escapes else str(path)
        sql = load_statement(event, "'" + name.replace("'", "''") + "'")
        if not is_read_as_it_is(sql, client_collation(event), escapes=escapes):
            path.unlink()
            raise _refusal(event, "the client would not read this LOAD DATA as it is", "use binlogio replay")
        yield self._changed_setting(event)
        yield from self._context(event)
        yield f"{sql.decode('utf-8', 'surrogateescape')}\n{DELIMITER}\n"

    def old_load(self, event: Any) -> NoReturn:
        """Reject LOAD DATA events of servers before 5.0.3.

        Raises:
            ReplayError: always.
        """
        raise _refusal(event, "LOAD DATA of a server before 5.0.3 cannot be printed as SQL", "use mysqlbinlog of 5.7")

    def _drop_files(self, *numbers: int) -> None:
        for number in numbers:
            if number in self._loaded:
                self._loaded.pop(number).unlink(missing_ok=True)

    def incident(self, event: IncidentEvent) -> NoReturn:
        """Reject an incident: the source lost changes, so the SQL would not give the same data.

        Raises:
            ReplayError: always.
        """
        raise _refusal(event, f"incident: the source lost changes here: {event.message}")


def _refusal(event: Any, reason: str, hint: str | None = None) -> ReplayError:
    refusal = ReplayError(reason, hint=hint)
    refusal.locate(offset=event.header.offset)
    return refusal


def _lines(sql: str) -> Iterator[str]:
    """Return the lines of a statement that binlogio has generated, in UTF-8."""
    if sql.startswith("USE "):  # a client command at line start, not allowed in a prepared statement
        return iter((f"/**/ {sql}\n{DELIMITER}\n",))
    return client_lines(sql.encode("utf-8", "surrogateescape"), _UTF8MB4, escapes=False)


_SHOWN: Final[dict[type, Callable[[SqlDump, Any], Iterator[str]]]] = {
    FormatDescriptionEvent: SqlDump.description,
    GtidEvent: SqlDump.gtid,
    GtidTaggedEvent: SqlDump.gtid,
    MariadbGtidEvent: SqlDump.mariadb_gtid,
    QueryEvent: SqlDump.query,
    TableMapEvent: SqlDump.table_map,
    **dict.fromkeys((IntvarEvent, RandEvent, UserVarEvent), SqlDump.part),
    **dict.fromkeys((WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent, PartialUpdateRowsEvent), SqlDump.rows),
    XidEvent: lambda dump, event: _lines("COMMIT"),
    XaPrepareEvent: lambda dump, event: _lines(
        f"XA COMMIT {event.xid_text} ONE PHASE" if event.one_phase else f"XA PREPARE {event.xid_text}"
    ),
    BeginLoadQueryEvent: SqlDump.begin_load,
    AppendBlockEvent: SqlDump.append_block,
    DeleteFileEvent: SqlDump.delete_file,
    ExecuteLoadQueryEvent: SqlDump.load,
    **dict.fromkeys(OLD_LOADS, SqlDump.old_load),
    IncidentEvent: SqlDump.incident,
}
