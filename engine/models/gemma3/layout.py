"""Names of the tensors in Gemma 3's published files of models of text."""

from __future__ import annotations

from engine.models.causal.layout import names, targets

BODY = "model."
NAMES, TARGETS = names(BODY), targets(BODY)
