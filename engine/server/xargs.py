"""Options of diffusion models in ``vllm_xargs``: by vLLM's names (vllm/utils/diffusion.py of vLLM 0.33), and ours.

Ours are ``diffusion_stall_steps``, as in ``GenerationConfig``, and mlx-vlm's ``diffusion_sampler`` with
``diffusion_threshold`` for the acceptance rule and its number, and ``diffusion_min_canvas_length``. With constrained
tokens vLLM still draws noise from the whole vocabulary; this engine draws it from the allowed tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.config import ACCEPTANCE, THRESHOLD_OF, GenerationConfig
from engine.errors import SafelightError, quoted
from engine.files import parse_json
from engine.server.errors import ApiError, unsupported
from engine.service import LoadedModel

OF_DENOISED = ("sampler", "threshold", "stall_steps")  # of blocks that are denoised, in runs with others, too
NAMES = (
    "seed_canvas",
    "pinned",
    "max_steps",
    "canvas_length",
    "min_canvas_length",
    "read_only",
    "constrained",
    *OF_DENOISED,
)
PREFIX = "diffusion_"


def apply_xargs(
    config: GenerationConfig, xargs: Mapping[str, Any], allowed: Sequence[int] | None, model: LoadedModel
) -> GenerationConfig:
    """Returns the settings with the changes of ``vllm_xargs`` and ``logprob_token_ids``.

    Raises:
        ApiError: an unknown name, or a value that does not fit the model.
    """
    unknown = [name for name in xargs if name.removeprefix(PREFIX) not in NAMES or not name.startswith(PREFIX)]
    if unknown:
        known = ", ".join(PREFIX + name for name in NAMES)
        raise ApiError(400, f"vllm_xargs: {quoted(unknown[0])} is not known; use {known}.", param="vllm_xargs")
    values = {name.removeprefix(PREFIX): value for name, value in xargs.items()}
    taken = ("canvas_length", *OF_DENOISED) if config.denoises else ("canvas_length",)
    if not config.is_block_diffusion and (not values.keys() <= set(taken) or allowed is not None):
        raise unsupported(
            f"Of vllm_xargs, these decoders only take {', '.join(PREFIX + name for name in taken)}; "
            "they take no logprob_token_ids.",
            "vllm_xargs" if values else "logprob_token_ids",
        )
    changes: dict[str, Any] = {}
    if "max_steps" in values:
        changes["max_denoising_steps"] = _whole(values, "max_steps", 1, config.max_denoising_steps)
    length = model.canvas_length
    if "canvas_length" in values:
        length = changes["canvas_length"] = _whole(values, "canvas_length", 1, model.canvas_length)
    if "min_canvas_length" in values:
        changes["smallest_canvas"] = _whole(values, "min_canvas_length", 1, model.canvas_length)
    if "stall_steps" in values:
        changes["stall_steps"] = _whole(values, "stall_steps", 0, 1_000)
    changes |= _accepting(values, config)
    seed = first_canvas(xargs, model)
    if seed:
        if len(seed) != length:
            raise _bad("seed_canvas", f"holds {len(seed)} tokens, and the canvas has {length}")
        changes["canvas_length"] = length
    if "pinned" in values:
        if not seed:
            raise _bad("pinned", "needs diffusion_seed_canvas, whose tokens it keeps")
        places = _tokens(values, "pinned", length)
        changes["pinned"] = tuple((place, seed[place]) for place in sorted(set(places)))
    if _flag(values, "constrained"):
        if allowed is None:
            raise _bad("constrained", "needs logprob_token_ids, the tokens that are allowed")
        if max(allowed) >= model.vocab_size:
            raise ApiError(
                400, "logprob_token_ids names a token that the model does not have.", param="logprob_token_ids"
            )
        changes["allowed_tokens"] = tuple(sorted(set(allowed)))
    elif allowed is not None:
        raise ApiError(
            400,
            "logprob_token_ids is taken with diffusion_constrained only; use logprobs.",
            param="logprob_token_ids",
        )
    if _flag(values, "read_only"):
        changes |= {"eos_token_ids": (), "max_new_tokens": length}
    try:
        return config.replace(**changes)
    except SafelightError as error:
        raise ApiError(400, f"vllm_xargs: {error}.", param="vllm_xargs") from None


def first_canvas(xargs: Mapping[str, Any], model: LoadedModel) -> tuple[int, ...]:
    """Returns the token ids that the first canvas begins as; none: it begins as noise.

    Raises:
        ApiError: they are no tokens of the model.
    """
    name = "seed_canvas"
    return _tokens({name: xargs[PREFIX + name]}, name, model.vocab_size) if PREFIX + name in xargs else ()


def is_read_only(xargs: Mapping[str, Any]) -> bool:
    """Returns True if a single canvas is read, whatever it holds."""
    return _flag({name.removeprefix(PREFIX): value for name, value in xargs.items()}, "read_only")


def _accepting(values: Mapping[str, Any], config: GenerationConfig) -> dict[str, Any]:
    """Returns the acceptance rule and its number: nats, or a probability."""
    found: dict[str, Any] = {}
    if "sampler" in values:
        name = values["sampler"]
        rule = name.replace("-", "_") if isinstance(name, str) else ""
        if rule not in ACCEPTANCE:
            raise _bad("sampler", f"must be one of {', '.join(ACCEPTANCE)}, not {quoted(name)}")
        found["acceptance"] = rule
    if "threshold" in values:
        rule = found.get("acceptance", config.acceptance)
        name = THRESHOLD_OF[rule]
        found[name] = _real(values, "threshold", 1 if name == "accept_probability" else 1_000)
    return found


def _bad(name: str, what: str) -> ApiError:
    return ApiError(400, f"{PREFIX}{name} {what}.", param=f"vllm_xargs.{PREFIX}{name}")


def _whole(values: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = values[name]
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _bad(name, f"must be a whole number from {low} to {high}, not {quoted(value)}")
    return value


def _real(values: Mapping[str, Any], name: str, high: int = 1) -> float:
    value = values[name]
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= high:
        raise _bad(name, f"must be a number from 0 to {high}, not {quoted(value)}")
    return float(value)


def _flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name, 0)
    if value in (0, 1, "0", "1"):
        return value in (1, "1")
    raise _bad(name, f"must be 0 or 1, not {quoted(value)}")


def _tokens(values: Mapping[str, Any], name: str, below: int) -> tuple[int, ...]:
    """Returns a list of whole numbers, given as such or as JSON."""
    value = values[name]
    if isinstance(value, str):
        try:
            value = parse_json(value, PREFIX + name)
        except SafelightError as error:
            raise _bad(name, f"is not a list ({error})") from None
    if not isinstance(value, list) or not value:
        raise _bad(name, "must be a list of whole numbers")
    for one in value:
        if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < below:
            raise _bad(name, f"must hold whole numbers from 0 to {below - 1}, not {quoted(json.dumps(one)[:40])}")
    return tuple(value)
