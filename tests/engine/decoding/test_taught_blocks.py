"""Networks taught by published objectives answer right if they are decoded as they were trained, and not otherwise."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest
import torch

from engine import GenerationConfig
from engine.decoding.generate import DECODERS
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.layers.kv_cache import KVCache
from engine.models.causal.network import CausalNetwork
from tests.engine import bd3lm, fast_dllm, rewriting, sdar
from tests.engine.taught import taught

network_of = cache(taught)


def answered(
    network: CausalNetwork, text: list[int], config: GenerationConfig, decoder: str, kept: KVCache | None = None
) -> tuple[list[int], int]:
    """An answer with its end, and the passes that it took."""
    kept = kept or network.new_cache()
    decoding = DECODERS[decoder](Run(network, torch.tensor(text), config, 0, None, kept))  # type: ignore[arg-type]
    *_, last = perform_all(network, decoding)  # type: ignore[arg-type]
    return [*last.tokens.tolist(), *config.eos_token_ids], last.steps  # type: ignore[union-attr]


def possible(asked: list[int]) -> list[list[int]]:
    """The right answers."""
    return [rewriting.answer(asked, start) for start in range(rewriting.RADIX)]


def sums(config: GenerationConfig) -> tuple[int, int]:
    """How many of sixty sums, in twenty chats of three turns, come out right; and the passes that they took."""
    rng, right, passes = random.Random(1), 0, 0
    for _ in range(20):
        text, kept = list[int](), network_of("rewriting").new_cache()
        for _ in range(rewriting.TURNS):
            asked = rewriting.question(rng)
            text += asked
            found, steps = answered(network_of("rewriting"), text, config, "block_causal", kept)
            fitting = next((one for one in possible(asked) if one == found), None)
            right, passes = right + (fitting is not None), passes + steps
            text += fitting or possible(asked)[0]
    return right, passes


def test_rewriting_repairs_what_was_written_at_once() -> None:
    """All masks of a block are written in its first pass, without regard to one another; the sums have to agree."""
    config = GenerationConfig(max_new_tokens=8, eos_token_ids=(rewriting.END,), max_denoising_steps=1)
    assert sums(config)[0] <= 6
    right, passes = sums(config.replace(edit_probability=0.5))
    assert right >= 36
    one_by_one, most = sums(config.replace(max_denoising_steps=8, remasking="low_confidence_static"))
    assert one_by_one >= 57
    assert passes < most / 2


def letters(decoder: str, **changes: object) -> int:
    """How many of sixty answers, in twenty chats of three turns, are right, at all lengths modulo the block."""
    config = GenerationConfig(max_new_tokens=20, eos_token_ids=(sdar.END,)).replace(**changes)
    rng, right, network = random.Random(1), 0, network_of("fast_dllm")
    for chat in range(20):
        text, kept = list[int](), network.new_cache()
        for turn in range(3):
            asked = sdar.question(rng, (chat + turn) % 7)
            text += asked
            found, _ = answered(network, text, config, decoder, kept)
            wanted = sdar.answer(asked, len(text) - len(asked), fast_dllm.BLOCK)
            right += found == wanted
            text += wanted
    return right


def test_a_network_of_fast_dllm_s_objective_is_decoded_by_sub_blocks_alone() -> None:
    right = {cache: letters("sub_blocks", sub_block=fast_dllm.PART, block_cache=cache) for cache in ("", "dual")}
    assert min(right.values()) >= 57
    assert max(letters(name) for name in ("block_causal", "masked_diffusion", "autoregressive")) <= 3


def behind(decoder: str, **changes: object) -> int:
    """How many of sixty answers are right, at all lengths modulo the block."""
    settings = {"max_new_tokens": 16, "eos_token_ids": (sdar.END,), "schedule": "round", "max_denoising_steps": 4}
    config = GenerationConfig(remasking="low_confidence_static").replace(**settings | changes)
    rng, right, network = random.Random(1), 0, network_of("bd3lm")
    for seed in range(60):
        asked = sdar.question(rng, seed % 7)
        right += answered(network, asked, config, decoder)[0] == bd3lm.answer(asked)[:-1]
    return right


def test_a_network_of_bd3lm_s_objective_fills_blocks_behind_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks at multiples from the first token are the same for a quarter of the prompts."""
    assert behind("block_causal") >= 57
    assert max(behind(name) for name in ("masked_diffusion", "autoregressive")) <= 3
    monkeypatch.setattr(network_of("bd3lm"), "config", replace(network_of("bd3lm").config, blocks_follow_prompt=False))
    assert behind("block_causal") <= 30
