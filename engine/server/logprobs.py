"""How sure the model was of each token of an answer, from the last denoising step of its block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.events import StepFinished
from engine.service import LoadedModel

NOT_AMONG_TOP = -9999.0  # as OpenAI writes a token that is not among the likeliest


@dataclass(frozen=True)
class TokenChance:
    """A token with its natural logarithm of probability, and the likeliest tokens in its place, likeliest first."""

    token: int
    text: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()

    def as_chat(self) -> dict[str, Any]:
        """As chat completions write it."""
        top = [_entry(text, logprob) for _, text, logprob in self.top]
        return {**_entry(self.text, self.logprob), "top_logprobs": top}


def chances(tokens: Sequence[int], step: StepFinished, most: int, model: LoadedModel) -> list[TokenChance]:
    """Of the first tokens of a block, with at most ``most`` alternatives each."""
    found = []
    for place, token in enumerate(tokens):
        known: dict[int, float] = {}
        if step.top_tokens is not None and step.top_probabilities is not None:
            ids, shares = step.top_tokens[place].tolist(), step.top_probabilities[place].tolist()
            known = {id: math.log(share) if share > 0 else NOT_AMONG_TOP for id, share in zip(ids, shares, strict=True)}
        top = tuple((id, model.piece(id), logprob) for id, logprob in list(known.items())[:most])
        found.append(TokenChance(token, model.piece(token), known.get(token, NOT_AMONG_TOP), top))
    return found


def _entry(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}
