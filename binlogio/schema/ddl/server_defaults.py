"""Server defaults of CREATE TABLE: character sets and collations, by vendor and version.

These are the compiled-in defaults. A server's configuration may differ, so facts derived from them are marked as
assumed (`binlogio.schema.ddl.parsed_table`).

    server's collation        latin1_swedish_ci, utf8mb4_0900_ai_ci since MySQL 8.0.1, utf8mb4_uca1400_ai_ci since
                              MariaDB 11.6
    collation of utf8mb4      utf8mb4_general_ci, utf8mb4_0900_ai_ci since MySQL 8.0.1; Unicode ones uca1400_ai_ci since
                              MariaDB 11.5

Source: sql/mysqld.cc, default_charset_info; strings/collations.cc; MariaDB: sql/charset_collations.h.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from binlogio.frozen import dataclass
from binlogio.schema.collations import (
    charset_of_collation,
    collation_id,
    default_collation,
)

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.schema.types import Vendor

_VERSION: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_MARIADB_VERSION: Final = re.compile(
    r"(?:5\.5\.5-)?(\d{1,3})\.(\d{1,3})\.(\d{1,3})"
)  # 5.5.5- was put before it for old replicas
_UNICODE: Final = frozenset({"utf8mb3", "utf8mb4", "ucs2", "utf16", "utf32"})
_CONTEXT_FREE: Final = "uca1400"  # MariaDB: COLLATE uca1400_ai_ci means that of the column's character set


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """A server's vendor and version, and what follows from them.

    `charset_collations` are pairs of a character set and the collation that a session has for it, where it is not the
    usual one. `sets_explicit_timestamps` is the session's explicit_defaults_for_timestamp; None for the usual one of
    the version.
    """

    is_mariadb: bool
    version: tuple[int, int, int]
    charset_collations: tuple[tuple[str, str], ...] = ()
    sets_explicit_timestamps: bool | None = None

    @classmethod
    def of(cls, context: ParseContext) -> ServerDefaults:
        """Return those of the server that wrote a log; of the newest MySQL if it is unknown."""
        pattern = _MARIADB_VERSION if context.is_mariadb else _VERSION
        match = pattern.match(context.server_version)
        if match is None:
            return NEWEST_MYSQL
        major, minor, patch = map(int, match.groups())
        return cls(context.is_mariadb, (major, minor, patch))

    @property
    def vendor(self) -> Vendor:
        """The vendor, as type names need it."""
        return "mariadb" if self.is_mariadb else "mysql"

    @property
    def version_number(self) -> int:
        """The version as comments have it: 80023 for 8.0.23."""
        major, minor, patch = self.version
        return major * 10000 + minor * 100 + patch

    @property
    def collation(self) -> str:
        """The collation of databases that are created without one."""
        if self.is_mariadb:
            return "utf8mb4_uca1400_ai_ci" if self.version >= (11, 6, 0) else "latin1_swedish_ci"
        return "utf8mb4_0900_ai_ci" if self.version >= (8, 0, 1) else "latin1_swedish_ci"

    @property
    def explicit_timestamps(self) -> bool:
        """True if TIMESTAMP columns are nullable by default (explicit_defaults_for_timestamp)."""
        if self.sets_explicit_timestamps is not None:
            return self.sets_explicit_timestamps
        return self.logs_explicit_timestamps

    @property
    def logs_explicit_timestamps(self) -> bool:
        """True if events have the session's explicit_defaults_for_timestamp, and it is usually on."""
        return self.version >= ((10, 10, 0) if self.is_mariadb else (8, 0, 2))

    @property
    def logs_ddl_xid(self) -> bool:
        """True if DDL of InnoDB tables that was carried out is logged with an XID, and other DDL without one."""
        return not self.is_mariadb and self.version >= (8, 0, 0)

    def collation_of_charset(self, charset: str) -> str:
        """Return the collation of a character set where none is named.

        Raises:
            UnsupportedFeature: no server has a character set of that name.
        """
        usual = default_collation(charset)
        charset = charset_of_collation(usual)
        for name, collation in self.charset_collations:
            if name == charset:
                return collation
        if self.is_mariadb and self.version >= (11, 5, 0) and charset in _UNICODE:
            return f"{charset}_uca1400_ai_ci"
        if charset == "utf8mb4" and (self.is_mariadb or self.version < (8, 0, 1)):
            return "utf8mb4_general_ci"
        return usual

    @staticmethod
    def is_partial_collation(name: str) -> bool:
        """Return whether a name is one of MariaDB's for several character sets."""
        return name.lower().startswith(_CONTEXT_FREE)

    def known_collation(self, name: str, charset: str) -> str:
        """Return a collation by its full, present name.

        `charset` completes the names that MariaDB has for several character sets.

        Raises:
            UnsupportedFeature: no server has a collation of that name.
        """
        full = name.lower()
        if self.is_partial_collation(name):
            full = f"{charset}_{full}"
        head, mark, rest = full.partition("_")
        full = charset_of_collation(default_collation(head)) + mark + rest
        collation_id(full, is_mariadb=self.is_mariadb)
        return full


NEWEST_MYSQL: Final = ServerDefaults(is_mariadb=False, version=(99, 0, 0))
NEWEST_MARIADB: Final = ServerDefaults(is_mariadb=True, version=(99, 0, 0))
