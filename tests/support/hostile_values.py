"""Values that try to break out of the quoted text in which they are written."""

from __future__ import annotations

from typing import Final

HOSTILE: Final = (
    "'; DROP TABLE t; -- ", '"quoted"', "back\\slash\\'", "`tick`", "/* comment */", "nul\0byte", "\x1a\r\n\b\t",
    "%s %d {}", "ünï 🙂",
)  # fmt: skip
HOSTILE_BYTES: Final = (b"\xff\xfe'\\\x00", b"\x80\x81", b"\xbf\x27 OR 1=1")
