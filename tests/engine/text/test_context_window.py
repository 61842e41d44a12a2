"""The part of a conversation that fits into the context, and a message's images as they come from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from engine import SafelightError
from engine.pictures import Picture
from engine.text.context_window import Fit, fit
from engine.text.message import Message, image_digests, image_of, read_message


class Counter:
    """A word is a token, a message costs two more; counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, messages: Sequence[Message]) -> int:
        self.calls += 1
        return sum(len(message["content"].split()) + 2 for message in messages)


def conversation(turns: int, *, system: bool = False) -> list[Message]:
    """Turns of 16 tokens, then a prompt of 5."""
    turned = [{"role": "system", "content": "be brief"}] if system else []
    for turn in range(turns):
        turned.append({"role": "user", "content": f"question {turn} of mine"})
        turned.append({"role": "assistant", "content": f"answer {turn} " + "word " * 6})
    return [*turned, {"role": "user", "content": "and so on"}]


def by_hand(messages: list[Message], limit: int, reserve: int) -> Fit:
    """Finds the fit by trying one after the other."""
    head = 1 if messages[0]["role"] == "system" else 0
    count = Counter()
    for dropped in range((len(messages) - head - 1) // 2 + 1):
        kept = (*messages[:head], *messages[head + 2 * dropped :])
        if count(kept) <= limit - reserve:
            return Fit(kept, dropped, count(kept), limit, reserve)
    raise AssertionError("nothing fits")


@pytest.mark.parametrize("system", [False, True])
def test_the_oldest_turns_go_first_and_no_more_than_needed(system: bool) -> None:
    messages = conversation(23, system=system)
    for limit in range(20, 420, 3):
        assert fit(messages, Counter(), limit, 10) == by_hand(messages, limit, 10)


def test_a_conversation_that_fits_is_counted_once() -> None:
    count = Counter()
    messages = conversation(3)
    found = fit(messages, count, 100, 20)
    assert (found.kept, found.dropped_turns, found.tokens, found.problem) == (tuple(messages), 0, 53, "")
    assert count.calls == 1
    assert fit(conversation(500), count, 2000, 100).dropped_turns == 500 - 118
    assert count.calls <= 12  # a long one is counted rarely


def test_a_prompt_that_is_too_long_is_a_problem_and_nothing_is_lost() -> None:
    messages = conversation(2, system=True)
    found = fit(messages, Counter(), 10, 4)
    assert found.kept == (messages[0], messages[-1])
    assert (found.tokens, found.dropped_turns) == (9, 2)
    assert "takes 9 tokens and the answer up to 4, 3 more than the context of 10" in found.problem
    assert "Shorten the prompt" in found.problem
    assert "Choose a shorter answer" in fit(conversation(0), Counter(), 64, 64).problem


def test_odd_orders_lose_nothing() -> None:
    odd = [{"role": "assistant", "content": "hello"}, *conversation(1)]
    assert fit(odd, Counter(), 1000, 0).kept == tuple(odd)
    assert fit(odd, Counter(), 22, 0).kept == tuple(odd[1:])
    assert fit([], Counter(), 10, 0) == Fit((), 0, 0, 10, 0)


def test_a_tools_result_keeps_its_call_and_its_question() -> None:
    called = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    result = {"role": "tool", "content": "3 degrees", "name": "f"}
    asked = [*conversation(3), called, result, called, result]
    found = fit(asked, Counter(), 22, 0)
    assert found.kept == tuple(asked[-5:])
    assert found.dropped_turns == 3
    assert fit(asked, Counter(), 5, 0).problem


FIRST, SECOND = (Picture(sign * 64, b"", 30, 20) for sign in "ab")


def test_images_are_read_as_they_are_written() -> None:
    images = [image_of(FIRST), image_of(SECOND, at=2), image_of(FIRST, at=2)]
    assert read_message({"role": "user", "content": "hi", "images": images})["images"] == tuple(images)
    assert image_digests([{"role": "user", "content": "hi", "images": images}, {"role": "user", "content": ""}]) == (
        "a" * 64,
        "b" * 64,
    )


@pytest.mark.parametrize(
    "raw",
    [
        "x",
        [image_of(FIRST) | {"digest": "A" * 64}],
        [image_of(FIRST) | {"height": 0}],
        [image_of(FIRST, at=3)],
        [image_of(FIRST, at=1), image_of(SECOND)],
        [image_of(FIRST)] * 65,
    ],
)
def test_images_out_of_bounds(raw: Any) -> None:
    with pytest.raises(SafelightError, match="image"):
        read_message({"role": "user", "content": "hi", "images": raw})
