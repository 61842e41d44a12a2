"""How Qwen's published files, and those of its descendants, name their tensors."""

from __future__ import annotations

from engine.models.causal.layout import names, targets

BODY = "model."
NAMES, TARGETS = names(BODY), targets(BODY)
