"""Names of LLaDA2's tensors in published files, and of its layers in PEFT. Experts are stored one by one."""

from __future__ import annotations

import re
from dataclasses import replace

from engine.adapters.targets import Targets
from engine.models.causal.layout import names

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
