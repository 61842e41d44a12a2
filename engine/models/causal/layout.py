"""Names of a dense causal model's tensors in transformers, and of its layers in PEFT."""

from __future__ import annotations

import re
from dataclasses import replace

from engine.adapters.lora import Targets
from engine.weights.layout import Names

_LAYERS = re.compile(r"layers\.\d+\.(self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj)")


def names(body: str, head: str = "lm_head.", skipped: tuple[str, ...] = (), ignored: str = "") -> Names:
    """Makes the names of a family.

    Args:
        body: prefix of our own names, such as ``model.``; the head has ``head``.
        skipped: beginnings of the names of parts that are not read.
        ignored: pattern of tensors that are left out, besides the head if it is the table, and buffers that older
            transformers stored.
    """

    def released(parameter: str) -> str:
        own = parameter.removeprefix("lm_head.")
        return body + parameter if own == parameter else head + own

    surplus = rf"{re.escape(head)}weight|{re.escape(body)}(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"
    return Names(released, skipped, re.compile(f"{surplus}|{ignored}" if ignored else surplus))


def targets(body: str) -> Targets:
    """Makes the targets of adapters: all projections, after ``body`` in PEFT's names."""
    return Targets(_LAYERS, prefixes=((body, "causal"),))


TEXT = names("model."), targets("model.")
"""Tensor names, and targets of adapters, as most families publish their models of text."""
EXPERTS = replace(TEXT[0], has_single_experts=True), TEXT[1]
"""Those of models with experts, which are published one by one."""
SEEING = (
    names("language_model.model.", "language_model.lm_head.", skipped=("vision_tower.", "multi_modal_projector.")),
    targets("model.language_model."),  # transformers' name of the module that it loads them into
)
"""Those of the text part of models that see, as Gemma 3 and Mistral publish them."""
