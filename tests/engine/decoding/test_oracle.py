"""The whole block loop against one written out in plain Python, on random models and settings.

The oracle repeats the draws in the documented order (a canvas of noise a block, then a row of candidates and a
canvas of noise a step) and decides everything else by loops over lists.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import (
    CanvasCommitted,
    CanvasStarted,
    GenerationConfig,
    ModelConfig,
    StepFinished,
)
from engine.decoders import ACCEPTANCE
from engine.decoding.generate import generate
from engine.layers.kv_cache import KVCache
from tests.engine.decoding.seen import end_of
from tests.engine.decoding.test_sampling import plain_accept, plain_entropy, plain_softmax
from tests.engine.tiny import CONFIG

VOCABULARY = 23
SHAPE = ModelConfig(**{**vars(CONFIG), "vocab_size": VOCABULARY, "canvas_length": 6, "max_position_embeddings": 40})


@dataclass
class Table:
    """A model without weights: logits are a fixed random function of prefix, canvas and conditioning.

    Half the time they depend on the block only and are sharp, so that canvases converge.
    """

    seed: int
    calm: float  # how often the logits do not look at the canvas
    config: ModelConfig = SHAPE
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float32
    prefix: list[int] = field(default_factory=list)

    def new_cache(self) -> KVCache:
        self.prefix = []
        return KVCache(self.config, self.device, torch.float32)

    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:
        before = self.prefix[: cache.length]
        self.prefix = before + ids.tolist()
        cache.advance(len(ids))
        return torch.zeros(len(ids), 1)

    def denoise(self, canvas: Tensor, cache: KVCache, self_conditioning_logits: Tensor | None = None) -> Tensor:
        return self.logits(self.prefix[: cache.length], canvas.tolist(), self_conditioning_logits)

    def logits(self, prefix: list[int], canvas: list[int], conditioning: Tensor | None) -> Tensor:
        rng = random.Random(f"{self.seed} {prefix}")
        if rng.random() > self.calm:
            felt = (
                ""
                if conditioning is None
                else [round(v, 2) for v in conditioning.nan_to_num(neginf=0).sum(-1).tolist()]
            )
            rng = random.Random(f"{self.seed} {prefix} {canvas} {felt}")
        sharpness = rng.choice([1.0, 5.0, 12.0])
        return torch.tensor([[rng.gauss(0, sharpness) for _ in range(VOCABULARY)] for _ in canvas]).clamp(-30, 30)


def plain_generation(model: Table, prompt: list[int], config: GenerationConfig, seed: int) -> dict[str, Any]:
    """Everything that should happen, as lists."""
    draws = torch.Generator().manual_seed(seed)
    length = config.canvas_length or SHAPE.canvas_length
    sizes = [length]  # that a canvas may have
    if config.smallest_canvas and not config.canvas_length:
        sizes = [min(length, config.smallest_canvas * 2**power) for power in range(8)]
    banned, noisy = sorted(set(config.banned_tokens)), list(range(VOCABULARY))
    left = [token for token in noisy if token not in banned]
    for place, token in enumerate(banned):
        noisy[token] = left[place * len(left) // len(banned)]

    def noise() -> list[int]:
        return [noisy[i] for i in torch.randint(VOCABULARY, (length,), generator=draws).tolist()]

    prefix, out, starts, steps, commits = list(prompt), [], [], [], []
    ended, room = False, 0
    while not ended:
        block, written = len(commits), len(prefix) - len(prompt)
        wanted = config.max_new_tokens - written
        if config.pinned:
            wanted = max(wanted, 1 + max(position for position, _ in config.pinned))
        length = next((size for size in sizes if size >= wanted), sizes[-1])
        if block == 0:
            room = (SHAPE.max_position_embeddings - len(prompt)) // length * length
            sizes = [size for size in sizes if size <= length]
        if written >= config.max_new_tokens or written + length > room:
            break
        canvas = noise()
        pins = dict(config.pinned) if block == 0 else {}
        for position, token in pins.items():
            canvas[position] = token
        starts.append(canvas)
        conditioning, argmaxes, converged, step = None, [], False, 0
        kept = [position in pins for position in range(length)]
        level, since, stalled = math.inf, 0, False
        while step < config.max_denoising_steps and not converged and not stalled:
            share = (config.max_denoising_steps - step) / config.max_denoising_steps
            temperature = config.t_min + (config.t_max - config.t_min) * share
            scaled = model.logits(prefix, canvas, conditioning) / temperature
            for position in range(length):
                for token in range(VOCABULARY):
                    if position in pins:
                        scaled[position, token] = 0.0 if token == pins[position] else -math.inf
                    elif token in banned:
                        scaled[position, token] = -math.inf
            drawn = torch.multinomial(torch.softmax(scaled, dim=-1), 1, generator=draws)[:, 0].tolist()
            fresh = noise()
            rows = scaled.tolist()
            entropies = [plain_entropy(row) for row in rows]
            best = [max(range(VOCABULARY), key=lambda token, row=row: row[token]) for row in rows]
            if config.acceptance == "entropy_bound":
                keep, complete = plain_accept(entropies, config.entropy_bound), False
            else:
                keep = plain_keep(rows, entropies, kept, config)
                drawn = [canvas[i] if kept[i] else best[i] for i in range(length)]
                kept, complete = keep, all(keep)
            canvas = [drawn[i] if keep[i] else fresh[i] for i in range(length)]
            argmaxes.append(best)
            wanted = config.stability_threshold
            stable = len(argmaxes) > wanted and all(earlier == best for earlier in argmaxes[-1 - wanted :])
            mean = sum(entropies) / length
            converged = (stable and mean < config.confidence_threshold) or complete
            since += 1
            if mean < level - 0.2 * level or level == math.inf:
                level, since = mean, 0
            stalled = 0 < config.stall_steps <= since and step + 1 < config.max_denoising_steps
            conditioning = scaled
            steps.append((block, step, temperature, best, drawn, entropies, keep, canvas))
            step += 1
        draft = argmaxes[-1]
        tokens, text = [], 0
        for token in draft:
            tokens.append(config.pad_token_id if ended else token)
            ended = ended or token in config.eos_token_ids
            text += not ended
        reason = "converged" if converged else "stalled" if stalled else "step_cap"
        commits.append((tokens, text, step, reason))
        out += tokens[:text]
        prefix += draft
    reason = "eos" if ended else "length"
    return {"starts": starts, "steps": steps, "commits": commits, "tokens": out, "reason": reason}


def plain_keep(
    rows: list[list[float]], entropies: list[float], kept: list[bool], config: GenerationConfig
) -> list[bool]:
    """The places kept after a step by the rules whose accepted places stay."""
    free = [place for place, held in enumerate(kept) if not held]
    if config.acceptance == "confidence_threshold":
        sure = {place: max(plain_softmax(rows[place])) for place in free}
        new = [place for place in free if sure[place] >= config.accept_probability]
        if free and not new:
            new = [max(free, key=sure.__getitem__)]
    else:
        within = plain_accept([entropies[place] for place in free], config.entropy_bound)
        new = [place for place, taken in zip(free, within, strict=True) if taken]
    return [held or place in new for place, held in enumerate(kept)]


def random_settings(rng: random.Random, acceptance: str) -> GenerationConfig:
    length = rng.choice([None, None, 1, 4, 9])
    size = length or SHAPE.canvas_length
    pinned = rng.sample(range(size), rng.choice([0, 0, min(2, size)]))
    few = tuple(rng.sample(range(VOCABULARY), VOCABULARY - rng.randint(1, 9)))
    return GenerationConfig(
        max_new_tokens=rng.randint(1, 30),
        max_denoising_steps=rng.randint(1, 12),
        entropy_bound=rng.choice([0.001, 0.1, 1.0, 8.0]),
        acceptance=acceptance,
        accept_probability=rng.choice([0.3, 0.6, 0.9, 0.99]),
        t_max=rng.choice([0.8, 1.5]),
        t_min=rng.choice([0.4, 0.8]),
        stability_threshold=rng.randint(0, 3),
        confidence_threshold=rng.choice([0.0, 0.005, 0.5, 2.0]),
        stall_steps=rng.choice([0, 0, 1, 2, 4]),
        eos_token_ids=tuple(rng.sample(range(VOCABULARY), rng.choice([0, 1, 3]))),
        pad_token_id=rng.randrange(VOCABULARY),
        canvas_length=length,
        smallest_canvas=rng.choice([None, 1, 2, 3]),
        pinned=tuple((position, rng.randrange(VOCABULARY)) for position in pinned),
        banned_tokens=few if rng.random() < 0.3 else (),
    )


def compared(config: GenerationConfig, rng: random.Random, seed: int) -> set[str]:
    """Runs a random model as the oracle does; returns why its blocks ended, and the run, and if its lengths differ."""
    prompt = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 20))]
    model = Table(seed, calm=0.7)
    expected = plain_generation(model, prompt, config, seed)
    events = list(generate(model, prompt, config, seed))
    starts = [event for event in events if isinstance(event, CanvasStarted)]
    steps = [event for event in events if isinstance(event, StepFinished)]
    commits = [event for event in events if isinstance(event, CanvasCommitted)]
    assert [event.canvas.tolist() for event in starts] == expected["starts"]
    assert len(steps) == len(expected["steps"])
    for event, wanted in zip(steps, expected["steps"], strict=True):
        block, step, temperature, best, drawn, entropies, keep, canvas = wanted
        assert (event.block_index, event.step) == (block, step)
        assert event.temperature == pytest.approx(temperature)
        assert event.argmax_canvas.tolist() == best
        assert event.candidates.tolist() == drawn
        assert event.entropy.tolist() == pytest.approx(entropies, abs=1e-5)
        assert event.accepted_mask.tolist() == keep
        assert event.next_canvas.tolist() == canvas
    found = [(e.tokens.tolist(), e.text_length, e.steps, e.reason) for e in commits]
    assert found == expected["commits"]
    last = end_of(events)
    assert (last.tokens.tolist(), last.reason) == (expected["tokens"], expected["reason"])
    assert (last.blocks, last.steps) == (len(commits), len(steps))
    lengths = {len(event.tokens) for event in commits}
    return {event.reason for event in commits} | {last.reason} | ({"lengths"} if len(lengths) > 1 else set())


@pytest.mark.parametrize("group", [0, *(pytest.param(group, marks=pytest.mark.slow) for group in range(1, 10))])
@pytest.mark.parametrize("acceptance", ACCEPTANCE)
def test_the_block_loop_against_plain_python(acceptance: str, group: int) -> None:
    """All settings are drawn; blocks also stall, and canvases fit what is left."""
    seen = set[str]()
    for seed in range(40 * group, 40 * group + 40):
        rng = random.Random(seed)
        seen |= compared(random_settings(rng, acceptance), rng, seed)
    assert seen == {"converged", "step_cap", "stalled", "eos", "length", "lengths"}
