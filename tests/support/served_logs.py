"""The program `binlogio serve` in a process of its own, and replicas of real servers that read from it."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from real_servers import RUN_TIMEOUT_S, SCRIPT, Instance

TIMEOUT_S: Final = 40


def free_port() -> int:
    """Return a port that no socket has, outside of the range that the system takes for connections."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def served(*arguments: str | Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Provide a running `binlogio serve`, which is killed at the end."""
    command = [sys.executable, "-m", "binlogio", "serve", "--port", str(port), *map(str, arguments)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            assert f"127.0.0.1:{port}" in first, first + process.stderr.read()
            yield process
        finally:
            process.kill()


@contextmanager
def slow_network(port: int, delay_s: float, *cuts: int) -> Iterator[int]:
    """Provide a port that forwards to another one: each part of an answer is late.

    The first connection breaks after so many bytes, then one after the next number.
    """
    sizes = [*cuts]

    def pump(source: socket.socket, target: socket.socket, *, is_answer: bool) -> None:
        left = sizes.pop(0) if is_answer and sizes else 1 << 60
        with source, target:
            try:
                while left > 0 and (data := source.recv(min(left, 1 << 14))):
                    time.sleep(delay_s if is_answer else 0)
                    target.sendall(data)
                    left -= len(data)
                target.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", port))
            except OSError:
                return
            for one, other, is_answer in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=pump, args=(one.dup(), other.dup()), kwargs={"is_answer": is_answer}, daemon=True
                ).start()
            client.close()
            server.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def kill_and_restart(server: Instance, *options: str) -> None:
    """Kill a server (SIGKILL), and start it again with its data."""
    pid = int((server.vendor.root / "run/mysqld" / f"{server.name}.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.02)
    lock = server.vendor.root / "run/mysqld" / f"{server.name}.sock.lock"
    lock.unlink(missing_ok=True)  # the killed process may not be reaped yet
    command = [str(SCRIPT), "restart", server.vendor.kind, server.name, *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=RUN_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


def start_replica(replica: Instance, port: int, place: str, until: str = "") -> None:
    """Let a server replicate from a port; `place` has the options of CHANGE REPLICATION SOURCE or CHANGE MASTER."""
    if replica.vendor.is_mariadb:
        replica.sql(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='r', MASTER_PASSWORD='p',"
            f" MASTER_SSL=0, MASTER_CONNECT_RETRY=1, MASTER_HEARTBEAT_PERIOD=1, {place}; START SLAVE {until};"
        )
    else:
        replica.sql(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='r',"
            f" SOURCE_PASSWORD='p', SOURCE_SSL=0, SOURCE_CONNECT_RETRY=1, SOURCE_HEARTBEAT_PERIOD=1, {place};"
            " START REPLICA;"
        )


def status(replica: Instance) -> dict[str, str]:
    """Return SHOW REPLICA STATUS."""
    text = replica.sql("SHOW SLAVE STATUS" if replica.vendor.is_mariadb else "SHOW REPLICA STATUS", names=True)
    names, values = (line.split("\t") for line in text.rstrip("\n").split("\n")[:2])
    return dict(zip(names, values, strict=False))


def tables(server: Instance) -> str:
    return server.sql("CHECKSUM TABLE shop.t, shop.u")


def await_tables(replica: Instance, expected: str) -> None:
    """Wait until a replica has the tables; fail with its error."""
    end = time.monotonic() + TIMEOUT_S
    while (found := _tables_of(replica)) != expected:
        about = {name: value for name, value in status(replica).items() if "Error" in name and value not in ("", "0")}
        running = [value for name, value in status(replica).items() if name.endswith("SQL_Running")]
        assert time.monotonic() < end and running == ["Yes"], (found, expected, about, status(replica))  # noqa: PT018
        time.sleep(0.2)


def _tables_of(replica: Instance) -> str:
    found = replica.sql("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'shop'")
    return tables(replica) if found.strip() == "2" else ""
