"""Reads the ``config.json`` of LLaDA2.0 and LLaDA2.1, which have one ``model_type``.

What a file leaves out is as in its authors' class. There query, key and value projections are one matrix, the first
half of each head is rotated, and experts are chosen within groups by sigmoids and biases.
Experts are stored one by one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from engine.adapters.lora import Targets
from engine.config import MAX_EXPERTS, ExpertRouting
from engine.declared import check_real, check_whole
from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig
from engine.models.causal.layout import names
from engine.models.causal.reading import MAX_WIDTH, flag, given_or, need_whole, read_causal, with_experts

MASK, THETA, EPS = 156895, 10_000.0, 1e-5
ROPES = ("rope_parameters", "rope_scaling")  # names of the object in newer and in older files


def read_llada2(raw: dict[str, Any]) -> CausalConfig:
    """Returns the shape that a parsed ``config.json`` of this family describes.

    Raises:
        SafelightError: a missing field or a value that this engine does not implement.
    """
    score = raw.get("score_function", "sigmoid")
    if score != "sigmoid":
        raise SafelightError(f"config.json: score_function {quoted(score)} is not supported, only 'sigmoid'")
    share = _share(raw)
    inner = {name: {**raw[name], "partial_rotary_factor": 1.0} for name in ROPES if isinstance(raw.get(name), dict)}
    config = read_causal(
        {"rms_norm_eps": EPS, **raw, **inner},
        rope_theta=THETA,
        mask_token_id=MASK,
        attention_bias=flag(raw, "use_qkv_bias", False),
        output_bias=flag(raw, "use_bias", True),
        query_key_norm=flag(raw, "use_qk_norm", True),
    )
    rotated = int(config.layers[0].head_dim * share)
    config = replace(config, is_fused=True, rotated=rotated)
    return with_experts(config, raw, _routing(raw), raw.get("first_k_dense_replace") or 0)


def _share(raw: dict[str, Any]) -> float:
    """Returns the share of a head that is rotated."""
    places = [raw, *(raw[name] for name in ROPES if isinstance(raw.get(name), dict))]
    factors = [place["partial_rotary_factor"] for place in places if place.get("partial_rotary_factor") is not None]
    share: float = factors[0] if factors else 0.5
    check_real("config.json: partial_rotary_factor", share, 0.0)
    return share


def _routing(raw: dict[str, Any]) -> ExpertRouting:
    shared, width = raw.get("num_shared_experts") or 0, need_whole(raw, "moe_intermediate_size", MAX_WIDTH)
    check_whole("config.json: num_shared_experts", shared, 0, MAX_EXPERTS)
    return ExpertRouting(
        scores="sigmoid",
        groups=given_or(raw.get("n_group"), 8),
        chosen_groups=given_or(raw.get("topk_group"), 4),
        has_bias=True,
        is_normed=flag(raw, "norm_topk_prob", True) and raw.get("num_experts_per_tok") != 1,
        scale=given_or(raw.get("routed_scaling_factor"), 2.5),
        shared_width=shared * width,
    )


BODY = "model."
RENAMED = (
    ("embed_tokens", "word_embeddings"),
    ("self_attn.qkv_proj", "attention.query_key_value"),
    ("self_attn.o_proj", "attention.dense"),
    ("self_attn.q_norm", "attention.query_layernorm"),
    ("self_attn.k_norm", "attention.key_layernorm"),
)
"""Parts of our paths, and theirs."""
_PLAIN = names(BODY)


def _released(parameter: str) -> str:
    for own, other in RENAMED:
        parameter = parameter.replace(own, other)
    return _PLAIN.released(parameter)


NAMES = replace(_PLAIN, released=_released, has_single_experts=True)
TARGETS = Targets(
    re.compile(r"layers\.\d+\.(self_attn\.(qkv|o)_proj|mlp\.(shared_experts\.)?(gate|up|down)_proj)"),
    prefixes=((BODY, "causal"),),
    theirs=RENAMED,
)
