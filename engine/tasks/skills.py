"""Small text tasks with answers that a program can check.

The tasks train and evaluate a tiny character-level block-diffusion language model. Every task has two
independent sides: a generator, which draws a random prompt together with its answer, and a rule, which parses
the text of a prompt and works the answer out again. Neither side uses the other, so each checks the other.

One sixteenth of all tasks is held out of training. The split is made by content, not by wording: two phrasings
of one task always fall on the same side. Small talk has fixed answers and belongs to both sides.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Split = Literal["train", "test"]

MAX_PROMPT = 72
"""The most characters a prompt has."""

MAX_ANSWER = 190
"""The most characters an answer has."""

HELD_OUT_ONE_IN = 16
"""One task in this many is kept for the test split."""

SMALL_TALK = "small_talk"
"""The key of the one skill whose answers are learnt by heart."""

_MAX_TRIES = 100_000


@dataclass(frozen=True)
class Example:
    """One prompt with its answer."""

    skill: str
    prompt: str
    answer: str


@dataclass(frozen=True)
class Skill:
    """A kind of task: its key, its name for people, its generator and its share in training."""

    name: str
    title: str
    generate: Callable[[random.Random], Example]
    weight: float = 1.0


# --------------------------------------------------------------------------------------------------------------
# Vocabulary
# --------------------------------------------------------------------------------------------------------------

_WORD_LIST = """
    able acid actor adult agent air album alarm amber angle animal answer ant apple april apron arch arm army arrow
    art aunt autumn baby back bag baker ball banana band bank barn basket bat beach bean bear bed bee bell belt
    bench berry bike bird black blanket blue boat body bone book boot bottle bowl box boy branch brave bread brick
    bridge bright brother brown brush bucket bus butter button cabin cable cake calm camel camera camp candle car
    card carpet carrot castle cat chain chair chalk cheese cherry chess chicken child circle city clay clean clear
    cliff clock cloud clown coach coast coat coffee coin cold color comet copper corn cotton couch cousin cow crab
    cream crown cup curtain dance dark day deer desert desk diamond dinner doctor dog doll door dragon dream dress
    drum duck eagle ear earth east egg engine evening eye face family farm father feather fence fern field fig film
    finger fire fish flag flame flower flute fog forest fork fox friend frog fruit game garden garlic gate ghost
    giant gift girl glass glove goat gold goose grain grape grass green guitar hair hall hammer hand harbor hat
    heart hill honey horse hotel house ice ink iron island jacket jam jar jewel juice jungle kettle key king kite
    kitchen knee knife ladder lake lamp land leaf lemon letter light lion lizard lock mango map maple market meadow
    melon milk mirror money monkey moon morning mother mountain mouse music nail needle nest night north nose nurse
    oak ocean olive onion orange orbit otter owl paint palace paper park peach pear pencil people pepper piano
    picture pig pilot pizza planet plate plum pocket poem pond potato prince purple queen quiet rabbit radio rain
    ribbon ring river road robot rocket roof rope rose sail salt sand school sea shadow sheep ship shirt shoe silver
    sister sky smile snow soap soup spider spoon spring star stone storm street sugar summer sun table tea tiger
    tower train tree tulip turtle uncle valley violin wagon water whale wheel window winter wolf wood yellow zebra
"""

WORDS: tuple[str, ...] = tuple(_WORD_LIST.split())
"""Common English words of three to eight letters, in lower case."""

_SHORT_WORDS = tuple(word for word in WORDS if len(word) <= 6)

_CONSONANTS = "bcdfghjklmnprstvwz"
_VOWELS = "aeiou"

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_SMALL_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_SMALL = _SMALL_NUMBERS.split()
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

_UNITS: tuple[tuple[str, str, int, int, int], ...] = (
    # the larger unit, the smaller unit, how many of it, the least and the greatest number of larger ones
    ("km", "m", 1000, 1, 99),
    ("m", "cm", 100, 1, 99),
    ("kg", "g", 1000, 1, 99),
    ("l", "ml", 1000, 1, 99),
    ("cm", "mm", 10, 1, 99),
    ("t", "kg", 1000, 1, 99),
)

_PEOPLE = ("Tom", "Sam", "Ben", "Leo", "Max", "Anna", "Mia", "Eva", "Zoe", "Lily")
_THINGS = ("pens", "cups", "hats", "books", "coins", "keys", "nuts", "eggs", "plums", "figs")
_GAINS = ("got", "found", "won")
_LOSSES = ("lost", "sold", "ate")

# --------------------------------------------------------------------------------------------------------------
# Small talk: phrasings of one question, and its answer
# --------------------------------------------------------------------------------------------------------------

_TALK: tuple[tuple[tuple[str, ...], str], ...] = (
    (("Hello", "Hi", "Hey", "Good morning"), "Hello! I am Safelight's tiny diffusion model. Give me a small task."),
    (("How are you?", "How are you doing?"), "I am fine, thank you. A little noisy at first, then clear."),
    (
        ("Who are you?", "What are you?", "Introduce yourself"),
        "I am a tiny block-diffusion language model, trained by the Safelight project.",
    ),
    (("What is your name?", "Do you have a name?"), "I have no name of my own. I am the tiny model of Safelight."),
    (
        ("What can you do?", "What are your skills?", "Help"),
        (
            "I do small tasks: I sort, reverse, spell and count, add and subtract, name weekdays, convert units, "
            "continue patterns and write times tables. Try: Sort 9 4 7 2 6."
        ),
    ),
    (
        ("How do you work?", "How do you write?", "Explain yourself"),
        (
            "I start from random characters and denoise all of a block at once. Where my entropy is low I accept a "
            "token; the rest gets fresh noise, and I look again."
        ),
    ),
    (
        ("What is diffusion?", "Explain diffusion"),
        "I begin with noise and clean it step by step, until it is text. All places of a block improve together.",
    ),
    (
        ("Are you a big model?", "How big are you?", "How many parameters have you?"),
        "No, I am tiny: about 2 million parameters. Big models have billions.",
    ),
    (
        ("What is Safelight?", "Tell me about Safelight"),
        "Safelight runs diffusion language models on your own machine and lets you watch the text develop.",
    ),
    (("Thank you", "Thanks", "Thanks a lot"), "You are welcome!"),
    (("Bye", "Goodbye", "See you"), "Goodbye! Come back when you need a list sorted."),
    (
        ("Tell me a joke", "Do you know a joke?", "Make me laugh"),
        "Why was my first draft so bad? It was nothing but noise.",
    ),
    (
        ("What is a canvas?", "What is the canvas?"),
        "The canvas is the block of places I fill. It starts as random characters and ends as text.",
    ),
    (
        ("Why does the text flicker?", "Why do letters change?"),
        "Places I am not sure of get new random characters at each step. That is the flicker.",
    ),
    (
        ("What is a remelt?", "What does remelt mean?"),
        "A remelt is a token that I accepted and that was re-noised at a later step.",
    ),
    (
        ("What is a block?", "What is a block of text?"),
        "A block is the piece of text I denoise at once. Long answers take several blocks.",
    ),
    (
        ("What is entropy?", "What does entropy mean?"),
        "Entropy tells how unsure I am about a place. When it is low, I accept the token.",
    ),
    (
        ("Can you solve Sudoku?", "Do you play Sudoku?", "Solve a Sudoku"),
        "No, but I have a sister model that was trained for Sudoku.",
    ),
    (
        ("Who made you?", "Who trained you?"),
        "The Safelight project trained me, with the architecture of DiffusionGemma.",
    ),
    (
        ("What is DiffusionGemma?", "Are you DiffusionGemma?"),
        "DiffusionGemma is a large block-diffusion model. I share its architecture, but I am tiny.",
    ),
    (("Where do you run?", "Do you need a GPU?"), "I run on the CPU of your own machine. I need no GPU."),
    (
        ("Are you alive?", "Are you human?", "Do you have feelings?"),
        "No, I am a small program that turns noise into text.",
    ),
    (
        ("Can you make mistakes?", "Are you always right?", "Can I trust you?"),
        "I do make mistakes, for I am very small. Please check my answers.",
    ),
    (
        ("What do you know?", "What do you know about the world?"),
        "Very little. I know my small tasks, and nothing of the world beyond them.",
    ),
    (("Can you chat?", "Can we talk?"), "Only a little. I know a few fixed answers; small tasks suit me better."),
)

# --------------------------------------------------------------------------------------------------------------
# Generators
# --------------------------------------------------------------------------------------------------------------


def _made_up(rng: random.Random, shortest: int = 3, longest: int = 6) -> str:
    """A pronounceable string of letters, mostly no real word."""
    length = rng.randint(shortest, longest)
    first = rng.random() < 0.75
    return "".join(rng.choice(_CONSONANTS if (i % 2 == 0) == first else _VOWELS) for i in range(length))


def _word(rng: random.Random, real: float = 0.5) -> str:
    return rng.choice(_SHORT_WORDS) if rng.random() < real else _made_up(rng)


def _ask(rng: random.Random, skill: str, phrasings: Sequence[str], answer: str, **parts: object) -> Example:
    """An example in one of the phrasings; the first is as likely as all others together."""
    phrasing = phrasings[0] if len(phrasings) == 1 or rng.random() < 0.5 else rng.choice(phrasings[1:])
    return Example(skill, phrasing.format(**parts), answer)


def _reverse_word(rng: random.Random) -> Example:
    word = _word(rng)
    return _ask(rng, "reverse_word", ("Reverse the word {w}.",), word[::-1], w=word)


def _sort_letters(rng: random.Random) -> Example:
    word = _word(rng)
    return _ask(rng, "sort_letters", ("Sort the letters of {w}.",), "".join(sorted(word)), w=word)


def _sort_numbers(rng: random.Random) -> Example:
    numbers = rng.sample(range(1, 10), rng.randint(4, 6))
    given, answer = (" ".join(map(str, row)) for row in (numbers, sorted(numbers)))
    return _ask(rng, "sort_numbers", ("Sort {n}.",), answer, n=given)


def _add(rng: random.Random) -> Example:
    a, b = rng.randint(10, 99), rng.randint(1, 9)
    return _ask(rng, "add", ("What is {a} + {b}?",), str(a + b), a=a, b=b)


def _subtract(rng: random.Random) -> Example:
    a, b = rng.randint(10, 99), rng.randint(1, 9)
    return _ask(rng, "subtract", ("What is {a} - {b}?",), str(a - b), a=a, b=b)


def _count_letters(rng: random.Random) -> Example:
    word = rng.choice(WORDS) if rng.random() < 0.5 else _made_up(rng, 3, 8)
    phrasings = ("How many letters are in {w}?", "Count the letters in {w}.")
    return _ask(rng, "count_letters", phrasings, str(len(word)), w=word)


def _in_words(number: int) -> str:
    if number < 20:
        return _SMALL[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens - 2] + (f"-{_SMALL[ones]}" if ones else "")
    hundreds, rest = divmod(number, 100)
    return f"{_SMALL[hundreds]} hundred" + (f" {_in_words(rest)}" if rest else "")


def _up_to_999(rng: random.Random) -> int:
    return rng.randint(0, 99) if rng.random() < 0.25 else rng.randint(0, 999)


def _number_to_words(rng: random.Random) -> Example:
    number = _up_to_999(rng)
    return _ask(rng, "number_to_words", ("Write {n} in words.", "Say {n} in words."), _in_words(number), n=number)


def _words_to_number(rng: random.Random) -> Example:
    number = _up_to_999(rng)
    phrasings = ("Write {w} in digits.", "Say {w} in digits.")
    return _ask(rng, "words_to_number", phrasings, str(number), w=_in_words(number))


def _weekday(rng: random.Random) -> Example:
    start, days, after = rng.randrange(7), rng.randint(1, 6), rng.random() < 0.5
    answer = _DAYS[(start + (days if after else -days)) % 7]
    span = f"{days} day{'' if days == 1 else 's'}"
    return _ask(
        rng,
        "weekday",
        ("{name} comes {span} {way} {day}. When?",),
        answer,
        name=rng.choice(_PEOPLE),
        span=span,
        way="after" if after else "before",
        day=_DAYS[start],
    )


def _convert(rng: random.Random) -> Example:
    large, small, factor, least, most = rng.choice(_UNITS)
    value = rng.randint(least, most)
    one, other = (value, large), (value * factor, small)
    if rng.random() < 0.25:
        one, other = other, one
    return _ask(rng, "convert", ("Convert {n} {a} to {b}.",), f"{other[0]} {other[1]}", n=one[0], a=one[1], b=other[1])


def _pattern(rng: random.Random) -> Example:
    start, step = rng.randint(1, 50), rng.choice((1, 2, 5, 10))
    row = [str(start + i * step) for i in range(7)]
    return _ask(rng, "pattern", ("Continue {n}",), " ".join(row[4:]), n=" ".join(row[:4]))


def _json_list(rng: random.Random) -> Example:
    words = rng.sample(_SHORT_WORDS, rng.randint(2, 3))
    answer = "[" + ", ".join(f'"{word}"' for word in words) + "]"
    return _ask(rng, "json_list", ("As JSON: {w}",), answer, w=", ".join(words))


def _fill_gap(rng: random.Random) -> Example:
    name, things = rng.choice(_PEOPLE), rng.choice(_THINGS)
    if rng.random() < 0.5:
        had, change, verb = rng.randint(2, 10), rng.randint(1, 9), rng.choice(_GAINS)
        left = had + change
    else:
        had, verb = rng.randint(4, 12), rng.choice(_LOSSES)
        change = rng.randint(1, min(9, had - 2))
        left = had - change
    sentence = f"{name} had {had} {things}, {verb} {change}, now has {{}}."
    return Example("fill_gap", "Fill in: " + sentence.format("_"), sentence.format(left))


def _capitals(rng: random.Random) -> Example:
    word = _word(rng)
    return _ask(rng, "capitals", ("Write {w} in capitals.",), word.upper(), w=word)


def _spell(rng: random.Random) -> Example:
    word = _word(rng)
    return _ask(rng, "spell", ("Spell {w}.",), "-".join(word), w=word)


def _repeat(rng: random.Random) -> Example:
    word, times = _word(rng, real=0.75), rng.randint(2, 4)
    return _ask(rng, "repeat", ("Write {w} {n} times.",), " ".join([word] * times), w=word, n=times)


def _count_up(rng: random.Random) -> Example:
    start, room = rng.randint(1, 30), rng.randint(24, 185)
    end, length = start, len(str(start))
    while length + 2 + len(str(end + 1)) <= room:
        end += 1
        length += 2 + len(str(end))
    answer = ", ".join(map(str, range(start, end + 1)))
    return _ask(rng, "count_up", ("Count from {a} to {b}.", "Count up from {a} to {b}."), answer, a=start, b=end)


def _countdown(rng: random.Random) -> Example:
    end, room = rng.randint(0, 20), rng.randint(24, 150)
    start, length = end, len(str(end))
    while length + 2 + len(str(start + 1)) <= room:
        start += 1
        length += 2 + len(str(start))
    answer = ", ".join(map(str, range(start, end - 1, -1)))
    phrasings = ("Count down from {a} to {b}.", "Countdown from {a} to {b}.")
    return _ask(rng, "countdown", phrasings, answer, a=start, b=end)


def _times_table(rng: random.Random) -> Example:
    factor, last = rng.randint(2, 12), rng.randint(3, 12)
    answer = "\n".join(f"{factor} x {i} = {factor * i}" for i in range(1, last + 1))
    limit = "" if last == 10 and rng.random() < 0.7 else f" up to {last}"
    return Example("times_table", f"Times table of {factor}{limit}.", answer)


def _small_talk(rng: random.Random) -> Example:
    phrasings, answer = rng.choice(_TALK)
    return Example(SMALL_TALK, rng.choice(phrasings), answer)


SKILLS: dict[str, Skill] = {
    skill.name: skill
    for skill in (
        Skill("reverse_word", "Reverse a word", _reverse_word, 0.75),
        Skill("sort_letters", "Sort the letters of a word", _sort_letters, 1.25),
        Skill("sort_numbers", "Sort numbers", _sort_numbers, 0.75),
        Skill("add", "Add two numbers", _add, 0.75),
        Skill("subtract", "Subtract two numbers", _subtract, 0.75),
        Skill("count_letters", "Count the letters of a word", _count_letters, 0.5),
        Skill("number_to_words", "Write a number in words", _number_to_words, 2),
        Skill("words_to_number", "Write a number in digits", _words_to_number, 0.75),
        Skill("weekday", "Find the day of the week", _weekday, 0.75),
        Skill("convert", "Convert units", _convert, 0.75),
        Skill("pattern", "Continue a pattern", _pattern, 3),
        Skill("json_list", "Write a JSON list", _json_list, 0.75),
        Skill("fill_gap", "Fill the gap in a sentence", _fill_gap, 2),
        Skill("capitals", "Write in capitals", _capitals, 0.5),
        Skill("spell", "Spell a word", _spell, 0.5),
        Skill("repeat", "Repeat a word", _repeat, 0.5),
        Skill("count_up", "Count up", _count_up),
        Skill("countdown", "Count down", _countdown),
        Skill("times_table", "Write a times table", _times_table, 8),
        Skill(SMALL_TALK, "Small talk", _small_talk),
    )
}
"""All skills by their key."""

# --------------------------------------------------------------------------------------------------------------
# Rules: the answer worked out from the text of the prompt alone
# --------------------------------------------------------------------------------------------------------------

_Parts = dict[str, str]

_MOST_REPEATS = 40
_LARGEST_NUMBER_WORD = 999
_NUMBER_VALUES = {word: value for value, word in enumerate(_SMALL)} | {
    word: 10 * (value + 2) for value, word in enumerate(_TENS)
}


@dataclass(frozen=True)
class _Rule:
    """How to read one kind of prompt and answer it; `missing` stands for the parts a prompt leaves out."""

    skill: str
    patterns: tuple[re.Pattern[str], ...]
    answer: Callable[[_Parts], str | None]
    missing: str = ""


def _rule(skill: str, *patterns: str, answer: Callable[[_Parts], str | None], missing: str = "") -> _Rule:
    return _Rule(skill, tuple(re.compile(p, re.IGNORECASE | re.ASCII) for p in patterns), answer, missing)


def _solve_sorted_numbers(parts: _Parts) -> str:
    return " ".join(sorted(parts["n"].split(), key=int))


def _solve_difference(parts: _Parts) -> str | None:
    difference = int(parts["a"]) - int(parts["b"])
    return str(difference) if difference >= 0 else None


def _solve_in_words(parts: _Parts) -> str | None:
    digits = parts["n"].lstrip("0").rjust(3, "0")
    if int(digits) > _LARGEST_NUMBER_WORD:
        return None
    if digits == "000":
        return "zero"
    names = {value: word for word, value in _NUMBER_VALUES.items()}
    words = [names[int(digits[0])], "hundred"] if digits[0] != "0" else []
    rest = int(digits[1:])
    if rest in names and rest:
        words.append(names[rest])
    elif rest:
        words.append(names[10 * int(digits[1])] + "-" + names[int(digits[2])])
    return " ".join(words)


def _solve_in_digits(parts: _Parts) -> str | None:
    total = 0
    for word in re.split(r"[ -]", parts["w"].lower()):
        if word == "hundred":
            total *= 100
        elif word in _NUMBER_VALUES:
            total += _NUMBER_VALUES[word]
        else:
            return None
    # Only a number written in the one right way counts.
    return str(total) if _solve_in_words({"n": str(total)}) == parts["w"].lower() else None


def _solve_weekday(parts: _Parts) -> str:
    days = [day.lower() for day in _DAYS]
    if parts["way"].lower() == "before":
        days.reverse()
    found = days[(days.index(parts["day"].lower()) + int(parts["n"])) % 7]
    return found.capitalize()


def _solve_conversion(parts: _Parts) -> str | None:
    value, source, target = int(parts["n"]), parts["a"].lower(), parts["b"].lower()
    for large, small, factor, _, _ in _UNITS:
        if (source, target) == (large, small):
            return f"{value * factor} {small}"
        if (source, target) == (small, large) and value % factor == 0:
            return f"{value // factor} {large}"
    return None


def _solve_pattern(parts: _Parts) -> str | None:
    row = [int(number) for number in parts["n"].split()]
    steps = {after - before for before, after in pairwise(row)}
    if len(steps) != 1:
        return None
    step = steps.pop()
    following = [row[-1] + step, row[-1] + 2 * step, row[-1] + 3 * step]
    return " ".join(map(str, following)) if min(following) >= 0 else None


def _solve_gap(parts: _Parts) -> str | None:
    change = int(parts["b"]) if parts["verb"].lower() in _GAINS else -int(parts["b"])
    left = int(parts["a"]) + change
    return f"{parts['start']}{left}." if left >= 0 else None


def _solve_repeat(parts: _Parts) -> str | None:
    times = int(parts["n"])
    return (f"{parts['w']} " * times).strip() if 1 <= times <= _MOST_REPEATS else None


def _solve_count(parts: _Parts) -> str | None:
    first, last = int(parts["a"]), int(parts["b"])
    if not 0 < last - first <= MAX_ANSWER:
        return None
    numbers, now = [], first
    while now <= last:
        numbers.append(str(now))
        now += 1
    return ", ".join(numbers)


def _solve_countdown(parts: _Parts) -> str | None:
    upwards = _solve_count({"a": parts["b"], "b": parts["a"]})
    return None if upwards is None else ", ".join(reversed(upwards.split(", ")))


def _solve_times_table(parts: _Parts) -> str | None:
    factor, last = int(parts["a"]), int(parts["b"])
    if not 1 <= last <= _MOST_REPEATS:
        return None
    lines, product = [], 0
    for line in range(1, last + 1):
        product += factor
        lines.append(f"{factor} x {line} = {product}")
    return "\n".join(lines)


_W = "(?P<w>[a-z]+)"
_DAY = "|".join(_DAYS)
_VERB = "|".join(_GAINS + _LOSSES)

_RULES: tuple[_Rule, ...] = (
    _rule("reverse_word", f"reverse (?:the word )?{_W}", f"write {_W} backwards", answer=lambda p: p["w"][::-1]),
    _rule(
        "sort_letters",
        f"sort the letters of {_W}",
        f"letters of {_W} in order",
        answer=lambda p: "".join(sorted(p["w"], key=str.lower)),
    ),
    _rule("sort_numbers", r"sort (?:the numbers )?(?P<n>\d{1,6}(?: \d{1,6})+)", answer=_solve_sorted_numbers),
    _rule(
        "add",
        r"(?:what is )?(?P<a>\d{1,6}) ?\+ ?(?P<b>\d{1,6})(?: ?=)?",
        r"add (?P<a>\d{1,6}) and (?P<b>\d{1,6})",
        answer=lambda p: str(int(p["a"]) + int(p["b"])),
    ),
    _rule(
        "subtract",
        r"(?:what is )?(?P<a>\d{1,6}) ?- ?(?P<b>\d{1,6})(?: ?=)?",
        r"take (?P<b>\d{1,6}) from (?P<a>\d{1,6})",
        answer=_solve_difference,
    ),
    _rule(
        "count_letters",
        f"how many letters are in {_W}",
        f"count the letters in {_W}",
        answer=lambda p: str(len(p["w"])),
    ),
    _rule("number_to_words", r"(?:write|say) (?P<n>\d{1,6}) in words", answer=_solve_in_words),
    _rule("words_to_number", "(?:write|say) (?P<w>[a-z]+(?:[ -][a-z]+)*) in digits", answer=_solve_in_digits),
    _rule(
        "weekday",
        rf"(?P<name>[a-z]+) comes (?P<n>\d{{1,4}}) days? (?P<way>after|before) (?P<day>{_DAY})\. when",
        rf"(?:what|which) day is (?P<n>\d{{1,4}}) days? (?P<way>after|before) (?P<day>{_DAY})",
        answer=_solve_weekday,
    ),
    _rule(
        "convert",
        r"convert (?P<n>\d{1,6}) (?P<a>[a-z]+) to (?P<b>[a-z]+)",
        r"what is (?P<n>\d{1,6}) (?P<a>[a-z]+) in (?P<b>[a-z]+)",
        answer=_solve_conversion,
    ),
    _rule("pattern", r"(?:continue|what comes after) (?P<n>\d{1,6}(?: \d{1,6}){2,5})", answer=_solve_pattern),
    _rule(
        "json_list",
        "(?:as json|json list): ?(?P<w>[a-z]+(?:, ?[a-z]+)+)",
        answer=lambda p: json.dumps([word.strip() for word in p["w"].split(",")]),
    ),
    _rule(
        "fill_gap",
        rf"fill in: ?(?P<start>[a-z]+ had (?P<a>\d{{1,4}}) [a-z]+, (?P<verb>{_VERB}) (?P<b>\d{{1,4}}), now has )_",
        answer=_solve_gap,
    ),
    _rule("capitals", f"write {_W} in capitals", f"shout {_W}", answer=lambda p: p["w"].upper()),
    _rule("spell", f"spell (?:the word )?{_W}", answer=lambda p: "-".join(p["w"])),
    _rule("repeat", rf"(?:write|repeat) {_W} (?P<n>\d{{1,2}}) times", answer=_solve_repeat),
    _rule("count_up", r"count (?:up )?from (?P<a>\d{1,4}) to (?P<b>\d{1,4})", answer=_solve_count),
    _rule("countdown", r"count ?down from (?P<a>\d{1,4}) to (?P<b>\d{1,4})", answer=_solve_countdown),
    _rule(
        "times_table",
        r"times table of (?P<a>\d{1,3})(?: up to (?P<b>\d{1,2}))?",
        answer=_solve_times_table,
        missing="10",
    ),
)


def _plain(prompt: str) -> str:
    """The prompt with single spaces and without the stop at its end."""
    return " ".join(prompt.split()).rstrip(" .?!")


_TALK_ANSWERS: dict[str, str] = {
    _plain(phrasing).lower(): answer for phrasings, answer in _TALK for phrasing in phrasings
}


def _parse(plain: str) -> tuple[_Rule, _Parts] | None:
    """The rule that fits a plain prompt, with the parts it reads from it."""
    for rule in _RULES:
        for pattern in rule.patterns:
            match = pattern.fullmatch(plain)
            if match:
                return rule, match.groupdict(default=rule.missing)
    return None


def solve(prompt: str) -> str | None:
    """The right answer to a prompt, worked out from its text; None if it is none of our tasks.

    Upper and lower case of the wording, spaces around the prompt and a missing stop at its end do not matter.
    """
    plain = _plain(prompt)
    talk = _TALK_ANSWERS.get(plain.lower())
    if talk is not None:
        return talk
    parsed = _parse(plain)
    if parsed is None:
        return None
    rule, parts = parsed
    answer = rule.answer(parts)
    return answer if answer is not None and len(answer) <= MAX_ANSWER else None


def check(prompt: str, answer: str) -> bool:
    """Whether an answer, apart from spaces around it, is the right one."""
    return answer.strip() == solve(prompt)


def is_held_out(prompt: str) -> bool:
    """Whether a task is kept for the test split, by a stable hash of what it asks; small talk never is."""
    plain = _plain(prompt)
    if plain.lower() in _TALK_ANSWERS:
        return False
    parsed = _parse(plain)
    key = plain
    if parsed is not None:
        rule, parts = parsed
        key = "|".join([rule.skill, *(f"{name}={parts[name]}" for name in sorted(parts))])
    # A CRC would not do: it is linear, and would hold out whole columns, such as every countdown to 5.
    return hashlib.blake2b(key.lower().encode(), digest_size=1).digest()[0] % HELD_OUT_ONE_IN == 0


def sample(rng: random.Random, split: Split, skill: str | None = None) -> Example:
    """One random example of a split, of the given skill or of one drawn by weight."""
    if skill is None:
        chosen = rng.choices(list(SKILLS.values()), weights=[s.weight for s in SKILLS.values()])[0]
    else:
        chosen = SKILLS[skill]
    for _ in range(_MAX_TRIES):
        example = chosen.generate(rng)
        if chosen.name == SMALL_TALK or is_held_out(example.prompt) == (split == "test"):
            return example
    raise RuntimeError(f"no example of {chosen.name} for the {split} split")


_SUGGESTIONS: tuple[str, ...] = (
    "What can you do?",
    "Reverse the word robot.",
    "What is 47 + 5?",
    "Count from 4 to 43.",
    "Sort 9 4 7 2 6.",
    "Times table of 5 up to 9.",
    "Write 436 in words.",
    "As JSON: fig, pear, plum",
    "Mia comes 3 days after Tuesday. When?",
    "Spell banana.",
)


def suggestions() -> list[str]:
    """Prompts to offer to people. Apart from the small talk, the model has met none of them in training."""
    return list(_SUGGESTIONS)
