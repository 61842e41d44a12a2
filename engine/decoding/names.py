"""The decoder of a run, by its settings and by the decoders of its model's family. Knows no tensors."""

from __future__ import annotations

from collections.abc import Sequence

from engine.config import BLOCK_DIFFUSION, REMASKING_OF, GenerationConfig
from engine.errors import SafelightError, quoted

BY_TOKEN = "autoregressive"
INFILLING = (BLOCK_DIFFUSION, "bidirectional")
"""The decoders that can write spans of finished text anew."""
MEASURING = (BLOCK_DIFFUSION, "bidirectional")
"""The decoders in whose runs the influence of a token can be measured."""
FORKING = (BLOCK_DIFFUSION, "bidirectional", "block_causal", "sub_blocks", "masked_diffusion")
"""The decoders whose runs can be forked."""
DECIDING = (BLOCK_DIFFUSION, "bidirectional", "block_causal")
"""The decoders whose models answer from a canvas, in one step."""
FORMATTING = (BLOCK_DIFFUSION, "autoregressive", "bidirectional", "block_causal", "sub_blocks")
"""The decoders that can hold an answer to a format."""
FREE_UP_TO_CALLS = (BLOCK_DIFFUSION, "autoregressive")
"""Those of them that write a text in front of a call no slower than without the format."""

BOUNDING = ("autoregressive", "masked_diffusion", "self_speculation", "block_causal", "sub_blocks")
"""The decoders that can bound a thought."""


def names_of(config: GenerationConfig, decoders: Sequence[str], own: str) -> tuple[str, str]:
    """Returns the names of the decoder of thoughts, and of the decoder of all else.

    Args:
        decoders: of the model's family.
        own: the family's default one.

    Raises:
        SafelightError: the family does not have the requested one, or thoughts cannot be written token by token.
    """
    if config.decoder and config.decoder not in decoders:
        raise SafelightError(f"unknown decoder {quoted(config.decoder)}; this model has {', '.join(decoders)}")
    answer = config.decoder or own
    if not config.token_thoughts:
        return answer, answer
    if answer != BLOCK_DIFFUSION or BY_TOKEN not in decoders:
        raise SafelightError(f"thinking token by token needs a model with {BLOCK_DIFFUSION}; leave it out")
    return BY_TOKEN, answer


def formatting(config: GenerationConfig, decoders: Sequence[str], own: str) -> str:
    """Returns the decoder of a run with a format: the requested one, else the model's own if that can hold a format.

    Args:
        decoders, own: as ``names_of`` takes them.

    Raises:
        SafelightError: none of the family's can, or the run asks for another.
    """
    can = [name for name in decoders if name in FORMATTING]
    thought, answer = names_of(config, decoders, own)
    if not can:
        raise SafelightError("this model cannot follow a format; describe it in the prompt")
    if not (config.decoder or config.token_thoughts) and own not in can:
        return can[0]
    for name in (thought, answer):
        if name not in can or thought != answer:
            raise SafelightError(f"a format needs the decoder {' or '.join(can)}, and this run uses {name}")
    return answer


def require_thoughts(
    config: GenerationConfig, decoders: Sequence[str], own: str, *, has_end: bool, thinks: bool
) -> None:
    """Checks that a run with a bound on its thinking has thoughts.

    Args:
        decoders, own: as ``names_of`` takes them.
        has_end: the model has a token that ends a thought.

    Raises:
        SafelightError: the run has no thoughts, or its decoder does not bound them.
    """
    if config.thinking_tokens is None:
        return
    for name in names_of(config, decoders, own):
        if name not in BOUNDING:
            known = ", ".join(BOUNDING)
            raise SafelightError(f"the decoder {name} cannot limit thinking, only {known} can; leave out the limit")
    if not has_end:
        raise SafelightError("this model has no token that ends a thought; leave out the limit of thinking")
    if not thinks:
        raise SafelightError("this run does not think; ask the model to think, or leave out the limit of thinking")


def is_written_by(config: GenerationConfig, decoders: Sequence[str]) -> bool:
    """True if the decoders that a record names are among these."""
    return (config.decoder or BLOCK_DIFFUSION) in decoders and (BY_TOKEN in decoders or not config.token_thoughts)


def require_rule(config: GenerationConfig, decoder: str) -> None:
    """Checks that a decoder has the rule by which a run chooses its masks.

    Raises:
        SafelightError: it does not.
    """
    known = REMASKING_OF[decoder]
    if config.remasking not in known:
        raise SafelightError(
            f"the decoder {decoder} has no remasking {quoted(config.remasking)}, only {', '.join(known)}"
        )


def require_diffusion(
    config: GenerationConfig, decoders: Sequence[str], own: str, what: str, can: Sequence[str] = (BLOCK_DIFFUSION,)
) -> str:
    """Returns the decoder of a run that does ``what``, which only the decoders in ``can`` do.

    Raises:
        SafelightError: it uses another decoder.
    """
    thought, answer = names_of(config, decoders, own)
    for name in (thought, answer):
        if name not in can:
            known = f"{', '.join(can[:-1])} or {can[-1]}" if can[1:] else can[0]
            raise SafelightError(f"{what} needs the decoder {known}, and this run uses {name}")
    return answer
