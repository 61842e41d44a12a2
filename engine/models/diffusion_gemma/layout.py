"""The names of DiffusionGemma's tensors in published files, and the layers that may have an adapter.

In transformers' DiffusionGemma the two modes are two stacks of modules that share their weights: ``model.encoder.
language_model`` reads text, ``model.decoder`` denoises. Their weights are stored once, under the decoder's names,
except for the layers' scalars, which each mode has separately. PEFT wraps each module by its own name.
"""

from __future__ import annotations

import re

from engine.adapters.targets import Targets
from engine.weights.layout import Names

DECODER = "model.decoder."
ENCODER = "model.encoder.language_model."
TOWER = "model.encoder.vision_tower."
PROJECTOR = "model.encoder.embed_vision."
_INNER = re.compile(r"(layers\.\d+\.(?:self_attn|mlp)\.\w+_proj)\.(.+)")


def released_name(parameter: str) -> str:
    if parameter.startswith("vision."):
        return _vision_name(parameter.removeprefix("vision."))
    if parameter.endswith(".causal_layer_scalar"):
        return ENCODER + parameter.replace("causal_layer_scalar", "layer_scalar")
    return DECODER + parameter


def _vision_name(parameter: str) -> str:
    if parameter.startswith("projection."):
        return PROJECTOR + parameter.replace("projection", "embedding_projection")
    if parameter.startswith("layers."):
        return TOWER + "encoder." + _INNER.sub(r"\1.linear.\2", parameter)
    return TOWER + parameter


NAMES = Names(
    released_name,
    skipped=(TOWER, PROJECTOR),
    # The head, which is the table, packed or not; an unused tensor of the projector.
    ignored=re.compile(
        r"lm_head\.(weight|weight_packed|weight_scale|weight_shape|weight_scale_2|weight_global_scale|qweight|scales|qzeros)"
        r"|model\.encoder\.embed_vision\.embedding\.weight"
    ),
)
TARGETS = Targets(
    re.compile(
        r"layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)|self_conditioning\.(gate|up|down)_proj"
    ),
    prefixes=((ENCODER, "causal"), (DECODER, "denoise")),
    canvas_only="self_conditioning.",
)
