"""Ways to damage valid files and messages."""

from __future__ import annotations

import copy
import json
import math
import random
from typing import Any

_WORDS = [
    *("", "x", "../../etc/passwd", "/dev/zero", "\x1b[31mred\x1b[0m", "\u202egnp", "a\nb", "\0"),
    *("${oc.env:HOME}", "${a}", "!!python/object/apply:os.system", "os:system", "NaN", "1e999"),
    *("<script>alert(1)</script>", "x" * 5000, "1" * 5000, "0x" + "f" * 5000, "-1", "[", "{"),
    *("\ud800", "\u00e9" * 300),
]
_WHOLE = [10**3000, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30]
_NUMBERS = [*_WHOLE, 0.5, -0.0, 1e308, math.nan, math.inf]
_RANGE = {"range": [0, 10**12, 1]}
_NODES = [
    *(_RANGE, {"deque": [_RANGE, None]}, {"deque": [[_RANGE], 5]}, {"Counter": [_RANGE]}),
    *({"items": [_RANGE]}, {"set": [_RANGE]}, {"bytes": 10**12}, {"int": "f" * 5000}),
]
"""Of packed data: few letters that say much."""
_PIECES = [
    b"\x8c\x08builtins\x8c\x05range\x93K\x00J\xff\xff\xff\x7fK\x01\x87R",
    b"\x8c\x0bcollections\x8c\x05deque\x93",
    *(b"h\x00h\x00\x86\x94", b"h\x01h\x01\x86\x94", b"](h\x00h\x00h\x00e\x94", b"*a, *a, *a"),
    *(b"", b"\0", b"\xff" * 4, b"\n", b"\x80\x05", b"cos\nsystem\n", b"\x1b[2J", b"&a *a ", b": "),
    *(b"{", b"}", b"[" * 200, b"[" * 100_000, b'"', b"!!python/name:os.system ", b"&b "),
    *(b"${oc.env:PATH}", b"<<: *x\n"),
]


def damaged(seed: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Return a valid input with some damage: of its values if it is JSON, else of its bytes."""
    if chance.random() < 0.5:
        changed = _other_values(seed, chance)
        if changed is not None:
            return changed
    data = bytearray(seed)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        _edit(data, chance.choice(others), chance)
    return bytes(data[: 1 << 20])


def _edit(data: bytearray, other: bytes, chance: random.Random) -> None:
    at = chance.randint(0, len(data))
    match chance.randrange(6):
        case 0:
            data[at : at + 1] = bytes([chance.randrange(256)])
        case 1:
            del data[at : at + chance.choice([1, 4, 64, 1 << 20])]
        case 2:
            data[at:at] = chance.choice(_PIECES)
        case 3:
            data[at:at] = chance.choice(_WORDS).encode("utf-8", "surrogatepass")
        case 4:
            start = chance.randint(0, len(other))
            data[at:at] = other[start : start + chance.choice([1, 8, 200])]
        case 5:
            start = chance.randint(0, len(data))
            data[at:at] = data[start : start + 200] * chance.choice([1, 2, 50])


def _other_values(seed: bytes, chance: random.Random) -> bytes | None:
    """Return JSON, or lines of JSON, with other values; None if the seed is none."""
    if seed[:1] == b"\x01":  # Packed data: its header is JSON.
        end = 9 + int.from_bytes(seed[1:9], "little")
        head = _other_values(seed[9:end], chance) or b""
        return seed[:1] + len(head).to_bytes(8, "little") + head + seed[end:]
    lines = seed.splitlines() if seed.count(b"\n") > 1 and seed.startswith(b'{"') else [seed]
    try:
        values = [json.loads(line) for line in lines]
    except (ValueError, RecursionError):
        return None
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(values))
        values[at] = _changed(values[at], chance)
    return b"\n".join(json.dumps(value).encode() for value in values)


def _changed(value: Any, chance: random.Random) -> Any:
    """Return a JSON value with one value in it exchanged, removed or renamed."""
    if not isinstance(value, (dict, list)) or not value or chance.random() < 0.1:
        return _any(chance)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = chance.choice(keys)
    match chance.randrange(5):
        case 0:
            value[key] = _any(chance)
        case 1:
            del value[key]
        case 2 if isinstance(value, dict):
            value[chance.choice(_WORDS)] = value.pop(key)
        case _:
            value[key] = _changed(value[key], chance)
    return value


def _any(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return copy.deepcopy(chance.choice([None, True, False, *_NODES]))
    if kind in (1, 2):
        return chance.choice(_NUMBERS)
    if kind in (3, 4):
        return chance.choice(_WORDS)
    if kind == 5:
        return [_any(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 6:
        return {chance.choice(_WORDS): _any(chance, depth + 1) for _ in range(chance.randrange(4))}
    deep: Any = []
    for _ in range(chance.choice([3, 300])):
        deep = [deep]
    return deep if depth == 0 and chance.random() < 0.1 else []
