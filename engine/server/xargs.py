"""Options of diffusion models in ``vllm_xargs``: steps and canvas by vLLM's names, and ours.

Ours are ``diffusion_stall_steps``, as in ``GenerationConfig``, and mlx-vlm's ``diffusion_sampler`` with
``diffusion_threshold`` for the acceptance rule and its number, and ``diffusion_min_canvas_length``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engine.config import ACCEPTANCE, THRESHOLD_OF, GenerationConfig
from engine.errors import SafelightError, quoted
from engine.server.errors import ApiError, unsupported
from engine.service import LoadedModel

OF_DENOISED = ("sampler", "threshold", "stall_steps")  # of blocks that are denoised, in runs with others, too
NAMES = ("max_steps", "canvas_length", "min_canvas_length", *OF_DENOISED)
PREFIX = "diffusion_"


def apply_xargs(config: GenerationConfig, xargs: Mapping[str, Any], model: LoadedModel) -> GenerationConfig:
    """Returns the settings with the changes of ``vllm_xargs``.

    Raises:
        ApiError: an unknown name, or a value that does not fit the model.
    """
    unknown = [name for name in xargs if name.removeprefix(PREFIX) not in NAMES or not name.startswith(PREFIX)]
    if unknown:
        known = ", ".join(PREFIX + name for name in NAMES)
        raise ApiError(400, f"vllm_xargs: {quoted(unknown[0])} is not known; use {known}.", param="vllm_xargs")
    values = {name.removeprefix(PREFIX): value for name, value in xargs.items()}
    taken = ("canvas_length", *OF_DENOISED) if config.denoises else ("canvas_length",)
    if not config.is_block_diffusion and not values.keys() <= set(taken):
        raise unsupported(
            f"Of vllm_xargs, these decoders only take {', '.join(PREFIX + name for name in taken)}.", "vllm_xargs"
        )
    changes: dict[str, Any] = {}
    if "max_steps" in values:
        changes["max_denoising_steps"] = _whole(values, "max_steps", 1, config.max_denoising_steps)
    if "canvas_length" in values:
        changes["canvas_length"] = _whole(values, "canvas_length", 1, model.canvas_length)
    if "min_canvas_length" in values:
        changes["smallest_canvas"] = _whole(values, "min_canvas_length", 1, model.canvas_length)
    if "stall_steps" in values:
        changes["stall_steps"] = _whole(values, "stall_steps", 0, 1_000)
    changes |= _accepting(values, config)
    try:
        return config.replace(**changes)
    except SafelightError as error:
        raise ApiError(400, f"vllm_xargs: {error}.", param="vllm_xargs") from None


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
