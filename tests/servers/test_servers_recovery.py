"""A real server starts on logs that our writer left in use: it cuts and refuses what our recovery cuts and refuses."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from binlogio.errors import BinlogFormatError
from binlogio.options import ServerVariables
from binlogio.writer.log.recovery import examine
from logs import IN_USE_AT
from logs_in_use import NAME, LogInUse
from real_servers import RUN_TIMEOUT_S, SCRIPT, Instance, vendor

pytestmark = [pytest.mark.server, pytest.mark.slow]

OPTIONS: Final = ("--server-id=1", "--log-bin=binlog", "--gtid-mode=ON", "--enforce-gtid-consistency=ON")


def log_of(number: int) -> LogInUse:
    """Return a log of a server of its own."""
    return LogInUse(ServerVariables(server_uuid=f"00000000-0000-0000-0000-{number:012x}"))


DAMAGE: Final[dict[str, Callable[[LogInUse], object]]] = {
    "nothing": lambda log: None,
    "half an event header": lambda log: log.data.extend(log.data[log.starts[0] :][:10]),
    "GTID event only": lambda log: log.append(log.events(0)[:1]),
    "no XID": lambda log: log.append(log.events(0)[:-1]),
    "no COMMIT": lambda log: log.append(log.events(3)[:-1]),
    "zeros": lambda log: log.data.extend(bytes(100)),
    "cut before the last XID": lambda log: log.data.__delitem__(slice(log.starts[3] - 31, None)),
    "a group in half a group": lambda log: log.append([*log.events(3)[:2], *log.events(3)]),
}


def server_does(server: Instance, *command: str) -> int:
    """Stop or restart the server; its exit code."""
    done = subprocess.run(
        [str(SCRIPT), command[0], "mysql", server.name, *command[1:]],
        capture_output=True, timeout=RUN_TIMEOUT_S, check=False,
    )  # fmt: skip
    return done.returncode


def put(folder: Path, data: bytes) -> None:
    """Make the log the only one of a server that is not running."""
    for path in folder.glob("binlog.*"):
        path.unlink()
    (folder / NAME).write_bytes(data)
    (folder / "binlog.index").write_text(f"./{NAME}\n")
    for name in (NAME, "binlog.index"):
        shutil.chown(folder / name, folder.stat().st_uid, folder.stat().st_gid)


def test_a_server_cuts_what_we_cut_and_refuses_what_we_refuse() -> None:
    """Size, GTIDs and the flag of being in use, for every damage of the recordings that our logs can have."""
    with vendor("mysql").server("recover", *OPTIONS) as server:
        for number, (name, change) in enumerate(DAMAGE.items(), 1):
            log = log_of(number)
            change(log)
            try:
                ours = examine(log.storage, NAME)
            except BinlogFormatError:
                ours = None

            assert server_does(server, "stop") == 0, name
            put(server.data, bytes(log.data))
            started = server_does(server, "restart", *OPTIONS) == 0

            assert started is (ours is not None), name
            if ours is not None:
                found = (server.data / NAME).read_bytes()
                executed = server.sql(f"SELECT GTID_SUBSET('{ours.executed}', @@gtid_executed)").strip()
                more = server.sql(f"SELECT GTID_SUBTRACT(@@gtid_executed, '{ours.executed}')")

                assert (len(found), found[IN_USE_AT]) == (ours.valid_size, 0), name
                assert executed == "1", name
                assert f"{number:012x}" not in more, name
        put(server.data, bytes(log_of(99).data))  # so that it can be stopped
        assert server_does(server, "restart", *OPTIONS) == 0
