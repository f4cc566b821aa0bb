"""Accounts of clients: a file with hashes of passwords, and the two methods by which clients prove that they know one.

    file := (name ":" (native | sha2) newline)*       -- `python -m binlog_server.accounts NAME` prints both lines
    native := "*" hex[40]                             -- SHA1(SHA1(password)), as in mysql.user: mysql_native_password
    sha2 := "$pbkdf2$" rounds "$" salt "$" hash       -- caching_sha2_password

caching_sha2_password: the first login of an account sends the password through TLS or a socket (full authentication).
Then SHA256(password) is known, and later logins need only a proof of it, as in the server.

Source: sql/auth/sha2_password.cc; sql/auth/sql_authentication.cc.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from binlog_server.packets import PacketStream, ServerError

NATIVE: Final = "mysql_native_password"
SHA2: Final = "caching_sha2_password"
_ROUNDS: Final = 200_000
_MOST_ROUNDS: Final = 10_000_000
_FAST_OK: Final = b"\x01\x03"
_FULL: Final = b"\x01\x04"


class AccountsError(ValueError):
    """The file of accounts is damaged."""


@dataclass
class Accounts:
    """The accounts of a server: by name, the stored hashes. `known` has SHA256(SHA256(password)) after a full login."""

    hashes: dict[str, list[str]]
    known: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of_file(cls, path: str) -> Accounts:
        """Read a file of accounts.

        Raises:
            AccountsError: a line is no account.
            OSError: the file cannot be read.
        """
        hashes: dict[str, list[str]] = {}
        for number, line in enumerate(Path(path).read_text("utf-8", "replace").splitlines(), 1):
            name, _, stored = line.strip().partition(":")
            if not line.strip() or line.startswith("#"):
                continue
            if not name or not _is_hash(stored):
                hint = "expected NAME:HASH as `python -m binlog_server.accounts NAME` prints it"
                raise AccountsError(f"{path}:{number}: not an account; {hint}")
            hashes.setdefault(name, []).append(stored)
        if not hashes:
            raise AccountsError(f"{path}: no account")
        return cls(hashes)

    def check(self, name: str, plugin: str, proof: bytes, nonce: bytes, packets: PacketStream, *, safe: bool) -> None:
        """Check the proof of a client, and let it change the method if its account has another one.

        `safe`: the connection is a socket or has TLS, so that a password may be sent.

        Raises:
            ServerError: access is denied.
        """
        stored = {NATIVE if one.startswith("*") else SHA2: one for one in self.hashes.get(name, ())}
        wanted = plugin if plugin in stored or not stored else next(iter(stored))
        if wanted not in (NATIVE, SHA2):
            wanted = SHA2
        if wanted != plugin:
            packets.write(b"\xfe" + wanted.encode() + b"\0" + nonce + b"\0")
            proof = packets.read()
        is_right = (self._native if wanted == NATIVE else self._sha2)(
            name, stored.get(wanted, ""), proof, nonce, packets, safe
        )
        if not is_right:
            used = "YES" if proof.strip(b"\0") else "NO"
            raise ServerError(1045, "28000", f"Access denied for user '{name}' (using password: {used})")

    @staticmethod
    def _native(_name: str, stored: str, proof: bytes, nonce: bytes, _packets: PacketStream, _safe: bool) -> bool:  # noqa: FBT001 - as _sha2
        twice = bytes.fromhex(stored[1:]) if stored else os.urandom(20)
        if len(proof) != 20:
            return False
        once = _xor(proof, hashlib.sha1(nonce + twice, usedforsecurity=False).digest())
        return hmac.compare_digest(hashlib.sha1(once, usedforsecurity=False).digest(), twice)

    def _sha2(self, name: str, stored: str, proof: bytes, nonce: bytes, packets: PacketStream, safe: bool) -> bool:  # noqa: FBT001 - as _native
        twice = self.known.get(name)
        if twice is not None and len(proof) == 32:
            once = _xor(proof, hashlib.sha256(twice + nonce).digest())
            if hmac.compare_digest(hashlib.sha256(once).digest(), twice):
                packets.write(_FAST_OK)
                return True
        if not proof.strip(b"\0"):
            return False
        packets.write(_FULL)
        if not safe:  # the client asks for a public key now, or gives up
            packets.read()
            return False
        password = packets.read().removesuffix(b"\0")
        rounds, salt, found = _parts(stored) if stored else (_ROUNDS, os.urandom(16), b"")
        if not hmac.compare_digest(_derived(password, salt, rounds), found):
            return False
        self.known[name] = hashlib.sha256(hashlib.sha256(password).digest()).digest()
        return True


def hashes_of(password: str) -> list[str]:
    """Return both stored forms of a password."""
    data, salt = password.encode(), os.urandom(16)
    twice = hashlib.sha1(hashlib.sha1(data, usedforsecurity=False).digest(), usedforsecurity=False).hexdigest()
    return [f"$pbkdf2${_ROUNDS}${salt.hex()}${_derived(data, salt, _ROUNDS).hex()}", f"*{twice.upper()}"]


def _derived(password: bytes, salt: bytes, rounds: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password, salt, rounds)


def _parts(stored: str) -> tuple[int, bytes, bytes]:
    _, name, rounds, salt, found = stored.split("$")
    if name != "pbkdf2" or not 0 < int(rounds) <= _MOST_ROUNDS:
        raise ValueError(stored)
    return int(rounds), bytes.fromhex(salt), bytes.fromhex(found)


def _is_hash(stored: str) -> bool:
    try:
        return len(bytes.fromhex(stored[1:])) == 20 if stored.startswith("*") else bool(_parts(stored))
    except ValueError:
        return False


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


if __name__ == "__main__":
    sys.stdout.writelines(f"{sys.argv[1]}:{one}\n" for one in hashes_of(getpass.getpass()))
