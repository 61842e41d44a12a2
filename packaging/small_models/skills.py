"""The skills: generators of examples, whose answers the rules of ``engine.tasks.skills`` compute by themselves.

One sixteenth of all tasks is held out of training. The split is by content, not by wording: two phrasings of one task
are always in the same split. Small talk has fixed answers and is in both.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.tasks.skills import parse, small_talk
from engine.tasks.skills.arithmetic import GAINS, LOSSES, THINGS
from engine.tasks.skills.measures import DAYS, UNITS
from engine.tasks.skills.number_words import SMALL, TENS
from engine.tasks.skills.skill import plain
from engine.tasks.skills.vocabulary import PEOPLE, WORDS

Split = Literal["train", "test"]
MAX_PROMPT = 72  # characters
HELD_OUT_ONE_IN = 16
MAX_TRIES = 100_000
SMALL_TALK = "small_talk"
_SHORT_WORDS = tuple(word for word in WORDS if len(word) <= 6)

_CONSONANTS = "bcdfghjklmnprstvwz"
_VOWELS = "aeiou"


def random_word(rng: random.Random, real: float = 0.5) -> str:
    """Draws a word of at most six letters; with probability ``real`` an English one."""
    return rng.choice(_SHORT_WORDS) if rng.random() < real else made_up_word(rng)


def made_up_word(rng: random.Random, shortest: int = 3, longest: int = 6) -> str:
    """Draws alternating consonants and vowels, mostly not an English word."""
    length = rng.randint(shortest, longest)
    first = rng.random() < 0.75
    return "".join(rng.choice(_CONSONANTS if (i % 2 == 0) == first else _VOWELS) for i in range(length))


def short_words(rng: random.Random, count: int) -> list[str]:
    """Draws different English words of at most six letters."""
    return rng.sample(_SHORT_WORDS, count)


@dataclass(frozen=True)
class Example:
    """One prompt with its answer."""

    skill: str
    prompt: str
    answer: str


def ask(rng: random.Random, skill: str, phrasings: Sequence[str], answer: str, **parts: object) -> Example:
    """Returns an example in a random phrasing; the first is as likely as all others together."""
    phrasing = phrasings[0] if len(phrasings) == 1 or rng.random() < 0.5 else rng.choice(phrasings[1:])
    return Example(skill, phrasing.format(**parts), answer)


def reverse_word(rng: random.Random) -> Example:
    word = random_word(rng)
    return ask(rng, "reverse_word", ("Reverse the word {w}.",), word[::-1], w=word)


def sort_letters(rng: random.Random) -> Example:
    word = random_word(rng)
    return ask(rng, "sort_letters", ("Sort the letters of {w}.",), "".join(sorted(word)), w=word)


def count_letters(rng: random.Random) -> Example:
    word = rng.choice(WORDS) if rng.random() < 0.5 else made_up_word(rng, 3, 8)
    phrasings = ("How many letters are in {w}?", "Count the letters in {w}.")
    return ask(rng, "count_letters", phrasings, str(len(word)), w=word)


def capitals(rng: random.Random) -> Example:
    word = random_word(rng)
    return ask(rng, "capitals", ("Write {w} in capitals.",), word.upper(), w=word)


def spell(rng: random.Random) -> Example:
    word = random_word(rng)
    return ask(rng, "spell", ("Spell {w}.",), "-".join(word), w=word)


def repeat(rng: random.Random) -> Example:
    word, times = random_word(rng, real=0.75), rng.randint(2, 4)
    return ask(rng, "repeat", ("Write {w} {n} times.",), " ".join([word] * times), w=word, n=times)


def json_list(rng: random.Random) -> Example:
    words = short_words(rng, rng.randint(2, 3))
    answer = "[" + ", ".join(f'"{word}"' for word in words) + "]"
    return ask(rng, "json_list", ("As JSON: {w}",), answer, w=", ".join(words))


def sort_numbers(rng: random.Random) -> Example:
    numbers = rng.sample(range(1, 10), rng.randint(4, 6))
    given, answer = (" ".join(map(str, row)) for row in (numbers, sorted(numbers)))
    return ask(rng, "sort_numbers", ("Sort {n}.",), answer, n=given)


def add(rng: random.Random) -> Example:
    a, b = rng.randint(1, 99), rng.randint(1, 99 if rng.random() < 0.5 else 9)
    return ask(rng, "add", ("What is {a} + {b}?",), str(a + b), a=a, b=b)


def subtract(rng: random.Random) -> Example:
    a = rng.randint(10, 99)
    b = rng.randint(1, a if rng.random() < 0.5 else 9)
    return ask(rng, "subtract", ("What is {a} - {b}?",), str(a - b), a=a, b=b)


def pattern(rng: random.Random) -> Example:
    start, step = rng.randint(1, 50), rng.choice((1, 2, 5, 10))
    row = [str(start + i * step) for i in range(7)]
    return ask(rng, "pattern", ("Continue {n}",), " ".join(row[4:]), n=" ".join(row[:4]))


def fill_gap(rng: random.Random) -> Example:
    name, things = rng.choice(PEOPLE), rng.choice(THINGS)
    if rng.random() < 0.5:
        had, change, verb = rng.randint(2, 10), rng.randint(1, 9), rng.choice(GAINS)
        left = had + change
    else:
        had, verb = rng.randint(4, 12), rng.choice(LOSSES)
        change = rng.randint(1, min(9, had - 2))
        left = had - change
    sentence = f"{name} had {had} {things}, {verb} {change}, now has {{}}."
    return Example("fill_gap", "Fill in: " + sentence.format("_"), sentence.format(left))


def in_words(number: int) -> str:
    if number < 20:
        return SMALL[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return TENS[tens - 2] + (f"-{SMALL[ones]}" if ones else "")
    hundreds, rest = divmod(number, 100)
    return f"{SMALL[hundreds]} hundred" + (f" {in_words(rest)}" if rest else "")


def up_to_999(rng: random.Random) -> int:
    return rng.randint(0, 99) if rng.random() < 0.25 else rng.randint(0, 999)


def number_to_words(rng: random.Random) -> Example:
    number = up_to_999(rng)
    return ask(rng, "number_to_words", ("Write {n} in words.", "Say {n} in words."), in_words(number), n=number)


def words_to_number(rng: random.Random) -> Example:
    number = up_to_999(rng)
    phrasings = ("Write {w} in digits.", "Say {w} in digits.")
    return ask(rng, "words_to_number", phrasings, str(number), w=in_words(number))


def weekday(rng: random.Random) -> Example:
    start, days, after = rng.randrange(7), rng.randint(1, 6), rng.random() < 0.5
    answer = DAYS[(start + (days if after else -days)) % 7]
    span = f"{days} day{'' if days == 1 else 's'}"
    return ask(
        rng,
        "weekday",
        ("{name} comes {span} {order} {day}. When?",),
        answer,
        name=rng.choice(PEOPLE),
        span=span,
        order="after" if after else "before",
        day=DAYS[start],
    )


def convert(rng: random.Random) -> Example:
    large, small, factor = rng.choice(UNITS)
    value = rng.randint(1, 99)
    one, other = (value, large), (value * factor, small)
    if rng.random() < 0.25:
        one, other = other, one
    return ask(rng, "convert", ("Convert {n} {a} to {b}.",), f"{other[0]} {other[1]}", n=one[0], a=one[1], b=other[1])


def count_up(rng: random.Random) -> Example:
    start, longest = rng.randint(1, 30), rng.randint(24, 185)
    end, length = start, len(str(start))
    while length + 2 + len(str(end + 1)) <= longest:
        end += 1
        length += 2 + len(str(end))
    answer = ", ".join(map(str, range(start, end + 1)))
    return ask(rng, "count_up", ("Count from {a} to {b}.", "Count up from {a} to {b}."), answer, a=start, b=end)


def countdown(rng: random.Random) -> Example:
    end, longest = rng.randint(0, 20), rng.randint(24, 150)
    start, length = end, len(str(end))
    while length + 2 + len(str(start + 1)) <= longest:
        start += 1
        length += 2 + len(str(start))
    answer = ", ".join(map(str, range(start, end - 1, -1)))
    phrasings = ("Count down from {a} to {b}.", "Countdown from {a} to {b}.")
    return ask(rng, "countdown", phrasings, answer, a=start, b=end)


def times_table(rng: random.Random) -> Example:
    factor, last = rng.randint(2, 12), rng.randint(3, 12)
    answer = "\n".join(f"{factor} x {i} = {factor * i}" for i in range(1, last + 1))
    limit = "" if last == 10 and rng.random() < 0.7 else f" up to {last}"
    return Example("times_table", f"Times table of {factor}{limit}.", answer)


def talk(rng: random.Random) -> Example:
    phrasings, answer = rng.choice(small_talk.TALK)
    return Example(SMALL_TALK, rng.choice(phrasings), answer)


SKILLS: dict[str, tuple[Callable[[random.Random], Example], float]] = {  # the order determines what a seed draws
    "reverse_word": (reverse_word, 0.75),
    "sort_letters": (sort_letters, 1.25),
    "sort_numbers": (sort_numbers, 0.75),
    "add": (add, 2),
    "subtract": (subtract, 2),
    "count_letters": (count_letters, 0.5),
    "number_to_words": (number_to_words, 2),
    "words_to_number": (words_to_number, 0.75),
    "weekday": (weekday, 1.5),
    "convert": (convert, 0.75),
    "pattern": (pattern, 4),
    "json_list": (json_list, 0.75),
    "fill_gap": (fill_gap, 4),
    "capitals": (capitals, 0.5),
    "spell": (spell, 0.5),
    "repeat": (repeat, 0.5),
    "count_up": (count_up, 1.0),
    "countdown": (countdown, 1.0),
    "times_table": (times_table, 5),
    SMALL_TALK: (talk, 1.0),
}
"""The generators of all skills, and how often each is drawn."""


def is_held_out(prompt: str) -> bool:
    """True if a task is kept for the test split, by a stable hash of what it asks; small talk never is."""
    key = plain(prompt)
    if key.lower() in small_talk.ANSWERS:
        return False
    parsed = parse(prompt)
    if parsed is not None:
        name, _, parts = parsed
        key = "|".join([name, *(f"{part}={parts[part]}" for part in sorted(parts))])
    return is_held_out_content(key.lower())


def sample(rng: random.Random, split: Split, skill: str | None = None) -> Example:
    """Draws an example of a split, of the given skill or of one drawn by weight."""
    name = skill or rng.choices(list(SKILLS), weights=[weight for _, weight in SKILLS.values()])[0]
    for _ in range(MAX_TRIES):
        example = SKILLS[name][0](rng)
        if name == SMALL_TALK or is_held_out(example.prompt) == (split == "test"):
            return example
    raise RuntimeError(f"no example of {name} for the {split} split")


def is_held_out_content(content: str) -> bool:
    """Returns True if a task is kept for the test split, by a stable hash of what it asks."""
    # Not a CRC: it is linear, and would hold out whole columns, such as every countdown to 5.
    return hashlib.blake2b(content.encode(), digest_size=1).digest()[0] % HELD_OUT_ONE_IN == 0
