"""The names of LLaDA's tensors in published files, and of its layers in PEFT, which are those of OLMo."""

from __future__ import annotations

import dataclasses
import re

from engine.models.causal.layout import targets
from engine.weights.layout import Names

BODY = "model.transformer."
_PARTS = {
    "embed_tokens": "wte",
    "norm": "ln_f",
    "lm_head": "ff_out",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ff_norm",
    "self_attn.q_proj": "q_proj",
    "self_attn.k_proj": "k_proj",
    "self_attn.v_proj": "v_proj",
    "self_attn.o_proj": "attn_out",
    "mlp.gate_proj": "ff_proj",
    "mlp.up_proj": "up_proj",
    "mlp.down_proj": "ff_out",
}
"""Our own names of parts, in a layer or of the network, and LLaDA's."""
_LAYER = re.compile(r"layers\.(\d+)\.")


def released_name(parameter: str) -> str:
    path, _, kind = parameter.rpartition(".")
    layer = _LAYER.match(path)
    own = path if layer is None else path[layer.end() :]
    return BODY + ("" if layer is None else f"blocks.{layer[1]}.") + f"{_PARTS[own]}.{kind}"


NAMES = Names(released_name, ignored=re.compile(re.escape(BODY) + r"ff_out\.weight"))  # the head, if it is the table
_OF_LAYERS = tuple((own, other) for own, other in _PARTS.items() if own.startswith(("self_attn.", "mlp.")))
TARGETS = dataclasses.replace(targets(BODY), theirs=(("layers.", "blocks."), *_OF_LAYERS))
