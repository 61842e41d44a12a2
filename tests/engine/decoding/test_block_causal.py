"""Block-causal decoding against SDAR's algorithm as one reads it: no cache, everything computed again at each pass."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from engine import GenerationConfig, SafelightError
from engine.decoders import DECODERS
from engine.decoding import masked_run
from engine.decoding.generate import FUNCTIONS
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.events import Event, PrefillFinished
from engine.layers.kv_cache import KVCache
from engine.layers.masks import Blocks
from engine.models.causal.network import CausalNetwork
from tests.engine.causal import POSITIONS, masked_network, run_of, tokens_by_pass
from tests.engine.decoding.seen import end_of

SIZES = (1, 3, 4, 5, 7, 8)


@torch.inference_mode()
def block_logits(network: CausalNetwork, ids: Sequence[int], size: int, first: int = 0) -> Tensor:
    """Logits (T, V) of text in blocks of so many tokens, each of which sees all of itself; ``first`` is the length of
    the first one if that is shorter."""
    block = (torch.arange(len(ids)) + (size - first) % size) // size
    return network.head(network.run(torch.tensor([ids]), torch.arange(len(ids)), block[:, None] >= block)[0])


def cut_shares(logits: Tensor, config: GenerationConfig) -> Tensor:
    """Probabilities (V,) at the temperature, then cut."""
    scaled = logits / (config.sampling_temperature or 1.0)
    if config.sampling_top_k:
        scaled[scaled < scaled.sort().values[-config.sampling_top_k :][0]] = -torch.inf
    before, shares = 0.0, scaled.softmax(-1)
    for token in shares.argsort(descending=True).tolist():
        if before > config.sampling_top_p:
            scaled[token] = -torch.inf
        before += float(shares[token])
    return scaled.softmax(-1)


def plain_shares(logits: Tensor, config: GenerationConfig) -> Tensor:
    """A token is drawn from these, and its probability read from them: (V,)."""
    return cut_shares(logits, config) if config.sampling_temperature else logits.softmax(-1)


def plain_choice(
    shares: Tensor, drawn: list[int], count: int, config: GenerationConfig, draws: torch.Generator
) -> set[int]:
    """The masks, of M with shares (M, V), that a pass writes."""
    rows = range(len(drawn))
    likely = {row: float(shares[row, drawn[row]]) for row in rows}
    best = sorted(rows, key=lambda row: -likely[row])[:count]
    match config.remasking:
        case "sequential":
            return set(rows[:count])
        case "random":
            order = torch.rand(len(drawn), generator=draws).tolist()
            return set(sorted(rows, key=lambda row: -order[row])[:count])
        case "low_confidence_static":
            return set(best)
        case "low_confidence_dynamic":
            sure = {row for row in rows if likely[row] > config.accept_probability}
            return sure if len(sure) >= count else set(best)
        case _:
            entropy = {row: sum(-p * math.log(p) for p in shares[row].tolist() if p > 0) for row in rows}
            found, sum_so_far = set[int](), 0.0
            for row in sorted(rows, key=lambda row: entropy[row]):
                sum_so_far += entropy[row]
                if found and sum_so_far >= config.entropy_bound:
                    break
                found.add(row)
            return found


def plain_schedule(masks: int, steps: int) -> list[int]:
    """Count the masks of each pass: of those left, one over the passes left, in fp32, rounded; none of no mask."""
    found, one = list[int](), torch.tensor(1.0)
    for behind in range(steps, 0, -1):
        left_out = (one - (one - (behind - 1) / steps)) / (one - (one - behind / steps))
        found += [min(masks - sum(found), round((masks - sum(found)) * (1 - left_out.item())))]
    return [count for count in found if count]


@dataclass
class PlainRun:
    """The tokens that each pass writes, by place; why the run ends; its text."""

    passes: list[dict[int, int]] = field(default_factory=list)
    reason: str = ""
    text: list[int] = field(default_factory=list)


def plain_run(
    network: CausalNetwork, prompt: list[int], config: GenerationConfig, seed: int, positions: int = POSITIONS
) -> PlainRun:
    """The whole sequence is read again at each pass, masks where nothing is written."""
    mask, size = network.config.mask_token_id, config.canvas_length or network.config.canvas_length
    assert mask is not None
    draws, made, ids, written = torch.Generator().manual_seed(seed), PlainRun(), list(prompt), set(range(len(prompt)))
    most, steps = min(config.max_new_tokens, positions - len(prompt)), min(config.max_denoising_steps, size)
    schedule = [size // steps + (step < size % steps) for step in range(steps)]
    greedy, edits, first = config.sampling_temperature == 0, config.edit_probability < 1, 0
    if network.config.blocks_follow_prompt:
        first, positions = len(prompt) % size, len(prompt) + most

    def has_ended() -> bool:
        for place in range(len(prompt), len(prompt) + most):
            if place not in written:
                return False
            if ids[place] in config.eos_token_ids:
                made.reason, made.text = "eos", ids[len(prompt) : place]
                return True
        made.reason, made.text = "length", ids[len(prompt) : len(prompt) + most]
        return True

    def drawn_from(logits: Tensor) -> tuple[list[int], Tensor]:
        shares = torch.stack([plain_shares(row, config) for row in logits])
        return (logits.argmax(-1) if greedy else torch.multinomial(shares, 1, generator=draws)[:, 0]).tolist(), shares

    for start in range(first + (len(prompt) - first) // size * size, positions, size):
        stop = min(start + size, positions)
        ids += [mask] * (stop - len(ids))
        if network.config.mask_schedule == "round":
            schedule = plain_schedule(stop - max(start, len(prompt)), config.max_denoising_steps)
        step, late = 0, 0
        while True:
            own = [place for place in range(max(start, len(prompt)), stop) if place in written]
            masked = [place for place in range(start, stop) if place not in written]
            late += not masked
            if not masked and (not edits or late > masked_run.EDIT_PASSES):
                break
            logits, new = block_logits(network, ids, size, first).clone(), dict[int, int]()
            if masked:
                is_last = step == len(schedule) - 1
                if is_last:
                    logits[masked, mask] = -torch.inf
                tokens, shares = drawn_from(logits[masked])
                chosen = plain_choice(shares, tokens, schedule[step], config, draws)
                new = {masked[row]: token for row, token in enumerate(tokens) if row in chosen or is_last}
            if edits and own:
                tokens, shares = drawn_from(logits[own])
                for place, token, row in zip(own, tokens, shares, strict=True):
                    if token != ids[place] and float(row[token]) > config.edit_probability:
                        new[place] = token
            new = {place: token for place, token in new.items() if token != mask}
            for place, token in new.items():
                ids[place] = token
            written |= set(new)
            step += 1
            made.passes.append({place - len(prompt): token for place, token in new.items()})
            if not edits and has_ended():
                return made
            if edits and not masked and not new:
                break
        if has_ended():
            return made
        made.passes.append({})  # the one that reads the block for the cache
    raise AssertionError("the text has no end")


def check_blocks(network: CausalNetwork, cache: KVCache, ids: Sequence[int], size: int, first: int = 0) -> None:
    """See that a cache holds the whole blocks of a text, and their keys and values as read all at once."""
    whole = max(0, first + (len(ids) - first) // size * size)
    assert cache.shared(ids) == cache.length == whole
    fresh = network.new_cache()
    fresh.blocks = Blocks(size, first)
    if whole:
        network.prefill(torch.tensor(ids[:whole]), fresh)
    for layer in range(len(network.layers) if whole else 0):
        for found, wanted in zip(cache.buffers(layer), fresh.buffers(layer), strict=True):
            assert (found - wanted)[:, :, :whole].abs().max() < 1e-5


def check_shown(shown: list[dict[int, int]], passes: list[dict[int, int]], *, is_aligned: bool) -> None:
    """See what the events say of each pass. They show blocks of the generated text: where those are not the ones that
    are decoded, a pass may write ahead, which is shown once that block opens."""
    assert len(shown) == len(passes)
    if is_aligned:
        assert shown == passes
    for index, written in enumerate(shown):
        for place, token in written.items():
            assert token in (before.get(place) for before in passes[: index + 1])


def decoded(
    decoder: str, network: CausalNetwork, prompt: Sequence[int], config: GenerationConfig, seed: int, cache: KVCache
) -> list[Event]:
    run = Run(network, torch.tensor(prompt), config, seed, None, cache)  # type: ignore[arg-type]
    return list(perform_all(network, FUNCTIONS[decoder](run)))  # type: ignore[arg-type]


def events_of(
    network: CausalNetwork, prompt: Sequence[int], config: GenerationConfig, seed: int, cache: KVCache
) -> list[Event]:
    return decoded("block_causal", network, prompt, config, seed, cache)


def drawn_prompt(rng: random.Random, tokens: int, is_crowded: bool) -> list[int]:
    """If it is crowded, the model's positions end before the text may."""
    return [rng.randrange(tokens) for _ in range(rng.randint(86, 95) if is_crowded else rng.randint(1, 16))]


def following(rng: random.Random, text: list[int], tokens: int) -> list[int]:
    """A next turn's prompt, which goes on from somewhere in a text."""
    return text[: rng.randint(1, 70)] + [rng.randrange(tokens) for _ in range(rng.randint(1, 6))]


def check_stops(
    decoder: str, network: CausalNetwork, prompt: list[int], config: GenerationConfig, whole: PlainRun, first: int = 0
) -> None:
    """See that a run stops within a pass, whichever, and that its cache serves the next; blocks have four tokens."""
    for stop in range(len(whole.passes)):
        cache, cancel = network.new_cache(), threading.Event()
        decoding = FUNCTIONS[decoder](Run(network, torch.tensor(prompt), config, 0, cancel, cache))  # type: ignore[arg-type]
        end = end_of(run_of(network, decoding, cancel, passes=stop))
        assert (end.reason, end.steps) == ("cancelled", stop)
        shown = end.tokens.tolist()
        assert shown == whole.text[: len(shown)]
        check_blocks(network, cache, [*prompt, *shown][: cache.length], 4, first)
        assert end_of(decoded(decoder, network, prompt, config, 0, cache)).tokens.tolist() == whole.text


@pytest.mark.parametrize("follows", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("runs", [12, pytest.param(120, marks=pytest.mark.slow)])
def test_runs_of_several_turns_against_the_definition(
    runs: int, follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of odd sizes, prompts of all lengths, all strategies, with and without edits; a turn begins with the cache
    of those before."""
    seen = set()
    for seed in range(runs):
        rng = random.Random(seed)
        shape = {"tied": rng.random() < 0.5, "blocks_follow_prompt": follows}
        shape["mask_schedule"] = rng.choice(["even", "round"])
        network = masked_network(seed, rng.choice([1.0, 2.0, 6.0]), 1 + seed % 2, **shape)
        size, cache = SIZES[seed % len(SIZES)], network.new_cache()
        cache.piece = 2 * size + 1
        crowded = rng.random() < 0.1
        prompt = drawn_prompt(rng, 9, crowded)
        for _ in range(1 if crowded else 3):
            config = GenerationConfig(
                remasking=rng.choice(DECODERS["block_causal"].remasking),
                accept_probability=rng.choice([0.2, 0.5, 0.85]),
                edit_probability=rng.choice([1.0, 0.0, 0.3]),
                entropy_bound=rng.choice([0.35, 2.0]),
                max_denoising_steps=rng.choice([1, 2, 4, 48]),
                sampling_temperature=rng.choice([0.0, 0.7]),
                sampling_top_k=rng.choice([0, 4]),
                sampling_top_p=rng.choice([1.0, 0.8]),
                max_new_tokens=rng.randint(1, 12),
                eos_token_ids=tuple(rng.sample(range(8), rng.choice([0, 1]))),
                canvas_length=size,
            )
            monkeypatch.setattr(masked_run, "EDIT_PASSES", rng.choice([0, 1, 16]))
            expected = plain_run(network, prompt, config, seed)
            shared, first = cache.shared(prompt), len(prompt) % size if follows else 0
            kept = max(0, first + (shared - first) // size * size) if cache.blocks == Blocks(size, first) else 0
            events = events_of(network, prompt, config, seed, cache)
            edits, is_aligned = config.edit_probability < 1, follows or len(prompt) % size == 0
            check_shown(tokens_by_pass(events, size, 8, edits=edits), expected.passes, is_aligned=is_aligned)
            assert (events[-1].reason, events[-1].tokens.tolist()) == (expected.reason, expected.text)
            assert isinstance(events[0], PrefillFinished)
            assert events[0].reused_tokens == kept
            done = sum(not passed for passed in expected.passes[:-1])  # at most: some passes write nothing
            held = [*prompt, *expected.text][: cache.length]
            check_blocks(network, cache, held, size, first)
            least = first + (len(prompt) - first) // size * size
            assert least <= cache.length <= least + done * size
            changes = sum(map(len, expected.passes)) > len({place for passed in expected.passes for place in passed})
            seen |= {expected.reason, config.remasking, (size, len(prompt) % size), kept > 0, changes or "unchanged"}
            prompt = following(rng, [*prompt, *expected.text], 9)
    assert len(seen) == 2 + 5 + sum(SIZES) + 2 + 1 or runs < 60
    assert len(seen) > 27


def test_blocks_of_another_size_are_read_anew() -> None:
    """So is text that another decoder has read causally, and the reverse."""
    network, prompt = masked_network(3), list(range(8)) * 4
    cache, config = network.new_cache(), GenerationConfig(max_new_tokens=6, eos_token_ids=())
    wanted = {size: plain_run(network, prompt, config.replace(canvas_length=size), 0).text for size in (4, 8)}
    reused = list[int]()
    for size in (4, 8, 8, 4):
        events = events_of(network, prompt, config.replace(canvas_length=size), 0, cache)
        assert events[-1].tokens.tolist() == wanted[size]
        reused += [events[0].reused_tokens]
    assert reused == [0, 0, 32, 0]
    for name, count in (("autoregressive", 0), ("autoregressive", 31), ("block_causal", 0)):
        decoding = FUNCTIONS[name](Run(network, torch.tensor(prompt), config.replace(canvas_length=4), 0, None, cache))  # type: ignore[arg-type]
        events = list(perform_all(network, decoding))
        assert events[0].reused_tokens == count
    assert events[-1].tokens.tolist() == wanted[4]


@pytest.mark.parametrize(("probability", "passes"), [(0.99, 1), (1.0, 4)])
def test_a_mask_must_be_surer_than_the_probability(probability: float, passes: int) -> None:
    """Strictly: each token is certain where one may be drawn. A pass for the cache comes between two blocks."""
    config = GenerationConfig(sampling_temperature=1.0, sampling_top_k=1, accept_probability=probability)
    config = config.replace(max_new_tokens=8, eos_token_ids=(), banned_tokens=(8,), canvas_length=4)
    network = masked_network(1)
    assert events_of(network, [1, 2, 3, 4], config, 0, network.new_cache())[-1].steps == 2 * passes + 1


def test_rewriting_and_a_repetition_penalty_exclude_each_other() -> None:
    config = GenerationConfig(edit_probability=0.5, repetition_penalty=1.2)
    with pytest.raises(SafelightError, match=r"^a repetition penalty cannot go with rewriting; set one of them to 1$"):
        events_of(masked_network(1), [1], config, 0, masked_network(1).new_cache())


@pytest.mark.parametrize(("edit_probability", "follows"), [(1.0, False), (0.3, True)])
def test_a_run_stops_within_a_pass_and_its_cache_serves_the_next(edit_probability: float, follows: bool) -> None:
    network, prompt = masked_network(5, blocks_follow_prompt=follows), [1, 2, 3, 4, 5, 6, 7]
    config = GenerationConfig(max_new_tokens=10, eos_token_ids=(), canvas_length=4, accept_probability=0.5)
    config = config.replace(edit_probability=edit_probability)
    whole = plain_run(network, prompt, config, 0)
    check_stops("block_causal", network, prompt, config, whole, 3 if follows else 0)
