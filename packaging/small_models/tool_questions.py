"""Questions that a tool answers: what is asked, the call that finds it out, its result, and the answer made of that.

One question in sixteen is held out of training, by what it asks and not by its wording. In training half of the names
are made up, so that a model has to copy them; held-out questions have real ones, and the results of the real tools.
Other questions need no tool, or one that is not offered.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from engine.errors import SafelightError
from engine.tasks.skills import solve
from engine.tasks.skills.vocabulary import PEOPLE
from engine.tasks.tool_questions import MAX_QUESTION, NO_TOOL
from engine.tools.example_tools import COLUMNS, ERROR, TABLE, TOOLS, ZONES
from engine.tools.tool import REFUSED
from small_models import skills
from small_models.skills import is_held_out_content, made_up_word, random_word

Split: TypeAlias = Literal["train", "test"]
MAX_COUNTED = 34  # characters of a text whose words are counted: its call fits a canvas of 64
NOT_ALLOWED = "I was not allowed to use the tool."
OFFERED, OTHERS_OFFERED = 0.9, 0.75  # how often the right tool is offered, and each other one
REFUSALS, UNKNOWN = 0.04, 0.06  # share of the questions whose call is not allowed, or names what no tool knows
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_OPERATORS = (("+", "plus"), ("-", "minus"), ("*", "times"), ("/", "divided by"))


@dataclass(frozen=True)
class ToolQuestion:
    """A question, and how it is answered.

    Args:
        kind: name of its tool, or "skill".
        offered: the names of the tools in the prompt.
        tool: the one to call; empty if the answer needs none.
        result: of the call.
    """

    kind: str
    question: str
    offered: tuple[str, ...]
    tool: str
    arguments: Mapping[str, Any]
    result: str
    answer: str


@dataclass(frozen=True)
class _Asked:
    """A question for a tool; ``answers`` holds the answer with ``{}`` for the result."""

    question: str
    arguments: dict[str, str]
    answer: str
    key: str  # what it asks, whatever its wording
    result: str = ""  # made up; without it the tool is called
    part: int | None = None  # the word of the result that answers; None: all of it


def _calculate(rng: random.Random, made_up: bool) -> _Asked:
    a, b, c = (rng.randint(1, 10 ** rng.choice((1, 2, 2, 3, 4)) - 1) for _ in range(3))
    form = rng.random()
    if form < (0.4 if made_up else 0.25):
        return _story(rng, a, b, made_up)
    if form < 0.75:
        sign, word = rng.choice(_OPERATORS)
        if sign == "/" and rng.random() < 0.8:
            a *= b
        expression = f"{a}{sign}{b}"
        spaced, spoken = f"{a} {sign} {b}", f"{a} {word} {b}"
        wordings = ["What is {0}?", "What is {1}?", "Calculate {0}.", "How much is {1}?", "{0} = ?"]
        asked = {"+": "Add {2} and {3}.", "*": "Multiply {2} by {3}.", "-": "Take {3} from {2}."}
        wording = rng.choice([*wordings, asked.get(sign, "Divide {2} by {3}.")])
        question = wording.format(spaced, spoken, a, b)
    else:
        first, second = rng.choice("+-*"), rng.choice("+-*")
        spaced = rng.choice(
            (f"{a} {first} {b} {second} {c}", f"({a} {first} {b}) {second} {c}", f"{a} {first} ({b} {second} {c})")
        )
        expression = spaced.replace(" ", "")
        question = rng.choice(("What is {}?", "Calculate {}.", "How much is {}?", "{} = ?")).format(spaced)
    return _Asked(question, {"expression": expression}, f"{expression} = {{}}", expression)


def _story(rng: random.Random, a: int, b: int, made_up: bool) -> _Asked:
    who, things = rng.choice(PEOPLE), rng.choice(("eggs", "pens", "coins", "books", "plums", "keys"))
    match rng.choice((0, 1, 2, 3, 3, 3) if made_up else (0, 1, 2, 3)):  # training needs more of what is learnt last
        case 0:
            question, expression = f"{a} boxes hold {b} {things} each. How many in all?", f"{a}*{b}"
            answer = f"That makes {{}} {things}."
        case 1:
            question, expression = f"{who} has {a} {things} and gets {b}. How many now?", f"{a}+{b}"
            answer = f"{who} has {{}} {things}."
        case 2:
            a = a + b
            question, expression = f"{who} has {a} {things} and sells {b}. How many now?", f"{a}-{b}"
            answer = f"{who} has {{}} {things}."
        case _:
            a = a * b
            question, expression = f"{b} people share {a} {things}. How many for each?", f"{a}/{b}"
            answer = f"Each gets {{}} {things}."
    return _Asked(question, {"expression": expression}, answer, expression)


def _clock(rng: random.Random, made_up: bool) -> _Asked:
    day = rng.random() < 0.4
    time = f"{rng.choice(_DAYS)} {rng.randrange(24):02}:{rng.randrange(60):02}"
    part = 0 if day else 1
    if made_up and rng.random() < 0.1:
        asked = ("What day is it?", "What day is today?") if day else ("What time is it?", "How late is it?")
        return _Asked(rng.choice(asked), {}, "It is {}.", "here", time, part)
    place = _name(rng) if made_up else rng.choice(list(ZONES))
    if day:
        wording = rng.choice(("What day is it in {}?", "Which day is it in {}?", "Tell me the day in {}."))
    else:
        wording = rng.choice(("What time is it in {}?", "How late is it in {}?", "Tell me the time in {}."))
    answer = f"It is {{}} in {place}."
    if made_up and rng.random() < UNKNOWN:
        return _unknown(wording.format(place), {"place": place}, f"no place called {place}")
    return _Asked(wording.format(place), {"place": place}, answer, f"{place} {day}", time if made_up else "", part)


def _count_words(rng: random.Random, made_up: bool) -> _Asked:
    del made_up
    words, size = list[str](), rng.randint(2, 9)
    while len(words) < size and len(" ".join(words)) < MAX_COUNTED:
        words.append(random_word(rng, 0.7))
    while len(" ".join(words)) > MAX_COUNTED:
        words.pop()
    text = " ".join(words)
    wording = rng.choice(("How many words: {}", "Count the words: {}", "How many words has: {}"))
    answer = "It has {} word." if len(words) == 1 else "It has {} words."
    return _Asked(wording.format(text), {"text": text}, answer, text)


def _look_up(rng: random.Random, made_up: bool) -> _Asked:
    column = rng.choice(COLUMNS)
    name = _name(rng) if made_up else rng.choice(list(TABLE))
    wording = rng.choice(
        (
            *("What is the {column} of {name}?", "Look up the {column} of {name}.", "Tell me the {column} of {name}."),
            *("{name}: which {column}?", "Find the {column} of {name}."),
        )
    )
    question, arguments = wording.format(column=column, name=name), {"column": column, "name": name}
    if made_up and rng.random() < UNKNOWN:
        return _unknown(question, arguments, f"no row called {name}")
    result = (_name(rng) if rng.random() < 0.6 else rng.choice(list(TABLE.values()))[column]) if made_up else ""
    return _Asked(question, arguments, f"The {column} of {name} is {{}}.", f"{column} {name}", result)


def _unknown(question: str, arguments: dict[str, str], reason: str) -> _Asked:
    return _Asked(question, arguments, f"That did not work: {reason}.", reason, f"{ERROR}{reason}")


def _name(rng: random.Random) -> str:
    """Draws a made-up name, or a real one of any kind, with a capital letter."""
    if rng.random() < 0.3:
        return rng.choice((*ZONES, *TABLE))
    name = made_up_word(rng, 3, 9).capitalize()
    return f"{rng.choice(('New', 'San', 'East', 'Port'))} {name}" if rng.random() < 0.15 else name


_KINDS = {
    "calculate": (_calculate, 4),
    "clock": (_clock, 2),
    "count_words": (_count_words, 3),
    "look_up": (_look_up, 3),
}
"""The makers of questions for each tool, and how often each is drawn."""
_TRAINED = {"calculate": 9, "clock": 2, "count_words": 2, "look_up": 4}
"""How often each is drawn in training: those that are learnt last more often."""
_SKILLS = 3  # how often a question for no tool is drawn


def sample(rng: random.Random, split: Split, now: datetime.datetime | None = None) -> ToolQuestion:
    """Draws a question of a split. ``now``: the time that the clock shows."""
    often = _TRAINED if split == "train" else {kind: weight for kind, (_, weight) in _KINDS.items()}
    [kind] = rng.choices([*often, "skill"], [*often.values(), _SKILLS])
    return _skill(rng, split) if kind == "skill" else _for_tool(rng, split, kind, now)


def _for_tool(rng: random.Random, split: Split, kind: str, now: datetime.datetime | None) -> ToolQuestion:
    while True:
        asked = _KINDS[kind][0](rng, split == "train" and rng.random() < 0.6)
        is_right_split = is_held_out_content(f"{kind}|{asked.key}".lower()) == (split == "test") or asked.key == "here"
        if len(asked.question) <= MAX_QUESTION and is_right_split:
            break
    is_offered = rng.random() < OFFERED
    offered = _offered(rng, kind, is_offered)
    if not is_offered:
        answer = solve(asked.question) or NO_TOOL
        return ToolQuestion(kind, asked.question, offered, "", {}, "", answer)
    if rng.random() < REFUSALS:
        result, answer = REFUSED, NOT_ALLOWED
    else:
        result = asked.result or result_of(kind, asked.arguments, now)
        found = result if asked.part is None else result.split()[asked.part]
        answer = asked.answer.format(found)
        if result.startswith(ERROR):
            answer = f"That did not work: {result.removeprefix(ERROR)}."
    return ToolQuestion(kind, asked.question, offered, kind, asked.arguments, result, answer)


def _skill(rng: random.Random, split: Split) -> ToolQuestion:
    """Draws a task that needs no tool."""
    offered = _offered(rng, "calculate", rng.random() < OFFERED)
    while True:
        task = skills.sample(rng, split)
        if task.skill in ("add", "subtract") and "calculate" in offered:
            continue
        if len(task.prompt) <= MAX_QUESTION:
            return ToolQuestion("skill", task.prompt, offered, "", {}, "", task.answer)


def _offered(rng: random.Random, kind: str, is_offered: bool) -> tuple[str, ...]:
    """Draws the names of the tools in a prompt, some of them of tools that the model does not know."""
    names = [name for name in TOOLS if (is_offered if name == kind else rng.random() < OTHERS_OFFERED)]
    if rng.random() < 0.3:
        names += ["_".join(random_word(rng) for _ in range(rng.randint(1, 2))) for _ in range(rng.randint(1, 3))]
    rng.shuffle(names)
    return tuple(names)


def result_of(name: str, arguments: Mapping[str, Any], now: datetime.datetime | None = None) -> str:
    """Calls a tool; returns its result, or its error as the model reads it."""
    more = {"now": now} if name == "clock" and now is not None else {}
    try:
        return TOOLS[name].run(**arguments, **more)
    except SafelightError as error:
        return f"{ERROR}{error}"
