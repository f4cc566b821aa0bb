"""Real MySQL and MariaDB servers and their client programs, for the tests marked `server`.

Knows how to have them (`tests/support/servers`) and when they cannot be had, which is a skip with its reason and never
a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

KINDS = ("mysql", "mariadb", "mariadb118")  # MySQL 9.7, MariaDB 10.11, MariaDB 11.8
SCRIPT = Path(__file__).parent / "servers"
BUILD_TIMEOUT_S = 900
RUN_TIMEOUT_S = 300


@dataclass(frozen=True)
class Vendor:
    """One vendor's programs, in a chroot of their own."""

    kind: str
    root: Path

    @property
    def is_mariadb(self) -> bool:
        """Whether the programs are MariaDB's, of whatever version."""
        return self.kind != "mysql"

    @property
    def client(self) -> str:
        """The name of the client program."""
        return "mariadb" if self.is_mariadb else "mysql"

    @property
    def version(self) -> str:
        """The version of a log that this server takes for one of its own."""
        return {"mysql": "9.7.4", "mariadb": "10.11.18-MariaDB-log", "mariadb118": "11.8.6-MariaDB-log"}[self.kind]

    def run(self, *command: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run a program of the chroot; its exit code is the caller's to judge."""
        return subprocess.run(
            [str(SCRIPT), "run", self.kind, *command],
            input=stdin,
            capture_output=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """Provide an empty folder inside the chroot, as seen from outside."""
        path = self.root / "tmp" / f"binlogio-{os.getpid()}-{name}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def inside(self, path: Path) -> str:
        """Return the name by which the chroot's programs know a file."""
        return f"/{path.relative_to(self.root)}"

    @contextmanager
    def server(self, name: str, *options: str) -> Iterator[Instance]:
        """Provide a running server with an empty data folder."""
        full_name = f"bt{os.getpid()}{name}"
        started = subprocess.run(
            [str(SCRIPT), "start", self.kind, full_name, *options],
            capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
        if started.returncode:
            pytest.fail(f"the server did not start: {started.stderr[-2000:]}")
        try:
            yield Instance(self, full_name, Path(started.stdout.split()[-1]), self.root / f"data-{full_name}")
        finally:
            subprocess.run(
                [str(SCRIPT), "stop", self.kind, full_name], capture_output=True, timeout=RUN_TIMEOUT_S, check=False
            )
            shutil.rmtree(self.root / f"data-{full_name}", ignore_errors=True)


@dataclass(frozen=True)
class Instance:
    """A running server."""

    vendor: Vendor
    name: str
    socket: Path
    data: Path

    def sql(self, text: str | bytes, *, names: bool = False) -> str:
        """Run SQL through the vendor's own client; rows come back as tab-separated lines, with `names` after their own.

        Fails the test where the server refuses.
        """
        done = self.vendor.run(
            self.vendor.client, "--no-defaults", "-uroot", *(() if names else ("-N",)), "--binary-mode",
            "--default-character-set=utf8mb4", "-S", f"/run/mysqld/{self.name}.sock",
            stdin=text.encode() if isinstance(text, str) else text,
        )  # fmt: skip
        if done.returncode:
            pytest.fail(f"the server refused: {done.stderr.decode(errors='replace')[-2000:]}")
        return done.stdout.decode("utf-8", "replace")


@cache
def vendor(kind: str) -> Vendor:
    """Return the programs of one of `KINDS`.

    Built on first use (a minute or two), which needs root and Debian's packages.
    """
    if os.geteuid() != 0:
        pytest.skip(f"{kind}: servers run in chroots, which needs root")
    if shutil.which("debootstrap") is None and shutil.which("apt-get") is None:
        pytest.skip(f"{kind}: servers come from Debian's packages, and neither debootstrap nor apt-get is here")
    built = subprocess.run(
        [str(SCRIPT), "build", kind], capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    if built.returncode:
        pytest.skip(f"{kind}: the server could not be built: {built.stderr.strip()[-500:]}")
    root = subprocess.run([str(SCRIPT), "root", kind], capture_output=True, text=True, check=True)
    return Vendor(kind, Path(root.stdout.strip()))
