"""Which way of decoding a run has, by its settings and by what its model's family has. Knows no tensors."""

from __future__ import annotations

from collections.abc import Sequence

from engine.config import BLOCK_DIFFUSION, GenerationConfig
from engine.errors import SafelightError, quoted


def decoder_name(name: str, decoders: Sequence[str], own: str) -> str:
    """The name of a decoder.

    Args:
        name: that is asked for; "" takes ``own``.
        decoders: that the model's family has.

    Raises:
        SafelightError: the family does not have it.
    """
    if name and name not in decoders:
        raise SafelightError(f"unknown decoder {quoted(name)}; this model has {', '.join(decoders)}")
    return name or own


def require_diffusion(config: GenerationConfig, decoders: Sequence[str], what: str) -> None:
    """
    Raises:
        SafelightError: ``what`` takes block diffusion, and the settings or the model's family have another decoder.
    """
    if not config.is_block_diffusion:
        raise SafelightError(f"{what} takes the decoder {BLOCK_DIFFUSION}; this run has {config.decoder}")
    decoder_name(BLOCK_DIFFUSION, decoders, "")
