"""Names of the tensors in the published files of Llama, SmolLM3 and Mistral."""

from __future__ import annotations

from engine.models.causal.layout import names, targets

BODY = "model."
NAMES, TARGETS = names(BODY), targets(BODY)
