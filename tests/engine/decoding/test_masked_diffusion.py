"""Masked block diffusion against one written for reading: no cache, everything computed again at each pass."""

from __future__ import annotations

import random
import threading

import pytest
import torch

from engine import GenerationConfig, SafelightError
from engine.decoding.generate import FUNCTIONS
from engine.decoding.run import Run
from engine.events import PrefillFinished
from engine.models.causal.network import CausalNetwork
from tests.engine.causal import POSITIONS, check_cache, masked_network, plain_logits, run_of, tokens_by_pass
from tests.engine.tiny import all_but
from tests.engine.tiny import network as diffusion_network

masked_diffusion = FUNCTIONS["masked_diffusion"]


def plain_draw(logits: torch.Tensor, temperature: float, draws: torch.Generator) -> list[int]:
    if temperature == 0:
        return logits.argmax(-1).tolist()
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=draws)[:, 0].tolist()


def plain_run(
    network: CausalNetwork, prompt: list[int], config: GenerationConfig, seed: int
) -> tuple[list[dict[int, int]], str, list[int]]:
    """Return what each pass writes, by place; why the run ends; and its text."""
    mask, size = network.config.mask_token_id, config.canvas_length or network.config.canvas_length
    most = min(config.max_new_tokens, POSITIONS - len(prompt))
    draws, passes = torch.Generator().manual_seed(seed), list[dict[int, int]]()
    text: dict[int, int] = {}

    def ended() -> tuple[str, list[int]] | None:
        for place in range(most):
            if place not in text:
                return None
            if text[place] in config.eos_token_ids:
                return "eos", [text[before] for before in range(place)]
        return "length", [text[place] for place in range(most)]

    for start in range(0, most, size):
        places = range(start, min(start + size, most))
        before = [*prompt, *(text[place] for place in range(start))]
        (first,) = plain_draw(plain_logits(network, before)[-1:], config.sampling_temperature, draws)
        passes += [{start: first} if first != mask else {}]
        text |= passes[-1]
        steps = min(config.max_denoising_steps, len(places))
        for step in range(1, steps + 2):
            if (end := ended()) is not None:
                return passes, *end
            masks = [place for place in places if place not in text]
            if not masks:
                break
            logits = plain_logits(network, before, [text.get(place, mask) for place in places])
            logits = logits[[len(before) + place - start for place in masks]]
            if step == steps:
                logits[:, mask] = -torch.inf  # a predicted mask stays one before that
            drawn = plain_draw(logits, config.sampling_temperature, draws)
            shares = [float(row.softmax(-1)[token]) for row, token in zip(logits, drawn, strict=True)]
            passes += [
                {
                    place: token
                    for place, token, share in zip(masks, drawn, shares, strict=True)
                    if (share >= config.accept_probability or share == max(shares) or step == steps) and token != mask
                }
            ]
            text |= passes[-1]
    end = ended()
    assert end is not None
    return passes, *end


@pytest.mark.parametrize("runs", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_runs_against_the_definition(runs: int) -> None:
    seen = set()
    for seed in range(runs):
        rng = random.Random(seed)
        network = masked_network(seed, rng.choice([0.5, 2.0, 6.0]), 1 + seed % 2, tied=rng.random() < 0.5)
        config = GenerationConfig(
            accept_probability=rng.choice([0.0, 0.3, 0.6, 0.9, 0.99]),
            max_denoising_steps=rng.choice([1, 2, 3, 48]),
            sampling_temperature=rng.choice([0.0, 0.0, 0.7]),
            max_new_tokens=rng.randint(1, 9),
            eos_token_ids=tuple(rng.sample(range(9), rng.choice([0, 1, 1]))),
            canvas_length=rng.choice([None, 1, 4, 8]),
            top_k=rng.choice([0, 20]),
        )
        crowded = rng.random() < 0.1  # the model's positions end before the text may
        prompt = [rng.randrange(9) for _ in range(rng.randint(86, 95) if crowded else rng.randint(1, 10))]
        expected, reason, text = plain_run(network, prompt, config, seed)

        cache, size = network.new_cache(), config.canvas_length or 5
        never = threading.Event()
        decoding = masked_diffusion(Run(network, torch.tensor(prompt), config, seed, never, cache))  # type: ignore[arg-type]
        events = run_of(network, decoding, never, passes=1000)
        assert tokens_by_pass(events, size, mask=8) == expected
        assert (events[-1].reason, events[-1].tokens.tolist()) == (reason, text)
        read = max(expected[-1]) // size * size  # the last block is not
        assert cache.shared([*prompt, *text[:read]]) == cache.length == len(prompt) + read

        seen |= {reason, f"room {crowded}", f"steps {config.max_denoising_steps}", config.accept_probability, size}
        if seed % 4:
            continue
        check_cache(network, cache, [*prompt, *text[:read]])

        stop, cancel = rng.randrange(len(expected)), threading.Event()  # with the cache of the run before
        decoding = masked_diffusion(Run(network, torch.tensor(prompt), config, seed, cancel, cache))  # type: ignore[arg-type]
        events = run_of(network, decoding, cancel, passes=stop)
        assert (events[-1].reason, events[-1].steps) == ("cancelled", stop)
        shown = events[-1].tokens.tolist()
        assert shown == text[: len(shown)]
        assert len(shown) % size == 0
        check_cache(network, cache, [*prompt, *shown][: cache.length])
        assert cache.length >= len(prompt) + len(shown) - size
        assert isinstance(events[0], PrefillFinished)
        assert events[0].reused_tokens == len(prompt) - 1
    assert len(seen) == 2 + 2 + 4 + 5 + 4


def test_what_it_cannot_decode_is_said_in_a_line() -> None:
    made = masked_network(0)
    for name in ("masked_diffusion", "self_speculation", "block_causal", "bidirectional", "sub_blocks"):
        for network, length, settings, message in (
            (diffusion_network(), 3, {}, "no mask token"),
            (made, 3, {"pinned": ((0, 1),)}, "leave out pinned"),
            (made, POSITIONS, {}, f"{POSITIONS} positions"),
            (made, 3, {"banned_tokens": all_but(8, of=made.config.vocab_size)}, "every token but the mask is banned"),
        ):
            prompt, cache = torch.ones(length, dtype=torch.long), network.new_cache()
            with pytest.raises(SafelightError, match=message):
                list(FUNCTIONS[name](Run(network, prompt, GenerationConfig(**settings), 0, None, cache)))  # type: ignore[arg-type]
