"""Address of a MySQL or MariaDB server (URL, password file, environment), and its TLS settings. Needs no driver.

    url     := ("mysql" | "mariadb") "://" user (":" password)? "@" host? (":" port)? "/" database?
               ("?" option ("&" option)*)?
    option  := "unix_socket=" path | "password-file=" path
             | "ssl-mode=" mode | "ssl-ca=" path | "ssl-cert=" path | "ssl-key=" path        -- "_" for "-" is the same
    mode    := DISABLED | PREFERRED | REQUIRED | VERIFY_CA | VERIFY_IDENTITY

Modes and defaults are those of the `mysql` client: PREFERRED, with `ssl-ca` VERIFY_CA; on a Unix socket DISABLED.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from binlogio.errors import ReplayError

SCHEMES: Final = ("mysql://", "mariadb://")
PASSWORD_VARIABLE: Final = "MYSQL_PWD"  # noqa: S105 - the name of the variable that the vendors' clients read
SSL_MODES: Final = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")
_USER: Final = "root"
_HOST: Final = "localhost"
_PORT: Final = 3306
_PASSWORD: Final = re.compile(r"(?<=:).*(?=@)")
_OPTIONS: Final = ("unix_socket", "password_file", "ssl_mode", "ssl_ca", "ssl_cert", "ssl_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlAddress:
    """A server, the account, and the TLS mode. `database` is the default one of statements that the log has without."""

    user: str
    password: str = field(repr=False)
    host: str
    port: int
    unix_socket: str | None
    database: str | None = None
    ssl_mode: str = "PREFERRED"
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None

    @classmethod
    def parse(cls, url: str) -> MysqlAddress:
        """Read a URL, such as `mysql://user@host/?ssl-ca=/etc/ssl/ca.pem&password-file=/run/secrets/replay`.

        A URL without a password takes it from the environment (MYSQL_PWD).

        Raises:
            ReplayError: the URL is not one of a server, an option is unknown or contradicts another, or the password
                file cannot be read.
        """
        try:
            parts = urlsplit(url)
        except ValueError as exc:
            raise ReplayError("the target's URL cannot be parsed", found=without_password(url)) from exc
        try:
            port = parts.port or _PORT
        except ValueError as exc:
            hint = "in a password, write : / ? # and % as %3A %2F %3F %23 and %25, or use MYSQL_PWD"
            raise ReplayError("the target's URL has an invalid port", found=without_password(url), hint=hint) from exc
        database = parts.path[1:]
        if not url.startswith(SCHEMES) or "/" in database:
            raise ReplayError(
                "the target is not the URL of a server",
                expected="mysql://user@host/database?unix_socket=/path",
                found=without_password(url),
            )
        options = _options(parts.query)
        return cls(
            user=unquote(parts.username or _USER),
            password=_password(parts.password, options.pop("password_file", None)),
            host=parts.hostname or _HOST,
            port=port,
            database=unquote(database) or None,
            unix_socket=options.pop("unix_socket", None),
            ssl_mode=_ssl_mode(parts.query, options),
            ssl_ca=options.get("ssl_ca"),
            ssl_cert=options.get("ssl_cert"),
            ssl_key=options.get("ssl_key"),
        )

    @property
    def requires_tls(self) -> bool:
        """True if a connection without TLS is refused."""
        return self.ssl_mode not in ("DISABLED", "PREFERRED")


def without_password(url: str) -> str:
    """Return a URL as it may be shown."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + _PASSWORD.sub("...", rest, count=1)


def _options(query: str) -> dict[str, str]:
    """Return the options of a URL; a misspelled one is refused, since it would be a connection without it."""
    options: dict[str, str] = {}
    for given, value in parse_qsl(query, keep_blank_values=True):
        name = given.replace("-", "_")
        if name not in _OPTIONS:
            known = ", ".join(one.replace("_", "-") if one != "unix_socket" else one for one in _OPTIONS)
            raise ReplayError("the target's URL: unknown option", expected=known, found=given)
        if name in options:
            raise ReplayError("the target's URL has an option twice", found=given)
        if not value:
            raise ReplayError("the target's URL has an option without a value", found=given)
        options[name] = value
    return options


def _ssl_mode(query: str, options: dict[str, str]) -> str:
    """Return the TLS mode that the options ask for.

    Raises:
        ReplayError: there is no such mode, or what it needs is missing.
    """
    files = [name for name in ("ssl_ca", "ssl_cert", "ssl_key") if name in options]
    is_local = "unix_socket=" in query
    usual = "VERIFY_CA" if "ssl_ca" in options else "PREFERRED" if files or not is_local else "DISABLED"
    mode = options.get("ssl_mode", usual).upper()
    if mode not in SSL_MODES:
        raise ReplayError("the target's URL: unknown ssl-mode", expected=", ".join(SSL_MODES), found=mode)
    if mode == "VERIFY_CA" and "ssl_ca" not in options:
        raise ReplayError(
            "the target's URL: ssl-mode=VERIFY_CA needs ssl-ca, the certificate of the certificate authority"
        )
    if mode == "DISABLED" and files:
        raise ReplayError(
            "the target's URL: ssl-mode=DISABLED contradicts the certificates given", found=", ".join(files)
        )
    if ("ssl_cert" in options) != ("ssl_key" in options):
        raise ReplayError("the target's URL: ssl-cert and ssl-key must be given together")
    return mode


def _password(given: str | None, file: str | None) -> str:
    """Return the password: of the URL, else of the file, else of the environment.

    Raises:
        ReplayError: there are two, or the file cannot be read.
    """
    if given is not None and file is not None:
        raise ReplayError(
            "the target's URL has two passwords", hint="leave out the password in the URL or password-file"
        )
    if given is not None:
        return unquote(given)
    if file is None:
        return os.environ.get(PASSWORD_VARIABLE, "")
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise ReplayError(f"the password file cannot be read: {type(exc).__name__}", found=file) from exc
    return lines[0] if lines else ""
