"""Reads the ``config.json`` of LLaDA-MoE, a LLaDA with experts under the names of Qwen's tensors. Knows no tensors.

What the published checkpoint does not have is refused: shared experts, biases of experts, and clipping.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.config import ExpertRouting
from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig
from engine.models.causal.experts import MOST_WIDTH, with_experts
from engine.models.causal.reading import flag, need_whole, read_causal

MODEL_TYPE = "lladamoe"  # in files that are read by dllm; the published one says ``llada``
MASK, THETA = 156895, 50_000.0
_NONE = ("shared_expert_intermediate_size", "moe_router_enable_expert_bias", "clip_qkv")


def read_moe(raw: dict[str, Any]) -> CausalConfig:
    """Returns the shape that a parsed ``config.json`` of this family describes.

    Raises:
        SafelightError: a missing field, or a value that this engine does not implement.
    """
    for name in _NONE:
        if raw.get(name):
            raise SafelightError(f"config.json: {name} {quoted(raw[name])} is not supported in this family")
    if raw.get("moe_router_score_function") not in (None, "softmax"):
        raise SafelightError("config.json: moe_router_score_function is not supported, only 'softmax'")
    width = need_whole(raw, "expert_intermediate_size", MOST_WIDTH)
    bias = flag(raw, "attention_bias", False)
    config = read_causal(
        {**raw, "intermediate_size": raw.get("dense_intermediate_size") or width},
        rope_theta=THETA,
        mask_token_id=MASK,
        attention_bias=bias,
        output_bias=bias,
        query_key_norm=flag(raw, "qk_layernorm", False),
    )
    routing = ExpertRouting(
        scores="softmax", groups=1, chosen_groups=1, has_bias=False, is_normed=False, scale=1.0, shared_width=0
    )
    found = with_experts(config, {**raw, "moe_intermediate_size": width}, routing, _dense(raw))
    return replace(found, reads_whole=True)


def _dense(raw: dict[str, Any]) -> int:
    """Returns how many first layers have no experts.

    Raises:
        SafelightError: others have none, too.
    """
    layers = raw.get("moe_layer_freq")
    if layers in (None, []):
        return 0
    if not isinstance(layers, list) or sorted(layers) != layers or not set(layers) <= {0, 1}:
        raise SafelightError(
            "config.json: moe_layer_freq is not supported, only layers without experts before all others"
        )
    return layers.count(0)
