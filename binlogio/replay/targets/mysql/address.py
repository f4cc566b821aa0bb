"""Where a MySQL or MariaDB server is, as a URL says it.

Knows the URL. Knows no connection, and needs no package for one.

    url := ("mysql" | "mariadb") "://" user (":" password)? "@" host? (":" port)? "/" database? ("?unix_socket=" path)?
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from binlogio.errors import ReplayError

SCHEMES: Final = ("mysql://", "mariadb://")
_USER: Final = "root"
_HOST: Final = "localhost"
_PORT: Final = 3306
_PASSWORD: Final = re.compile(r"(?<=:).*(?=@)")


@dataclass(frozen=True, slots=True)
class MysqlAddress:
    """Where a server is and who asks. `database` is the default one of statements that the log has without."""

    user: str
    password: str
    host: str
    port: int
    unix_socket: str | None
    database: str | None = None

    @classmethod
    def parse(cls, url: str) -> MysqlAddress:
        """`mysql://user:password@host:port/database?unix_socket=/run/mysqld.sock`.

        Raises:
            ReplayError: the URL is none.
        """
        try:
            parts = urlsplit(url)
        except ValueError as exc:
            raise ReplayError("the target's URL cannot be taken apart", found=without_password(url)) from exc
        try:
            port = parts.port or _PORT
        except ValueError as exc:
            raise ReplayError("the target's URL has no such port", found=without_password(url)) from exc
        database = parts.path[1:]
        if not url.startswith(SCHEMES) or "/" in database:
            raise ReplayError(
                "the target is no server's URL",
                expected="mysql://user@host/database?unix_socket=/path",
                found=without_password(url),
            )
        socket = parse_qs(parts.query).get("unix_socket", [None])[0]
        user, password = unquote(parts.username or _USER), unquote(parts.password or "")
        return cls(user, password, parts.hostname or _HOST, port, socket, unquote(database) or None)


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + _PASSWORD.sub("...", rest, count=1)
