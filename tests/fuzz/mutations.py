"""Mutations of text and JSON that keep the structure: tokens and values are changed, not only bytes."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from hostile_values import HOSTILE
from log_mutations import changed_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

_TOKEN: Final = re.compile(rb"[\w@$]+|\s+|.", re.DOTALL)
_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 255, 1 << 31, 1 << 63, 1 << 64, -(1 << 63), 10**400, 1e308, -0.0, float("nan"),
    float("inf"), "", "0", "-1", "x" * 300, "\ud800", "\0", "9999-99-99 99:99:99.9999999", "2026-02-30", "0x",
    "../../x", [], {}, [[]], {"": None}, [None] * 3, *HOSTILE,
)  # fmt: skip
_WORDS: Final = (
    *(b"( ) , ; ` ' \" . = * @ # -- /* */ /*! /*M! \\ \0 \n \xff \xe2\x82 NULL NOT -1 9999999999999999999".split(b" ")),
    *(b"CREATE ALTER DROP RENAME TABLE INDEX ADD COLUMN MODIFY CHANGE TO LIKE SELECT AS IF EXISTS OR REPLACE".split()),
    *(b"PRIMARY KEY UNIQUE FIRST AFTER DEFAULT CHARACTER SET COLLATE utf8mb4 latin1 binary INT VARCHAR(20)".split()),
    *(b"ENUM('a') DECIMAL(65,30) GENERATED ALWAYS VIRTUAL STORED PARTITION BY DATABASE t1 t2 a b".split()),
)  # fmt: skip


def mutate_text(random: Random, data: bytes, words: Sequence[bytes] = _WORDS) -> bytes:
    """Return the text with 1 to 4 changed, removed, doubled, exchanged or repeated tokens; some with changed bytes."""
    tokens: list[bytes] = _TOKEN.findall(data)
    for _ in range(random.randint(1, 4)):
        if not tokens or random.random() < 0.1:
            return changed_bytes(random, b"".join(tokens))
        at, other, kind = random.randrange(len(tokens)), random.randrange(len(tokens)), random.randrange(7)
        if kind == 0:
            tokens[at] = random.choice(words)
        elif kind == 1:
            tokens.insert(at, random.choice(words))
        elif kind == 2:
            del tokens[at : at + random.choice((1, 1, 2, 9))]
        elif kind == 3:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 4:
            tokens[at:at] = tokens[other : other + random.randint(1, 12)]
        elif kind == 5:
            tokens[at] *= random.choice((2, 3, 200))
        else:
            tokens[at] = tokens[at].swapcase()
    return b"".join(tokens)


def mutate_json(random: Random, data: bytes) -> bytes:
    """Return JSON, or lines of JSON, with 1 to 3 changed, removed or added values; some with changed bytes."""
    if random.random() < 0.15:
        return changed_bytes(random, data)
    try:
        lines = [json.loads(data)]
    except ValueError:
        try:
            lines = [json.loads(line) for line in data.splitlines() if line.strip() and not line.startswith(b"#")]
        except ValueError:
            return mutate_text(random, data)
    except RecursionError:
        return data
    for _ in range(random.randint(1, 3)):
        _change(random, lines)
    return b"\n".join(json.dumps(line).encode() for line in lines) + b"\n"


def _change(random: Random, inner: Any) -> None:
    """Change one value at any depth of a list or dict in place."""
    while True:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        if not keys:
            return
        key = random.choice(keys)
        if not isinstance(inner[key], (list, dict)) or not inner[key] or random.random() < 0.15:
            break
        inner = inner[key]
    kind = random.randrange(5)
    if kind == 0:
        del inner[key]
    elif kind == 1:
        inner[key] = deepcopy(inner[random.choice(keys)])
    elif kind == 2 and isinstance(inner, dict):
        inner[random.choice((*HOSTILE, "a", *keys))] = inner.pop(key)
    elif kind == 2:
        inner.insert(key, deepcopy(inner[key]))
    elif isinstance(inner[key], (int, str)) and kind == 3:
        inner[key] = inner[key] + 1 if isinstance(inner[key], int) else inner[key][: random.randrange(9)]
    else:
        inner[key] = deepcopy(random.choice(_VALUES))
