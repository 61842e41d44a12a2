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
from engine.server.schemas import OF_SAMPLING, SampledRequest
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


def config_of(
    body: SampledRequest, model: LoadedModel, config: GenerationConfig, top_logprobs: int | None
) -> GenerationConfig:
    """Returns the model's settings, ``config``, with the requested changes, without the length.

    Raises:
        ApiError: a value does not fit the model.
    """
    config = config.replace(**_decoding(body, model))
    if config.is_block_diffusion:
        body.pass_over(OF_SAMPLING)
    config = _sampled(body, config)
    if config.denoises:
        config = _warmed(body, config)
    config = config.replace(thinking_tokens=body.thinking_token_budget)
    if top_logprobs is not None:
        config = config.replace(top_k=max(config.top_k, top_logprobs, 1))
    own = (body.diffusion_sampler, body.diffusion_min_canvas_length, body.threshold)  # as mlx-vlm has them
    names = (PREFIX + "sampler", PREFIX + "min_canvas_length", THRESHOLD)
    asked = {name: value for name, value in zip(names, own, strict=True) if value is not None}
    return apply_xargs(config, asked | (body.vllm_xargs or {}), model)


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


def _warmed(body: SampledRequest, config: GenerationConfig) -> GenerationConfig:
    """Returns the settings of block diffusion at a temperature."""
    if body.temperature is None or body.temperature == 1:
        return config
    share = body.temperature if body.temperature > 1 else COLDEST + (1 - COLDEST) * body.temperature
    return config.replace(t_max=config.t_max * share, t_min=config.t_min * share)


def _sampled(body: SampledRequest, config: GenerationConfig) -> GenerationConfig:
    """Returns the settings by which tokens are drawn, from OpenAI's fields."""
    fields = {
        "sampling_temperature": None if config.is_block_diffusion else body.temperature,
        "sampling_top_p": body.top_p,
        "sampling_top_k": 0 if body.top_k == -1 else body.top_k,
        "sampling_min_p": body.min_p,
        "repetition_penalty": body.repetition_penalty,
    }
    for field, value in fields.items():
        if value is not None:
            name = field.removeprefix("sampling_")
            config = _set(config, field, value, name, name)
    return config


def apply_xargs(config: GenerationConfig, xargs: Mapping[str, Any], model: LoadedModel) -> GenerationConfig:
    """Returns the settings with the changes of ``vllm_xargs``.

    Raises:
        ApiError: an unknown name, or a value that does not fit the model.
    """
    if unknown := [name for name in xargs if name not in NAMES]:
        known = ", ".join(NAMES)
        raise ApiError(400, f"vllm_xargs: {quoted(unknown[0])} is not known; use {known}.", param="vllm_xargs")
    if not config.denoises and xargs.keys() - {CANVAS_LENGTH}:
        raise unsupported(f"Of vllm_xargs, this decoder only takes {CANVAS_LENGTH}.", "vllm_xargs")
    most = {"max_denoising_steps": config.max_denoising_steps, "accept_probability": 1}
    most |= dict.fromkeys(("canvas_length", "smallest_canvas"), model.canvas_length)
    for name in (name for name in NAMES if name in xargs):
        field = XARGS.get(name) or ACCEPTANCE[config.acceptance].threshold
        value, param = _read(xargs[name]), f"vllm_xargs.{name}"
        config = _set(config, field, value, name, param)
        if field in most and value > most[field]:
            raise ApiError(400, f"{name} must be at most {most[field]}, not {value}.", param=param)
    return config


def _set(config: GenerationConfig, field: str, value: Any, name: str, param: str) -> GenerationConfig:
    """Returns the settings with a field changed that the request calls ``name``."""
    try:
        return config.replace(**{field: value})
    except SafelightError as error:
        raise ApiError(400, f"{name}{str(error).removeprefix(field)}.", param=param) from None


def _read(value: Any) -> Any:
    """Returns a value that may be sent as text."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?", value):
        return float(value) if "." in value else int(value)
    return value.replace("-", "_")
