"""Names of the text's tensors in the published files of Mistral's models that see; the others have Llama's."""

from __future__ import annotations

from engine.models.causal.layout import names, targets

BODY = "language_model.model."
NAMES = names(BODY, "language_model.lm_head.", skipped=("vision_tower.", "multi_modal_projector."))
TARGETS = targets("model.language_model.")  # as transformers calls the module that it loads them into
