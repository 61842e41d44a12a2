"""How the published files of Llama, SmolLM3 and Mistral name their tensors."""

from __future__ import annotations

from engine.models.causal.layout import names, targets

BODY = "model."
NAMES, TARGETS = names(BODY), targets(BODY)
