"""Scores of a prompt are the model's own: what it predicts where it reads the prompt as text."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch

from engine import MINI, Event, GenerationFinished, Model, PrefillFinished, generate, load_model
from engine.catalog import MASKED
from engine.decoding import prefill
from engine.decoding.generate import decode
from engine.decoding.performing import perform
from engine.decoding.prefill import with_scores
from engine.decoding.protocols import Pass
from engine.decoding.run import Run
from engine.events import PromptScores

TEXT = "What is 12 + 7? Sort 5 3."


@pytest.fixture(scope="module", params=[MINI, MASKED])
def model(request: pytest.FixtureRequest) -> Model:
    return load_model(request.param, device="cpu")


def performed(model: Model, items: Iterator[Event | Pass | PromptScores]) -> list[Event | PromptScores]:
    found: list[Event | PromptScores] = []
    for item in items:
        if isinstance(item, Pass):
            perform(model, item)
        else:
            found.append(item)
    return found


def scored(
    model: Model, ids: Sequence[int], most: int, cancel: threading.Event | None = None
) -> list[Event | PromptScores]:
    settings = model.generation_defaults.replace(max_new_tokens=8, max_denoising_steps=3)
    run = Run.from_ids(model, ids, settings, 3, cancel)
    return performed(model, with_scores(run, most, decode(run)))


def test_they_are_what_the_model_predicts(model: Model) -> None:
    ids = model.tokenizer.encode_prompt(TEXT)
    scores, begun, *_ = scored(model, ids, 4)
    assert isinstance(scores, PromptScores)
    cache, own = model.new_cache(), []
    with torch.inference_mode():
        for token, following in itertools.pairwise(ids):  # one a pass
            logits = model.decode(torch.tensor([token]), cache, 1)
            own.append(float(torch.log_softmax(logits[0], dim=-1)[following]))
    assert scores.tokens.tolist() == ids
    np.testing.assert_allclose(scores.logprobs, own, atol=2e-3)
    assert scores.top_tokens.shape == scores.top_logprobs.shape == (len(ids) - 1, 4)
    assert (np.diff(scores.top_logprobs) <= 0).all()
    for token, logprob, best, logprobs in zip(
        ids[1:], scores.logprobs, scores.top_tokens, scores.top_logprobs, strict=True
    ):
        assert logprob <= logprobs[0]
        assert token not in best or logprob == logprobs[best.tolist().index(token)]
    assert isinstance(begun, PrefillFinished)
    assert (begun.prompt_tokens, begun.reused_tokens) == (len(ids), 0)


def test_in_pieces_they_are_the_same_and_so_is_the_text(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = model.tokenizer.encode_prompt(TEXT)
    whole, *_, end = scored(model, ids, 2)
    monkeypatch.setattr(prefill, "MAX_LOGITS", 5 * model.config.vocab_size)
    pieces, *_ = scored(model, ids, 0)
    assert isinstance(whole, PromptScores)
    assert isinstance(pieces, PromptScores)
    np.testing.assert_allclose(pieces.logprobs, whole.logprobs, atol=2e-3)
    assert pieces.top_tokens.shape == (len(ids) - 1, 0)
    settings = model.generation_defaults.replace(max_new_tokens=8, max_denoising_steps=3)
    *_, last = generate(model, ids, settings, 3)
    assert isinstance(end, GenerationFinished)
    assert isinstance(last, GenerationFinished)
    assert end.tokens.tolist() == last.tokens.tolist()


def test_one_token_has_none_and_a_cancelled_run_neither(model: Model) -> None:
    scores, *_ = scored(model, [5], 3)
    assert isinstance(scores, PromptScores)
    assert (scores.tokens.tolist(), scores.logprobs.shape, scores.top_tokens.shape) == ([5], (0,), (0, 3))
    cancel = threading.Event()
    cancel.set()
    events = scored(model, [5, 6], 3, cancel)
    assert not any(isinstance(event, PromptScores) for event in events)
    assert isinstance(events[-1], GenerationFinished)
    assert events[-1].reason == "cancelled"
