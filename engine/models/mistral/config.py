"""Reads the ``config.json`` of Mistral 7B to Small, Ministral and Ministral 3. Knows no tensors.

All are one network. The first Mistral looks back over a window in every layer, Ministral in those that its file names.
"""

from __future__ import annotations

from typing import Any

from engine.errors import SafelightError, quoted
from engine.models.causal.config import CausalConfig
from engine.models.causal.reading import FULL, SLIDING, read_causal, read_kinds

THETA, MINISTRAL3_THETA = 10_000.0, 1_000_000.0  # transformers', for files without rope_theta
WINDOW = 4096  # transformers', for files without sliding_window; those that have null there have none


def read_mistral(raw: dict[str, Any]) -> CausalConfig:
    return _read(raw, THETA, WINDOW)


def read_ministral3(raw: dict[str, Any]) -> CausalConfig:
    return _read(raw, MINISTRAL3_THETA, None)


def read_mistral3(raw: dict[str, Any]) -> CausalConfig:
    """Reads the ``text_config`` of a model that sees; see ``read_causal``."""
    text = raw["text_config"]
    readers = {"mistral": read_mistral, "ministral3": read_ministral3}
    found = text.get("model_type", "mistral")
    reader = readers.get(found) if isinstance(found, str) else None
    if reader is None:
        raise SafelightError(
            f"config.json: text_config has the model_type {quoted(found)}; 'mistral' and 'ministral3' are supported"
        )
    tied = raw.get("tie_word_embeddings")  # of the whole model; it goes before that of its text
    return reader(text if tied is None else {**text, "tie_word_embeddings": tied})


def _read(raw: dict[str, Any], theta: float, window: int | None) -> CausalConfig:
    window = raw.get("sliding_window", window)
    kinds = read_kinds(raw, lambda _: FULL if window is None else SLIDING)
    return read_causal({**raw, "sliding_window": window}, rope_theta=theta, kinds=kinds)
