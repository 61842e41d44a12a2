"""The shape of a dense causal transformer. Which file says so is its family's business."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import MOST_TOKENS, ModelConfig, check_whole


@dataclass(frozen=True)
class CausalConfig(ModelConfig):
    """What Qwen's, Mistral's and their like differ in. All layers attend to everything.

    Args:
        attention_bias: of query, key and value projections.
        query_key_norm: whether queries and keys are normed, a head at a time.
        tied: whether the table of the tokens is the head, too.
        mask_token_id: of what is not written yet; None: the model was never shown any.
    """

    attention_bias: bool = False
    query_key_norm: bool = False
    tied: bool = False
    mask_token_id: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mask_token_id is not None:
            check_whole("config.json: mask_token_id", self.mask_token_id, 0, min(MOST_TOKENS, self.vocab_size) - 1)
