"""The decoder of a run, by its settings and by the decoders of its model, the model's own first. Knows no tensors."""

from __future__ import annotations

from collections.abc import Sequence

from engine.config import GenerationConfig
from engine.decoders import BLOCK_DIFFUSION, BY_TOKEN, DECODERS, Ability, able, decoders_that
from engine.errors import SafelightError, quoted


def names_of(config: GenerationConfig, decoders: Sequence[str]) -> tuple[str, str]:
    """Returns the names of the decoder of thoughts, and of the decoder of all else.

    Raises:
        SafelightError: the model does not have the requested one, or thoughts cannot be written token by token.
    """
    if config.decoder and config.decoder not in decoders:
        raise SafelightError(f"unknown decoder {quoted(config.decoder)}; this model has {', '.join(decoders)}")
    answer = config.decoder or next(iter(decoders), "")
    if not config.token_thoughts:
        return answer, answer
    if answer != BLOCK_DIFFUSION or BY_TOKEN not in decoders:
        raise SafelightError(f"thinking token by token needs a model with {BLOCK_DIFFUSION}; leave it out")
    return BY_TOKEN, answer


def formatting(config: GenerationConfig, decoders: Sequence[str]) -> str:
    """Returns the decoder of a run with a format: the requested one, else the first of the model's that can hold one.

    Raises:
        SafelightError: none of the model's can, or the run asks for another.
    """
    can = [name for name in decoders if able(name, "formats")]
    thought, answer = names_of(config, decoders)
    if not can:
        raise SafelightError("this model cannot follow a format; describe it in the prompt")
    if not config.decoder and thought == answer:
        return can[0]
    for name in (thought, answer):
        if name not in can or thought != answer:
            raise SafelightError(f"a format needs the decoder {' or '.join(can)}, and this run uses {name}")
    return answer


def require_thoughts(config: GenerationConfig, decoders: Sequence[str], *, has_end: bool, thinks: bool) -> None:
    """Checks that a run with a bound on its thinking has thoughts.

    Args:
        has_end: the model has a token that ends a thought.

    Raises:
        SafelightError: the run has no thoughts, or its decoder does not bound them.
    """
    if config.thinking_tokens is None:
        return
    for name in names_of(config, decoders):
        if not able(name, "bounds thoughts"):
            known = ", ".join(decoders_that("bounds thoughts"))
            raise SafelightError(f"the decoder {name} cannot limit thinking, only {known} can; leave out the limit")
    if not has_end:
        raise SafelightError("this model has no token that ends a thought; leave out the limit of thinking")
    if not thinks:
        raise SafelightError("this run does not think; ask the model to think, or leave out the limit of thinking")


def is_able(config: GenerationConfig, ability: Ability) -> bool:
    """Says if all decoders that a record names can do something."""
    return able(config.decoder, ability) and (able(BY_TOKEN, ability) or not config.token_thoughts)


def require_rule(config: GenerationConfig, decoder: str) -> None:
    """Checks that a decoder has the rule by which a run chooses its masks.

    Raises:
        SafelightError: it does not.
    """
    known = DECODERS[decoder].remasking
    if config.remasking not in known:
        raise SafelightError(
            f"the decoder {decoder} has no remasking {quoted(config.remasking)}, only {', '.join(known)}"
        )


def require_able(config: GenerationConfig, decoders: Sequence[str], what: str, ability: Ability | None = None) -> str:
    """Returns the decoder of a run that does ``what``, for which it needs an ability; None: it is block diffusion.

    Raises:
        SafelightError: it uses a decoder that cannot.
    """
    can = (BLOCK_DIFFUSION,) if ability is None else decoders_that(ability)
    thought, answer = names_of(config, decoders)
    for name in (thought, answer):
        if name not in can:
            known = f"{', '.join(can[:-1])} or {can[-1]}" if can[1:] else can[0]
            raise SafelightError(f"{what} needs the decoder {known}, and this run uses {name}")
    return answer
