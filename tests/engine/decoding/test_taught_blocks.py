"""Networks taught by published objectives answer right if they are decoded as they were trained, and not otherwise."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest

from engine import GenerationConfig
from engine.decoding import sub_blocks
from engine.layers.kv_cache import KVCache
from engine.models.causal.network import CausalNetwork
from tests.engine import bd3lm, fast_dllm, sdar
from tests.engine.decoding.seen import end_of
from tests.engine.decoding.test_block_causal import decoded
from tests.engine.taught import taught

network_of = cache(taught)


def answered(
    network: CausalNetwork, text: list[int], config: GenerationConfig, decoder: str, kept: KVCache | None = None
) -> tuple[list[int], int]:
    """An answer with its end, and the passes that it took."""
    last = end_of(decoded(decoder, network, text, config, 0, kept or network.new_cache()))
    return [*last.tokens.tolist(), *config.eos_token_ids], last.steps


def letters(decoder: str, chats: int) -> int:
    """Count right answers in chats of three turns; of seven chats they come at all lengths modulo the block."""
    config = GenerationConfig(max_new_tokens=20, eos_token_ids=(sdar.END,))
    rng, right, network = random.Random(1), 0, network_of("fast_dllm")
    for chat in range(chats):
        text, kept = list[int](), network.new_cache()
        for turn in range(3):
            asked = sdar.question(rng, (chat + turn) % 7)
            text += asked
            found, _ = answered(network, text, config, decoder, kept)
            wanted = sdar.answer(asked, len(text) - len(asked), fast_dllm.BLOCK)
            right += found == wanted
            text += wanted
    return right


def test_a_network_of_fast_dllm_s_objective_is_decoded_by_sub_blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sub_blocks, "PART", fast_dllm.PART)
    assert letters("sub_blocks", chats=7) >= 20
    assert max(letters(name, chats=2) for name in ("block_causal", "masked_diffusion", "autoregressive")) <= 1


def behind(decoder: str, count: int) -> int:
    """Count right ones of so many answers; of seven they come at all lengths modulo the block."""
    config = GenerationConfig(
        remasking="low_confidence_static", max_new_tokens=16, eos_token_ids=(sdar.END,), max_denoising_steps=4
    )
    rng, right, network = random.Random(1), 0, network_of("bd3lm")
    for seed in range(count):
        asked = sdar.question(rng, seed % 7)
        right += answered(network, asked, config, decoder)[0] == bd3lm.answer(asked)[:-1]
    return right


def test_a_network_of_bd3lm_s_objective_fills_blocks_behind_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks at multiples from the first token are the same for a quarter of the prompts."""
    assert behind("block_causal", 14) >= 13
    assert max(behind(name, 7) for name in ("masked_diffusion", "autoregressive")) <= 1
    monkeypatch.setattr(network_of("bd3lm"), "config", replace(network_of("bd3lm").config, blocks_follow_prompt=False))
    assert behind("block_causal", 14) <= 7
