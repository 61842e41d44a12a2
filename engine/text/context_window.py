"""Selects the part of a conversation that fits into a model's context. Needs a function that counts tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.errors import Sentence
from engine.text.message import Message

Count = Callable[[Sequence[Message]], int]
"""Counts the tokens of a conversation in the model's template; slow, so it is called rarely."""


@dataclass(frozen=True)
class Fit:
    """The messages to send. All numbers but ``dropped_turns`` are tokens.

    ``tokens`` counts what is kept, ``reserve`` is left for the answer, ``limit`` is the whole context. With a
    ``problem`` nothing can be sent, and ``kept`` is the smallest selection that was tried.
    """

    kept: tuple[Message, ...]
    dropped_turns: int
    tokens: int
    limit: int
    reserve: int
    problem: str = ""


def fit(messages: Sequence[Message], count: Count, limit: int, reserve: int) -> Fit:
    """Leaves out the oldest turns until the rest and the answer fit.

    System messages at the front and everything from the last user's message on always stay, so that a tool's result
    keeps its call. A turn is a user's message with its answers. ``count`` is called once if everything fits, and about
    log2(turns) + 2 times if it does not.
    """
    if not messages:
        return Fit((), 0, 0, limit, reserve)
    head, turns, last = _split(messages)
    room = limit - reserve

    def without(dropped: int) -> tuple[Message, ...]:
        return (*head, *(message for turn in turns[dropped:] for message in turn), *last)

    tokens = count(without(0))
    if tokens <= room:
        return Fit(without(0), 0, tokens, limit, reserve)
    too_few, enough = 0, len(turns)  # turns to drop, bisected; ``enough`` is checked next
    least = count(without(enough)) if turns else tokens
    if least > room:
        return Fit(without(enough), enough, least, limit, reserve, _problem(least, limit, reserve))
    tokens = least
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        needed = count(without(middle))
        if needed <= room:
            enough, tokens = middle, needed
        else:
            too_few = middle
    return Fit(without(enough), enough, tokens, limit, reserve)


def _split(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]], Sequence[Message]]:
    """Returns the system messages at the front, the turns in between, and the last turn."""
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    end = users[-1] if users else len(messages) - 1
    earlier = list(messages[:end])
    begin = next((place for place, message in enumerate(earlier) if message["role"] != "system"), len(earlier))
    turns: list[list[Message]] = []
    for message in earlier[begin:]:
        if message["role"] == "user" or not turns:
            turns.append([])
        turns[-1].append(message)
    return earlier[:begin], turns, messages[end:]


def _problem(tokens: int, limit: int, reserve: int) -> str:
    if reserve >= limit:
        return Sentence(
            "An answer of {reserve} tokens does not fit into a context of {limit}. Choose a shorter answer.",
            reserve=f"{reserve:,}",
            limit=f"{limit:,}",
        )
    over = f"{tokens + reserve - limit:,}"
    if not reserve:
        return Sentence(
            "The prompt takes {tokens} tokens, {over} more than the context of {limit}. "
            "Shorten it, or remove a file or an image.",
            tokens=f"{tokens:,}",
            over=over,
            limit=f"{limit:,}",
        )
    return Sentence(
        "The prompt takes {tokens} tokens and the answer up to {reserve}, {over} more than the context of {limit}. "
        "Shorten the prompt, or remove a file or an image.",
        tokens=f"{tokens:,}",
        reserve=f"{reserve:,}",
        over=over,
        limit=f"{limit:,}",
    )
