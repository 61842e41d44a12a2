"""Small dense causal models with several decoders: their shapes and training recipes. Needs no torch.

``wedlm`` is a Qwen3 whose masks follow the known text, at whatever positions it stands (arXiv 2512.22737). ``masked``
is a Ministral that sees a block in both directions, and ``draft`` the low-rank addition by which it drafts a whole
block in one pass (Nemotron-Labs-Diffusion, arXiv 2607.05722). Each is trained on plain autoregression, too.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

from engine.config import LayerConfig
from engine.models.causal.config import CausalConfig
from small_models.recipes import Feed, TrainingRecipe

MASK = 4  # the tokenizer's <mask>
HEAD_DIM = 32
LATE = (
    ("count_up", 5.0),
    ("countdown", 4.0),
    ("times_table", 2.0),
    ("add", 2.0),
    ("subtract", 2.0),
    ("weekday", 2.0),
    ("sort_letters", 2.0),
    ("words_to_number", 1.5),
    ("json_list", 1.5),
    ("pattern", 1.5),
    ("number_to_words", 1.0),
)


@dataclass(frozen=True, kw_only=True)
class CausalRecipe(TrainingRecipe):
    """All settings of a training run of a dense causal model.

    Args:
        objective: the noising of an answer, and the attention.
        block_sizes: tokens of a block; each example draws one. The largest is the checkpoint's own.
        row_length: tokens of a row, into which examples are packed.
        fill: the part of the rows that examples fill on average; with more, some do not fit.
        weights: weights of the skills, if not their own: what is learnt late comes more often.
        rank: of the draft's matrices.
    """

    objective: Literal["wedlm", "masked", "draft"]
    hidden_size: int
    layers: int
    intermediate_size: int
    block_sizes: tuple[int, ...] = (16,)
    row_length: int = 320
    fill: float = 0.93
    weights: tuple[tuple[str, float], ...] = LATE
    rank: int = 0
    max_position_embeddings: int = 768
    max_new_tokens: int = 256  # the checkpoint's default

    @property
    def is_wedlm(self) -> bool:
        return self.objective == "wedlm"

    @property
    def model_type(self) -> str:
        """The family of the exported model."""
        return "wedlm" if self.is_wedlm else "nemotron_labs_diffusion"

    @property
    def rows(self) -> int:
        """Returns the rows per step, for packed examples of 121 tokens on average, both copies together."""
        return max(1, math.ceil(self.batch * 121 / (self.fill * self.row_length)))

    def feeds(self, trained: bool) -> list[Feed]:  # noqa: ARG002
        return [Feed("text", 1, self.rows)]

    def model_config(self) -> CausalConfig:
        heads = self.hidden_size // HEAD_DIM
        layer = LayerConfig("full_attention", HEAD_DIM, math.gcd(heads, 2), 10_000.0, 1.0)
        return CausalConfig(
            vocab_size=128,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_attention_heads=heads,
            layers=(layer,) * self.layers,
            sliding_window=self.max_position_embeddings,
            num_experts=0,
            top_k_experts=0,
            moe_intermediate_size=0,
            canvas_length=max(self.block_sizes),
            max_position_embeddings=self.max_position_embeddings,
            rms_norm_eps=1e-6 if self.is_wedlm else 1e-5,
            query_key_norm=self.is_wedlm,
            tied=True,
            mask_token_id=MASK,
        )


WEDLM = CausalRecipe(
    name="wedlm",
    objective="wedlm",
    hidden_size=192,
    layers=6,
    intermediate_size=320,
    batch=64,
    steps=10_000,
)
MASKED = dataclasses.replace(WEDLM, name="masked", objective="masked")
# Self-speculation begins with windows of 8 and doubles them. The matrices' output is scaled up, so the rate is low.
DRAFT = dataclasses.replace(
    MASKED, name="draft", objective="draft", block_sizes=(8, 16), rank=16, muon_lr=0.005, steps=1500
)
CAUSAL_RECIPES = {recipe.name: recipe for recipe in (WEDLM, MASKED, DRAFT)}
