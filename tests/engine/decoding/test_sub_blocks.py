"""Decoding by sub-blocks against its authors' algorithm as one reads it: no cache, all is computed at each pass."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
import torch

from engine import GenerationConfig
from engine.decoding import sub_blocks
from engine.events import PrefillFinished
from engine.models.causal.network import CausalNetwork
from tests.engine.causal import POSITIONS, masked_network, tokens_by_pass
from tests.engine.decoding.test_block_causal import (
    PlainRun,
    block_logits,
    check_blocks,
    check_shown,
    check_stops,
    decoded,
    drawn_prompt,
    following,
    plain_shares,
)


@dataclass
class Plain:
    """A run in the making."""

    network: CausalNetwork
    prompt: list[int]
    config: GenerationConfig
    draws: torch.Generator
    made: PlainRun = field(default_factory=PlainRun)

    def __post_init__(self) -> None:
        mask = self.network.config.mask_token_id
        assert mask is not None
        self.mask, self.ids, self.size = mask, list(self.prompt), self.network.config.canvas_length
        self.written = set(range(len(self.prompt)))
        self.most = min(self.config.max_new_tokens, POSITIONS - len(self.prompt))

    def write(self, new: dict[int, int]) -> bool:
        """True if the text has ended."""
        begun, new = len(self.prompt), {place: token for place, token in new.items() if token != self.mask}
        for place, token in new.items():
            self.ids[place] = token
        self.written |= set(new)
        self.made.passes.append({place - begun: token for place, token in new.items()})
        for place in range(begun, begun + self.most):
            if place not in self.written:
                return False
            if self.ids[place] in self.config.eos_token_ids:
                self.made.reason, self.made.text = "eos", self.ids[begun:place]
                return True
        self.made.reason, self.made.text = "length", self.ids[begun : begun + self.most]
        return True

    def fill(self, part: range) -> bool:
        """Fills a part of a block; True if the text has ended."""
        step = 0
        while masked := [place for place in part if place not in self.written]:
            logits = block_logits(self.network, self.ids, self.size)[[place - 1 for place in masked]]
            step += 1
            is_last = step == sub_blocks.PART
            if is_last:
                logits[:, self.mask] = -torch.inf
            shares = torch.stack([plain_shares(row, self.config) for row in logits])
            greedy = self.config.sampling_temperature == 0
            drawn = logits.argmax(-1) if greedy else torch.multinomial(shares, 1, generator=self.draws)[:, 0]
            likely = {row: float(shares[row, token]) for row, token in enumerate(drawn.tolist())}
            best = max(likely, key=lambda row: likely[row])
            sure = {row for row in likely if likely[row] > self.config.accept_probability or row == best or is_last}
            if self.write({masked[row]: token for row, token in enumerate(drawn.tolist()) if row in sure}):
                return True
        return False

    def run(self) -> PlainRun:
        start = (len(self.prompt) - 1) // self.size * self.size
        while True:
            stop = min(start + self.size, POSITIONS)
            self.ids += [self.mask] * (stop - len(self.ids))
            for first in range(start, stop, sub_blocks.PART):
                if self.fill(range(first, min(first + sub_blocks.PART, stop))):
                    return self.made
            logits = block_logits(self.network, self.ids, self.size)[-1].clone()
            logits[self.mask] = -torch.inf
            token = int(logits.argmax())
            self.ids.append(self.mask)
            if self.write({stop: token}):
                return self.made
            start = stop


@pytest.mark.parametrize("runs", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_runs_of_several_turns_against_the_definition(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and parts of odd sizes, prompts of all lengths; a turn begins with the cache of those before."""
    seen = set()
    for seed in range(runs):
        rng = random.Random(seed)
        size = rng.choice([2, 4, 6, 9])
        network = masked_network(seed, rng.choice([1.0, 2.0, 6.0]), 1 + seed % 2, canvas_length=size)
        cache, mask = network.new_cache(), 8
        cache.piece = 2 * size + 1
        crowded = rng.random() < 0.1
        prompt = drawn_prompt(rng, 8, crowded)
        for _ in range(1 if crowded else 3):
            config = GenerationConfig(
                accept_probability=rng.choice([0.2, 0.5, 0.9]),
                sampling_temperature=rng.choice([0.0, 0.7]),
                sampling_top_p=rng.choice([1.0, 0.8]),
                max_new_tokens=rng.randint(1, 24),
                eos_token_ids=tuple(rng.sample(range(8), rng.choice([0, 1]))),
            )
            monkeypatch.setattr(sub_blocks, "PART", rng.choice([1, 2, 3, 16]))
            expected = Plain(network, prompt, config, torch.Generator().manual_seed(seed)).run()
            shared, least = cache.shared(prompt), (len(prompt) - 1) // size * size
            events = decoded("sub_blocks", network, prompt, config, seed, cache)
            shown = tokens_by_pass(events, size, mask)
            check_shown(shown, expected.passes, is_aligned=len(prompt) % size == 0)
            assert (events[-1].reason, events[-1].tokens.tolist()) == (expected.reason, expected.text)
            assert isinstance(events[0], PrefillFinished)
            assert events[0].reused_tokens == min(least, shared // size * size)
            check_blocks(network, cache, [*prompt, *expected.text][: cache.length], size)
            assert least <= cache.length <= len(prompt) + len(expected.text)
            seen |= {expected.reason, (size, len(prompt) % size), events[0].reused_tokens > 0}
            prompt = following(rng, [*prompt, *expected.text], 8)
    assert len(seen) == 2 + 2 + 2 + 4 + 6 + 9 or runs < 60
    assert len(seen) > 18


def test_a_run_stops_within_a_pass_and_its_cache_serves_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sub_blocks, "PART", 2)
    network, prompt = masked_network(5, canvas_length=4), [1, 2, 3, 4, 5, 6, 7]
    config = GenerationConfig(max_new_tokens=15, eos_token_ids=(), accept_probability=0.5)
    check_stops("sub_blocks", network, prompt, config, Plain(network, prompt, config, torch.Generator()).run())
