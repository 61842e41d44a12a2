"""Self-speculation writes what autoregressive decoding writes, however good its drafts are: at temperature 0 token for
token, else in distribution."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest
import torch

from engine import GenerationConfig, StepFinished
from engine.adapters.draft import TARGETS, DraftAdapter
from engine.adapters.lora import LayerAdapter, LowRank
from engine.decoding.performing import perform_all
from engine.decoding.protocols import Decode
from engine.decoding.run import Run
from engine.decoding.sampling import TRANSFORMERS, probabilities_of, verified
from engine.decoding.self_speculation import self_speculation
from engine.events import PrefillFinished
from engine.models.causal.network import CausalNetwork
from tests.engine.causal import POSITIONS, check_cache, masked_network, plain_logits, run_of, tokens_by_pass


def check_greedy(
    network: CausalNetwork, prompt: list[int], config: GenerationConfig, reason: str, text: list[int]
) -> None:
    """See that each token is the likeliest behind all before it, and that the text ends where it should.

    That is a loop of one token after the other, by induction: the rows of a causal pass do not see what follows.
    """
    likeliest = plain_logits(network, [*prompt, *text]).argmax(-1).tolist()[len(prompt) - 1 :]
    assert likeliest[: len(text)] == text
    assert not set(text) & set(config.eos_token_ids)
    most = min(config.max_new_tokens, POSITIONS - len(prompt))
    assert len(text) == most if reason == "length" else (len(text) < most and likeliest[-1] in config.eos_token_ids)


def random_draft(network: CausalNetwork, seed: int) -> DraftAdapter:
    """Random matrices over the output projections of attention, large enough to change what is drafted."""
    draws, adapters = torch.Generator().manual_seed(seed), {}
    for path, layer in TARGETS.layers(network).items():
        low_rank = LowRank(layer.in_features, layer.out_features, 2).requires_grad_(False)
        low_rank.down.normal_(generator=draws)
        low_rank.up.normal_(generator=draws)
        adapters[path] = LayerAdapter(low_rank, low_rank)
    return DraftAdapter(network, adapters)


@pytest.mark.parametrize("runs", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_runs_against_greedy_autoregressive_decoding(runs: int) -> None:
    seen, most_written, fewest_written = set(), list[int](), list[int]()
    for seed in range(runs):
        rng = random.Random(seed)
        network = masked_network(seed, vocab_size=rng.randint(2, 6), depth=1 + seed % 2, tied=rng.random() < 0.5)
        mask = network.config.vocab_size - 1
        draft = random_draft(network, seed) if rng.random() < 0.5 else None
        config = GenerationConfig(
            max_new_tokens=rng.randint(1, 8),
            eos_token_ids=tuple(rng.sample(range(mask + 1), rng.choice([0, 0, 1]))),
            canvas_length=rng.choice([None, 1, 3, 16, 40]),
        )
        crowded = rng.random() < 0.1  # the model's positions end before the text may
        prompt = [rng.randrange(mask + 1) for _ in range(rng.randint(86, 95) if crowded else rng.randint(1, 10))]

        cache, never, size = network.new_cache(), threading.Event(), config.canvas_length or 5
        decoding = self_speculation(Run(network, torch.tensor(prompt), config, seed, never, cache), draft)
        events = run_of(network, decoding, never, passes=1000)
        reason, text, passes = events[-1].reason, events[-1].tokens.tolist(), tokens_by_pass(events, size, mask)
        check_greedy(network, prompt, config, reason, text)
        assert cache.length >= len(prompt) + len(text) - 1
        rounds = [len(written) for written in passes[1:] if written]
        most_written += [max(rounds, default=0)]
        fewest_written += [min(rounds, default=9)]
        seen |= {reason, draft is None, crowded}
        if seed % 4:
            continue
        check_cache(network, cache, [*prompt, *text][: cache.length])

        stop, cancel = rng.randrange(len(passes)), threading.Event()  # with the cache of the run before
        decoding = self_speculation(Run(network, torch.tensor(prompt), config, seed, cancel, cache), draft)
        events = run_of(network, decoding, cancel, passes=stop)
        assert (events[-1].reason, events[-1].steps) == ("cancelled", stop)
        shown = events[-1].tokens.tolist()
        assert shown == text[: sum(map(len, passes[:stop]))]  # all that was written
        check_cache(network, cache, [*prompt, *shown][: cache.length])
        assert cache.length >= len(prompt) + len(shown) - 1
        assert isinstance(events[0], PrefillFinished)
        assert events[0].reused_tokens == len(prompt) - 1
    assert len(seen) == 4
    assert sum(most > 2 for most in most_written) > runs / 10  # drafts stood
    assert sum(fewest == 1 for fewest in fewest_written) > runs / 10  # and did not


def test_rounds_windows_and_the_passes_that_have_the_draft_adapter() -> None:
    """The window doubles where all drafts stand, as of a network that repeats itself; where none does it stays."""
    network, widths = masked_network(0, canvas_length=64), dict[bool, list[int]]()
    for agrees in (True, False):
        config = GenerationConfig(max_new_tokens=80, eos_token_ids=())
        draft, drafting, rows = random_draft(network, 1), False, list[int]()
        decoding = self_speculation(Run(network, torch.tensor([1, 2]), config, 0, None, network.new_cache()), draft)
        for item in decoding:
            if isinstance(item, Decode):
                assert (item.draft is draft) == (not item.is_causal)
                drafting = not item.is_causal
                rows += [len(item.ids)] if drafting else []
                item.logits = torch.zeros(len(item.ids) - item.first_logits, 9)
                item.logits[:, 3 if agrees or not drafting else 4] = 1.0
                item.cache.advance(item.commit)
            elif isinstance(item, StepFinished) and drafting:
                drafts = item.candidates[~item.accepted_mask]
                assert set(drafts.tolist()) <= {3 if agrees else 4, 8}
                assert set(item.next_canvas.tolist()) <= {3, 8}
        widths[agrees] = rows
    assert widths[True] == [8, 16, 32, 23]
    assert widths[False] == [8] * 72 + [7, 6, 5, 4, 3, 2]


def chi_squared(counts: Counter[tuple[int, ...]], shares: dict[tuple[int, ...], float]) -> tuple[float, int]:
    """The statistic of what was seen against what is expected, and its degrees of freedom; rare texts count as one."""
    runs = counts.total()
    common = {text: share for text, share in shares.items() if share * runs >= 8}
    seen = [*(counts[text] for text in common), runs - sum(counts[text] for text in common)]
    expected = [*(share * runs for share in common.values()), runs * (1 - sum(common.values()))]
    cells = [(a, b) for a, b in zip(seen, expected, strict=True) if b > 1e-6 * runs]
    assert counts.keys() <= shares.keys()
    return sum((a - b) ** 2 / b for a, b in cells), len(cells) - 1


def test_drafts_above_temperature_0_leave_the_distribution_as_it_is() -> None:
    """Against the probability of each text, token by token; drafts stand sometimes, and sometimes do not."""
    network = masked_network(3, vocab_size=5, depth=1)
    prompt, length, stood = [1, 2, 3], 3, Counter[bool]()
    config = GenerationConfig(
        max_new_tokens=length, eos_token_ids=(), sampling_temperature=0.8, sampling_top_k=4, sampling_top_p=0.9
    )
    expected = {(): 1.0}
    for _ in range(length):
        expected = {
            (*text, token): before * share
            for text, before in expected.items()
            for token, share in enumerate(
                probabilities_of(plain_logits(network, [*prompt, *text])[-1:], config, TRANSFORMERS)[0].tolist()
            )
            if share
        }
    assert len(expected) > 20
    counts = Counter[tuple[int, ...]]()
    for seed in range(100):
        events = list(
            perform_all(
                network, self_speculation(Run(network, torch.tensor(prompt), config, seed, None, network.new_cache()))
            )
        )
        counts[tuple(events[-1].tokens.tolist())] += 1
        stood[events[-1].steps == 3] += 1
    statistic, freedom = chi_squared(counts, expected)
    assert statistic < freedom + 3.5 * (2 * freedom) ** 0.5
    assert min(stood[True], stood[False]) > 15


@pytest.mark.parametrize("other", [0, 1])
def test_a_verified_draft_is_distributed_as_if_it_was_drawn(other: int) -> None:
    """Count tokens by what they are verified against, whatever they were drafted from; a certain draft, too."""
    draws = torch.Generator().manual_seed(5)
    shares = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]])
    drafted_shares = torch.tensor([[[0.1, 0.1, 0.2, 0.6]], [[0.0, 1.0, 0.0, 0.0]]][other])
    counts, lengths = Counter[tuple[int, ...]](), Counter[int]()
    for _ in range(2000):
        drafted = torch.multinomial(drafted_shares, 1, generator=draws)[:, 0]
        tokens = verified(drafted, drafted_shares, shares, draws)
        counts[int(tokens[0]),] += 1
        lengths[len(tokens)] += 1
    statistic, freedom = chi_squared(counts, {(token,): share for token, share in enumerate(shares[0].tolist())})
    assert statistic < freedom + 3.5 * (2 * freedom) ** 0.5
    stands = torch.minimum(shares[0], drafted_shares[0]).sum().item()
    assert abs(lengths[2] / 2000 - stands) < 0.04
