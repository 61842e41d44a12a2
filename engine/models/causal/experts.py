"""Reads the experts of a causal transformer from its ``config.json``. Knows no tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engine.config import MOST_EXPERTS, MOST_LAYERS, ExpertRouting
from engine.declared import check_whole
from engine.models.causal.config import CausalConfig
from engine.models.causal.reading import need_whole

MOST_WIDTH = 2**20


def with_experts(config: CausalConfig, raw: dict[str, Any], routing: ExpertRouting, dense: int = 0) -> CausalConfig:
    """Returns a shape whose layers, except the first ``dense`` ones, have experts in place of their MLPs.

    Raises:
        SafelightError: a missing field, or a value that does not fit.
    """
    check_whole("config.json: first_k_dense_replace", dense, 0, MOST_LAYERS)
    return replace(
        config,
        layers=tuple(replace(layer, is_dense=index < dense) for index, layer in enumerate(config.layers)),
        num_experts=need_whole(raw, "num_experts", MOST_EXPERTS),
        top_k_experts=need_whole(raw, "num_experts_per_tok", MOST_EXPERTS),
        moe_intermediate_size=need_whole(raw, "moe_intermediate_size", MOST_WIDTH),
        routing=routing,
    )
