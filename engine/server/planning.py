"""Plans a request's run: its settings, its seed, and whether prompt and answer fit. Slow when it counts tokens."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from engine.catalog import is_embedded
from engine.config import LARGEST_SEED, SMALLEST_CANVAS, GenerationConfig
from engine.decoders import ACCEPTANCE, BLOCK_DIFFUSION, BY_TOKEN, able
from engine.decoding.names import formatting, names_of, require_thoughts
from engine.errors import SafelightError, quoted
from engine.server.answer import AnswerSettings
from engine.server.context import ServerContext
from engine.server.errors import UNSUPPORTED, ApiError, refusing, unsupported
from engine.server.formats import AskedFormat
from engine.server.schemas import SampledRequest
from engine.service import ChatRun, CompletionRun, GapRun, LoadedModel, RunRequest
from engine.service.small import prepared
from engine.settings import CliOption, declared
from engine.text.tags import end_of_thought, starts_in_thought
from engine.trace.header import new_id

GAP_SHARE = 4  # the text of a gap takes at most this part of the context
LONGER = 3.0  # times the seconds of a plan, after which its run takes no further step
COLDEST = 0.5
"""The share of the model's own temperatures for a temperature of 0; 1 is all of them.

At a quarter and below, entropies vanish, everything is accepted within two steps, and answers get worse. On held-out
tasks of sorting letters 93.7 % of the embedded model's answers are then exact, not 97.3 % as with a half.
"""

PREFIX = "diffusion_"
XARGS = {PREFIX + option.xarg: name for name, option in declared(GenerationConfig, CliOption).items() if option.xarg}
"""The settings by the names that ``vllm_xargs`` have for them: vLLM's for canvas and steps, mlx-vlm's for the rule."""
THRESHOLD, CANVAS_LENGTH = PREFIX + "threshold", PREFIX + "canvas_length"  # the former is the acceptance rule's
XARG_NAMES = (*XARGS, THRESHOLD)

Changes = dict[str, tuple[Any, str, str]]
"""Values by setting, each with the name that the request has for it, and the field that is at fault if it is wrong."""


@dataclass(frozen=True, eq=False)
class RunPlan:
    """A run that is ready to begin."""

    request: RunRequest
    settings: AnswerSettings
    model: LoadedModel
    name: str  # of the model, as shown in the answer
    has_frames: bool = False
    format_field: str | None = None  # the request's field that asks for the answer's format
    ignored: tuple[str, ...] = ()  # fields of the request that were passed over
    seconds: float | None = None  # of writing, after which a settled line is the answer
    prompt_tokens: int = 0  # before the run; of a gap it is not known

    @property
    def fingerprint(self) -> str:
        """OpenAI's fingerprint of the system: that of the model's files."""
        return f"safelight-{self.model.fingerprint[:12]}"

    def choices(self, count: int | None) -> tuple[Self, ...]:
        """Returns plans of several answers to the same: this one, and others with the next seeds."""
        first = self.request
        others = (
            dataclasses.replace(first, seed=(first.seed + further) % (LARGEST_SEED + 1), run_id=new_id())
            for further in range(1, count or 1)
        )
        return (self, *(dataclasses.replace(self, request=request) for request in others))

    def with_time(self, seconds: float) -> Self:
        """Ends the answer after this time if a line is settled, else when one is; the run ends after three times it.

        Args:
            seconds: from the end of the prompt.
        """
        request = self.request
        if isinstance(request, GapRun):
            request = dataclasses.replace(request, seconds=LONGER * seconds)
        return dataclasses.replace(self, request=request, seconds=seconds)


def plan(
    context: ServerContext,
    body: SampledRequest,
    whole: LoadedModel,
    request: RunRequest,
    longest: int | None,
    settings: AnswerSettings,
    field: str,
    asked_format: AskedFormat | None = None,
) -> RunPlan:
    """Plans the run of a request. Slow.

    Args:
        whole: the model; of one in parts the request chooses its own.
        longest: requested length of the answer in tokens.
        settings: of the answer, except its length and its start.
        field: of the request, which has the prompt.
        asked_format: the format that the answer must fit.

    Raises:
        ApiError: prompt and answer do not fit, or a value does not fit the model.
    """
    with refusing(field):
        model, request = prepared(whole, request)
        ids = model.prompt_ids(request)
        if isinstance(request, ChatRun) and request.think:
            plain = dataclasses.replace(request, think=False)
            if model.prompt_ids(plain) == ids:
                request = plain
                body.ignored.add("reasoning_effort")
    is_open, has_end = starts_in_thought(model.write(ids)), end_of_thought(model.encode, model.piece) is not None
    thinks, top = is_open or (isinstance(request, ChatRun) and request.think), settings.top_logprobs
    config = config_of(body, model, request.config, top, asked_format, has_end=has_end, thinks=thinks)
    most, is_held = context.options.answer_tokens, asked_format is not None and not thinks
    config, length = _fitted(model, request, config, len(ids), longest, most, is_held=is_held)
    in_order = any(able(name, "in order") for name in names_of(config, model.decoders))
    return RunPlan(
        dataclasses.replace(request, config=config),
        dataclasses.replace(settings, max_tokens=length, starts_in_thought=is_open, one_by_one=in_order),
        model,
        model.name if whole.parts else body.model or model.name,
        bool(body.diffusion_frames),
        None if asked_format is None else asked_format.field,
        body.ignored.names,
        prompt_tokens=len(ids),
    )


def ignore_name(body: SampledRequest, *beginnings: str) -> None:
    """Passes over the name of somebody else's model, which a client sends whatever is loaded."""
    if body.model is not None and body.model.startswith(beginnings):
        body.ignored.add("model")
        body.model = None


def _fitted(
    model: LoadedModel,
    request: RunRequest,
    config: GenerationConfig,
    prompt: int,
    asked: int | None,
    most: int,
    *,
    is_held: bool,
) -> tuple[GenerationConfig, int]:
    """Returns the settings with the greatest length of the answer, and that: what was asked for, as far as there is
    room.

    Args:
        prompt: its tokens.
        asked: tokens; None: as many as the model's settings say, or ``most``.
        is_held: the answer fits a format from its beginning.

    Raises:
        ApiError: there is no room even for the shortest answer.
    """
    if isinstance(request, GapRun):
        asked = min(model.context if asked is None else asked, model.context // GAP_SHARE)
    if asked and config.is_block_diffusion:
        config = config.replace(smallest_canvas=config.smallest_canvas or SMALLEST_CANVAS, max_new_tokens=asked)
    if is_held:
        config = config.for_format(model.canvas_length)
    least, room = config.canvas(model.canvas_length) if config.denoises else 1, model.context - prompt
    if isinstance(request, CompletionRun) and request.prompt_scores is not None:
        if BY_TOKEN not in model.decoders:
            raise unsupported("echo with logprobs needs a model that reads text causally.", "echo")
        least = 0 if asked == 0 else least  # nothing is written
    if room < least:
        raise ApiError(
            400,
            f"The prompt takes {prompt} tokens and the answer at least {least}, "
            f"but the model's context has {model.context}. Shorten the prompt.",
            param="messages",
            code="context_length_exceeded",
        )
    if asked is None:
        # An embedded model was not trained to write more; window and terminal do as well.
        asked = config.max_new_tokens if is_embedded(model.path_or_id) else max(most, config.max_new_tokens)
    return config.replace(max_new_tokens=max(1, min(asked, room))), min(asked, room)


def config_of(
    body: SampledRequest,
    model: LoadedModel,
    config: GenerationConfig,
    top_logprobs: int | None,
    asked_format: AskedFormat | None = None,
    *,
    has_end: bool = True,
    thinks: bool = False,
) -> GenerationConfig:
    """Returns the model's settings, ``config``, with the requested changes, without the length.

    Args:
        has_end: the model has a token that ends a thought.

    Raises:
        ApiError: a value does not fit the model.
    """
    asked = _decoding(body, model, asked_format) | {"thinking_tokens": body.thinking_token_budget}
    try:
        require_thoughts(GenerationConfig(**asked), model.decoders, has_end=has_end, thinks=thinks)
    except SafelightError:  # the run cannot bound its thinking, or does not think
        body.ignored.add("thinking_token_budget")
        asked["thinking_tokens"] = None
    config = config.replace(**asked)
    values = (body.diffusion_sampler, body.diffusion_min_canvas_length, body.threshold)  # as mlx-vlm has them
    names = (PREFIX + "sampler", PREFIX + "min_canvas_length", THRESHOLD)
    mlx_names = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    changes = _drawn(body, config) | _of_xargs(config, mlx_names | (body.vllm_xargs or {}), model)
    if top_logprobs is not None:
        changes["top_k"] = (max(config.top_k, top_logprobs, 1), "top_logprobs", "top_logprobs")
    try:
        return config.replace(**{field: value for field, (value, _, _) in changes.items()})
    except SafelightError as error:
        field = str(error).partition(" ")[0]
        _, name, param = changes.get(field, (None, field, field))
        raise ApiError(400, f"{name}{str(error).removeprefix(field)}.", param=param) from None


def _decoding(body: SampledRequest, model: LoadedModel, asked_format: AskedFormat | None) -> dict[str, Any]:
    """Returns the requested decoder, else the model's own by name, "" for block diffusion; and whether it thinks by
    token. Under a format it is one that can hold the answer to it."""
    is_named = body.decoder is not None
    with refusing("token_thoughts" if body.token_thoughts else "decoder", UNSUPPORTED):
        asked = GenerationConfig(decoder=body.decoder or "", token_thoughts=bool(body.token_thoughts))
        _, decoder = names_of(asked, model.decoders)
    if asked_format is not None:
        if not model.capabilities.structured:
            raise unsupported("This model cannot follow a format; describe it in the prompt.", asked_format.field)
        with refusing(asked_format.field, UNSUPPORTED):
            decoder, is_named = formatting(asked, model.decoders), False
    fields: dict[str, Any] = {"decoder": "" if decoder == BLOCK_DIFFUSION and not is_named else decoder}
    return fields | ({"token_thoughts": True} if body.token_thoughts else {})


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
    if unknown := [name for name in xargs if name not in XARG_NAMES]:
        known = ", ".join(XARG_NAMES)
        raise ApiError(400, f"vllm_xargs: {quoted(unknown[0])} is not known; use {known}.", param="vllm_xargs")
    if not config.denoises and xargs.keys() - {CANVAS_LENGTH}:
        raise unsupported(f"Of vllm_xargs, this decoder only takes {CANVAS_LENGTH}.", "vllm_xargs")
    values = {name: _read(value) for name, value in xargs.items()}
    sampler = values.get(PREFIX + "sampler")
    rule = ACCEPTANCE[sampler if isinstance(sampler, str) and sampler in ACCEPTANCE else config.acceptance]
    most = {"max_denoising_steps": config.max_denoising_steps, "accept_probability": 1}
    most |= dict.fromkeys(("canvas_length", "smallest_canvas"), model.canvas_length)
    changes: Changes = {}
    for name, value in values.items():
        field, param = XARGS.get(name) or rule.threshold, f"vllm_xargs.{name}"
        if field in most and isinstance(value, int | float) and value > most[field]:
            raise ApiError(400, f"{name} must be at most {most[field]}, not {value}.", param=param)
        changes[field] = value, name, param
    return changes


def _read(value: Any) -> Any:
    """Returns a value that may be sent as text."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,20})?", value):
        return float(value) if "." in value else int(value)
    return value.replace("-", "_")
