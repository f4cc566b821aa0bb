"""Finds the Java that Spark will start, and explains what to install if there is none.

Searches where Spark does (`bin/spark-class`), and reads `java -version`. Imports only the standard library, and
runs as a script before anything is installed. Without this check, a missing Java ends in `[JAVA_GATEWAY_EXITED]
Java gateway process exited before sending its port number.`

    java := $JAVA_HOME/bin/java  if JAVA_HOME is set and not empty  |  the first `java` on PATH
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_JAVA = 17
"""Spark 4 is compiled for this release."""

HOW_TO_INSTALL = (
    "install it: `apt install openjdk-17-jre-headless` (Debian, Ubuntu; any newer openjdk-NN-jre-headless will do), "
    "`dnf install java-21-openjdk-headless` (Fedora), `brew install openjdk@17` (macOS, then set JAVA_HOME as it says)"
)

_TIMEOUT_S = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')  # "1.8.0_392" is 8, "17.0.15" is 17, "26-ea" is 26


class JavaNotFoundError(RuntimeError):
    """No suitable Java for Spark; the message says what to install."""


def require_java() -> Path:
    """Return the path of the `java` that Spark will start, after a check of its version.

    Raises:
        JavaNotFoundError: none was found, it does not run, or it is older than `OLDEST_JAVA`.
    """
    java = _find_java()
    version = _read_version(java)
    if version < OLDEST_JAVA:
        raise _refusal(f"and {java} is Java {version}")
    return java


def _find_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise _refusal(
                f"and JAVA_HOME is {home!r}, which has no bin/java; unset it or point it at a Java", install=False
            )
        return java
    on_path = shutil.which("java")
    if on_path is None:
        raise _refusal("and there is no `java` on PATH")
    return Path(on_path)


def _read_version(java: Path) -> int:
    try:
        run = subprocess.run(  # noqa: S603 - the very program that Spark would start
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise _refusal(f"and {java} does not run ({exc})") from exc
    output = run.stderr + run.stdout
    match = _VERSION.search(output)
    if match is None:
        first_line = next((line.strip() for line in output.splitlines() if line.strip()), "nothing")
        raise _refusal(f"and `{java} -version` says {first_line!r}")
    return int(match[1])


def _refusal(fact: str, *, install: bool = True) -> JavaNotFoundError:
    text = f"Spark needs Java {OLDEST_JAVA} or newer, {fact}"
    return JavaNotFoundError(f"{text}; {HOW_TO_INSTALL}" if install else text)


def main() -> None:
    """Print the path of Java; or print the error, and exit with code 1."""
    try:
        sys.stdout.write(f"{require_java()}\n")
    except JavaNotFoundError as exc:
        sys.exit(f"java: {exc}")


if __name__ == "__main__":
    main()
