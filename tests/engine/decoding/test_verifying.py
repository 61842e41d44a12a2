"""Verified blocks. Oracles: a fresh causal pass over the whole text, and the run without."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from engine import (
    CanvasCommitted,
    CanvasVerified,
    GenerationConfig,
    GenerationFinished,
    SafelightError,
    StepFinished,
    generate,
)
from engine.decoding.generate import fork
from engine.decoding.mixed import mixed
from engine.decoding.performing import perform, perform_all
from engine.decoding.protocols import ScoreTokens
from engine.decoding.run import Run
from engine.decoding.thoughts import ThoughtTokens
from engine.decoding.together import perform_together
from engine.events import Event
from engine.models.diffusion_gemma import network as module
from engine.models.diffusion_gemma.network import DiffusionGemma
from tests.engine.decoding.test_autoregressive import NARROW, oracle, told
from tests.engine.decoding.test_generate import facts
from tests.engine.decoding.test_passes import ByProgram
from tests.engine.tiny import network, tokens

LENGTH = 6
CONFIG = GenerationConfig(
    max_new_tokens=4 * LENGTH, max_denoising_steps=8, confidence_threshold=0.0, eos_token_ids=(), canvas_length=LENGTH
)
LOOK = CONFIG.replace(verify=True)
REWRITE = LOOK.replace(verify_rewrites=3, verify_probability=0.004)
MADE = {"plain": lambda model: model, "program": ByProgram}


@pytest.fixture(scope="module")
def model() -> DiffusionGemma:
    return network(1, **NARROW)


def causal(model: DiffusionGemma, before: list[int], row: list[int]) -> np.ndarray:
    """The causal probability of each token of a row behind a text, from one pass over all of it."""
    logits = oracle(model, before + row)[len(before) - 1 : -1]
    return logits.softmax(-1)[torch.arange(len(row)), row].numpy()


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_looking_changes_nothing_and_tells_what_a_fresh_causal_pass_does(model: DiffusionGemma, made: Any) -> None:
    prompt, subject = tokens(9).tolist(), made(model)
    for seed, ends in ((3, ()), (4, tuple(range(40)))):  # with ends, a block is cut
        config = CONFIG.replace(eos_token_ids=ends)
        events = list(generate(subject, prompt, config.replace(verify=True), seed))
        others = [event for event in events if not isinstance(event, CanvasVerified)]
        assert facts(others) == facts(list(generate(subject, prompt, config, seed)))
        text = list[int]()
        for block, (seen, end) in enumerate(
            zip(told(events, CanvasVerified), told(events, CanvasCommitted), strict=True)
        ):
            count = min(LENGTH, end.text_length + 1)
            own = end.tokens[:count].tolist()
            assert (seen.block_index, seen.step, seen.rewrite, seen.is_kept) == (block, end.steps - 1, 0, True)
            assert seen.canvas[:count].tolist() == own
            np.testing.assert_allclose(seen.probabilities[:count], causal(model, prompt + text, own), atol=1e-6)
            assert np.isnan(seen.probabilities[count:]).all()
            assert not seen.doubtful.any()
            text += own
        assert (len(text) < 4 * LENGTH) == bool(ends)


def test_logits_of_a_few_rows_are_held_at_once(model: DiffusionGemma, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, ids = model.prefill(tokens(7), model.new_cache()), tokens(7, 1)
    whole, rows = model.log_probabilities(hidden, ids), list[int]()
    head = model.head
    monkeypatch.setattr(module, "MOST_LOGITS", 2 * model.config.vocab_size + 1)
    monkeypatch.setattr(model, "head", lambda states: rows.append(len(states)) or head(states))
    torch.testing.assert_close(model.log_probabilities(hidden, ids), whole)
    assert rows == [2, 2, 2, 1]


def test_behind_a_prompt_that_was_in_the_cache_the_first_is_not_known(model: DiffusionGemma) -> None:
    prompt, cache, found = tokens(9), model.new_cache(), list[np.ndarray]()
    for _ in range(2):
        seen = told(generate(model, prompt, LOOK, 3, cache=cache), CanvasVerified)
        found += [np.concatenate([event.probabilities for event in seen])]
    assert np.flatnonzero(np.isnan(found[1])).tolist() == [0]
    np.testing.assert_allclose(found[1][1:], found[0][1:], atol=1e-6)


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_rewrite_stands_where_the_block_is_as_likely_as_before(model: DiffusionGemma, made: Any) -> None:
    subject, outcomes = made(model), set()
    for number in range(4 if made is MADE["plain"] else 2):
        pinned = ((1, 40), (4, 41)) if number % 2 else ()
        config = REWRITE.replace(pinned=pinned, eos_token_ids=tuple(range(number % 3)))
        prompt, cache = tokens(5, number).tolist(), subject.new_cache()
        events, text = list(generate(subject, prompt, config, number, cache=cache)), list[int]()
        steps = told(events, StepFinished)
        for block, end in enumerate(told(events, CanvasCommitted)):
            own = [step for step in steps if step.block_index == block]
            assert [step.step for step in own] == list(range(end.steps))
            kept, known, before, doubtful = None, 0, 0.0, np.zeros(LENGTH, dtype=np.bool_)
            seen = [event for event in told(events, CanvasVerified) if event.block_index == block]
            assert [event.rewrite for event in seen] == list(range(len(seen)))
            assert 1 <= len(seen) <= 1 + config.verify_rewrites
            for event in seen:
                read = own[event.step].argmax_canvas
                count = next((at + 1 for at, token in enumerate(read) if token in config.eos_token_ids), LENGTH)
                shares = causal(model, prompt + text, read[:count].tolist())
                np.testing.assert_allclose(event.probabilities[:count], shares, rtol=1e-4)
                likelihood = float(np.log(shares).sum())
                if kept is None:
                    assert event.is_kept
                else:
                    assert (read == kept)[~doubtful].all()
                    is_other = read[:count].tolist() != kept[:known].tolist()
                    assert event.is_kept == (is_other and count == known and likelihood >= before - 1e-5)
                    outcomes.add((event.is_kept, bool((read != kept).any())))
                if event.is_kept:
                    kept, before, known, shares_kept = read, likelihood, count, shares
                is_low = np.zeros(LENGTH, dtype=np.bool_)
                is_low[:known] = shares_kept < config.verify_probability
                is_low &= ~np.isin(kept, config.eos_token_ids)
                is_low[[at for at, _ in pinned if block == 0]] = False
                if event.doubtful.any():
                    assert event.doubtful.tolist() == is_low.tolist()
                    assert 2 * is_low.sum() <= known
                assert (event.canvas == kept)[~event.doubtful].all()
                doubtful = event.doubtful
            assert not doubtful.any()
            assert end.tokens[:known].tolist() == kept[:known].tolist()
            text += end.tokens[: end.text_length].tolist()
        last = events[-1]
        assert isinstance(last, GenerationFinished)
        assert (last.tokens.tolist(), last.steps) == (text, len(steps))
        assert cache.shared(prompt + text) >= len(prompt + text) - LENGTH
    assert (True, True) in outcomes
    assert (False, True) in outcomes or made is not MADE["plain"]


def test_a_rejected_rewrite_leaves_the_cache_as_the_text_is(model: DiffusionGemma) -> None:
    """All later blocks are denoised behind what stands: they are what they are from there on with a fresh cache."""
    config = REWRITE.replace(max_new_tokens=2 * LENGTH)
    for seed in range(12):
        events, prompt = list(generate(model, tokens(5), config, seed)), tokens(5).tolist()
        seen, (first, *_) = told(events, CanvasVerified), told(events, CanvasCommitted)
        if any(not event.is_kept for event in seen if event.block_index == 0):
            known = next(event for event in seen if event.block_index == 1)
            read = next(
                e for e in told(events, StepFinished) if (e.block_index, e.step) == (1, known.step)
            ).argmax_canvas
            shares = causal(model, prompt + first.tokens.tolist(), read.tolist())
            np.testing.assert_allclose(known.probabilities, shares, rtol=1e-4)
            return
    pytest.fail("no rewrite was rejected")


def test_where_most_is_doubtful_nothing_is_rewritten(model: DiffusionGemma) -> None:
    config = REWRITE.replace(verify_probability=1.0)
    assert facts(list(generate(model, tokens(9), config, 3))) == facts(list(generate(model, tokens(9), LOOK, 3)))


def test_beside_other_decoders_and_rescue(model: DiffusionGemma) -> None:
    """Thoughts are written autoregressively, answers verified; a rescued block is read causally anyway."""
    thoughts = ThoughtTokens(frozenset(), frozenset(range(100)), frozenset(), starts_open=True)
    order = ("autoregressive", "block_diffusion")
    prompt = tokens(9)
    events = list(perform_all(model, mixed(Run(model, prompt, LOOK, 3, None, model.new_cache()), order, thoughts)))
    text = [*prompt.tolist(), *told(events, CanvasCommitted)[0].tokens.tolist()]
    seen = told(events, CanvasVerified)
    assert [event.block_index for event in seen] == [1, 2, 3]
    shares = causal(model, text, seen[0].canvas.tolist())
    np.testing.assert_allclose(seen[0].probabilities, shares, atol=1e-6)
    assert not told(generate(model, prompt, LOOK.replace(rescue=True), 3), CanvasVerified)  # none converges
    with pytest.raises(SafelightError, match="verify needs the decoder"):
        list(generate(model, prompt, LOOK.replace(decoder="autoregressive"), 3))


def test_a_score_among_passes_of_other_runs_is_what_it_is_alone(model: DiffusionGemma) -> None:
    found = []
    for together in (False, True):
        wanted = [ScoreTokens(tokens(5, seed), model.new_cache(), first=seed) for seed in range(2)]
        if together:
            perform_together(model, wanted)
        else:
            for one in wanted:
                perform(model, one)
        found.append([one.log_probabilities.tolist()[1:] for one in wanted if one.log_probabilities is not None])
    assert found[0] == found[1]


@pytest.mark.parametrize(("after", "verified"), [(3, 0), (8, 0), (9, 1), (12, 2)])
def test_cancel_takes_effect_within_one_pass(model: DiffusionGemma, after: int, verified: int) -> None:
    flag, seen = threading.Event(), list[Event]()
    config = REWRITE.replace(verify_probability=0.002)
    for event in generate(model, tokens(5), config, 4, flag):
        seen.append(event)
        if len(told(seen, StepFinished)) == after:
            flag.set()
    last = seen[-1]
    assert isinstance(last, GenerationFinished)
    assert (last.reason, last.steps) == ("cancelled", after)
    assert len(told(seen, CanvasVerified)) == verified


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verify": 1}, "verify must be true or false, not 1"),
        ({"verify_probability": 1.5}, "verify_probability must be at most 1"),
        ({"verify_rewrites": 17}, "verify_rewrites must be a whole number between 0 and 16"),
        ({"canvas_length": 522}, "verify takes canvases of at most 521 tokens, not 522; switch it off"),
    ],
)
def test_bad_calls(model: DiffusionGemma, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SafelightError, match=message):
        list(generate(model, tokens(3), LOOK.replace(**changes)))


def test_runs_that_look_can_be_forked_and_those_that_rewrite_cannot(model: DiffusionGemma) -> None:
    assert told(fork(model, tokens(5), LOOK, 0, [], [], []), CanvasCommitted)
    with pytest.raises(SafelightError, match="a run with rewritten spans cannot be forked"):
        list(fork(model, tokens(5), REWRITE, 0, [], [], []))
