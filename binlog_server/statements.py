"""Answers to the statements that replicas and other readers of logs send before they ask for events.

    statement := SET assignment ("," assignment)*  |  SET NAMES ...  |  SELECT item ("," item)*  (LIMIT 1)?
               | SHOW (GLOBAL | SESSION)? VARIABLES (LIKE text | WHERE variable_name IN (text*))?
               | SHOW MASTER STATUS  |  SHOW BINARY LOG STATUS  |  SHOW BINARY LOGS  |  SHOW MASTER LOGS
               | BEGIN | COMMIT | ROLLBACK
    item := (literal | variable | VERSION() | UNIX_TIMESTAMP() | DATABASE() | function)      (AS name)?
    function := (GTID_SUBSET | GTID_SUBTRACT) "(" text "," text ")"

Everything else is refused with error 1235 of the server: no statement reads or changes anything. Variables of a session
that begin with @ are kept: `dump` reads them.

Source: sql/rpl_replica.cc, get_source_version_and_clock and what follows it; sql/slave.cc of MariaDB.
"""

from __future__ import annotations

import fnmatch
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from binlog_server.packets import ServerError
from binlogio.errors import BinlogError
from binlogio.gtid import GtidSet

if TYPE_CHECKING:
    from binlog_server.packets import PacketStream

_LITERAL: Final = r"""'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"|-?[0-9]+(?:\.[0-9]+)?"""
_VARIABLE: Final = r"@@(?:(?:global|session|local)\s*\.\s*)?[a-z_0-9]+|@[a-z_0-9$.]+"
_FUNCTION: Final = (
    r"(?:version|unix_timestamp|database|connection_id)\s*\(\s*\)"
    rf"|gtid_(?:subtract|subset)\s*\(\s*(?:{_LITERAL})\s*,\s*(?:{_LITERAL})\s*\)"
)
_ITEM: Final = re.compile(
    rf"\s*(?P<item>{_LITERAL}|{_VARIABLE}|{_FUNCTION})(?:\s+(?:as\s+)?(?!limit\b)(?P<name>`?\w+`?))?\s*(?P<end>,|limit\s+1\s*$|$)",
    re.IGNORECASE,
)
_ASSIGNMENT: Final = re.compile(
    rf"\s*(?P<name>{_VARIABLE}|(?:(?:global|session|local)\s+)?[a-z_]+)\s*:?=\s*(?P<value>{_LITERAL}|{_VARIABLE}|[a-z_0-9]+)\s*(?:,|$)",
    re.IGNORECASE,
)
_NAMES: Final = re.compile(r"(names|character set|charset)\s+['\"\w]+(\s+collate\s+\w+)?$", re.IGNORECASE)
_SHOW_VARIABLES: Final = re.compile(
    r"show\s+(?:(?:global|session)\s+)?variables"
    r"(?:\s+like\s+(?P<like>'[^']*'|\"[^\"]*\")|\s+where\s+`?variable_name`?\s*(?:=|in)\s*\(?(?P<names>[^()]*)\)?)?$",
    re.IGNORECASE,
)
_STATUS: Final = re.compile(r"show\s+(master|binary\s+log)\s+status$", re.IGNORECASE)
_LOGS: Final = re.compile(r"show\s+(binary|master)\s+logs$", re.IGNORECASE)
_OF_TRANSACTIONS: Final = re.compile(
    r"(begin|start\s+transaction|commit|rollback|unlock\s+tables)\b[\w\s,]*$", re.IGNORECASE
)
_OF_GTIDS: Final[dict[str, Callable[[GtidSet, GtidSet], str]]] = {
    "gtid_subtract": lambda one, other: str(one.difference(other)).replace("\n", ""),
    "gtid_subset": lambda one, other: str(int(one.issubset(other))),
}
_MOST_VARIABLES: Final = 64
_MOST_COLUMNS: Final = 250
_LONGEST: Final = 1 << 16  # characters of a statement
_NOT_SET: Final = frozenset(("sql_log_bin", "read_only", "super_read_only", "gtid_purged"))


class Statements:
    """Answers the statements of one session.

    Args:
        variables: returns the server variables by name; functions for those that take time.
        status: returns the rows of SHOW BINARY LOG STATUS, SHOW BINARY LOGS.
        connection_id: the number of the connection.
    """

    def __init__(
        self,
        variables: Callable[[], Mapping[str, str | Callable[[], str]]],
        status: Callable[[bool], tuple[list[str], list[list[str]]]],
        connection_id: int,
    ) -> None:
        self._variables, self._status, self._id = variables, status, connection_id
        self.session: dict[str, str | None] = {}

    def answer(self, text: str, packets: PacketStream) -> None:
        """Write the answer to a statement.

        Raises:
            ServerError: the statement is refused.
        """
        if len(text) > _LONGEST:
            raise _refused(text[:80])
        sql = re.sub(r"^\s*(/\*.*?\*/\s*)*", "", text, flags=re.DOTALL).strip().rstrip(";").rstrip()
        word = sql[:6].split(None, 1)[0].upper() if sql.strip() else ""
        if _OF_TRANSACTIONS.match(sql):
            packets.ok()
        elif word == "SET":
            self._set(sql[3:].strip())
            packets.ok()
        elif word == "SELECT":
            packets.rows(*self._select(sql[6:], sql))
        elif found := _SHOW_VARIABLES.match(sql):
            packets.rows(("Variable_name", "Value"), self._shown(found))
        elif (is_status := _STATUS.match(sql)) or _LOGS.match(sql):
            packets.rows(*self._status(is_status is not None))
        else:
            raise _refused(sql)

    def _set(self, text: str) -> None:
        at, found = 0, {}
        if _NAMES.match(text):
            return
        while at < len(text):
            match = _ASSIGNMENT.match(text, at)
            if match is None:
                raise _refused("SET " + text)
            name = match["name"].lower()
            if not name.startswith("@") or name.startswith("@@"):
                if name.split(".")[-1].split()[-1] in _NOT_SET or "global" in name:
                    raise ServerError(1227, "42000", "Access denied; the served logs are read only")
            else:
                found[name] = self._value(match["value"]) if match["value"][0] in "@'\"-0123456789" else match["value"]
            at = match.end()
        if len({*self.session, *found}) > _MOST_VARIABLES:
            raise ServerError(1041, "HY000", "too many user variables")
        self.session.update(found)

    def _select(self, text: str, sql: str) -> tuple[list[str], list[list[str | None]]]:
        names: list[str] = []
        values, at, end = [], 0, ","
        while end == ",":
            match = _ITEM.match(text, at)
            if match is None or len(names) == _MOST_COLUMNS:
                raise _refused(sql)
            names.append((match["name"] or match["item"]).strip("`'\""))
            values.append(self._value(match["item"]))
            at, end = match.end(), match["end"]
        return names, [values]

    def _value(self, item: str) -> str | None:
        if item[0] in "'\"":
            return re.sub(r"\\(.)", r"\1", item[1:-1].replace(item[0] * 2, item[0]), flags=re.DOTALL)
        if item.startswith("@@"):
            name = re.sub(r"\s", "", item[2:]).lower().rsplit(".", 1)[-1]
            if (found := self._variables().get(name)) is None:
                raise ServerError(1193, "HY000", f"Unknown system variable '{name}'")
            return _text(found)
        if item.startswith("@"):
            return self.session.get(item.lower())
        functions: dict[str, Callable[[], str | None]] = {
            "version": lambda: _text(self._variables()["version"]),
            "unix_timestamp": lambda: str(int(time.time())),
            "connection_id": lambda: str(self._id),
            "database": lambda: None,
        }
        name, _, arguments = item.partition("(")
        if (name := name.strip().lower()) in _OF_GTIDS:
            return _OF_GTIDS[name](*(self._gtids(one[0]) for one in re.finditer(_LITERAL, arguments)))
        answer = functions.get(name, lambda: item)
        return answer()

    def _gtids(self, literal: str) -> GtidSet:
        text = self._value(literal) or ""
        try:
            return GtidSet.parse(text)
        except BinlogError as exc:
            raise ServerError(1772, "HY000", f"Malformed GTID set specification '{text[:80]}'") from exc

    def _shown(self, match: re.Match[str]) -> list[list[str]]:
        if match["names"] is not None:
            wanted: Callable[[str], object] = {
                one.strip().strip("'\"").lower() for one in match["names"].split(",")
            }.__contains__
        else:
            like = (match["like"] or "'%'")[1:-1].lower().replace("\\_", "_")
            glob = like.replace("[", "[[]").replace("*", "[*]").replace("%", "*")
            wanted = re.compile(fnmatch.translate(glob).replace("_", ".")).match
        return [[name, _text(value)] for name, value in sorted(self._variables().items()) if wanted(name)]


def _text(value: str | Callable[[], str]) -> str:
    return value() if callable(value) else value


def _refused(sql: str) -> ServerError:
    shown = " ".join(sql.split())[:80]
    return ServerError(1235, "42000", f"This version of MySQL doesn't yet support '{shown}': these are only log files")
