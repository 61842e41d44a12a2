"""The whole block loop against one written out in plain Python, on random models and settings.

The oracle repeats the draws in the documented order (a canvas of noise a try, then a row of candidates and a
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
    GenerationFinished,
    ModelConfig,
    StepFinished,
    TryEnded,
)
from engine.config import ACCEPTANCE
from engine.decoding.generate import generate
from engine.layers.embedding import Likeliest, Predicted
from engine.layers.kv_cache import KVCache
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

    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:  # noqa: ARG002
        self.prefix += ids.tolist()
        return torch.zeros(len(ids), 1)

    def denoise(self, canvas: Tensor, cache: KVCache, self_conditioning_logits: Predicted | None = None) -> Tensor:  # noqa: ARG002
        fed = self_conditioning_logits
        whole = fed.spread(VOCABULARY) if isinstance(fed, Likeliest) else fed
        return self.logits(self.prefix, canvas.tolist(), whole)

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
    """What should happen, as lists."""
    draws = torch.Generator().manual_seed(seed)
    length = config.canvas_length or SHAPE.canvas_length
    allowed = list(config.allowed_tokens) if config.allowed_tokens is not None else list(range(VOCABULARY))

    def noise() -> list[int]:
        return [allowed[i] for i in torch.randint(len(allowed), (length,), generator=draws).tolist()]

    prefix, out, starts, steps, commits, tries = list(prompt), [], [], [], [], []
    most = math.ceil(config.max_new_tokens / length)
    ended = False
    while len(commits) < most and len(prefix) + length <= SHAPE.max_position_embeddings and not ended:
        block = len(commits)
        canvas = noise()
        pins = dict(config.pinned) if block == 0 else {}
        if block == 0 and config.seed_canvas is not None:
            canvas = list(config.seed_canvas)
        for position, token in pins.items():
            canvas[position] = token
        starts.append(canvas)
        used, ends = 0, list[tuple[float, list[int]]]()  # of each try, its mean entropy and its draft
        is_over = False
        while not is_over:
            conditioning, argmaxes, converged, step = None, [], False, 0
            kept = [position in pins for position in range(length)]
            level, since, stalled = math.inf, 0, False
            while used + step < config.max_denoising_steps and not converged and not stalled:
                share = (config.max_denoising_steps - step) / config.max_denoising_steps
                temperature = config.t_min + (config.t_max - config.t_min) * share
                scaled = model.logits(prefix, canvas, conditioning) / temperature
                for position in range(length):
                    for token in range(VOCABULARY):
                        if position in pins:
                            scaled[position, token] = 0.0 if token == pins[position] else -math.inf
                        elif token not in allowed:
                            scaled[position, token] = -math.inf
                        if kept[position] and config.fixes_kept and config.acceptance != "entropy_bound":
                            scaled[position, token] = 0.0 if token == canvas[position] else -math.inf
                drawn = torch.multinomial(torch.softmax(scaled, dim=-1), 1, generator=draws)[:, 0].tolist()
                fresh = noise()
                rows = scaled.tolist()
                entropies = [plain_entropy(row) for row in rows]
                best = [max(range(VOCABULARY), key=lambda token, row=row: row[token]) for row in rows]
                if config.acceptance == "entropy_bound":
                    keep, complete = plain_accept(entropies, config.entropy_bound), False
                else:
                    keep = plain_keep(
                        rows, entropies, kept, temperature, (step + 1) / config.max_denoising_steps, config
                    )
                    drawn = [canvas[i] if kept[i] else best[i] for i in range(length)]
                    kept, complete = keep, all(keep)
                canvas = [drawn[i] if keep[i] else fresh[i] for i in range(length)]
                argmaxes.append(best)
                wanted = config.stability_threshold
                stable = len(argmaxes) > wanted and all(
                    earlier == best for earlier in argmaxes[len(argmaxes) - 1 - wanted :]
                )
                mean = sum(entropies) / length
                converged = (stable and mean < config.confidence_threshold) or complete
                since += 1
                if mean < level - config.stall_fall * level or level == math.inf:
                    level, since = mean, 0
                stalled = 0 < config.stall_steps <= since and used + step + 1 < config.max_denoising_steps
                conditioning = scaled
                if config.soft_tokens:
                    conditioning = torch.full_like(scaled, -math.inf)
                    for position, row in enumerate(rows):
                        likeliest = sorted(range(VOCABULARY), key=lambda token, row=row: -row[token])
                        for token in likeliest[: config.soft_tokens]:
                            conditioning[position, token] = row[token]
                steps.append((block, used + step, temperature, best, drawn, entropies, keep, canvas))
                step += 1
            used += step
            ends.append((mean, argmaxes[-1]))
            surest = len(ends) - 1 if converged else min(range(len(ends)), key=lambda one: ends[one][0])
            left = config.max_denoising_steps - used
            is_over = converged or not stalled or len(ends) > config.second_tries or left <= config.stall_steps
            if not converged and (stalled or len(ends) > 1):
                canvas = list(ends[surest][1]) if is_over else noise()
                for position, token in pins.items():
                    canvas[position] = token
                then = "taken" if is_over else "again"
                tries.append((block, used - 1, len(ends) - 1, surest, stalled, then, canvas))
        draft = ends[surest][1]
        tokens, text = [], 0
        for token in draft:
            tokens.append(config.pad_token_id if ended else token)
            if token in config.eos_token_ids:
                ended = True
            text += not ended
        commits.append((tokens, text, used, "converged" if converged else "stalled" if stalled else "step_cap"))
        out += tokens[:text]
        prefix += draft
    reason = "eos" if ended else "length"
    return {"starts": starts, "steps": steps, "commits": commits, "tries": tries, "tokens": out, "reason": reason}


def plain_keep(
    rows: list[list[float]],
    entropies: list[float],
    kept: list[bool],
    temperature: float,
    progress: float,
    config: GenerationConfig,
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
        if config.acceptance == "margin" and free:
            gaps = []
            for place in free:
                second, first = sorted(rows[place])[-2:]
                gaps.append(min(60.0, (first - second) * temperature))
            phase = 1 if progress < 0.33 else 2 / 3 if progress < 0.67 else 1 / 3
            if sum(gaps) / len(gaps) >= config.margin * phase:
                new = free
    return [held or place in new for place, held in enumerate(kept)]


def random_settings(rng: random.Random, acceptance: str) -> GenerationConfig:
    length = rng.choice([None, 1, 4, 9])
    size = length or SHAPE.canvas_length
    pinned = rng.sample(range(size), rng.choice([0, 0, min(2, size)]))
    return GenerationConfig(
        max_new_tokens=rng.randint(1, 30),
        max_denoising_steps=rng.randint(1, 9),
        entropy_bound=rng.choice([0.001, 0.1, 1.0, 8.0]),
        acceptance=acceptance,
        accept_probability=rng.choice([0.3, 0.6, 0.9, 0.99]),
        margin=rng.choice([1.0, 7.5, 20.0]),
        fixes_kept=rng.random() < 0.3,
        soft_tokens=rng.choice([0, 0, 1, 5, 64]),
        t_max=rng.choice([0.8, 1.5]),
        t_min=rng.choice([0.4, 0.8]),
        stability_threshold=rng.randint(0, 3),
        confidence_threshold=rng.choice([0.0, 0.005, 0.5, 2.0]),
        eos_token_ids=tuple(rng.sample(range(VOCABULARY), rng.choice([0, 1, 3]))),
        pad_token_id=rng.randrange(VOCABULARY),
        canvas_length=length,
        seed_canvas=tuple(rng.randrange(VOCABULARY) for _ in range(size)) if rng.random() < 0.3 else None,
        pinned=tuple((position, rng.randrange(VOCABULARY)) for position in pinned),
        allowed_tokens=tuple(rng.sample(range(VOCABULARY), rng.randint(1, 9))) if rng.random() < 0.3 else None,
    )


def compared(config: GenerationConfig, rng: random.Random, seed: int) -> tuple[list[TryEnded], set[str]]:
    """Runs a random model as the oracle does; returns the tries that ended, and why blocks and the run did."""
    prompt = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 20))]
    model = Table(seed, calm=0.7)
    expected = plain_generation(model, prompt, config, seed)
    events = list(generate(model, prompt, config, seed))
    starts = [event for event in events if isinstance(event, CanvasStarted)]
    steps = [event for event in events if isinstance(event, StepFinished)]
    commits = [event for event in events if isinstance(event, CanvasCommitted)]
    tries = [event for event in events if isinstance(event, TryEnded)]
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
    ends = [(e.block_index, e.step, e.number, e.best, e.has_stalled, e.then, e.canvas.tolist()) for e in tries]
    assert ends == expected["tries"]
    found = [(e.tokens.tolist(), e.text_length, e.steps, e.reason) for e in commits]
    assert found == expected["commits"]
    last = events[-1]
    assert isinstance(last, GenerationFinished)
    assert (last.tokens.tolist(), last.reason) == (expected["tokens"], expected["reason"])
    assert (last.blocks, last.steps) == (len(commits), len(steps))
    return tries, {event.reason for event in commits} | {last.reason}


GROUPS = [0, *(pytest.param(group, marks=pytest.mark.slow) for group in range(1, 10))]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("acceptance", ACCEPTANCE)
def test_the_block_loop_against_plain_python(acceptance: str, group: int) -> None:
    seen = set[str]()
    for seed in range(30 * group, 30 * group + 30):
        rng = random.Random(seed)
        tries, reasons = compared(random_settings(rng, acceptance), rng, seed)
        assert not tries
        seen |= reasons
    assert seen == {"converged", "step_cap", "eos", "length"}


@pytest.mark.parametrize("group", GROUPS)
def test_blocks_that_stall_and_begin_again_against_plain_python(group: int) -> None:
    seen = set[object]()
    for seed in range(30 * group, 30 * group + 30):
        rng = random.Random(f"stalling {seed}")
        config = random_settings(rng, rng.choice(ACCEPTANCE[:3])).replace(
            max_denoising_steps=rng.randint(4, 20),
            stall_steps=rng.randint(1, 4),
            stall_fall=rng.choice([0.01, 0.1, 0.2, 0.6]),
            second_tries=rng.randint(0, 3),
            max_new_tokens=rng.randint(1, 18),
        )
        tries, reasons = compared(config, rng, seed)
        seen |= reasons | {(one.then, one.has_stalled, one.best == one.number) for one in tries}
    again = {("again", True, True)}  # a later try that is not the best is rare
    taken = {("taken", True, True), ("taken", True, False)}
    assert seen >= {"converged", "stalled", "eos", "length", *again, *taken}
