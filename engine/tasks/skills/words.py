"""Tasks on the letters of a word, and on words as a list."""

from __future__ import annotations

import json

from engine.tasks.skills.skill import Parts, rule

_W = "(?P<w>[a-z]+)"
_MAX_REPEATS = 40


def _solve_repeat(parts: Parts) -> str | None:
    times = int(parts["n"])
    return (f"{parts['w']} " * times).strip() if 1 <= times <= _MAX_REPEATS else None


REVERSE_WORD = rule(
    f"reverse (?:the word )?{_W}",
    f"write {_W} backwards",
    answer=lambda p: p["w"][::-1],
    wording="Reverse the word {w}.",
)
SORT_LETTERS = rule(
    f"sort the letters of {_W}",
    f"letters of {_W} in order",
    answer=lambda p: "".join(sorted(p["w"], key=str.lower)),
    wording="Sort the letters of {w}.",
)
COUNT_LETTERS = rule(
    f"how many letters are in {_W}",
    f"count the letters in {_W}",
    answer=lambda p: str(len(p["w"])),
    wording="How many letters are in {w}?",
)
CAPITALS = rule(
    f"write {_W} in capitals",
    f"shout {_W}",
    answer=lambda p: p["w"].upper(),
    wording="Write {w} in capitals.",
)
SPELL = rule(f"spell (?:the word )?{_W}", answer=lambda p: "-".join(p["w"]), wording="Spell {w}.")
REPEAT = rule(
    rf"(?:write|repeat) {_W} (?P<n>\d{{1,2}}) times",
    answer=_solve_repeat,
    wording="Write {w} {n} times.",
)
JSON_LIST = rule(
    "(?:as json|json list): ?(?P<w>[a-z]+(?:, ?[a-z]+)+)",
    answer=lambda p: json.dumps([word.strip() for word in p["w"].split(",")]),
    wording=lambda p: "As JSON: " + ", ".join(word.strip() for word in p["w"].split(",")),
)
