"""Bounds the size of a regular expression before any library reads it: nested repeats multiply."""

from __future__ import annotations

import re

from engine.errors import SafelightError, quoted

MOST_PATTERN_SIZE = 20_000  # characters, each counted as often as the repeats around it require or allow
MOST_GROUPS = 64  # nested

_REPEAT = re.compile(r"\{(\d{0,9})(?:(,)(\d{0,9}))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]", re.DOTALL)


def check_pattern(pattern: str, where: str) -> None:
    """Checks the size of a pattern.

    Raises:
        SafelightError: its repeats ask for too much. ``where`` names it.
    """
    sizes, last, place = [0], 0, 0  # of each open group; of the last element
    while place < len(pattern):
        sign = pattern[place]
        found = _REPEAT.match(pattern, place) if sign == "{" else _CLASS.match(pattern, place) if sign == "[" else None
        if sign == "(":
            sizes.append(0)
            if len(sizes) > MOST_GROUPS:
                raise SafelightError(
                    f"{where} is {quoted(pattern)}, with groups deeper than {MOST_GROUPS}; make it simpler"
                )
            last, place = 0, place + 1
            continue
        if sign == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
            place += 1
        elif found is not None and sign == "{":
            times = max(int(found[1] or 0), int(found[3] or 0))
            sizes[-1] += last * max(0, times - 1)
            last *= max(1, times)
            place = found.end()
        else:
            last = 1
            sizes[-1] += 1
            place = found.end() if found is not None else place + (2 if sign == "\\" else 1)
        if sum(sizes) > MOST_PATTERN_SIZE:
            raise SafelightError(f"{where} is {quoted(pattern)}, which repeats too much; make it simpler")
