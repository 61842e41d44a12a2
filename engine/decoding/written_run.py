"""What runs that write a few tokens a pass begin with: room behind the prompt, the mask token, their blocks."""

from __future__ import annotations

from engine.config import GenerationConfig, ModelConfig
from engine.decoding.sampler import check_cells
from engine.decoding.written_blocks import WrittenBlocks
from engine.errors import SafelightError
from engine.models.causal.config import CausalConfig


def room_behind(shape: ModelConfig, prompt_length: int) -> int:
    """Positions that a model has behind a prompt, 1 or more.

    Raises:
        SafelightError: it has none.
    """
    room = shape.max_position_embeddings - prompt_length
    if room < 1:
        raise SafelightError(
            f"the prompt is {prompt_length} tokens long and the model has {shape.max_position_embeddings} positions. "
            "Shorten the prompt"
        )
    return room


def required_mask(shape: ModelConfig, config: GenerationConfig) -> int:
    """The token id of a mask, for a decoder that begins with masks.

    Raises:
        SafelightError: the model has none, or there are settings of a canvas of noise.
    """
    mask = _mask(shape)
    if mask is None:
        raise SafelightError("this model has no mask token, which this decoder needs; choose another one")
    if config.pinned or config.seed_canvas is not None:
        raise SafelightError("this decoder does not begin with noise; leave out pinned and seed_canvas")
    return mask


def blocks_of(shape: ModelConfig, config: GenerationConfig, *, in_order: bool = False) -> WrittenBlocks:
    """The blocks of a run, none of them begun. Where nothing is written they have the mask, or else padding.

    Args:
        in_order: see ``WrittenBlocks``.

    Raises:
        SafelightError: a pinned position outside the canvas, or a pinned token outside the vocabulary.
    """
    length, mask = config.canvas_length or shape.canvas_length, _mask(shape)
    check_cells("pinned", config.pinned, length, shape.vocab_size)
    filler = config.pad_token_id if mask is None else mask
    top_k, ends = min(config.top_k, shape.vocab_size), frozenset(config.eos_token_ids)
    return WrittenBlocks(length, filler, config.pad_token_id, top_k, ends, dict(config.pinned), in_order)


def _mask(shape: ModelConfig) -> int | None:
    return shape.mask_token_id if isinstance(shape, CausalConfig) else None
