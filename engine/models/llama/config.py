"""Reads the ``config.json`` of Llama and SmolLM3. Knows no tensors.

Both are one network. In SmolLM3 every fourth layer does not rotate queries and keys, and may look back over a window.
"""

from __future__ import annotations

from typing import Any

from engine.config import MOST_LAYERS
from engine.declared import check_whole
from engine.errors import SafelightError
from engine.models.causal.config import CausalConfig
from engine.models.causal.reading import FULL, SLIDING, flag, read_causal, read_kinds

THETA, SMOLLM3_THETA = 10_000.0, 2_000_000.0  # transformers', for files without rope_theta
WITHOUT_ROPE = 4  # one layer in so many of SmolLM3, if the file does not say


def read_llama(raw: dict[str, Any]) -> CausalConfig:
    bias = flag(raw, "attention_bias", False)
    return read_causal(raw, rope_theta=THETA, attention_bias=bias, output_bias=bias)


def read_smollm3(raw: dict[str, Any]) -> CausalConfig:
    bias, turns = flag(raw, "attention_bias", False), _turns(raw)
    has_window = flag(raw, "use_sliding_window", False) and raw.get("sliding_window") is not None
    kinds = read_kinds(raw, lambda index: SLIDING if has_window and not turns[index] else FULL)
    return read_causal(
        raw,
        rope_theta=SMOLLM3_THETA,
        attention_bias=bias,
        output_bias=bias,
        tied=True,
        kinds=kinds,
        turns=turns,
    )


def _turns(raw: dict[str, Any]) -> list[bool]:
    """Reads which layers rotate: ``no_rope_layers`` has 1 for those, and 0 for the others."""
    count: Any = raw.get("num_hidden_layers")
    listed = raw.get("no_rope_layers")
    check_whole("config.json: num_hidden_layers", count, 1, MOST_LAYERS)
    if listed is None:
        every = raw.get("no_rope_layer_interval", WITHOUT_ROPE)
        check_whole("config.json: no_rope_layer_interval", every, 1, MOST_LAYERS)
        return [(index + 1) % every != 0 for index in range(count)]
    if not isinstance(listed, list) or len(listed) < count or any(each not in (0, 1) for each in listed):
        raise SafelightError(f"config.json: no_rope_layers must have 0 or 1 for each of {count} layers")
    return [each == 1 for each in listed[:count]]
