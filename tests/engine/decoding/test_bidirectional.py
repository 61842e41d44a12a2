"""Bidirectional decoding against its authors' algorithms as one reads them: no cache, all of it read at each pass."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from engine import GenerationConfig, SafelightError
from engine.decoders import DECODERS
from engine.decoding.masked_run import counts
from engine.events import Event
from engine.models.causal.network import CausalNetwork
from tests.engine.causal import POSITIONS, masked_network, tokens_by_pass
from tests.engine.decoding.test_block_causal import PlainRun, cut_shares, decoded

RULES, MASK = DECODERS["bidirectional"].remasking, 8


@torch.inference_mode()
def logits_of(network: CausalNetwork, ids: list[int]) -> Tensor:
    """Logits (T, V) of a text in which all see all."""
    return network.head(network.run(torch.tensor([ids]), torch.arange(len(ids)), None)[0])


def plain_scores(shares: Tensor, drawn: list[int], rule: str, draws: torch.Generator) -> list[float]:
    if rule in ("random", "origin"):
        return torch.rand(len(drawn), generator=draws).tolist()
    if rule == "topk_margin":
        return [float(row.sort().values[-1] - row.sort().values[-2]) for row in shares]
    if rule == "entropy":
        return [float(sum(p * p.log() for p in row if p > 0)) for row in shares]
    return [float(row[token]) for row, token in zip(shares, drawn, strict=True)]


def plain_counts(size: int, config: GenerationConfig, schedule: str, draws: torch.Generator) -> list[int]:
    """Masks that each pass writes."""
    steps = config.max_denoising_steps
    if config.remasking == "low_confidence_dynamic":
        return [1] * min(steps, size)
    if config.remasking == "origin":
        times, found = torch.linspace(1, 1e-3, steps + 1), [0] * steps
        for spot in torch.rand(size, generator=draws):
            found[next(step for step in range(steps) if step == steps - 1 or spot >= times[step + 1])] += 1
        return [count for count in found if count]
    return counts(size, steps, schedule)


def plain_run(network: CausalNetwork, prompt: list[int], config: GenerationConfig, seed: int) -> PlainRun:
    """All is read at each pass; no code of the decoder."""
    draws, made, shifts = torch.Generator().manual_seed(seed), PlainRun(), network.config.shifts_masks
    most, size = min(config.max_new_tokens, POSITIONS - len(prompt)), config.canvas_length or 0
    text = [MASK] * most

    for start in range(0, most, size):
        stop = min(start + size, most)
        schedule = plain_counts(stop - start, config, network.config.mask_schedule, draws)
        for step, count in enumerate(schedule):
            masked = [place for place in range(start, stop) if text[place] == MASK]
            if not masked:
                break
            found = logits_of(network, prompt + text)[[len(prompt) + place - shifts for place in masked]]
            is_last = step == len(schedule) - 1
            if is_last:
                found[:, MASK] = -torch.inf
            drawing = torch.stack([cut_shares(row.clone(), config) for row in found])
            shares = drawing if shifts else found.softmax(-1)
            if config.sampling_temperature:
                drawn = torch.multinomial(drawing, 1, generator=draws)[:, 0].tolist()
            else:
                drawn = found.argmax(-1).tolist()
            scores = plain_scores(shares, drawn, config.remasking, draws)
            order = sorted(range(len(masked)), key=lambda row: -scores[row])
            if config.remasking == "low_confidence_dynamic":
                chosen = {order[0]} | {row for row in order if scores[row] >= config.accept_probability}
            else:
                chosen = set(order[:count])
            written = {
                place: drawn[row] for row, place in enumerate(masked) if is_last or row in chosen if drawn[row] != MASK
            }
            for place, token in written.items():
                text[place] = token
            made.passes.append(written)
            ends = [place for place, token in enumerate(text) if token in config.eos_token_ids]
            if ends and MASK not in text[: ends[0]]:
                made.reason, made.text = "eos", text[: ends[0]]
                return made
    made.reason, made.text = "length", text
    return made


def events_of(network: CausalNetwork, prompt: list[int], config: GenerationConfig, seed: int = 0) -> list[Event]:
    cache = network.new_cache()
    events = decoded("bidirectional", network, prompt, config, seed, cache)
    assert cache.length == 0
    return events


def drawn_config(rng: random.Random) -> GenerationConfig:
    return GenerationConfig(
        remasking=rng.choice(RULES),
        accept_probability=rng.choice([0.2, 0.5, 0.85]),
        max_denoising_steps=rng.choice([1, 2, 3, 5, 48]),
        sampling_temperature=rng.choice([0.0, 0.7]),
        sampling_top_k=rng.choice([0, 4]),
        sampling_top_p=rng.choice([1.0, 0.8]),
        max_new_tokens=rng.choice([1, 2, 6, 11, 14]),
        eos_token_ids=tuple(rng.sample(range(8), rng.choice([0, 1]))),
        canvas_length=rng.choice([1, 3, 4, 5, 20]),
    )


def until(passes: list[dict[int, int]], length: int) -> list[dict[int, int]]:
    """Leave out all from a place on: tokens behind the end are shown only if their block is."""
    return [{place: token for place, token in written.items() if place < length} for written in passes]


@pytest.mark.parametrize("runs", [range(16), pytest.param(range(16, 240), marks=pytest.mark.slow)], ids=["few", "many"])
def test_runs_against_the_definition(runs: range) -> None:
    """All rules, schedules and shifts, at the model's last positions, too."""
    seen = set[object]()
    for seed in runs:
        rng = random.Random(seed)
        sharpness, shifts = rng.choice([1.0, 2.0, 6.0]), seed % 2 == 1
        shape = {"shifts_masks": shifts, "mask_schedule": rng.choice(["even", "floor", "round", "ceil"])}
        network = masked_network(seed, sharpness, 1 + rng.randrange(2), tied=rng.random() < 0.5, **shape)
        config, length = drawn_config(rng), rng.randint(88, 95) if rng.random() < 0.1 else rng.randint(1, 9)
        prompt = [rng.randrange(8) for _ in range(length)]
        expected = plain_run(network, prompt, config, seed)
        events = events_of(network, prompt, config, seed)
        assert config.canvas_length is not None
        shown = tokens_by_pass(events, config.canvas_length, mask=MASK)
        kept = len(expected.text) + (expected.reason == "eos")
        assert (events[-1].reason, events[-1].tokens.tolist()) == (expected.reason, expected.text), seed
        assert until(shown, kept) == until(expected.passes, kept)
        seen |= {config.remasking, network.config.mask_schedule, shifts, expected.reason}
    assert len(seen) == 6 + 4 + 2 + 2


def test_strategies_of_others_are_refused() -> None:
    for decoder, name, message in (
        ("bidirectional", "entropy_bounded", "bidirectional has no remasking 'entropy_bounded'"),
        ("block_causal", "topk_margin", "only low_confidence_dynamic, .*, random$"),
    ):
        network = masked_network(0)
        with pytest.raises(SafelightError, match=message):
            decoded(decoder, network, [1], GenerationConfig(remasking=name), 0, network.new_cache())
