"""The model's certainty of each token of an answer, from the last pass that predicted it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.events import StepFinished
from engine.service import LoadedModel
from engine.types import Tokens

NOT_AMONG_TOP = -9999.0  # OpenAI's value for a token that is not among the likeliest


@dataclass(frozen=True)
class TokenChance:
    """A token with its natural logarithm of probability, and the likeliest tokens in its place, likeliest first."""

    token: int
    text: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()

    def as_chat(self) -> dict[str, Any]:
        """Returns it as chat completions write it."""
        top = [_entry(text, logprob) for _, text, logprob in self.top]
        return {**_entry(self.text, self.logprob), "top_logprobs": top}


class Predictions:
    """The likeliest tokens at each place of the newest block, from the last step that predicted it."""

    def __init__(self) -> None:
        self._block = -1
        self._rows: dict[int, tuple[Tokens, NDArray[np.float32]]] = {}  # by place: (K,) each

    def fold(self, step: StepFinished) -> None:
        if step.block_index != self._block:
            self._block, self._rows = step.block_index, {}
        if step.top_tokens is None or step.top_probabilities is None:
            return
        is_one = (step.top_tokens == step.top_tokens[:, :1]).all(axis=1) & (step.top_tokens.shape[1] > 1)
        for place in np.flatnonzero(~is_one).tolist():  # at other places nothing was predicted
            self._rows[place] = step.top_tokens[place], step.top_probabilities[place]

    def chances(self, tokens: Sequence[int], most: int, model: LoadedModel) -> list[TokenChance]:
        """Returns the first tokens of the block, with at most ``most`` alternatives each."""
        found = []
        for place, token in enumerate(tokens):
            ids, shares = (part.tolist() for part in self._rows.get(place, (np.empty(0), np.empty(0))))
            known = {id: math.log(share) if share > 0 else NOT_AMONG_TOP for id, share in zip(ids, shares, strict=True)}
            top = tuple((id, model.piece(id), logprob) for id, logprob in list(known.items())[:most])
            found.append(TokenChance(token, model.piece(token), known.get(token, NOT_AMONG_TOP), top))
        return found


def _entry(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}
