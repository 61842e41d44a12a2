"""Drafting writes what autoregressive decoding writes, whatever is guessed and whatever is drawn."""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

import pytest
import torch

from engine import GenerationConfig, SafelightError
from engine.adapters.draft import BranchMasks, DraftAdapter
from engine.adapters.lora import LayerAdapter, LowRank
from engine.decoding import drafting as module
from engine.decoding.autoregressive import autoregressive
from engine.decoding.drafting import MOST_RETRY, RETRY, TEST, Guess, Worth, drafting
from engine.decoding.performing import perform, perform_all
from engine.decoding.protocols import Decode
from engine.decoding.run import Run
from engine.decoding.shares import TRANSFORMERS, shares_of
from engine.layers.attention import mix
from engine.layers.branches import Branches
from engine.models.causal.layout import targets
from engine.models.causal.network import CausalNetwork
from tests.engine.causal import check_cache, masked_network, passes_told, plain_logits, run_of
from tests.engine.decoding.test_self_speculation import check_greedy, chi_squared


class Always(Worth):
    """Passes have masks, whatever they take."""

    def record(self, tokens: int, seconds: float) -> None:
        pass


def random_draft(network: CausalNetwork, seed: int, size: int = 2) -> DraftAdapter:
    """Random matrices over all projections, large enough to change what is guessed."""
    draws, adapters = torch.Generator().manual_seed(seed), {}
    for path, layer in targets("model.").layers(network).items():
        low_rank = LowRank(layer.in_features, layer.out_features, 2).requires_grad_(False)
        low_rank.down.normal_(std=0.3, generator=draws)
        low_rank.up.normal_(std=0.3, generator=draws)
        adapters[path] = LayerAdapter(None, low_rank)
    return DraftAdapter(network, adapters, BranchMasks(network.config.vocab_size - 1, size))


def test_what_rows_of_branches_see() -> None:
    """A row of text sees the text up to itself; a mask, in addition, its branch up to itself, and no other one."""
    branches = Branches(3, (0, 2), 2)
    assert branches.positions(5, torch.device("cpu")).tolist() == [5, 6, 7, 6, 7, 8, 9]
    seen = ["".join(map(str, row)) for row in branches.mask(2, torch.device("cpu")).int().tolist()]
    assert seen == ["111000000", "111100000", "111110000", "111001000", "111001100", "111110010", "111110011"]
    assert Branches(2, (), 2).mask(0, torch.device("cpu")).tolist() == [[True, False], [True, True]]


def test_rows_of_text_attend_as_they_do_alone_to_the_last_bit() -> None:
    """A mask in their place gives other bits, and bf16 products make of one bit another text."""
    draws = torch.Generator().manual_seed(0)
    branches, start, device = Branches(4, (1, 3), 2), 37, torch.device("cpu")
    queries = torch.randn(1, 6, branches.rows, 16, generator=draws)
    keys, values = torch.randn(2, 1, 3, start + branches.rows, 16, generator=draws)
    found = branches.reach(start, device).attend(queries, keys, values)
    torch.testing.assert_close(found, mix(queries, keys, values, branches.mask(start, device)), atol=1e-5, rtol=1e-5)
    for row in range(branches.text_rows):
        seen = slice(0, start + row + 1)
        alone = mix(queries[:, :, row : row + 1], keys[:, :, seen], values[:, :, seen], None)
        assert torch.equal(found[:, row : row + 1], alone)


def test_a_pass_of_branches_against_each_of_them_alone() -> None:
    """Rows of text get the logits of a plain causal pass, and masks those of their own text with the additions."""
    network = masked_network(1)
    draft, text, guess = random_draft(network, 2), [1, 2, 3, 4], [5, 6, 7]
    branches = Branches(3, (0, 1, 2), 2)
    cache = network.new_cache()
    network.prefill(torch.tensor(text), cache)
    with draft.on():
        found = network.decode(torch.tensor([*guess, *[8] * 6]), cache, 3, branches=branches)
    torch.testing.assert_close(found[:3], plain_logits(network, [*text, *guess])[4:], atol=1e-5, rtol=1e-5)
    cache.record_ids([*text, *guess])
    check_cache(network, cache, [*text, *guess])
    for row in range(3):
        alone = network.new_cache()
        network.prefill(torch.tensor([*text, *guess[:row]]), alone)
        with draft.on():  # the masks alone, which are then all rows of the pass
            own = network.decode(torch.tensor([guess[row], 8, 8]), alone, 0, 1, branches=Branches(1, (0,), 2))
        torch.testing.assert_close(found[3 + 2 * row : 5 + 2 * row], own, atol=1e-5, rtol=1e-5)
    with draft.on():
        bare = network.decode(torch.tensor([1, 2]), network.new_cache(), 0)
    assert torch.equal(bare, network.decode(torch.tensor([1, 2]), network.new_cache(), 0))  # text has no additions


@pytest.mark.parametrize("runs", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_runs_against_greedy_autoregressive_decoding(runs: int) -> None:
    seen, written = set(), Counter[int]()
    for seed in range(runs):
        rng = random.Random(seed)
        network = masked_network(seed, vocab_size=rng.randint(2, 6), depth=1 + seed % 2, tied=rng.random() < 0.5)
        mask = network.config.vocab_size - 1
        draft = random_draft(network, seed, rng.randint(1, 4)) if rng.random() < 0.7 else None
        config = GenerationConfig(
            max_new_tokens=rng.randint(1, 24),
            eos_token_ids=tuple(rng.sample(range(mask + 1), rng.choice([0, 0, 1]))),
            canvas_length=rng.choice([None, 1, 3, 16, 40]),
            pad_token_id=mask,
        )
        crowded = rng.random() < 0.1  # the model's positions end before the text may
        prompt = [rng.randrange(mask + 1) for _ in range(rng.randint(86, 95) if crowded else rng.randint(1, 10))]
        cache, never, size = network.new_cache(), threading.Event(), config.canvas_length or 5
        decoding = drafting(Run(network, torch.tensor(prompt), config, seed, never, cache), draft, Always())
        events = run_of(network, decoding, never, passes=1000)
        reason, text, told = events[-1].reason, events[-1].tokens.tolist(), passes_told(events, size, mask)
        check_greedy(network, prompt, config, reason, text)
        check_cache(network, cache, [*prompt, *text][: cache.length])
        assert cache.length >= len(prompt) + len(text) - 1
        written.update(map(len, told))
        seen |= {reason, draft is None, crowded}
        if seed % 4 or not told:
            continue
        stop, cancel = rng.randrange(len(told)), threading.Event()
        decoding = drafting(Run(network, torch.tensor(prompt), config, seed, cancel, cache), draft, Always())
        events = run_of(network, decoding, cancel, passes=stop)
        assert (events[-1].reason, events[-1].steps) == ("cancelled", stop)
        shown = events[-1].tokens.tolist()
        assert shown == text[: len(shown)]
        check_cache(network, cache, [*prompt, *shown][: cache.length])
    assert len(seen) == 4
    assert written[1] > runs
    assert sum(count for length, count in written.items() if length > 2) > runs / 2  # guesses stood


def test_the_distribution_above_temperature_0_is_that_of_the_model() -> None:
    network = masked_network(3, vocab_size=5, depth=1)
    draft, prompt, length, stood = random_draft(network, 4), [1, 2, 3, 1, 2, 3], 4, Counter[bool]()
    config = GenerationConfig(
        max_new_tokens=length, eos_token_ids=(), sampling_temperature=0.8, sampling_top_k=4, repetition_penalty=1.2
    )
    expected: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        expected = {
            (*text, token): before * share
            for text, before in expected.items()
            for token, share in enumerate(shares_behind(network, [*prompt, *text], config))
            if share
        }
    counts = Counter[tuple[int, ...]]()
    for seed in range(250):
        run = Run(network, torch.tensor(prompt), config, seed, None, network.new_cache())
        events = list(perform_all(network, drafting(run, draft, Always())))
        counts[tuple(events[-1].tokens.tolist())] += 1
        stood[events[-1].steps < length] += 1
    statistic, freedom = chi_squared(counts, expected)
    assert statistic < freedom + 3.5 * (2 * freedom) ** 0.5
    assert min(stood[True], stood[False]) > 25


def test_a_seed_gives_the_text_of_autoregressive_decoding() -> None:
    network, same, passes = masked_network(3, vocab_size=7, depth=1), 0, 0
    draft, prompt = random_draft(network, 4), [1, 2, 3, 1, 2, 3]
    config = GenerationConfig(max_new_tokens=20, eos_token_ids=(), sampling_temperature=0.8, sampling_top_p=0.95)
    for seed in range(20):
        runs = [Run(network, torch.tensor(prompt), config, seed, None, network.new_cache()) for _ in range(2)]
        own = list(perform_all(network, autoregressive(runs[0])))[-1]
        found = list(perform_all(network, drafting(runs[1], draft, Always())))[-1]
        assert found.tokens.tolist() == own.tokens.tolist()
        same, passes = same + len(set(own.tokens.tolist())), passes + found.steps
    assert same > 60
    assert passes < 20 * 19  # guesses stood


def test_masks_are_left_out_where_they_are_slower_and_tried_again_ever_less_often() -> None:
    worth, kinds = Worth(), list[bool]()
    for _ in range(3 * RETRY):
        kinds.append(worth.has_masks)
        worth.record(2 if kinds[-1] else 1, 3.0 if kinds[-1] else 1.0)
    assert kinds[: 2 * TEST + RETRY] == [True] * TEST + [False] * (TEST + RETRY)
    assert kinds[2 * TEST + RETRY :].count(True) == TEST
    for _ in range(MOST_RETRY):  # rows have become cheap
        worth.record(2 if worth.has_masks else 1, 1.0)
    assert worth.has_masks


def test_a_run_goes_on_with_what_earlier_ones_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave_out(worth: Worth, *_: object) -> None:
        worth.has_masks = False

    monkeypatch.setattr(Worth, "record", leave_out)
    network, masks = masked_network(3, vocab_size=5, depth=1), list[bool]()
    draft, config = random_draft(network, 4), GenerationConfig(max_new_tokens=6, eos_token_ids=())
    for _ in range(2):
        for item in drafting(Run(network, torch.tensor([1]), config, 0, None, network.new_cache()), draft):
            if isinstance(item, Decode):
                masks.append(item.draft is not None)
                perform(network, item)
    assert masks[0]
    assert not any(masks[1:])
    assert len(module._WORTH) >= 1


def shares_behind(network: CausalNetwork, text: list[int], config: GenerationConfig) -> list[float]:
    logits, penalty = plain_logits(network, text)[-1:].clone(), config.repetition_penalty
    for token in set(text):
        value = float(logits[0, token])
        logits[0, token] = value / penalty if value > 0 else value * penalty
    found: list[float] = shares_of(logits, config, TRANSFORMERS)[0].tolist()
    return found


@pytest.mark.parametrize("settings", [{"pinned": ((0, 1),)}, {"seed_canvas": (1, 2)}])
def test_settings_of_a_canvas_of_noise_are_refused(settings: dict[str, Any]) -> None:
    network = masked_network(0)
    run = Run(network, torch.tensor([1]), GenerationConfig(**settings), 0, None, network.new_cache())
    with pytest.raises(SafelightError, match="does not start from noise"):
        next(drafting(run))


def test_what_came_before_is_guessed_and_costs_no_adapter() -> None:
    """On a network that repeats a cycle of three tokens, passes write up to eight tokens once the cycle came round."""
    network, rows = masked_network(0, canvas_length=64), list[int]()
    config = GenerationConfig(max_new_tokens=40, eos_token_ids=())
    for item in drafting(Run(network, torch.tensor([1]), config, 0, None, network.new_cache())):
        if isinstance(item, Decode):
            rows.append(len(item.ids))
            assert item.branches is None or not item.branches.behind
            item.logits = torch.zeros(len(item.ids), 9)
            item.logits[torch.arange(len(item.ids)), item.ids % 3 + 1] = 1.0
            item.cache.advance(item.commit)
    assert rows[:4] == [1] * 4
    assert set(rows[6:-1]) == {8}
    assert len(rows) < 14


def test_a_guess_ends_where_it_is_hardly_reached_and_knows_its_likeliest_ends() -> None:
    guess = Guess((1, 2, 3, 4), (0.9, 0.5, 0.2, 0.9))
    assert guess.cut(9) == Guess((1, 2), (0.9, 0.5))
    assert guess.cut(1) == Guess((1,), (0.9,))
    assert guess.cut(0) == Guess() == guess.cut(-1)
    assert guess.cut(9).likeliest_ends(2) == (1, 2)  # 0.1, 0.45, 0.45
    assert Guess().likeliest_ends(3) == (0,)
