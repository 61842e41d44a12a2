r"""The keys of ``rank_pattern`` and ``alpha_pattern``, matched to modules. They come from strangers.

PEFT takes a key as a regular expression over the end of a module's name, ``(.*\.)?(KEY)$``, and tries one after the
other. A regular expression may run for ever, so only some are accepted here: names, as nearly all keys are, and names
with a few gaps, such as ``layers\.(0|1)\..*q_proj``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

from engine.errors import quoted

Value = TypeVar("Value")

MOST_KEYS = 5_000  # a network of 30 layers has 423 modules in its two modes
MOST_GAPPED = 16  # keys that are more than a name
MOST_CHARACTERS = 300
MOST_OF = {"gap": 2, "list": 3, "number": 3}  # in one key: so that it matches a name in few arrangements

_NAME = re.compile(r"\^?(?:[A-Za-z0-9_.-]|\\[.-])+\$?")  # a dot matches only a dot here, escaped or not
_PIECE = re.compile(
    r"(?P<gap>\.[*+])|(?P<number>(?:\\d|\[0-9\])\+)|(?P<list>\((?:\?:)?(?:\w|\\\.)+(?:\|(?:\w|\\\.)+)*\))"
    r"|(?P<sign>[A-Za-z0-9_.-]|\\[.d-]|\[(?:[A-Za-z_]|0-9|[0-9](?!-))+\])",
    re.ASCII,
)


def what_is_wrong(keys: Collection[str]) -> str | None:
    """Returns in words what is not accepted in the keys, or None."""
    if len(keys) > MOST_KEYS:
        return f"more than {MOST_KEYS:,} keys"
    gapped = 0
    for key in keys:
        if len(key) > MOST_CHARACTERS or not (_NAME.fullmatch(key) or _is_gapped(key)):
            return f"the key {quoted(key)}, which is neither a name nor a simple pattern"
        gapped += not _NAME.fullmatch(key)
    return f"more than {MOST_GAPPED} keys that are patterns" if gapped > MOST_GAPPED else None


def _is_gapped(key: str) -> bool:
    body, at, seen = _body(key), 0, Counter[str]()
    while at < len(body):
        piece = _PIECE.match(body, at)
        if piece is None or piece.lastgroup is None:
            return False
        seen[piece.lastgroup] += 1
        at = piece.end()
    return at > 0 and all(seen[kind] <= most for kind, most in MOST_OF.items())


def _body(key: str) -> str:
    """Returns a key without the signs for beginning and end."""
    return re.sub(r"(?<!\\)\$$", "", key.removeprefix("^"))


class Patterns(Generic[Value]):
    """Values by accepted keys. The first key that matches a module gives its value."""

    def __init__(self, values: Mapping[str, Value] | None = None) -> None:
        self._named: dict[str, tuple[int, Value]] = {}  # by the name or its end: the key's position, its value
        self._gapped: list[tuple[int, re.Pattern[str], Value]] = []
        for place, (key, value) in enumerate((values or {}).items()):
            start = "" if key.startswith("^") else r"(?:.*\.)?"
            if _NAME.fullmatch(key):
                name = _body(key).replace("\\", "")
                self._named.setdefault(f"^{name}" if not start else name, (place, value))
            else:
                self._gapped.append((place, re.compile(f"{start}(?:{_body(key)})"), value))

    def get(self, module: str, default: Value) -> Value:
        """Returns the value of a module, by transformers' name; ``default`` if no key matches it."""
        words = module.split(".")
        ends = [f"^{module}", *(".".join(words[start:]) for start in range(len(words)))]
        found = [self._named[end] for end in ends if end in self._named]
        found += [(place, value) for place, pattern, value in self._gapped if pattern.fullmatch(module)]
        return min(found, key=lambda one: one[0])[1] if found else default
