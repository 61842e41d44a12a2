"""Names of the tensors in Gemma 3's published files: of models of text, and of those that see."""

from __future__ import annotations

from engine.models.causal.layout import names, targets

TEXT, SEEING = "model.", "language_model.model."
TEXT_NAMES, TEXT_TARGETS = names(TEXT), targets(TEXT)
SEEING_NAMES = names(SEEING, "language_model.lm_head.", skipped=("vision_tower.", "multi_modal_projector."))
SEEING_TARGETS = targets("model.language_model.")  # as transformers calls the module that it loads them into
