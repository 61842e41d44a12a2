"""How Qwen's published files, and those of its descendants, name their tensors."""

from __future__ import annotations

import re

from engine.adapters.targets import Targets
from engine.weights.layout import Names

BODY = "model."


def released_name(parameter: str) -> str:
    """The released name of one of our parameters."""
    return parameter if parameter.startswith("lm_head.") else BODY + parameter


NAMES = Names(
    released_name,
    # The head where it is the table; buffers that older transformers stored.
    ignored=re.compile(r"lm_head\.weight|model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"),
)
TARGETS = Targets(
    re.compile(r"layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)"), prefixes=((BODY, "causal"),)
)
