"""How Nemotron-Labs-Diffusion's published files name their tensors."""

from __future__ import annotations

import re

from engine.adapters.targets import Targets
from engine.weights.layout import Names

BODY = "encoder."


def released_name(parameter: str) -> str:
    """The released name of one of our parameters."""
    head = parameter.removeprefix("lm_head.")
    return f"diffusion_head.{head}" if head != parameter else BODY + parameter


NAMES = Names(
    released_name,
    # The head where it is the table; buffers; scales of a cache in 8 bits.
    ignored=re.compile(
        r"diffusion_head\.weight|encoder\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"
        r"|encoder\.layers\.\d+\.self_attn\.[kv]_scale"
    ),
)
TARGETS = Targets(
    re.compile(r"layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"), prefixes=((BODY, "causal"),)
)
