"""`binlogio dump -vv` beside the vendors' tools: the same rows and values but for the differences of docs/dump.md.

Each rule below is a row of the table in that document; a difference that no rule explains fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from struct import pack
from typing import TYPE_CHECKING, Final

import pytest

from corpus import FIXTURES, ROOT
from real_servers import vendor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

TOOLS: Final = {
    "mysql97": ("mysql", "mysqlbinlog"),
    "mariadb1011": ("mariadb", "mariadb-binlog"),
    "mariadb118": ("mariadb118", "mariadb-binlog"),
}
# Logs that the tools do not show: encrypted ones without keys; of old temporal types mariadb-binlog prints no rows.
LEFT_OUT: Final = ("encrypted", "types_old_temporal")
# mysqlbinlog ends an event at a GEOMETRY (Bug#72495).
WITH_GEOMETRY: Final = ("metadata_full", "metadata_minimal", "types_geometry_vector")
CODECS: Final = (
    "utf-8 cp1252 latin-1 utf-16-be utf-16-le utf-32-be shift_jis cp932 euc_jp gbk gb18030 big5 euc_kr cp1251"
    " koi8_r cp1250 cp1256 cp1257 cp850 cp852 cp866 iso8859_2 iso8859_7 iso8859_8 iso8859_9 iso8859_13 tis_620 koi8_u"
    " mac_roman mac_latin2 hp_roman8 gb2312 ascii"
).split()
_TOOL: Final = re.compile(rb"###   @(\d+)=(.*?)(?: /\* (.*?) ?meta=\d+ nullable=\d is_null=\d ?\*/)? ?$", re.DOTALL)
_OURS: Final = re.compile(
    rb"###   (?:`(?:[^`]|``)*`|@\d+)=(.*) /\* (?:@(\d+) )?(.*?) meta=\d+ nullable=\d is_null=\d \*/$", re.DOTALL
)
# Columns of the fixtures in character sets that Python does not have.
_WITHOUT_CODEC: Final = re.compile(rb"###   `c_(?:armscii8|dec8|geostd8|keybcs2|swe7|hp8|macce|eucjpms|ujis|sjis)`=")
_ROW: Final = re.compile(rb"### (?:INSERT INTO|UPDATE|DELETE FROM|SET|WHERE)\b|###   @|###   `")


def lines_of(text: bytes) -> list[bytes]:
    """Return the lines of rows; a JSON diff is one line, statements and other remarks are left out."""
    found: list[bytes] = []
    for line in re.split(rb"\n(?=#|[A-Z/])", text):
        if _ROW.match(line):
            found.append(line.rstrip(b"\n"))
        elif line.startswith(b"###      ") and found:
            found[-1] += b" " + line[3:].strip()
    return found


_ESCAPES: Final = {b"n": b"\n", b"r": b"\r", b"0": b"\0", b"t": b"\t", b"Z": b"\x1a", b"b": b"\b", b"\\": b"\\"}


def unescaped(text: bytes) -> bytes:
    r"""Return the bytes of a text with escapes, such as `\n` and `\x00`."""

    def byte(match: re.Match[bytes]) -> bytes:
        return bytes.fromhex(match[1].decode()) if match[1] else _ESCAPES.get(match[2], match[0])

    return re.sub(rb"\\(?:x([0-9A-Fa-f]{2})|(.))", byte, text, flags=re.DOTALL)


def our_text(value: bytes) -> bytes | None:
    """Return the bytes of a literal; None where it is neither hexadecimal nor a text."""
    number = re.match(rb"(?:_\w+ )?0x([0-9a-f]*)(?: /\*|$)", value)
    if number:
        return bytes.fromhex(number[1].decode())
    return unescaped(value[1:-1].replace(b"''", b"'")) if value.startswith(b"'") else None


def is_number_of_either_sign(tool: bytes, ours: bytes) -> bool:
    """`-1 (4294967295)`: the tool does not know the sign; the log has said it, or the column is taken for signed."""
    numbers = re.fullmatch(rb"(-?\d+)(?: \((\d+)\))?", tool)
    return numbers is not None and ours in numbers.groups()


def is_member(tool: bytes, ours: bytes) -> bool:
    """ENUM and SET: the tool has numbers and bits, `dump` the names, where the log has them."""
    return ours.startswith(b"'") and (tool.isdigit() or tool.startswith(b"b'"))


def is_bits(tool: bytes, ours: bytes) -> bool:
    return tool.startswith(b"b'") and ours.isdigit() and int(tool[2:-1], 2) == int(ours)


def is_date(tool: bytes, ours: bytes) -> bool:
    """`2024:12:31` is no date that a server takes."""
    return tool.replace(b":", b"-") == ours


def is_timestamp(tool: bytes, ours: bytes) -> bool:
    """Seconds since 1970 are a date and time here, in UTC or in TZ."""
    seconds, _, fraction = tool.partition(b".")
    if not seconds.isdigit() or not ours.startswith(b"'"):
        return False
    moment = datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    text = ("0000-00-00 00:00:00" if not int(seconds) and not fraction.strip(b"0") else moment).encode()
    return ours == b"'" + text + (b"." + fraction if fraction else b"") + b"'"


def is_float(tool: bytes, ours: bytes) -> bool:
    """Numbers are of the digits that give them back; the tool prints more or fewer of them, and blanks."""
    one, other = float(tool), float(ours)
    return one == other or pack("<f", one) == pack("<f", other) or f"{other:.6g}" == f"{one:.6g}"


def is_text(tool: bytes, ours: bytes) -> bool:
    """Texts of other character sets are UTF-8 here, bytes are hexadecimal; the tool prints bytes as they are."""
    text = our_text(ours)
    if text is None or not tool.startswith(b"'"):
        return False
    stored = unescaped(tool[1:-1])
    if text.rstrip(b"\0 ") == stored.rstrip(b"\0 "):
        return True
    readings = []
    for codec in CODECS:
        try:
            readings.append(text.decode("utf-8").encode(codec))
        except (UnicodeError, LookupError):
            continue
    return any(one.rstrip(b"\0 ") == stored.rstrip(b"\0 ") for one in readings)


def is_other_form(tool: bytes, ours: bytes) -> bool:
    """UUID, INET4, INET6 and VECTOR of MariaDB: the tool prints their bytes, `dump` what SQL takes."""
    return tool.startswith(b"'") and re.fullmatch(rb"'[0-9a-fA-F.:-]+'|VEC_FromText\('\[.*\]'\)", ours) is not None


def is_compressed(tool: bytes, ours: bytes) -> bool:
    """COMPRESSED columns: the tool prints the compressed bytes."""
    return tool.startswith(b"'") and our_text(ours) is not None


def is_json(tool: bytes, ours: bytes) -> bool:
    """In diffs columns have names; a text is in quotes."""
    named = re.sub(rb"`(?:[^`]|``)*`", b"@", ours)
    same = re.sub(rb"@\d+", b"@", tool)
    if b"".join(named.split()) == b"".join(same.split()) or is_text(tool, ours):
        return True
    document = our_text(ours)
    return document is not None and json.loads(document) == unescaped(tool[1:-1]).decode("utf-8", "replace")


def is_year(tool: bytes, ours: bytes) -> bool:
    """YEAR 0 is 1900 to the tool."""
    return (tool, ours.lstrip(b"0")) == (b"1900", b"")


RULES: Final[dict[str, Callable[[bytes, bytes], bool]]] = {
    **dict.fromkeys(("INT", "TINYINT", "SHORTINT", "MEDIUMINT", "LONGINT"), is_number_of_either_sign),
    **dict.fromkeys(("ENUM", "SET"), is_member),
    **dict.fromkeys(("FLOAT", "DOUBLE"), is_float),
    **dict.fromkeys(("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "GEOMETRY"), is_text),
    **dict.fromkeys(("STRING", "VARSTRING"), lambda tool, ours: is_text(tool, ours) or is_other_form(tool, ours)),
    "BIT": is_bits,
    "DATE": is_date,
    "TIMESTAMP": is_timestamp,
    "JSON": is_json,
    "YEAR": is_year,
}


def difference(tool: bytes, ours: bytes) -> str:
    """Return what no rule explains of two lines; empty where they are the same."""
    if tool == ours:
        return ""
    theirs, own = _TOOL.match(tool), _OURS.match(ours)
    if theirs is None or own is None:
        return f"title {tool!r} {ours!r}"
    if own[2] is not None and theirs[1] != own[2]:
        return f"column {tool!r} {ours!r}"
    value, text, kind = theirs[2], own[1], (theirs[3] or b"").decode()
    if value == text:
        return ""
    if "COMPRESSED" in kind:
        return "" if is_compressed(value, text) else f"{tool!r} {ours!r}"
    if value.startswith((b"JSON_", b"@")):
        kind = "JSON"
    if _WITHOUT_CODEC.match(ours) and text.startswith((b"'", b"0x")):
        return ""
    rule = RULES.get(re.split(r"[ (/]", kind)[0])
    return "" if rule is not None and rule(value, text) else f"{tool!r} {ours!r}"


def logs() -> list[Path]:
    folders = sorted(FIXTURES.glob("*/*/files.txt"))
    return [
        log
        for folder in folders
        if folder.parent.parent.name in TOOLS
        and not any(name in folder.parent.name for name in LEFT_OUT)
        and not (folder.parent.parent.name == "mysql97" and folder.parent.name in WITH_GEOMETRY)
        for log in sorted(folder.parent.glob("*.0*"))
        if re.fullmatch(r".*\.\d{6}", log.name)
    ]


@pytest.mark.parametrize("log", logs(), ids=lambda log: "-".join(log.parts[-3:]))
def test_rows_are_those_of_the_tool_but_for_the_listed_differences(log: Path) -> None:
    kind, tool = TOOLS[log.parts[-3]]
    server = vendor(kind)
    with server.folder("dump") as folder:
        copy = folder / log.name
        shutil.copyfile(log, copy)
        shown = server.run(tool, "--no-defaults", "-vv", "--base64-output=decode-rows", server.inside(copy)).stdout
    environment = {**os.environ, "TZ": "UTC", "PYTHONPATH": os.pathsep.join(sys.path)}
    ours = subprocess.run(
        [sys.executable, "-m", "binlogio_cli", "dump", "-vv", str(log)],
        capture_output=True, check=False, env=environment, cwd=ROOT,
    ).stdout  # fmt: skip
    theirs, own = lines_of(shown), lines_of(ours)

    assert [found for found in map(difference, theirs, own) if found][:20] == []
    assert len(theirs) == len(own)
