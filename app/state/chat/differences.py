"""The differences of two texts, word by word, each of which can be accepted or rejected. Knows no Qt."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

MOST_PAIRS = 4_000_000  # of words, compared within about a second; longer texts are compared line by line
_WORD = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True)
class Stretch:
    """A part of two texts: the same in both, or changed from ``old`` to ``new``."""

    old: str
    new: str

    @property
    def is_change(self) -> bool:
        return self.old != self.new


def differences(old: str, new: str) -> tuple[Stretch, ...]:
    """Returns two texts as stretches, in order; changes with nothing but a space between them are one."""
    before, behind = _WORD.findall(old), _WORD.findall(new)
    if len(before) * len(behind) > MOST_PAIRS:
        before, behind = old.splitlines(keepends=True), new.splitlines(keepends=True)
    found: list[Stretch] = []
    for _, first, last, start, stop in SequenceMatcher(None, before, behind, autojunk=False).get_opcodes():
        here = Stretch("".join(before[first:last]), "".join(behind[start:stop]))
        if here.is_change and len(found) > 1 and found[-2].is_change and found[-1].old.isspace():
            space, change = found.pop(), found.pop()
            here = Stretch(change.old + space.old + here.old, change.new + space.new + here.new)
        found.append(here)
    return tuple(found)


def places_of_changes(stretches: Sequence[Stretch]) -> list[int]:
    """Returns the indices of the stretches that are changes."""
    return [place for place, stretch in enumerate(stretches) if stretch.is_change]


def merged(stretches: Sequence[Stretch], accepted: Collection[int]) -> str:
    """Returns the text with the changes whose indices are ``accepted``, and without the others."""
    return "".join(one.new if place in accepted else one.old for place, one in enumerate(stretches))
