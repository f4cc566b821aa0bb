"""Progress of a consumer in a log: the log, and the offset up to which the consumer has its event groups.

Consumers store it in one format and compare it in one way: the ledger of an export, the position of a replay target, an
index of row keys, the offset of a stream.

    progress := {"file": name, "pos": offset, "log": identity?, "hash": text?, "stored": [size, text]?,
                 "complete": true?, "last_gtid": text?}
    identity := {"created": int, "server_id": int, "first_gtid": text?}

`hash` is the fingerprint of the bytes before the offset (`series.identity`). A log with the same identity and other
bytes there is a repaired, filtered or rewritten copy, a restored backup, or a truncated log: its offsets mean other
groups. `stored` is of a compressed or encrypted file as it is stored: if it did not change, the file is not read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import BinlogFormatError
from binlogio.series.identity import LogIdentity, fingerprint, log_identity, log_size, stored_print
from binlogio.storage.index_file import base_name, log_name, log_number

if TYPE_CHECKING:
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile


_HIGHEST: Final = (1 << 32) - 1  # of a timestamp and a server id


class LogMatch(Enum):
    """Result of the comparison of a log with the progress of a consumer."""

    SAME = "same"  # the log of the progress, under any name
    OTHER = "other"  # another log
    CHANGED = "changed"  # it claims to be the same log, and has other groups before the offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProgress:
    """The progress of a consumer in a log.

    Args:
        file: the name of the log, without its directory.
        offset: the consumer has all event groups before this offset, in bytes.
        identity: the identity of the log; None: unknown.
        fingerprint: the fingerprint of the bytes before `offset`; None: unknown, or the offset is in the head.
        is_complete: the server had closed the log, and the consumer has all of it.
        last_gtid: the GTID of the last group before `offset`; None: unknown.
        stored: size and fingerprint of a compressed or encrypted file as it is stored; None for other files.
    """

    file: str
    offset: int
    identity: LogIdentity | None = None
    fingerprint: str | None = None
    is_complete: bool = False
    last_gtid: str | None = None
    stored: tuple[int, str] | None = None

    @classmethod
    def at(cls, log: LogFile, offset: int, identity: LogIdentity | None, keyring: Keyring | None = None) -> LogProgress:
        """Return the progress at an offset of a log, with the fingerprint there.

        Raises:
            BinlogFormatError: the log ends before the offset.
            OSError, UnsupportedFeature: the log cannot be read.
        """
        found, stored = fingerprint(log, offset, keyring), stored_print(log, keyring)
        return cls(file=base_name(log.name), offset=offset, identity=identity, fingerprint=found, stored=stored)

    def completed(self, *, is_complete: bool, last_gtid: str | None) -> LogProgress:
        """Return the same progress with these facts about the end of what was read."""
        return replace(self, is_complete=is_complete, last_gtid=last_gtid)

    def named(self, file: str) -> LogProgress:
        """Return the same progress, for a log that was renamed."""
        return replace(self, file=base_name(file))

    def is_log(self, name: str, identity: LogIdentity | None) -> bool:
        """Return whether a log claims to be that of the progress, by its head and its name.

        A log that begins with the same GTID is recognized under any name. Without GTIDs, logs that a server began in
        the same second differ by their numbers.
        """
        if self.identity is None:
            return log_name(self.file) == log_name(name)
        if identity is None or (self.identity.created, self.identity.server_id) != (
            identity.created,
            identity.server_id,
        ):
            return False
        if log_name(self.file) == log_name(name):
            return True
        if self.identity.first_gtid is not None or identity.first_gtid is not None:
            return self.identity.first_gtid == identity.first_gtid
        return log_number(log_name(name))[0] != log_number(log_name(self.file))[0]

    def match(self, log: LogFile, identity: LogIdentity | None, keyring: Keyring | None = None) -> LogMatch:
        """Compare a log, which has this identity, with the log of the progress.

        A log without GTIDs that began in the same second, under another number, is the same one if its bytes are.

        Raises:
            OSError, UnsupportedFeature: the log cannot be read.
        """
        is_log = self.is_log(log.name, identity)
        if not is_log and (identity is None or identity.first_gtid is not None or identity != self.identity):
            return LogMatch.OTHER
        if self.identity is not None and identity is not None and not self.identity.is_same_log(identity):
            return LogMatch.CHANGED
        if is_log and (self.fingerprint is None or self.is_stored_alike(log, keyring)):
            return LogMatch.SAME
        try:
            if self.fingerprint is not None and fingerprint(log, self.offset, keyring) == self.fingerprint:
                return LogMatch.SAME
        except BinlogFormatError:  # it ends before the offset
            pass
        return LogMatch.CHANGED if is_log and self._has_name_or_gtid(log.name, identity) else LogMatch.OTHER

    def _has_name_or_gtid(self, name: str, identity: LogIdentity | None) -> bool:
        """Return whether a log has the GTID, stem or number of the log, and not only the second in which it began."""
        stem, number, _ = log_number(log_name(name))
        own = log_number(log_name(self.file))
        return (identity is not None and identity.first_gtid is not None) or stem == own[0] or number == own[1]

    def is_whole(self, log: LogFile, keyring: Keyring | None = None) -> bool:
        """Return whether a log that matches ends at the offset.

        Raises:
            OSError, UnsupportedFeature: the log cannot be read.
        """
        return self.is_stored_alike(log, keyring) or log_size(log, keyring) == self.offset

    def is_stored_alike(self, log: LogFile, keyring: Keyring | None = None) -> bool:
        """Return whether a compressed or encrypted file is stored as it was.

        Raises:
            OSError, UnsupportedFeature: the log cannot be read.
        """
        return self.stored is not None and self.stored == stored_print(log, keyring)

    def to_json(self) -> dict[str, Any]:
        """Return the stored form. The order of its keys is fixed, since Spark compares texts."""
        value: dict[str, Any] = {"file": self.file, "pos": self.offset}
        if self.identity is not None:
            value["log"] = _stored(self.identity)
        if self.fingerprint is not None:
            value["hash"] = self.fingerprint
        if self.stored is not None:
            value["stored"] = list(self.stored)
        if self.is_complete:
            value["complete"] = True
        if self.last_gtid is not None:
            value["last_gtid"] = self.last_gtid
        return value

    @classmethod
    def from_json(cls, value: Any) -> LogProgress:
        """Parse what `to_json` returned.

        Raises:
            ValueError, KeyError, TypeError: it is something else.
        """
        file, offset = value["file"], value["pos"]
        found, last = value.get("hash"), value.get("last_gtid")
        stored = value.get("stored")
        if not (
            isinstance(file, str)
            and _is_int(offset)
            and offset >= 0
            and (stored is None or (_is_int(stored[0]) and isinstance(stored[1], str)))
            and (found is None or isinstance(found, str))
            and (last is None or isinstance(last, str))
        ):
            raise ValueError(f"not the progress in a log: {value!r}")
        return cls(
            file=file,
            offset=offset,
            identity=identity_of(value["log"]) if value.get("log") is not None else None,
            fingerprint=found,
            is_complete=value.get("complete") is True,
            last_gtid=last,
            stored=None if stored is None else (stored[0], stored[1]),
        )


class Recognizer:
    """Tells whether a stored progress is of a log.

    With `exactly`, the bytes before the offset must be those of the log; without it, a repaired or filtered copy is the
    log, too, since it begins as its original. A stream cannot be recognized.
    """

    def __init__(self, log: LogFile, keyring: Keyring | None) -> None:
        self._log = log
        self._keyring = keyring

    def __call__(self, stored: Any, *, exactly: bool) -> bool:
        """Return whether a stored progress is of the log."""
        if self._log.stream is not None:
            return False
        progress = LogProgress.from_json(stored)
        if not exactly:
            return progress.is_log(self._log.name, self._identity)
        return progress.match(self._log, self._identity, self._keyring) is LogMatch.SAME

    @property
    def stored_identity(self) -> dict[str, Any] | None:
        """The identity of the log in the form of a stored progress; None if unknown."""
        identity = None if self._log.stream is not None else self._identity
        return None if identity is None else _stored(identity)

    @cached_property
    def _identity(self) -> LogIdentity | None:
        return log_identity(self._log, self._keyring)


def recognizer(log: LogFile, keyring: Keyring | None = None) -> Recognizer:
    """Return what tells whether a stored progress is of a log, which is read when it is asked."""
    return Recognizer(log, keyring)


def _stored(identity: LogIdentity) -> dict[str, Any]:
    value: dict[str, Any] = {"created": identity.created, "server_id": identity.server_id}
    if identity.first_gtid is not None:
        value["first_gtid"] = identity.first_gtid
    return value


def identity_of(value: Any) -> LogIdentity:
    """Parse the stored identity of a log.

    Raises:
        ValueError, KeyError, TypeError: it is something else.
    """
    created, server_id, gtid = value["created"], value["server_id"], value.get("first_gtid")
    is_valid = _is_int(created) and _is_int(server_id) and (gtid is None or isinstance(gtid, str))
    if not (is_valid and 0 <= created <= _HIGHEST and 0 <= server_id <= _HIGHEST):
        raise ValueError(f"not the identity of a log: {value!r}")
    return LogIdentity(created=created, server_id=server_id, first_gtid=gtid)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
