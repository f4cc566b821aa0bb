"""Real MySQL and MariaDB servers and their client programs, for the tests marked `server`.

Builds them with `tests/support/servers`. If that is not possible, tests are skipped with the reason; they do not fail.
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


def seeds(default: str) -> range:
    """Return the seeds of a random test: BINLOGIO_SEEDS, such as `1-50`, or the default."""
    first, _, last = os.environ.get("BINLOGIO_SEEDS", default).partition("-")
    return range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class Vendor:
    """The programs of one vendor in a chroot."""

    kind: str
    root: Path

    @property
    def is_mariadb(self) -> bool:
        """Whether the vendor is MariaDB, of any version."""
        return self.kind != "mysql"

    @property
    def client(self) -> str:
        """The name of the client program."""
        return "mariadb" if self.is_mariadb else "mysql"

    @property
    def version(self) -> str:
        """The server version in a log that this server accepts as its own."""
        return {"mysql": "9.7.4", "mariadb": "10.11.18-MariaDB-log", "mariadb118": "11.8.6-MariaDB-log"}[self.kind]

    def run(self, *command: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run a program of the chroot; the caller checks its exit code."""
        return subprocess.run(
            [str(SCRIPT), "run", self.kind, *command],
            input=stdin,
            capture_output=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """Provide an empty folder inside the chroot, by its path outside."""
        path = self.root / "tmp" / f"binlogio-{os.getpid()}-{name}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def inside(self, path: Path) -> str:
        """Return the path of a file inside the chroot."""
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
                [str(SCRIPT), "discard", self.kind, full_name], capture_output=True, timeout=RUN_TIMEOUT_S, check=False
            )


@dataclass(frozen=True)
class Instance:
    """A running server."""

    vendor: Vendor
    name: str
    socket: Path
    data: Path

    def sql(self, text: str | bytes, *, names: bool = False) -> str:
        """Run SQL in the vendor's client; return rows as tab-separated lines, with `names` below the column names.

        Fails the test if a statement fails.
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

    They are built at first use (one or two minutes), which requires root and Debian packages.
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
