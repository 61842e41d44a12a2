"""Experts by a softmax in a causal network, against transformers' Qwen3-MoE."""

from __future__ import annotations

from functools import partial

import pytest
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from engine.config import ExpertRouting
from engine.models.causal.families import read_qwen3
from engine.models.causal.network import CausalNetwork
from engine.models.causal.reading import with_experts
from tests.engine.golden.causal_reference import VOCABULARY, check_passes, logits_of, randomised


@pytest.mark.parametrize(("experts", "chosen", "is_normed"), [(12, 3, True), (6, 2, False), (9, 1, True)])
def test_every_pass_is_that_of_transformers(experts: int, chosen: int, is_normed: bool) -> None:
    """Sorted by expert, or all of them run; weights that sum to one, or as the softmax gives them."""
    raw = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 44,
        "moe_intermediate_size": 20,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_experts": experts,
        "num_experts_per_tok": chosen,
        "norm_topk_prob": is_normed,
        "max_position_embeddings": 64,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
    }
    theirs = randomised(Qwen3MoeForCausalLM(Qwen3MoeConfig(**raw)), experts)
    ours = CausalNetwork(with_experts(read_qwen3(raw), raw, ExpertRouting(is_normed=is_normed)))
    ours.load_state_dict({name.removeprefix("model."): tensor for name, tensor in theirs.state_dict().items()})
    check_passes(ours.requires_grad_(False).eval(), partial(logits_of, theirs))
