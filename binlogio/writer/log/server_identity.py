"""The identity of the server whose logs are continued: server_uuid, server_id and gtid_domain_id.

A server keeps its UUID in auto.cnf, so that it stays one source for its replicas. The writer keeps the identity in a
file of the same form beside the logs. Its name has the basename, because a directory can have the logs of several
basenames, whose GTIDs are numbered independently.

    identity := BASENAME.auto.cnf; without it auto.cnf, which has only the UUID, and the last log
    file     := [auto]  (server-uuid=UUID | gtid-domain-id=NUMBER)  server-id=NUMBER   -- UUID: MySQL; domain: MariaDB
    last log := server_id of the format description; UUID and domain of the last GTID with this server_id

The auto.cnf of a directory that only has logs of other basenames does not count.

Source: sql/mysqld.cc, init_server_auto_options, flush_auto_options.
"""

from __future__ import annotations

import configparser
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import BinlogError, BinlogFormatError, WriterStateError
from binlogio.gtid import Uuid
from binlogio.options import VARIABLE_RANGES
from binlogio.storage.index_file import AUTO_CNF, AUTO_CNF_SUFFIX, INDEX_SUFFIX
from binlogio.storage.log_storage import CRASH_SAFE_SUFFIX, replace_file
from binlogio.writer.log.recovery import examine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.storage.log_index import LogIndex
    from binlogio.storage.log_storage import LogStorage

_SECTION: Final = "auto"
_PARTS: Final = ("server_uuid", "server_id", "gtid_domain_id")
_RESTORE: Final = "put back the file, or remove it: the identity is then that of the last log"


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The identity of a server. None: unknown, or the vendor does not have it."""

    server_uuid: Uuid | None = None
    server_id: int | None = None
    gtid_domain_id: int | None = None

    def or_else(self, other: ServerIdentity) -> ServerIdentity:
        """Return this identity, with the unknown parts from another one."""
        return ServerIdentity(
            self.server_uuid or other.server_uuid,
            other.server_id if self.server_id is None else self.server_id,
            other.gtid_domain_id if self.gtid_domain_id is None else self.gtid_domain_id,
        )

    def of_vendor(self, *, is_mariadb: bool) -> ServerIdentity:
        """Return the parts that a server of MariaDB, or of MySQL, has."""
        return replace(self, server_uuid=None) if is_mariadb else replace(self, gtid_domain_id=None)

    def changes(self, before: ServerIdentity) -> list[str]:
        """Return a text for each part that is known in both identities and differs."""
        values = [(name, getattr(self, name), getattr(before, name)) for name in _PARTS]
        return [f"{name} {new} instead of {old}" for name, new, old in values if None not in (new, old) and new != old]


def stored_identity(storage: LogStorage, index: LogIndex, *, is_mariadb: bool) -> ServerIdentity:
    """Return the identity of the server that wrote the existing logs of a basename, as far as it is known.

    Raises:
        BinlogFormatError: the file that has the identity is damaged.
        OSError: the storage failed.
    """
    names = storage.names()
    own = index.stem + AUTO_CNF_SUFFIX
    logs = index.existing()
    found = ServerIdentity()
    if own in names:
        found = _parse(storage.read(own), own)
    elif AUTO_CNF in names and (logs or not any(name.endswith(INDEX_SUFFIX) for name in names)):
        found = ServerIdentity(_parse(storage.read(AUTO_CNF), AUTO_CNF).server_uuid)
    of_vendor = found.gtid_domain_id if is_mariadb else found.server_uuid
    if None in (of_vendor, found.server_id):
        found = found.or_else(_of_logs(storage, logs))
    return found.of_vendor(is_mariadb=is_mariadb)


def keep_identity(storage: LogStorage, index: LogIndex, identity: ServerIdentity, before: ServerIdentity) -> None:
    """Write the identity to its file, unless the file has it. `before` is the stored one that the caller has read.

    Raises:
        WriterStateError: another writer has changed it since.
        BinlogFormatError: the file is damaged.
        OSError: the storage failed.
    """
    names, own = storage.names(), index.stem + AUTO_CNF_SUFFIX
    if own in names:
        found = _parse(storage.read(own), own)
        if found == identity and own + CRASH_SAFE_SUFFIX not in names:
            return
        changes = found.changes(before)
        if found != identity and (changes or before == ServerIdentity()):
            raise WriterStateError(
                "another writer has set the identity of the server since this writer was created",
                file=own,
                found=", ".join(changes) or None,
                hint="create the writer again",
            )
    values = [(_option(name), getattr(identity, name)) for name in _PARTS]
    text = "".join(f"{option}={value}\n" for option, value in values if value is not None)
    replace_file(storage, own, f"[{_SECTION}]\n{text}".encode())
    storage.sync_names()


def _option(name: str) -> str:
    """Return the name that a variable has in an option file."""
    return name.replace("_", "-")


def _parse(data: bytes, file: str) -> ServerIdentity:
    """Parse an option file. In the names of options, - and _ are the same.

    Raises:
        BinlogFormatError: it is not an option file, or a value is invalid.
    """
    parser = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        parser.read_string(data.decode())
    except (configparser.Error, UnicodeDecodeError) as exc:
        raise _damaged(file, None, str(exc).partition("\n")[0]) from exc
    options = dict(parser[_SECTION]) if parser.has_section(_SECTION) else {}
    given = {name.replace("-", "_"): (value or "").strip("'\"") for name, value in options.items()}
    parsed: dict[str, Any] = {}
    for name in _PARTS:
        if name in given:
            try:
                parsed[name] = Uuid.parse(given[name]) if name == "server_uuid" else _number(name, given[name])
            except (BinlogError, ValueError) as exc:
                raise _damaged(file, _option(name), repr(given[name])) from exc
    return ServerIdentity(**parsed)


def _number(name: str, text: str) -> int:
    low, high = VARIABLE_RANGES[name]
    value = int(text)
    if not low <= value <= high:
        raise ValueError(f"expected {low} to {high}")
    return value


def _damaged(file: str, field: str | None, found: str) -> BinlogFormatError:
    return BinlogFormatError(
        "the stored identity of the server is damaged", file=file, field=field, found=found, hint=_RESTORE
    )


def _of_logs(storage: LogStorage, logs: Sequence[str]) -> ServerIdentity:
    """Return the identity of the server that wrote the last of these logs.

    A log without transactions says no UUID: then the one before it may, or it is the only UUID in PREVIOUS_GTIDS. A log
    that only has transactions of other servers is one of a replica. Damage is reported when the log is recovered.
    """
    found, only = ServerIdentity(), None
    with suppress(BinlogError):
        for name in reversed(logs):
            state = examine(storage, name)
            domains = {gtid.domain_id for gtid in state.domains if gtid.server_id == state.server_id}
            domain = domains.pop() if state.own_domain_id is None and len(domains) == 1 else state.own_domain_id
            found = found.or_else(ServerIdentity(state.own_uuid, state.server_id, domain))
            uuids = {tsid.uuid for tsid, _ in state.previous}
            if state.executed != state.previous:
                return found
            if not uuids:
                break
            only = only or (uuids.pop() if len(uuids) == 1 else None)
    return found.or_else(ServerIdentity(only))
