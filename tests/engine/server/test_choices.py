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
from tests.engine.server.served import CANVAS, KEY, LetterTokenizer, ScriptedEngine, Served, refused, serving

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
    url = f"{served.server.url}/v1"
    with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, _strict_response_validation=True) as client:
        yield client


@pytest.fixture(scope="module")
def loose(served: Served) -> Iterator[openai.OpenAI]:
    """For streams of completions: its types have no null as the reason of a chunk, which OpenAI sends."""
    with openai.OpenAI(base_url=f"{served.server.url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


def texts(found: Any) -> list[str]:
    assert [choice.index for choice in found.choices] == list(range(len(found.choices)))
    return [choice.text for choice in found.choices]


def complete(client: openai.OpenAI, prompt: Any, **fields: Any) -> Any:
    return client.completions.create(model="scripted", prompt=prompt, seed=7, **fields)


def streamed(client: openai.OpenAI, prompt: Any, **fields: Any) -> tuple[dict[int, str], dict[int, str], list[Any]]:
    """Texts and reasons by index, and all chunks."""
    with complete(client, prompt, stream=True, stream_options={"include_usage": True}, **fields) as stream:
        chunks = list(stream)
    written: Counter[int] = Counter()
    parts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            parts[choice.index] = parts.get(choice.index, "") + choice.text
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
                written[choice.index] += 1
    assert set(written.values()) == {1}
    return parts, reasons, chunks


def test_choices_come_prompt_by_prompt_and_each_seed_repeats_one(client: openai.OpenAI) -> None:
    found = complete(client, ["one 0", "two 40"], n=2, max_tokens=60)
    assert texts(found) == ["one7", "one8", "two7" + 40 * ".", "two8" + 40 * "."]
    assert found.usage.prompt_tokens == len("[one 0") + len("[two 40")
    assert found.usage.completion_tokens == 2 * len("one7") + 2 * len("two7") + 80
    assert texts(complete(client, "one 0", max_tokens=60)) == ["one7"]
    assert client.completions.create(model="scripted", prompt="one 0", seed=8).choices[0].text == "one8"


def test_they_are_the_same_in_a_stream(loose: openai.OpenAI) -> None:
    parts, reasons, chunks = streamed(loose, ["one 0", "two 40"], n=2, max_tokens=30)
    assert parts == {0: "one7", 1: "one8", 2: "two7" + 26 * ".", 3: "two8" + 26 * "."}
    assert reasons == {0: "stop", 1: "stop", 2: "length", 3: "length"}
    assert chunks[-1].usage.completion_tokens == 8 + 60
    assert all(chunk.usage is None for chunk in chunks[:-1])


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


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"n": 17}, "n"), ({"n": 0}, "n"), ({"best_of": 2}, "best_of"), ({"n": 13, "prompt": list("abcde")}, None),
     ({"echo": True, "logprobs": 1}, "echo")],
)  # fmt: skip
def test_there_are_bounds(served: Served, fields: dict[str, Any], param: str | None) -> None:
    answer = served.http.post(COMPLETIONS, json={"prompt": "a 0", **fields})
    assert refused(answer)[:2] == (400, param)


def test_an_echo_puts_the_prompt_before_each_answer(client: openai.OpenAI, loose: openai.OpenAI) -> None:
    assert texts(complete(client, LetterTokenizer().encode("one 0"), echo=True)) == ["one 0one7"]
    assert texts(complete(client, ["one 0", "two 0"], echo=True, stop=["one"])) == ["one 0", "two 0two7"]
    parts, reasons, _ = streamed(loose, "one 40", echo=True, max_tokens=0)
    assert (parts, reasons) == ({0: "one 40"}, {0: "length"})
    assert complete(client, "one 40", echo=True, max_tokens=0).usage.completion_tokens == 0


def test_usage_can_run_along(loose: openai.OpenAI) -> None:
    options: Any = {"include_usage": True, "continuous_usage_stats": True}
    with loose.completions.create(
        model="scripted", prompt="one 60", max_tokens=90, seed=7, stream=True, stream_options=options
    ) as stream:
        told = [chunk.usage.completion_tokens for chunk in stream if chunk.usage is not None]
    assert told[0] == 0
    assert told == sorted(told)
    assert {CANVAS, 64} <= set(told)
    assert told[-1] == 64
