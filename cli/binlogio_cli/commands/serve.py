"""`binlogio serve`: logs as a source of replication.

This module has the options and the messages. `binlog_server` is the server.
"""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING, Any, Final

import click

from binlog_server.accounts import Accounts, AccountsError
from binlog_server.server import BinlogServer, ListenOptions
from binlog_server.source_logs import ServeOptions, SourceLogs
from binlogio.implementation import require_kernel
from binlogio.options import ReadOptions
from binlogio.storage import load_keyring
from binlogio_cli.messages import Refusal, say, say_missing
from binlogio_cli.options import (
    INPUT_PATH,
    FilePath,
    SectionedCommand,
    WholeNumber,
    ignore_missing_logs_option,
    parse_gtids,
)
from binlogio_cli.output import quiet_option
from binlogio_cli.quantities import counted
from binlogio_cli.selection import Reading, check_selected, files_argument, reading_options, selection_options

if TYPE_CHECKING:
    from binlogio.selection.selection import Selection

_EXAMPLE: Final = """\b
Examples: a directory of logs, which may grow; up to a transaction; for other machines
  binlogio serve --port 3307 /archive
  binlogio serve --port 3307 --until 3e11fa47-71ca-11e1-9e33-c80aa9429562:230 /archive
  binlogio serve --host 0.0.0.0 --port 3307 --accounts accounts --tls-cert cert.pem --tls-key key.pem /archive
"""
_WAIT_S: Final = 0.5
_OF_ROWS: Final = ("databases", "tables", "exclude_tables", "operations", "condition")


@click.command("serve", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Listen at this address.")
@click.option("--port", type=WholeNumber(0, 65535), default=3307, show_default=True, help="Port; 0: a free one.")
@click.option(
    "--socket", "socket_path", type=FilePath(), metavar="FILE", help="Listen at a Unix socket instead of an address."
)
@click.option(
    "--accounts",
    type=INPUT_PATH,
    metavar="FILE",
    help="Who may log in: lines NAME:HASH, as `python -m binlog_server.accounts NAME` prints them. By default everyone "
    "on this machine.",
)
@click.option(
    "--tls-cert", type=INPUT_PATH, metavar="FILE", help="The certificate of the server, with its chain (PEM)."
)
@click.option("--tls-key", type=INPUT_PATH, metavar="FILE", help="The key of the certificate (PEM).")
@click.option(
    "--until",
    metavar="GTIDS",
    callback=parse_gtids,
    help="The logs end before the first transaction with one of these GTIDs. --stop-position and --stop-datetime end "
    "them at a position and at a time.",
)
@ignore_missing_logs_option
@selection_options
@reading_options
@quiet_option
def command(files: tuple[str, ...], selection: Selection, reading: Reading, *, quiet: bool, **options: Any) -> int:
    """Serve FILES (paths, directories, an index file, URIs) as a source of replication, until it is stopped.

    A replica of MySQL or MariaDB, `mysqlbinlog --read-from-remote-server`, or a tool for change data capture connects
    to it as to the server that wrote the logs, by GTID or by position. The logs may grow. They are only read. Without
    --accounts, everyone on this machine can read them.
    """
    require_kernel("serve")
    if "-" in files:
        raise click.UsageError("standard input can be read once: give files")
    if any(getattr(selection, one) for one in _OF_ROWS):
        raise click.UsageError("transactions are served whole: `binlogio copy` selects tables and rows in new logs")
    if selection.start is not None:
        raise click.UsageError("--start-position FILE:OFFSET is not for serve: each client says where it begins")
    listening = ListenOptions(
        host=options["host"],
        port=options["port"],
        socket_path=options["socket_path"],
        accounts=_accounts(options["accounts"]),
        tls=_tls(options["tls_cert"], options["tls_key"]),
    )
    if not listening.is_local and (listening.accounts is None or listening.tls is None):
        raise click.UsageError(f"other machines can reach {listening.host}: give --accounts, --tls-cert and --tls-key")
    serving = ServeOptions(
        selection=selection,
        until=options["until"],
        ignore_missing_logs=options["ignore_missing_logs"],
        read=ReadOptions(verify_checksum=reading.verify_checksum, limits=reading.limits),
        keyring=None if reading.keyring is None else load_keyring(reading.keyring),
    )
    logs = SourceLogs(files, serving)
    say_missing(logs.missing)
    now = [log for log, _ in logs.current()]
    check_selected(selection, now, now, serving.keyring)
    with BinlogServer(logs, listening, (lambda _text: None) if quiet else say) as server:
        say(f"serves {counted(len(now), 'log[s]')} of {logs.version} at {server.address}")
        while True:  # a wait without a limit may miss a signal that arrives as it begins
            time.sleep(_WAIT_S)


def _accounts(path: str | None) -> Accounts | None:
    try:
        return None if path is None else Accounts.of_file(path)
    except AccountsError as exc:
        raise Refusal(str(exc)) from exc


def _tls(cert: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return what TLS needs; None: no TLS.

    Raises:
        UsageError: only one of both files is given.
        Refusal: a file is not of a certificate or a key, or they do not belong together.
    """
    if (cert is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    if cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as exc:
        raise Refusal(f"{cert}, {key}: not a certificate and its key ({exc.reason})") from exc
    return context
