"""Tasks on the letters of a word, and on words as a list."""

from __future__ import annotations

import json
import random

from engine.tasks.skills.skill import Example, Parts, Skill, ask, rule
from engine.tasks.skills.vocabulary import WORDS, made_up_word, random_word, short_words

_W = "(?P<w>[a-z]+)"
_MOST_REPEATS = 40


def _reverse_word(rng: random.Random) -> Example:
    word = random_word(rng)
    return ask(rng, "reverse_word", ("Reverse the word {w}.",), word[::-1], w=word)


def _sort_letters(rng: random.Random) -> Example:
    word = random_word(rng)
    return ask(rng, "sort_letters", ("Sort the letters of {w}.",), "".join(sorted(word)), w=word)


def _count_letters(rng: random.Random) -> Example:
    word = rng.choice(WORDS) if rng.random() < 0.5 else made_up_word(rng, 3, 8)
    phrasings = ("How many letters are in {w}?", "Count the letters in {w}.")
    return ask(rng, "count_letters", phrasings, str(len(word)), w=word)


def _capitals(rng: random.Random) -> Example:
    word = random_word(rng)
    return ask(rng, "capitals", ("Write {w} in capitals.",), word.upper(), w=word)


def _spell(rng: random.Random) -> Example:
    word = random_word(rng)
    return ask(rng, "spell", ("Spell {w}.",), "-".join(word), w=word)


def _repeat(rng: random.Random) -> Example:
    word, times = random_word(rng, real=0.75), rng.randint(2, 4)
    return ask(rng, "repeat", ("Write {w} {n} times.",), " ".join([word] * times), w=word, n=times)


def _solve_repeat(parts: Parts) -> str | None:
    times = int(parts["n"])
    return (f"{parts['w']} " * times).strip() if 1 <= times <= _MOST_REPEATS else None


def _json_list(rng: random.Random) -> Example:
    words = short_words(rng, rng.randint(2, 3))
    answer = "[" + ", ".join(f'"{word}"' for word in words) + "]"
    return ask(rng, "json_list", ("As JSON: {w}",), answer, w=", ".join(words))


REVERSE_WORD = Skill(
    "reverse_word",
    "Reverse a word",
    _reverse_word,
    0.75,
    rule(
        f"reverse (?:the word )?{_W}",
        f"write {_W} backwards",
        answer=lambda p: p["w"][::-1],
        wording="Reverse the word {w}.",
    ),
)
SORT_LETTERS = Skill(
    "sort_letters",
    "Sort the letters of a word",
    _sort_letters,
    1.25,
    rule(
        f"sort the letters of {_W}",
        f"letters of {_W} in order",
        answer=lambda p: "".join(sorted(p["w"], key=str.lower)),
        wording="Sort the letters of {w}.",
    ),
)
COUNT_LETTERS = Skill(
    "count_letters",
    "Count the letters of a word",
    _count_letters,
    0.5,
    rule(
        f"how many letters are in {_W}",
        f"count the letters in {_W}",
        answer=lambda p: str(len(p["w"])),
        wording="How many letters are in {w}?",
    ),
)
CAPITALS = Skill(
    "capitals",
    "Write in capitals",
    _capitals,
    0.5,
    rule(
        f"write {_W} in capitals",
        f"shout {_W}",
        answer=lambda p: p["w"].upper(),
        wording="Write {w} in capitals.",
    ),
)
SPELL = Skill(
    "spell",
    "Spell a word",
    _spell,
    0.5,
    rule(f"spell (?:the word )?{_W}", answer=lambda p: "-".join(p["w"]), wording="Spell {w}."),
)
REPEAT = Skill(
    "repeat",
    "Repeat a word",
    _repeat,
    0.5,
    rule(
        rf"(?:write|repeat) {_W} (?P<n>\d{{1,2}}) times",
        answer=_solve_repeat,
        wording="Write {w} {n} times.",
    ),
)
JSON_LIST = Skill(
    "json_list",
    "Write a JSON list",
    _json_list,
    0.75,
    rule(
        "(?:as json|json list): ?(?P<w>[a-z]+(?:, ?[a-z]+)+)",
        answer=lambda p: json.dumps([word.strip() for word in p["w"].split(",")]),
        wording=lambda p: "As JSON: " + ", ".join(word.strip() for word in p["w"].split(",")),
    ),
)
