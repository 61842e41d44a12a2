"""Numbers up to 999 in words and in digits."""

from __future__ import annotations

import re

from engine.tasks.skills.skill import Parts, rule

_LARGEST = 999
_SMALL_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
SMALL = _SMALL_NUMBERS.split()
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUES = {word: value for value, word in enumerate(SMALL)} | {
    word: 10 * (value + 2) for value, word in enumerate(TENS)
}


# --- rules, which spell numbers by an independent algorithm -----------------------------------------------------------


def _solve_in_words(parts: Parts) -> str | None:
    digits = parts["n"].lstrip("0").rjust(3, "0")
    if int(digits) > _LARGEST:
        return None
    if digits == "000":
        return "zero"
    names = {value: word for word, value in _VALUES.items()}
    words = [names[int(digits[0])], "hundred"] if digits[0] != "0" else []
    rest = int(digits[1:])
    if rest in names and rest:
        words.append(names[rest])
    elif rest:
        words.append(names[10 * int(digits[1])] + "-" + names[int(digits[2])])
    return " ".join(words)


def _solve_in_digits(parts: Parts) -> str | None:
    total = 0
    for word in re.split(r"[ -]", parts["w"].lower()):
        if word == "hundred":
            total *= 100
        elif word in _VALUES:
            total += _VALUES[word]
        else:
            return None
    # Only the canonical spelling of a number counts.
    return str(total) if _solve_in_words({"n": str(total)}) == parts["w"].lower() else None


NUMBER_TO_WORDS = rule(r"(?:write|say) (?P<n>\d{1,6}) in words", answer=_solve_in_words, wording="Write {n} in words.")
WORDS_TO_NUMBER = rule(
    "(?:write|say) (?P<w>[a-z]+(?:[ -][a-z]+)*) in digits",
    answer=_solve_in_digits,
    wording=lambda p: f"Write {p['w'].lower()} in digits.",
)
