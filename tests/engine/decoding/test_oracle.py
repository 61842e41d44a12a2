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
from engine.layers.embedding import Likeliest, Moved, Predicted
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

    def prefill(self, ids: Tensor, cache: KVCache) -> Tensor:
        before = self.prefix[: cache.length]
        self.prefix = before + ids.tolist()
        cache.advance(len(ids))
        return torch.tensor([[self.state(self.prefix[: len(before) + place + 1])] for place in range(len(ids))])

    def state(self, text: list[int]) -> float:
        """What the model knows of a text, exact in fp32."""
        return float(random.Random(f"{self.seed} {text}").randrange(2**20))

    def log_probabilities(self, states: Tensor, ids: Tensor) -> Tensor:
        """The causal probability of each token behind the text of its state."""
        pairs = zip(states[:, 0].tolist(), ids.tolist(), strict=True)
        return torch.tensor([math.log(self.probability(state, token)) for state, token in pairs])

    def probability(self, state: float, token: int) -> float:
        return random.Random(f"{state} {token}").choice([0.2, 0.8, 0.9, 0.95])

    def denoise(self, canvas: Tensor, cache: KVCache, self_conditioning_logits: Predicted | None = None) -> Tensor:
        fed, moved = self_conditioning_logits, 0
        if isinstance(fed, Moved):
            fed, moved = fed
        whole = fed.spread(VOCABULARY) if isinstance(fed, Likeliest) else fed
        if whole is not None:
            whole = torch.cat([whole[moved:], torch.zeros(moved, VOCABULARY)])
        return self.logits(self.prefix[: cache.length], canvas.tolist(), whole)

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
    sizes = [length]  # that a canvas may have
    if config.smallest_canvas and not config.canvas_length:
        sizes = [min(length, config.smallest_canvas * 2**power) for power in range(8)]
    allowed = list(config.allowed_tokens) if config.allowed_tokens is not None else list(range(VOCABULARY))

    def noise() -> list[int]:
        return [allowed[i] for i in torch.randint(len(allowed), (length,), generator=draws).tolist()]

    prefix, out, starts, steps, commits, tries = list(prompt), [], [], [], [], []
    rest: dict[str, Any] | None = None  # of the canvas whose head was committed
    refused: list[int] = []
    ended, room = False, 0
    while not ended:
        block, written = len(commits), len(prefix) - len(prompt)
        if block == 0 or not config.head_steps:
            wanted = config.max_new_tokens - written
            if config.pinned:
                wanted = max(wanted, 1 + max(position for position, _ in config.pinned))
            length = next((size for size in sizes if size >= wanted), sizes[-1])
            length = sizes[-1] if block == 0 and config.seed_canvas else length
        if block == 0:
            room = (SHAPE.max_position_embeddings - len(prompt)) // length * length
            sizes = [size for size in sizes if size <= length]
        if written >= config.max_new_tokens or written + length > room:
            break
        canvas = noise()
        pins = dict(config.pinned) if block == 0 else {}
        if block == 0 and config.seed_canvas is not None:
            canvas = list(config.seed_canvas)
        for position, token in pins.items():
            canvas[position] = token
        if rest is None:
            refused = []
        else:
            canvas = rest["canvas"] + canvas[len(rest["canvas"]) :]
        has_heads = config.head_steps > 0 and written + length < config.max_new_tokens and not pins
        head, cut = 0, False
        starts.append(canvas)
        used, ends = 0, list[tuple[float, list[int]]]()  # of each try, its mean entropy and its draft
        is_over = False
        while not is_over:
            conditioning, argmaxes, converged, step = None, [], False, 0
            kept = [position in pins for position in range(length)]
            unchanged, previous = [0] * length, [-1] * length
            if rest is not None:
                moved = length - len(rest["canvas"])
                conditioning = torch.cat([rest["conditioning"], torch.zeros(moved, VOCABULARY)])
                kept, unchanged = rest["kept"] + [False] * moved, rest["unchanged"] + [0] * moved
                previous, rest = rest["previous"] + [-1] * moved, None
            level, since, stalled = math.inf, 0, False
            while used + step < config.max_denoising_steps and not converged and not stalled and not head:
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
                unchanged = [n + 1 if best[i] == previous[i] else 0 for i, n in enumerate(unchanged)]
                previous = best
                is_last = used + step >= config.max_denoising_steps
                if has_heads and not (converged or stalled or is_last):
                    head, refused = plain_head(model, prefix, best, unchanged, room - written - length, config, refused)
            used += step
            if head:
                cut = True
                rest = {"canvas": canvas[head:], "conditioning": conditioning[head:], "unchanged": unchanged[head:]}
                rest |= {"previous": previous[head:], "kept": kept[head:]}
                if config.acceptance == "entropy_bound":
                    rest["kept"] = [False] * (length - head)
            ends.append((mean, argmaxes[-1]))
            surest = len(ends) - 1 if converged or cut else min(range(len(ends)), key=lambda one: ends[one][0])
            left = config.max_denoising_steps - used
            is_over = converged or not stalled or len(ends) > config.second_tries or left <= config.stall_steps
            if not converged and not cut and (stalled or len(ends) > 1):
                canvas = list(ends[surest][1]) if is_over else noise()
                for position, token in pins.items():
                    canvas[position] = token
                then = "taken" if is_over else "again"
                tries.append((block, used - 1, len(ends) - 1, surest, stalled, then, canvas))
        draft = ends[surest][1]
        tokens, text = [], 0
        for place, token in enumerate(draft):
            is_behind = ended or (cut and place >= head)
            tokens.append(config.pad_token_id if is_behind else token)
            if token in config.eos_token_ids and not is_behind:
                ended = True
            text += not ended and not is_behind
        reason = "converged" if converged else "stalled" if stalled else "step_cap"
        commits.append((tokens, text, used, "head" if cut else reason))
        out += tokens[:text]
        prefix += draft[:head] if cut else draft
    reason = "eos" if ended else "length"
    return {"starts": starts, "steps": steps, "commits": commits, "tries": tries, "tokens": out, "reason": reason}


def plain_head(
    model: Table,
    prefix: list[int],
    best: list[int],
    unchanged: list[int],
    room: int,
    config: GenerationConfig,
    refused: list[int],
) -> tuple[int, list[int]]:
    """How many tokens of a canvas become text, and those that the next one may not begin with."""
    stable = []
    for token, count in zip(best, unchanged, strict=True):
        if count < config.head_steps or (stable and stable[-1] in config.eos_token_ids):
            break
        stable.append(token)
    has_end = bool(stable) and stable[-1] in config.eos_token_ids
    stable = stable if has_end else stable[:room]
    least = max(1, len(best) // 4)
    if (len(stable) < least and not has_end) or (refused and stable[: len(refused)] == refused):
        return 0, refused
    likely = 0
    while likely < len(stable):
        state = model.state(prefix + stable[:likely])
        if config.head_probability and model.probability(state, stable[likely]) < config.head_probability:
            break
        likely += 1
    if likely >= least or (has_end and likely == len(stable)):
        return likely, stable[likely : likely + 1]
    return 0, stable[: likely + 1]


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


@dataclass(frozen=True)
class Compared:
    """What a run that equals the oracle's has shown."""

    tries: list[TryEnded]
    reasons: set[str]  # why its blocks ended, and the run
    lengths: list[int]  # of its canvases
    heads: list[int]  # tokens of the heads that became text


def compared(config: GenerationConfig, rng: random.Random, seed: int) -> Compared:
    """Runs a random model as the oracle does."""
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
    reasons = {event.reason for event in commits} | {last.reason}
    heads = [event.text_length for event in commits if event.reason == "head"]
    return Compared(tries, reasons, [len(event.tokens) for event in commits], heads)


GROUPS = [0, *(pytest.param(group, marks=pytest.mark.slow) for group in range(1, 10))]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("acceptance", ACCEPTANCE)
def test_the_block_loop_against_plain_python(acceptance: str, group: int) -> None:
    seen = set[str]()
    for seed in range(30 * group, 30 * group + 30):
        rng = random.Random(seed)
        run = compared(random_settings(rng, acceptance), rng, seed)
        assert not run.tries
        seen |= run.reasons
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
        run = compared(config, rng, seed)
        seen |= run.reasons | {(one.then, one.has_stalled, one.best == one.number) for one in run.tries}
    again = {("again", True, True)}  # a later try that is not the best is rare
    taken = {("taken", True, True), ("taken", True, False)}
    assert seen >= {"converged", "stalled", "eos", "length", *again, *taken}


@pytest.mark.parametrize("group", GROUPS)
def test_canvases_that_fit_what_is_left_against_plain_python(group: int) -> None:
    seen = set[str]()
    lengths = set[int]()
    for seed in range(30 * group, 30 * group + 30):
        rng = random.Random(f"lengths {seed}")
        config = random_settings(rng, rng.choice(ACCEPTANCE)).replace(
            canvas_length=None, smallest_canvas=rng.randint(1, 3), seed_canvas=None, max_new_tokens=rng.randint(1, 25)
        )
        pinned = tuple((place, token) for place, token in config.pinned if place < SHAPE.canvas_length)
        run = compared(config.replace(pinned=pinned), rng, seed)
        seen |= run.reasons
        lengths |= {tuple(run.lengths)[-1]} if len(set(run.lengths)) > 1 else set()
    assert seen == {"converged", "step_cap", "eos", "length"}
    assert len(lengths) >= 2


@pytest.mark.parametrize("group", GROUPS)
def test_heads_against_plain_python(group: int) -> None:
    seen = set[str]()
    for seed in range(30 * group, 30 * group + 30):
        rng = random.Random(f"heads {seed}")
        config = random_settings(rng, rng.choice(ACCEPTANCE)).replace(
            head_steps=rng.randint(1, 2),
            head_probability=rng.choice([0.0, 0.5, 0.85]),
            max_new_tokens=rng.randint(10, 30),
            max_denoising_steps=rng.randint(3, 9),
            confidence_threshold=rng.choice([0.0, 0.005]),
            stall_steps=rng.choice([0, 0, 4]),
            second_tries=rng.randint(0, 1),
        )
        run = compared(config, rng, seed)
        seen |= run.reasons | {"part" for size in run.heads if size < run.lengths[0]}
    assert seen >= {"head", "part", "converged", "step_cap", "eos", "length"}
