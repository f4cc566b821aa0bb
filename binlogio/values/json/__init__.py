"""JSON columns: `JsonDocument`, a document in MySQL's binary form, and `JsonDiffs`, the changes of a partial update.

`tree` has the in-memory form, `binary` and `text` convert it from and to the two written forms. Arrow: string; for
diffs a list of structs.
"""

from __future__ import annotations

from binlogio.values.json.diff import JsonDiff, JsonDiffOperation, JsonDiffs
from binlogio.values.json.document import JsonDocument

__all__ = ["JsonDiff", "JsonDiffOperation", "JsonDiffs", "JsonDocument"]
