"""The common beginning of runs that write a few tokens a pass: room behind the prompt, the mask token, their blocks."""

from __future__ import annotations

from engine.config import ModelConfig
from engine.decoding.run import Run
from engine.decoding.sampler import check_cells
from engine.decoding.written_blocks import WrittenBlocks
from engine.errors import SafelightError
from engine.models.causal.config import CausalConfig


def room_behind(run: Run) -> int:
    """Returns how many positions the model has behind the prompt, 1 or more.

    Raises:
        SafelightError: it has none.
    """
    length, most = len(run.prompt), run.model.config.max_position_embeddings
    if length >= most:
        raise SafelightError(
            f"the prompt is {length} tokens long and the model has {most} positions. Shorten the prompt"
        )
    return most - length


def required_mask(run: Run) -> int:
    """Returns the token id of a mask, for a decoder that begins with masks.

    Raises:
        SafelightError: the model has none, or there are settings of a canvas of noise.
    """
    mask = mask_of(run.model.config)
    refuse_noise(run)
    return mask


def mask_of(shape: ModelConfig) -> int:
    """Returns the token id of a model's mask.

    Raises:
        SafelightError: the model has none.
    """
    mask = _mask(shape)
    if mask is None:
        raise SafelightError("this model has no mask token, which this decoder needs; choose another one")
    return mask


def refuse_noise(run: Run) -> None:
    """Checks that a run has no settings of a canvas of noise.

    Raises:
        SafelightError: it has some.
    """
    if run.config.pinned:
        raise SafelightError("this decoder does not start from noise; leave out pinned")


def blocks_of(run: Run, *, in_order: bool = False) -> WrittenBlocks:
    """Returns the blocks of a run, none of them begun. Unwritten positions have the mask, or else padding.

    Args:
        in_order: see ``WrittenBlocks``.

    Raises:
        SafelightError: a pinned position outside the canvas, or a pinned token outside the vocabulary.
    """
    shape, config = run.model.config, run.config
    length, mask = config.canvas_length or shape.canvas_length, _mask(shape)
    check_cells("pinned", config.pinned, length, shape.vocab_size)
    filler = config.pad_token_id if mask is None else mask
    top_k, ends = min(config.top_k, shape.vocab_size), frozenset(config.eos_token_ids)
    return WrittenBlocks(length, filler, config.pad_token_id, top_k, ends, dict(config.pinned), in_order)


def _mask(shape: ModelConfig) -> int | None:
    return shape.mask_token_id if isinstance(shape, CausalConfig) else None
