"""The sampler settings that a request asks for: OpenAI's fields, vLLM's ``vllm_xargs`` and mlx-vlm's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engine.config import GenerationConfig
from engine.decoders import ACCEPTANCE, BLOCK_DIFFUSION
from engine.decoding.names import names_of
from engine.errors import SafelightError, quoted
from engine.server.errors import UNSUPPORTED, ApiError, refusing, unsupported
from engine.server.schemas import SampledRequest
from engine.service import LoadedModel
from engine.settings import CliOption, declared

COLDEST = 0.5
"""The share of the model's own temperatures for a temperature of 0; 1 is all of them.

At a quarter and below, entropies vanish, everything is accepted within two steps, and answers get worse. On held-out
tasks of sorting letters 93.7 % of the embedded model's answers are then exact, not 97.3 % as with a half.
"""

PREFIX = "diffusion_"
XARGS = {PREFIX + option.xarg: name for name, option in declared(GenerationConfig, CliOption).items() if option.xarg}
"""The settings by the names that ``vllm_xargs`` have for them: vLLM's for canvas and steps, mlx-vlm's for the rule."""
THRESHOLD, CANVAS_LENGTH = PREFIX + "threshold", PREFIX + "canvas_length"  # the former is the acceptance rule's
NAMES = (*XARGS, THRESHOLD)


Changes = dict[str, tuple[Any, str, str]]
"""Values by setting, each with the name that the request has for it, and the field that is at fault if it is wrong."""


def config_of(
    body: SampledRequest, model: LoadedModel, config: GenerationConfig, top_logprobs: int | None
) -> GenerationConfig:
    """Returns the model's settings, ``config``, with the requested changes, without the length.

    Raises:
        ApiError: a value does not fit the model.
    """
    config = config.replace(thinking_tokens=body.thinking_token_budget, **_decoding(body, model))
    own = (body.diffusion_sampler, body.diffusion_min_canvas_length, body.threshold)  # as mlx-vlm has them
    names = (PREFIX + "sampler", PREFIX + "min_canvas_length", THRESHOLD)
    asked = {name: value for name, value in zip(names, own, strict=True) if value is not None}
    changes = _drawn(body, config) | _of_xargs(config, asked | (body.vllm_xargs or {}), model)
    if top_logprobs is not None:
        changes["top_k"] = (max(config.top_k, top_logprobs, 1), "top_logprobs", "top_logprobs")
    try:
        return config.replace(**{field: value for field, (value, _, _) in changes.items()})
    except SafelightError as error:
        field = str(error).partition(" ")[0]
        _, name, param = changes.get(field, (None, field, field))
        raise ApiError(400, f"{name}{str(error).removeprefix(field)}.", param=param) from None


def _decoding(body: SampledRequest, model: LoadedModel) -> dict[str, Any]:
    """Returns the requested decoder, else the model's own by name, "" for block diffusion; and whether it thinks by
    token."""
    name, own = body.decoder, next(iter(model.decoders), "")
    if name is not None and name not in model.decoders:
        known = ", ".join(model.decoders)
        raise ApiError(400, f"{quoted(name)} is not a decoder of this model; use {known}.", param="decoder")
    found: dict[str, Any] = {"decoder": ("" if own == BLOCK_DIFFUSION else own) if name is None else name}
    if body.token_thoughts:
        found["token_thoughts"] = True
    with refusing("token_thoughts" if body.token_thoughts else "decoder", UNSUPPORTED):
        names_of(GenerationConfig(**found), model.decoders)
    return found


def _drawn(body: SampledRequest, config: GenerationConfig) -> Changes:
    """Returns the settings by which tokens are drawn, from OpenAI's fields; block diffusion is warmed or cooled."""
    warmth = body.temperature
    fields = {
        "sampling_temperature": None if config.is_block_diffusion else warmth,
        "sampling_top_p": body.top_p,
        "sampling_top_k": 0 if body.top_k == -1 else body.top_k,
        "sampling_min_p": body.min_p,
        "repetition_penalty": body.repetition_penalty,
    }
    if config.is_block_diffusion and fields.pop("repetition_penalty") not in (None, 1):
        body.ignored.add("repetition_penalty")
    if config.denoises and warmth not in (None, 1):
        share = warmth if warmth > 1 else COLDEST + (1 - COLDEST) * warmth
        fields |= {"t_max": config.t_max * share, "t_min": config.t_min * share}
    names = {field: field.removeprefix("sampling_") for field in fields}
    return {field: (value, names[field], names[field]) for field, value in fields.items() if value is not None}


def _of_xargs(config: GenerationConfig, xargs: Mapping[str, Any], model: LoadedModel) -> Changes:
    """Returns the changes of ``vllm_xargs``.

    Raises:
        ApiError: an unknown name, or a value that does not fit the model.
    """
    if unknown := [name for name in xargs if name not in NAMES]:
        known = ", ".join(NAMES)
        raise ApiError(400, f"vllm_xargs: {quoted(unknown[0])} is not known; use {known}.", param="vllm_xargs")
    if not config.denoises and xargs.keys() - {CANVAS_LENGTH}:
        raise unsupported(f"Of vllm_xargs, this decoder only takes {CANVAS_LENGTH}.", "vllm_xargs")
    values = {name: _read(value) for name, value in xargs.items()}
    sampler = values.get(PREFIX + "sampler")
    rule = ACCEPTANCE[sampler if isinstance(sampler, str) and sampler in ACCEPTANCE else config.acceptance]
    most = {"max_denoising_steps": config.max_denoising_steps, "accept_probability": 1}
    most |= dict.fromkeys(("canvas_length", "smallest_canvas"), model.canvas_length)
    found: Changes = {}
    for name, value in values.items():
        field, param = XARGS.get(name) or rule.threshold, f"vllm_xargs.{name}"
        if field in most and isinstance(value, int | float) and value > most[field]:
            raise ApiError(400, f"{name} must be at most {most[field]}, not {value}.", param=param)
        found[field] = value, name, param
    return found


def _read(value: Any) -> Any:
    """Returns a value that may be sent as text."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?", value):
        return float(value) if "." in value else int(value)
    return value.replace("-", "_")
