"""Several answers to one request, and the prompt before the answer, by OpenAI's own client."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from engine.config import GenerationConfig
from engine.events import Event
from tests.engine.server.openai_client import client_of
from tests.engine.server.served import CANVAS, LetterTokenizer, ScriptedEngine, Served, refused, serving

COMPLETIONS = "/v1/completions"


class Parrot(ScriptedEngine):
    """Writes the prompt's first word, the seed, and as many letters as the prompt's second word says."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks_of: Counter[str] = Counter()  # committed ones, by the prompt

    def generate(
        self,
        model: Any,
        ids: list[int],
        config: GenerationConfig,
        seed: int,
        cancel: threading.Event,
        cache: object = None,
    ) -> Iterator[Event]:
        own, prompt = copy.copy(self), LetterTokenizer().decode(ids)
        word, length = prompt.split()
        own.says = f"{word}{seed}" + "." * int(length)
        for event in ScriptedEngine.generate(own, model, ids, config, seed, cancel, cache):
            yield event
            self.blocks_of[prompt] += type(event).__name__ == "CanvasCommitted"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(Parrot()) as served:
        yield served


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    """A client that is not strict: its types have no null as the reason of a chunk, which OpenAI sends."""
    with client_of(served, is_strict=False) as client:
        yield client


def texts(found: Any) -> list[str]:
    assert [choice.index for choice in found.choices] == list(range(len(found.choices)))
    return [choice.text for choice in found.choices]


def complete(client: openai.OpenAI, prompt: Any, **fields: Any) -> Any:
    return client.completions.create(model="scripted", prompt=prompt, **{"seed": 7, **fields})


def streamed(client: openai.OpenAI, prompt: Any, **fields: Any) -> tuple[dict[int, str], dict[int, str], list[Any]]:
    """Returns texts and reasons by index, and the usages of all chunks."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    parts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    usages: list[Any] = []
    with complete(client, prompt, stream=True, stream_options=options, **fields) as stream:
        for chunk in stream:
            usages.append(chunk.usage)
            for choice in chunk.choices:
                parts[choice.index] = parts.get(choice.index, "") + choice.text
                assert choice.index not in reasons
                if choice.finish_reason:
                    reasons[choice.index] = choice.finish_reason
    return parts, reasons, usages


def test_choices_come_prompt_by_prompt_and_each_seed_repeats_one(client: openai.OpenAI) -> None:
    found = complete(client, ["one 0", "two 40"], n=2, max_tokens=60)
    assert texts(found) == ["one7", "one8", "two7" + 40 * ".", "two8" + 40 * "."]
    assert found.usage.prompt_tokens == len("[one 0") + len("[two 40")
    assert found.usage.completion_tokens == 2 * len("one7") + 2 * len("two7") + 80
    assert texts(complete(client, "one 0", max_tokens=60)) == ["one7"]
    assert texts(complete(client, "one 0", seed=8)) == ["one8"]


def test_they_are_the_same_in_a_stream_along_which_usage_runs(client: openai.OpenAI) -> None:
    parts, reasons, usages = streamed(client, ["one 0", "two 40"], n=2, max_tokens=30)
    assert parts == {0: "one7", 1: "one8", 2: "two7" + 26 * ".", 3: "two8" + 26 * "."}
    assert reasons == {0: "stop", 1: "stop", 2: "length", 3: "length"}
    assert usages[-1].completion_tokens == 8 + 60
    counts = [usage.completion_tokens for usage in streamed(client, "one 60", max_tokens=90)[2]]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert {CANVAS, 64} <= set(counts)
    assert counts[-1] == 64


def test_more_than_there_are_places_for_come_in_order(client: openai.OpenAI) -> None:
    assert texts(complete(client, [f"p{number} 0" for number in range(20)])) == [f"p{n}7" for n in range(20)]


def test_one_that_is_complete_ends_while_the_others_go_on(served: Served, client: openai.OpenAI) -> None:
    found = complete(client, ["stop 900", "on 900"], stop=["stop7"], max_tokens=900)
    assert [(choice.text[:3], choice.finish_reason) for choice in found.choices] == [("", "stop"), ("on7", "length")]
    assert served.engine.blocks_of["on 900"] > 900 // CANVAS
    assert served.engine.blocks_of["stop 900"] < 900 // CANVAS


def test_chats_have_several_answers(client: openai.OpenAI) -> None:
    asked: Any = {"model": "scripted", "messages": [{"role": "user", "content": "hey 0"}], "n": 3, "seed": 1}
    found = client.chat.completions.create(**asked)
    assert [(one.index, one.message.content) for one in found.choices] == [(0, "hey1"), (1, "hey2"), (2, "hey3")]
    assert found.usage is not None
    assert found.usage.prompt_tokens == len("hey 0")
    parts = {0: "", 1: "", 2: ""}
    with client.chat.completions.create(**asked, stream=True) as stream:
        for chunk in stream:
            parts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert parts == {0: "hey1", 1: "hey2", 2: "hey3"}


def test_tokens_are_taken_as_they_are(served: Served, client: openai.OpenAI) -> None:
    ids = LetterTokenizer().encode("one 0")
    assert texts(complete(client, [ids, ids])) == ["one7", "one7"]
    assert complete(client, ids).usage.prompt_tokens == len(ids)
    for prompt in ([], [[]], [ids, []], [2_000_000], [["x"]], ["x", 5], [ids, "x"], "", ["x", ""]):
        assert refused(served.http.post(COMPLETIONS, json={"prompt": prompt}))[0] == 400
    for param, fields in (
        ("n", {"n": 17}),
        ("n", {"n": 0}),
        ("best_of", {"best_of": 2}),
        (None, {"n": 13, "prompt": list("abcde")}),
        ("echo", {"echo": True, "logprobs": 1}),
    ):
        answer = served.http.post(COMPLETIONS, json={"prompt": "a 0", **fields})
        assert refused(answer)[:2] == (400, param)


def test_an_echo_puts_the_prompt_before_each_answer(client: openai.OpenAI) -> None:
    assert texts(complete(client, LetterTokenizer().encode("one 0"), echo=True)) == ["one 0one7"]
    assert texts(complete(client, ["one 0", "two 0"], echo=True, stop=["one"])) == ["one 0", "two 0two7"]
    parts, reasons, _ = streamed(client, "one 40", echo=True, max_tokens=0)
    assert (parts, reasons) == ({0: "one 40"}, {0: "length"})
    assert complete(client, "one 40", echo=True, max_tokens=0).usage.completion_tokens == 0
