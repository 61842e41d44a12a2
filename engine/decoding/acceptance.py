"""Rules for which places of a canvas keep their token after a step. Pure functions; C positions.

A rule reads what a step predicts and the places that are kept already. Places that it does not accept are re-noised.
``entropy_bound`` is DiffusionGemma's: it judges all places anew in each step. With the others an accepted place stays
as it is, and takes the likeliest token; a block ends once all of its places are kept. Its text is still the last step's
argmax canvas, so that a later step may correct what an earlier one kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoders import ACCEPTANCE
from engine.decoding import sampling
from engine.kernels.reference_step import VocabularyResult


@dataclass(frozen=True)
class OfLogits:
    """The predictions of temperature-scaled logits (C, V); each is computed when it is first read."""

    logits: Tensor
    candidate: Tensor

    @cached_property
    def argmax(self) -> Tensor:
        return self.logits.argmax(dim=-1)

    @cached_property
    def entropy(self) -> Tensor:
        return sampling.token_entropy(self.logits)

    @cached_property
    def probability(self) -> Tensor:
        return (self.logits.amax(dim=-1) - self.logits.logsumexp(dim=-1)).exp()


StepPrediction: TypeAlias = OfLogits | VocabularyResult
"""The predictions of a step, each (C,): the token that was drawn, the likeliest one, entropy in nats, and the likeliest
token's probability at the step's temperature."""


class Accepted(NamedTuple):
    """The choice of a rule."""

    candidates: Tensor  # (C,) int64, the token of each place
    mask: Tensor  # (C,) bool, True where it is kept; the other places are re-noised
    is_finished: Tensor  # () bool, True if the canvas is complete by this rule


Accept = Callable[[StepPrediction, Tensor, Tensor, float], Accepted]
"""What a step predicts, the tokens (C,) that it has read, the places (C,) that stay as they are there, the threshold ->
the places that keep their token."""


def entropy_bound(prediction: StepPrediction, _canvas: Tensor, _kept: Tensor, bound: float) -> Accepted:
    """DiffusionGemma's rule: the surest places, while the entropies of those before them stay within a bound in nats.

    Nothing is kept from step to step.
    """
    mask = sampling.accept_mask(prediction.entropy, bound)
    return Accepted(prediction.candidate, mask, torch.zeros((), dtype=torch.bool, device=mask.device))


def entropy_bound_kept(prediction: StepPrediction, canvas: Tensor, kept: Tensor, bound: float) -> Accepted:
    """The entropy bound for places that are not kept yet (Ben-Hamu et al. 2025, arXiv 2505.24857)."""
    left = prediction.entropy.masked_fill(kept, -1.0).clamp_min(0.0)
    return _kept(prediction, canvas, kept, kept | sampling.accept_mask(left, bound))


def confidence_threshold(prediction: StepPrediction, canvas: Tensor, kept: Tensor, probability: float) -> Accepted:
    """Places whose likeliest token has a probability, at least the surest (mlx-vlm's rule at its temperature 0)."""
    left = prediction.probability.masked_fill(kept, -1.0)
    sure = left >= probability
    surest = torch.arange(len(left), device=left.device) == left.argmax()
    return _kept(prediction, canvas, kept, kept | sure | (surest & ~sure.any()))


def _kept(prediction: StepPrediction, canvas: Tensor, kept: Tensor, mask: Tensor) -> Accepted:
    return Accepted(torch.where(kept, canvas, prediction.argmax), mask, mask.all())


RULES: dict[str, Accept] = {rule.__name__: rule for rule in (entropy_bound, entropy_bound_kept, confidence_threshold)}
"""The functions of ``decoders.ACCEPTANCE``, by name."""


@dataclass(frozen=True)
class Rule:
    """A run's acceptance rule, with its threshold."""

    accept: Accept
    threshold: float
    keeps: bool  # an accepted place stays accepted to the canvas's last step

    def __call__(self, prediction: StepPrediction, canvas: Tensor, kept: Tensor) -> Accepted:
        return self.accept(prediction, canvas, kept, self.threshold)


def rule_of(config: GenerationConfig) -> Rule:
    """Returns the rule that a run's settings name."""
    rule = ACCEPTANCE[config.acceptance]
    return Rule(RULES[rule.name], getattr(config, rule.threshold), rule.keeps)
