"""Damage that any format may suffer: bytes flipped, cut and planted, and values that a JSON tree does not expect."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

NAMES = (
    "../x", "../../../x", "/etc/passwd", "/tmp/x", "C:evil.safetensors", "C:\\x", "\\\\host\\x", "a/b", "..", ".", "",
    "a\x00b", "con", "nul.txt", ".hidden", "x" * 300, "é\u202e.txt", "~root", "~nosuchuser/x", "-rf", "a\nb",
    "%2e%2e/x",
)  # fmt: skip
"""Names that a file in a folder of ours must not have."""

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2**31 - 1, 2**31, 2**62, 2**63, 2**64, -(2**63), 10**39, 10**80, 1e-320, 1e308, -1e308, 0.1, float("inf"),
    float("nan"), True,
)  # fmt: skip

TEXTS = (
    "", " ", "\x00", "\x1b[2J\x1b]0;x\x07", "\ud800", "\u202e\u2066abc", "a" * 5_000, "é" * 400, "null", "1e999",
    "\r\n", "%s%n{0}{x.__class__}", "{{ 7*7 }}", "<script>alert(1)</script>", "' OR 1=1 --", "\ufeff", "𝒳" * 50,
    "a\u0300" * 500,
)  # fmt: skip


def value(random: Random) -> Any:
    """Something that does not belong there."""
    match random.randrange(8):
        case 0 | 1:
            return random.choice(NUMBERS)
        case 2:
            return random.choice(TEXTS)
        case 3:
            return random.choice(NAMES)
        case 4:
            return None
        case 5:
            return [value(random) for _ in range(random.randrange(4))]
        case 6:
            return {random.choice(TEXTS): value(random) for _ in range(random.randrange(4))}
        case _:
            return nested(random.choice((5, 40, 200)))


def nested(depth: int) -> Any:
    """Lists in lists."""
    made: Any = []
    for _ in range(depth):
        made = [made]
    return made


def tree(random: Random, raw: Any, changes: int = 0) -> Any:
    """A copy of a JSON tree with some of its places changed, removed, renamed or doubled."""
    made = copy.deepcopy(raw)
    for _ in range(changes or 1 + random.randrange(3)):
        holder, key = _place(random, made)
        if holder is None:
            return value(random)
        match random.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[random.choice((*NAMES, *TEXTS))] = holder.pop(key)
            case 2 if isinstance(holder, list):
                holder.extend([holder[key]] * random.choice((1, 3, 1000) if _is_small(holder[key]) else (1, 3)))
            case _:
                holder[key] = value(random)
    return made


def _is_small(raw: Any, most: int = 500) -> bool:
    """True if a tree has few places; a thousand copies of a large one would fill the memory while they are made."""
    pending, seen = [raw], 0
    while pending and seen <= most:
        value = pending.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        seen += 1 + len(inner)
        pending.extend(inner[:most])
    return seen <= most


def _place(random: Random, raw: Any) -> tuple[Any, Any]:
    """A random place of a tree, deep ones as likely as shallow ones."""
    places: list[tuple[Any, Any]] = []
    pending = [raw]
    while pending and len(places) < 20_000:
        holder = pending.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        for key in keys:
            places.append((holder, key))
            pending.append(holder[key])
    return random.choice(places) if places else (None, None)


def dumped(random: Random, raw: Any) -> bytes:
    """A tree as a file: mostly JSON, at times with what JSON does not allow, or too deep, or damaged as bytes are."""
    text = json.dumps(raw, ensure_ascii=random.random() < 0.5)
    data = text.encode("utf-8", "surrogatepass")
    match random.randrange(12):
        case 0:
            return data.replace(b"1", b"1e999", 1)
        case 1:
            return data.replace(b"1", b"9" * 5_000, 1)
        case 2:
            deep = random.choice((100, 5_000, 100_000))
            return data[:-1] + b', "deep": ' + b"[" * deep + b"]" * deep + b"}"
        case 3 | 4:
            return damaged(random, data)
        case _:
            return data


def damaged(random: Random, data: bytes) -> bytes:
    """Bytes with one to eight pieces of damage."""
    made = bytearray(data)
    for _ in range(1 + random.randrange(8)):
        if not made:
            return bytes(random.randrange(256) for _ in range(random.randrange(64)))
        at = random.randrange(len(made))
        length = min(len(made) - at, 1 << random.randrange(12))
        match random.randrange(9):
            case 0 | 1 | 2:
                made[at] ^= 1 << random.randrange(8)
            case 3:
                del made[at:]
            case 4:
                del made[at : at + length]
            case 5:
                made[at:at] = made[at : at + length] * random.choice((1, 2, 50))
            case 6:
                made[at : at + length] = bytes(random.choice((0, 255)) for _ in range(1)) * length
            case 7:
                made[at:at] = random.choice(TEXTS).encode("utf-8", "surrogatepass")
            case _:
                number = random.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1))
                made[at : at + 8] = number.to_bytes(8, random.choice(("little", "big")))[: len(made) - at]
    return bytes(made)
