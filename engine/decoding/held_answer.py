"""Takes the next tokens of an answer under a format: those that are forced, and those that are allowed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import SafelightError


class AnswerReader(Protocol):
    """An answer and the format that it must fit; see ``engine.text.formatted_answer``."""

    @property
    def has_ended(self) -> bool: ...
    @property
    def must_end(self) -> bool: ...
    @property
    def has_called(self) -> bool: ...
    @property
    def is_free(self) -> bool: ...
    @property
    def failure(self) -> str: ...
    def take(self, ids: Sequence[int]) -> int: ...
    def forced(self) -> list[int]: ...
    def allowed(self) -> NDArray[np.bool_]: ...
    def closing(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]: ...


def take_forced(answer: AnswerReader, room: int) -> list[int]:
    """Takes the tokens that the format forces, at most ``room`` of them."""
    found = list[int]()
    while len(found) < room:
        wanted = answer.forced()[: room - len(found)]
        taken = answer.take(wanted)
        found += wanted[:taken]
        if not taken:
            break
    return found


def allowed_next(
    answer: AnswerReader, forbidden: Tensor | None, wanted: int, ends: Collection[int]
) -> NDArray[np.bool_]:
    """Returns a mask (V,) of the tokens that may come next; all False where the answer has failed.

    Where the model wants to end the text, or to write something else after a call than a call, only those are left
    that bring the answer to its end.

    Args:
        forbidden: (V,) True for tokens that the run's settings ban.
        wanted: the model's own next token. ends: tokens that end a text, or stand behind its end.

    Raises:
        SafelightError: no token is left.
    """
    mask = answer.allowed()
    if forbidden is not None:
        mask &= ~forbidden.cpu().numpy()
    if wanted in ends or (answer.has_called and not mask[wanted]):
        mask = answer.closing(mask)
    if not mask.any() and not answer.failure:
        raise SafelightError("the answer cannot follow its format: this model has no token for what must come next")
    return mask


def take_chosen(answer: AnswerReader, token: int) -> list[int]:
    """Takes an allowed token; returns none where the answer fails at it, or where it only ends a thought.

    Raises:
        SafelightError: the format does not take it.
    """
    was_free = answer.is_free
    taken = answer.take([token])
    if not (taken or answer.failure or was_free):
        raise SafelightError("the answer cannot follow its format; make the format simpler")
    return [token][:taken]
