"""A bound on thinking: the end of a thought is written where its budget ends, and all else stays as it is."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from engine import GenerationConfig
from engine.decoding import autoregressive, masked_run
from engine.decoding.generate import FUNCTIONS
from engine.decoding.run import Run
from engine.decoding.thoughts import ThoughtBudget, ThoughtTokens
from engine.models.causal.network import CausalNetwork
from tests.engine.causal import check_cache, masked_network, plain_logits, run_of, tokens_by_pass

OPENS, CLOSES, MASK = 0, 1, 8
SEEDS = range(6)
Texts = list[int]


def thoughts_of(starts_open: bool) -> ThoughtTokens:
    return ThoughtTokens(frozenset({OPENS}), frozenset({CLOSES}), starts_open=starts_open)


def in_thought(text: Texts, starts_open: bool) -> tuple[bool, bool]:
    """Return if a text ends in a thought, and if one has ended in it."""
    is_open, has_ended = starts_open, False
    for token in text:
        has_ended = has_ended or (is_open and token == CLOSES)
        is_open = (is_open or token == OPENS) and token != CLOSES
    return is_open, has_ended


def must_end(text: Texts, starts_open: bool, budget: int) -> bool:
    is_open, has_ended = in_thought(text, starts_open)
    return is_open and not has_ended and len(text) >= budget


def plain_text(network: CausalNetwork, prompt: Texts, config: GenerationConfig, starts_open: bool) -> Texts:
    """One likeliest token after the other, without a cache, but for the thought's end where it is due."""
    text: Texts = []
    while len(text) < config.max_new_tokens:
        token = int(plain_logits(network, [*prompt, *text])[-1].argmax())
        if config.thinking_tokens is not None and must_end(text, starts_open, config.thinking_tokens):
            token = CLOSES
        if token in config.eos_token_ids:
            break
        text.append(token)
    return text


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Give bare networks, which have no tokenizer, thoughts; the argument says that prompts end inside one."""

    def give(starts_open: bool) -> None:
        def from_run(run: Run) -> ThoughtBudget:
            if run.config.thinking_tokens is None:
                return ThoughtBudget()
            return ThoughtBudget(thoughts_of(starts_open), run.config.thinking_tokens, CLOSES)

        for module in (autoregressive, masked_run):
            monkeypatch.setattr(module.ThoughtBudget, "from_run", from_run)

    return give


def run(name: str, network: CausalNetwork, prompt: Texts, config: GenerationConfig) -> tuple[Texts, Any]:
    """A run's text, and its cache; its events go together."""
    cache, never, size = network.new_cache(), threading.Event(), config.canvas_length or 5
    decoding = FUNCTIONS[name](Run(network, torch.tensor(prompt), config, 0, never, cache))  # type: ignore[arg-type]
    events = run_of(network, decoding, never, passes=1000)
    passes = tokens_by_pass(events, size, MASK)
    text = events[-1].tokens.tolist()
    written = {place: token for one in passes for place, token in one.items()}
    assert [written[place] for place in range(len(text))] == text
    return text, cache


def case(seed: int) -> tuple[CausalNetwork, Texts, GenerationConfig, bool]:
    rng = random.Random(seed)
    network = masked_network(seed, rng.choice([0.5, 2.0]), tied=rng.random() < 0.5)
    config = GenerationConfig(
        max_new_tokens=rng.randint(6, 14),
        eos_token_ids=tuple(rng.sample(range(2, 8), rng.choice([0, 0, 1]))),
        canvas_length=rng.choice([None, 3, 16]),
        thinking_tokens=rng.randint(0, 7),
        max_denoising_steps=rng.choice([1, 3, 48]),
    )
    return network, [rng.randrange(MASK) for _ in range(rng.randint(1, 9))], config, rng.random() < 0.7


@pytest.mark.parametrize("name", ["autoregressive", "self_speculation"])
def test_text_is_that_of_one_token_after_the_other_with_the_end_put_in(
    name: str, bounded: Callable[[bool], None]
) -> None:
    seen = set()
    for seed in SEEDS:
        network, prompt, config, starts_open = case(seed)
        bounded(starts_open)
        text, cache = run(name, network, prompt, config)
        assert text == plain_text(network, prompt, config, starts_open)
        check_cache(network, cache, [*prompt, *text][: cache.length])
        assert cache.length >= len(prompt) + len(text) - 1

        free = plain_text(network, prompt, config.replace(thinking_tokens=None), starts_open)
        seen.add("as it is" if text == free else "ended")
        if in_thought(free[: config.thinking_tokens], starts_open)[1]:
            assert text == free
            seen.add("ended before")
    assert seen == {"as it is", "ended", "ended before"}


@pytest.mark.parametrize("name", ["masked_diffusion", "block_causal", "sub_blocks"])
def test_blocks_of_masks_end_a_thought_at_the_same_place(name: str, bounded: Callable[[bool], None]) -> None:
    """A thought that is open where the budget ends has its end there; blocks before it, or behind another, stay."""
    forced = before = 0
    for seed in SEEDS:
        network, prompt, config, starts_open = case(seed)
        bounded(starts_open)
        budget = config.thinking_tokens
        assert budget is not None
        text, _ = run(name, network, prompt, config)
        free, _ = run(name, network, prompt, config.replace(thinking_tokens=None))
        if must_end(text[:budget], starts_open, budget) and len(text) > budget:
            assert text[budget] == CLOSES
            forced += text != free
        before += in_thought(text[:budget], starts_open)[1]
        size, first = config.canvas_length or 5, 0 if name == "masked_diffusion" else len(prompt)
        start = max(0, (first + budget) // size * size - first)  # of the block with the place
        assert text[:start] == free[:start]
        if in_thought(free[:start], starts_open)[1]:
            assert text == free
    assert min(forced, before) > 0


def test_a_thought_that_begins_behind_its_budget_is_ended_at_once() -> None:
    budget = ThoughtBudget(thoughts_of(False), 2, CLOSES)
    for token in (5, 6, 7):
        budget.add(token)
    assert not budget.is_due
    assert budget.ending(torch.tensor([4, OPENS, 3, 2])).tolist() == [4, OPENS, CLOSES]
    assert not budget.is_due  # it only looked ahead
    for token in (OPENS, CLOSES, OPENS):  # the second one has no bound
        budget.add(token)
    assert not budget.is_due
