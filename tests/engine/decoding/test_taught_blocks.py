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
from tests.engine import bd3lm, fast_dllm, rewriting, sdar
from tests.engine.bidirectional import is_right
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


def rewritten(**changes: object) -> tuple[int, int]:
    """Count the right ones of 12 answers, in six chats of two turns, and the passes that they took."""
    config = GenerationConfig(max_new_tokens=rewriting.BLOCK, eos_token_ids=(rewriting.END,)).replace(**changes)
    rng, right, passes, network = random.Random(1), 0, 0, network_of("rewriting")
    for _ in range(6):
        text, kept = list[int](), network.new_cache()
        for _ in range(rewriting.TURNS):
            asked = rewriting.question(rng)
            text += asked
            found, steps = answered(network, text, config, "block_causal", kept)
            is_fitting = is_right(asked, found[:-1])
            right, passes = right + is_fitting, passes + steps
            text += [*(found[:-1] if is_fitting else asked[1:-1]), rewriting.END, rewriting.END]
    return right, passes


def test_rewriting_repairs_what_was_written_at_once() -> None:
    """All masks of a block are written in its first pass, without regard to one another; the letters have to agree."""
    assert rewritten(max_denoising_steps=1)[0] <= 2
    one_by_one, most = rewritten(remasking="low_confidence_static", max_denoising_steps=8)
    right, passes = rewritten(max_denoising_steps=1, edit_probability=0.0)
    assert min(one_by_one, right) >= 11
    assert passes < most / 2
    for changes in ({"accept_probability": 0.7, "edit_probability": 0.5}, {"accept_probability": 0.5}):
        assert rewritten(**changes)[0] >= 11  # for quality, and without edits


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
