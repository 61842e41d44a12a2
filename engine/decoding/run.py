"""The facts of one run, which every decoder takes, and the checks before its first pass.

The last part takes the next tokens of an answer under a format: those that are forced, and those that are allowed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.protocols import BlockDenoiser, Decoding
from engine.errors import SafelightError
from engine.forks import Fork, check_seed
from engine.layers.kv_cache import KVCache
from engine.models.prompt import Prompt
from engine.pictures import BLIND
from engine.types import Cancel, Row

if TYPE_CHECKING:
    from engine.text.formatted_answer import FormattedAnswer  # imports a library that other runs do not need


@dataclass(frozen=True, eq=False)
class Run:
    """One generation: a model, a prompt, and everything that decides what is written behind it."""

    model: BlockDenoiser
    prompt: Tensor  # token ids (T,) on the CPU, T >= 1
    config: GenerationConfig
    seed: int
    cancel: Cancel | None
    cache: KVCache  # may hold the beginning of the prompt
    answer: FormattedAnswer | None = None  # the format that the text must fit; nothing of it is written yet
    changes: tuple[Fork, ...] = ()  # of a fork, in order of their places

    @staticmethod
    def from_ids(
        model: BlockDenoiser,
        prompt_ids: Sequence[int] | Tensor,
        config: GenerationConfig,
        seed: int = 0,
        cancel: Cancel | None = None,
        cache: KVCache | None = None,
        answer: FormattedAnswer | None = None,
    ) -> Run:
        """Returns a run of checked arguments, which are those of ``generate``.

        Raises:
            SafelightError: as ``prepared``; a seed that is out of range.
        """
        prompt, cache = prepared(model, prompt_ids, cache)
        check_seed(seed)
        return Run(model, prompt, config, seed, cancel, cache, answer)

    @property
    def canvas_length(self) -> int:
        own = self.model.config
        return self.config.canvas(own.canvas_length) if own.denoises else self.config.canvas_length or own.canvas_length

    def unpinned(self) -> Run:
        """Returns the run without the pins and the tokens of its first canvas; its canvases keep their length."""
        free = self.config.replace(pinned=(), canvas_length=self.canvas_length)
        return dataclasses.replace(self, config=free)

    @property
    def is_cancelled(self) -> bool:
        return self.cancel is not None and self.cancel.is_set()


Decoder: TypeAlias = Callable[[Run], Decoding[None]]
"""Takes a run to its end: yields its events, and the passes whose results it needs."""


def prepared(model: BlockDenoiser, prompt_ids: Sequence[int] | Tensor, cache: KVCache | None) -> tuple[Tensor, KVCache]:
    """Returns a prompt as a tensor (T,) and a cache that is bound to the model; a new one in place of None.

    Raises:
        SafelightError: the prompt is empty, or has images that this model cannot read; the cache is another model's.
    """
    ids = prompt_ids.ids if isinstance(prompt_ids, Prompt) else prompt_ids
    prompt, images = torch.as_tensor(ids, dtype=torch.long), prompt_ids.images if isinstance(prompt_ids, Prompt) else ()
    if prompt.dim() != 1 or prompt.numel() == 0:
        raise SafelightError("the prompt is empty; write something first")
    if images and model.config.vision is None:
        raise SafelightError(BLIND)
    cache = model.new_cache() if cache is None else cache
    cache.bind(model, model.config)
    cache.images = images
    return prompt, cache


def checked_rows(
    model: BlockDenoiser, committed: Sequence[Row], length: int, *, are_equal: bool = False
) -> tuple[Tensor, ...]:
    """Returns settled canvases as tensors (C,) on the CPU.

    Args:
        length: the largest C; with ``are_equal`` the only one.

    Raises:
        SafelightError: one is longer, empty or of another length, or has a token outside the vocabulary.
    """
    size = model.config.vocab_size
    rows = tuple(
        # A copy: arrays of a trace may be read-only.
        row.detach().to("cpu", torch.long) if isinstance(row, Tensor) else torch.from_numpy(np.array(row, np.int64))
        for row in committed
    )
    for block, row in enumerate(rows):
        if row.dim() != 1 or not (length if are_equal else 1) <= len(row) <= length:
            raise SafelightError(f"block {block} has the shape {tuple(row.shape)}; the canvas has {length} tokens")
        if not 0 <= int(row.min()) <= int(row.max()) < size:
            raise SafelightError(f"block {block} has a token outside the vocabulary of {size} tokens")
    return rows


def take_forced(answer: FormattedAnswer, room: int) -> list[int]:
    """Takes the tokens that the format forces, at most ``room`` of them."""
    forced = list[int]()
    while len(forced) < room:
        wanted = answer.forced()[: room - len(forced)]
        taken = answer.take(wanted)
        forced += wanted[:taken]
        if not taken:
            break
    return forced


def allowed_next(
    answer: FormattedAnswer, forbidden: Tensor | None, wanted: int, ends: Collection[int]
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


def take_chosen(answer: FormattedAnswer, token: int) -> list[int]:
    """Takes an allowed token; returns none where the answer fails at it, or where it only ends a thought.

    Raises:
        SafelightError: the format does not take it.
    """
    was_free = answer.is_free
    taken = answer.take([token])
    if not (taken or answer.failure or was_free):
        raise SafelightError("the answer cannot follow its format; make the format simpler")
    return [token][:taken]
