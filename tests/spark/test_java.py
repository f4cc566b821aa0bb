"""Which Java is taken, which is refused, and what the refusal says.

The Javas here are shell scripts that print a version.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pyspark_binlogio.java
from pyspark_binlogio.java import HOW_TO_INSTALL, JavaNotFoundError, require_java

OPENJDK_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)'
EARLY_ACCESS = 'openjdk version "26-ea" 2026-03-17'
ORACLE_8 = 'java version "1.8.0_392"\nJava(TM) SE Runtime Environment (build 1.8.0_392-b08)'
OPENJDK_11 = 'openjdk version "11.0.27" 2025-04-15'
MACOS_STUB = "The operation couldn't be completed. Unable to locate a Java Runtime."


def fake_java(home: Path, says: str, exit_code: int = 0) -> Path:
    """Write `home`/bin/java, a script that prints `says` to stderr as Java does."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(says)} >&2\nexit {exit_code}\n")
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def no_java(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No JAVA_HOME, and a PATH with nothing on it."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("nothing")))


@pytest.mark.parametrize("says", [OPENJDK_17, EARLY_ACCESS, "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n" + OPENJDK_17])
def test_java_home_with_a_recent_java_is_taken(says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME/bin/java is what Spark starts, so it is what is asked."""
    java = fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert require_java() == java


def test_java_on_path_is_taken_without_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without JAVA_HOME, PATH decides; an empty JAVA_HOME counts as none."""
    java = fake_java(tmp_path, OPENJDK_17)
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.setenv("JAVA_HOME", "")

    assert require_java() == java


def test_java_home_wins_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A good Java on PATH does not help, because Spark would not look there."""
    good = fake_java(tmp_path / "good", OPENJDK_17)
    fake_java(tmp_path / "old", ORACLE_8)
    monkeypatch.setenv("PATH", str(good.parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))

    with pytest.raises(JavaNotFoundError, match="is Java 8;"):
        require_java()


@pytest.mark.parametrize(("says", "version"), [(ORACLE_8, 8), (OPENJDK_11, 11)])
def test_old_java_is_refused_with_its_version(
    says: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal names the Java that was found, its version and what to install."""
    java = fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaNotFoundError) as refusal:
        require_java()

    assert str(refusal.value) == f"Spark needs Java 17 or newer, and {java} is Java {version}; {HOW_TO_INSTALL}"


def test_no_java_anywhere_says_what_to_install() -> None:
    """The sentence has the command for each system, and not Spark's JAVA_GATEWAY_EXITED."""
    with pytest.raises(JavaNotFoundError) as refusal:
        require_java()

    text = str(refusal.value)
    assert text.startswith("Spark needs Java 17 or newer, and there is no `java` on PATH; install it:")
    assert all(command in text for command in ("apt install", "dnf install", "brew install"))


def test_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JAVA_HOME that points nowhere is reported, since installing another Java would not help."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))

    with pytest.raises(JavaNotFoundError, match="gone', which has no bin/java; unset it"):
        require_java()


def test_java_that_is_only_a_stub_is_refused_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has a `java` that only prints that no Java is installed."""
    fake_java(tmp_path, MACOS_STUB, exit_code=1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaNotFoundError, match="Unable to locate a Java Runtime"):
        require_java()


def test_silent_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that says nothing is no Java."""
    fake_java(tmp_path, "")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaNotFoundError, match="-version` says 'nothing'"):
        require_java()


def test_java_that_cannot_be_executed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the system will not run is reported with the system's reason."""
    java = fake_java(tmp_path, OPENJDK_17)
    java.write_bytes(b"\x7fELF, but only the beginning of one")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaNotFoundError, match="does not run"):
        require_java()


def test_script_prints_the_sentence_and_fails(tmp_path: Path) -> None:
    """Run as a file before anything is installed, it ends with exit code 1 and one line."""
    run = subprocess.run(
        [sys.executable, "-S", pyspark_binlogio.java.__file__],
        env={"JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1
    assert run.stderr.startswith("java: Spark needs Java 17 or newer, and JAVA_HOME is ")
    assert run.stderr.count("\n") == 1
