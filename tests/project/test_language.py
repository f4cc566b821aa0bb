"""Plain technical English: words and idioms of a dialect that the project once had do not come back.

Each has a plain form: the object's name, "nothing", "after", "is", "continues". In the folders of `PATHS` none of them
occurs in code, comments, docstrings, messages, tests or documents.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from corpus import ROOT

# Folders and files that are checked; ("",) is the whole project.
PATHS: Final = ("",)
SUFFIXES: Final = (".cfg", ".in", ".md", ".pxd", ".pxi", ".py", ".pyi", ".pyx", ".sh", ".toml", ".txt")
NOT_OURS: Final = (
    ".git",
    ".venv",
    "build",
    "dist",
    "node_modules",
    "fixtures/mysql97",
    "fixtures/mariadb1011",
    "fixtures/mariadb118",
)
BANNED: Final = (
    "somebody",
    "nobody",
    "whoever",
    "what becomes",
    "is told",
    "that is none",
    "(?-i:are none)",
    "is had",
    "anew",
    "said once",
    "business",
    "affair",
    "stands?(?! for)",
    "behind",
    "goes on",
    "knows nothing",
)
_BANNED: Final = re.compile(rf"\b(?:{'|'.join(word.replace(' ', chr(92) + 's+') for word in BANNED)})\b", re.IGNORECASE)
# A replica is behind its source: the standard word for lag.
_LAG: Final = re.compile(r"lag|seconds_behind|far behind|(?:bytes|seconds|transactions) behind", re.IGNORECASE)


def files_of(path: str) -> list[Path]:
    """Return the text files of a folder, or the file itself."""
    place = ROOT / path
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    skipped = tuple(ROOT / name for name in NOT_OURS)
    return [
        file
        for file in found
        if file.suffix in SUFFIXES and file != Path(__file__) and not any(file.is_relative_to(name) for name in skipped)
    ]


def uses(text: str) -> list[tuple[int, str]]:
    """Return line numbers and words of what is banned in a text."""
    found: list[tuple[int, str]] = []
    for match in _BANNED.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        line = text[start : match.end() + 200].partition("\n")[0]
        if match[0].lower() != "behind" or not _LAG.search(line):
            found.append((text.count("\n", 0, match.start()) + 1, match[0]))
    return found


@pytest.mark.parametrize("path", PATHS)
def test_no_word_of_the_dialect_is_used(path: str) -> None:
    """Say the object's name instead."""
    files = files_of(path)
    found = [
        f"{file.relative_to(ROOT)}:{line}: {word}"
        for file in files
        for line, word in uses(file.read_text(encoding="utf-8"))
    ]

    assert files
    assert found == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a replica that is 5 seconds behind", []),
        ("the lag:\nbehind the head", [(2, "behind")]),
        ("the rows that are None", []),
        ("It understands that, and `x` stands for y.", []),
        ("what\n    becomes of it, Nobody", [(1, "what\n    becomes"), (2, "Nobody")]),
    ],
)
def test_lag_and_longer_words_are_allowed(text: str, expected: list[tuple[int, str]]) -> None:
    """The check finds words across line ends, and only whole ones."""
    assert expected == uses(text)
