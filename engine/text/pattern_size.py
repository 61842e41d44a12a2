"""The bound of a regular expression before any library reads it: its size, as nested repeats multiply."""

from __future__ import annotations

import re

from engine.errors import SafelightError, quoted

MAX_PATTERN_SIZE = 20_000  # characters, each counted as often as the repeats around it require or allow
MAX_GROUPS = 64  # nested

_PART = re.compile(
    r"(?P<repeat>\{\s*(?P<least>\d{0,9})\s*,?\s*(?P<most>\d{0,9})\s*\})"
    r"|(?P<open>\((?:\?(?:P?<\w+>|:))?)(?!\?)|(?P<close>\))"
    r"|(?P<class>\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\])|(?P<sign>\\.|.)",
    re.DOTALL,
)
_PLAIN_CLASS = re.compile(r"\[-?(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9 _.,:;/!?@#$%&'()*+<=>{|}`~])*-?\]")
"""Classes of ASCII characters that JSON does not escape."""
_LITERAL_OPEN = re.compile(r"(?<!\\)\[(?!:)")  # in a class; other dialects take it for a class in it


def check_pattern(pattern: str, where: str) -> None:
    """Checks the size of a pattern.

    Raises:
        SafelightError: its repeats ask for too much. ``where`` names it.
    """
    sizes, last = [0], 0  # of each open group; of the last element
    for part in _PART.finditer(pattern):
        kind = part.lastgroup
        if kind == "open" or part[0] == "(":
            sizes.append(0)
            if len(sizes) > MAX_GROUPS:
                raise SafelightError(
                    f"{where} is {quoted(pattern)}, with groups deeper than {MAX_GROUPS}; make it simpler"
                )
            last = 0
        elif kind == "close" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif kind == "repeat":
            times = max(int(part["least"] or 0), int(part["most"] or 0))
            sizes[-1] += last * max(0, times - 1)
            last *= max(1, times)
        else:
            last = 1
            sizes[-1] += 1
        if sum(sizes) > MAX_PATTERN_SIZE:
            raise SafelightError(f"{where} is {quoted(pattern)}, which repeats too much; make it simpler")


def in_json(pattern: str) -> str:
    """Returns a schema's pattern with its classes split, so that the grammar of a JSON string holds them.

    A class with control characters lets quotation marks and backslashes through there, whether it has them or not.
    Those of them that JSON can write by a letter stand by themselves, and the others are never written.
    """

    def split(part: re.Match[str]) -> str:
        if part.lastgroup != "class" or _PLAIN_CLASS.fullmatch(part[0]):
            return part[0]
        inner = part[0][0] + _LITERAL_OPEN.sub(r"\\[", part[0][1:])
        return rf"(?:[{inner}&&[^\x00-\x1f]]|[{inner}&&[\n\r\t\x08\x0c]])"

    return _PART.sub(split, pattern)
