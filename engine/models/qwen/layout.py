"""The tensor names in the published files of Qwen and its descendants."""

from __future__ import annotations

from engine.models.causal.layout import names, targets

BODY = "model."
NAMES, TARGETS = names(BODY), targets(BODY)
