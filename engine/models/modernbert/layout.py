"""Names of ModernBERT's tensors in transformers. It has no adapters here."""

from __future__ import annotations

import re

from engine.adapters.targets import Targets
from engine.weights.layout import Names

BODY = "model."
_ENDS = {
    "embed_tokens.weight": "model.embeddings.tok_embeddings.weight",
    "embed_norm.weight": "model.embeddings.norm.weight",
    "final_norm.weight": "model.final_norm.weight",
    "head_dense.weight": "head.dense.weight",
    "head_norm.weight": "head.norm.weight",
    "head_bias": "decoder.bias",
}
_PARTS = {
    "self_attn.qkv_proj": "attn.Wqkv",
    "self_attn.o_proj": "attn.Wo",
    "mlp.gate_up_proj": "mlp.Wi",
    "mlp.down_proj": "mlp.Wo",
}
_LAYER = re.compile(r"layers\.(\d+)\.(.+)\.weight")


def released(parameter: str) -> str:
    """Returns the name in a checkpoint of one of our parameters."""
    found = _LAYER.fullmatch(parameter)
    return f"model.layers.{found[1]}.{_PARTS.get(found[2], found[2])}.weight" if found else _ENDS[parameter]


NAMES = Names(released, ignored=re.compile(r"decoder\.weight"))  # it is the table
TARGETS = Targets(re.compile(r"(?!)"), prefixes=((BODY, "causal"),))  # no adapter is known for this family
