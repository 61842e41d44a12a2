"""Plans a request's run: its settings, its seed, and whether prompt and answer fit. Slow when it counts tokens."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from engine.catalog import is_embedded
from engine.config import LARGEST_SEED, SMALLEST_CANVAS, GenerationConfig
from engine.decoders import able
from engine.decoding.names import names_of, require_thoughts
from engine.errors import SafelightError
from engine.server.answer import AnswerSettings
from engine.server.context import ServerContext
from engine.server.errors import ApiError, elsewhere, refusing, unsupported
from engine.server.formats import AskedFormat
from engine.server.sampler_fields import config_of
from engine.server.schemas import SampledRequest
from engine.server.strict import Ignored
from engine.service import ChatRun, CompletionRun, GapRun, LoadedModel, RunRequest, is_remote
from engine.service.small import prepared
from engine.text.tags import end_of_thought, starts_in_thought
from engine.trace.header import new_id

CAUSAL = "autoregressive"  # the decoder of models that read text causally
GAP_SHARE = 4  # the text of a gap takes at most this part of the context
MOST_EXACT = 2**53  # JavaScript misreads larger whole numbers
LONGER = 3.0  # times the seconds of a plan, after which its run takes no further step


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
    longest: int | None,
    top_logprobs: int | None,
    make_request: Callable[[LoadedModel, dict[str, Any]], RunRequest],
    settings: AnswerSettings,
    asked_format: AskedFormat | None = None,
) -> RunPlan:
    """Plans the run of a request. Slow.

    Args:
        longest: requested length of the answer in tokens.
        make_request: makes the run's request from these of its fields, which it may change: config, seed, adapter,
            keep, output_format. Of a model in parts the one that it is for is chosen by it.
        settings: of the answer, except its length and its start.
        asked_format: the format that the answer must fit.

    Raises:
        ApiError: the model is another, prompt and answer do not fit, or a value does not fit the model.
    """
    model, adapter = context.pick(body.model)
    if is_remote(model.path_or_id):
        raise elsewhere()
    whole = model
    request = make_request(
        model,
        {
            "config": model.defaults,
            "seed": seed_of(body),
            "adapter": adapter,
            "keep": context.options.keeps_traces,
            "output_format": None if asked_format is None else asked_format.format,
        },
    )
    with refusing("messages"):
        model, request = prepared(whole, request)
    config = config_of(body, model, request.config, top_logprobs)
    if asked_format is not None:
        config = asked_format.decoded(model, config, names_decoder=bool(body.decoder or body.token_thoughts))
    request = dataclasses.replace(request, config=config)
    scores = request.prompt_scores if isinstance(request, CompletionRun) else None
    thinks, is_gap = isinstance(request, ChatRun) and request.think, isinstance(request, GapRun)
    if scores is not None and CAUSAL not in model.decoders:
        raise unsupported("echo with logprobs needs a model that reads text causally.", "echo")
    ids = [] if is_gap else prompt_of(model, request)
    if is_gap:  # its run cuts the text around the gap to the rest of the context
        longest = min(model.context if longest is None else longest, model.context // GAP_SHARE)
    is_open = starts_in_thought(model.write(ids))
    if longest and config.is_block_diffusion:
        config = config.replace(smallest_canvas=config.smallest_canvas or SMALLEST_CANVAS, max_new_tokens=longest)
    if asked_format is not None and not (thinks or is_open):
        config = config.for_format(model.canvas_length)
    least = config.canvas(model.canvas_length) if config.denoises else 1
    if scores is not None and longest == 0:  # nothing is written
        least = 0
    length = _answer_length(longest, model, config, len(ids), least, context.options.answer_tokens)
    request = dataclasses.replace(request, config=config.replace(max_new_tokens=max(1, length)))
    if config.thinking_tokens is not None:
        request = _check_thinking(model, request, thinks=thinks or is_open, ignored=body.ignored)
    names = names_of(config, model.decoders)
    one_by_one = any(able(name, "in order") for name in names)
    settings = dataclasses.replace(settings, max_tokens=length, starts_in_thought=is_open, one_by_one=one_by_one)
    if asked_format is not None:  # the whole answer must fit it, except a thought and calls
        is_text = asked_format.format.kind != "tool_calls" and isinstance(request, ChatRun) and not thinks
        settings = dataclasses.replace(settings, is_raw=is_text)
    field = None if asked_format is None else asked_format.field
    return RunPlan(
        request,
        settings,
        model,
        model.name if whole.parts else body.model or model.name,
        bool(body.diffusion_frames),
        field,
        body.ignored.names,
        prompt_tokens=len(ids),
    )


def _check_thinking(model: LoadedModel, request: RunRequest, *, thinks: bool, ignored: Ignored) -> RunRequest:
    """Returns the request, without its bound of thinking if the run cannot bound it, or does not think."""
    has_end = end_of_thought(model.encode, model.piece) is not None
    try:
        require_thoughts(request.config, model.decoders, has_end=has_end, thinks=thinks)
    except SafelightError:
        ignored.add("thinking_token_budget")
        return dataclasses.replace(request, config=request.config.replace(thinking_tokens=None))
    return request


def take_any_name(body: SampledRequest, *beginnings: str) -> None:
    """Passes over the name of somebody else's model, which a client sends whatever is loaded."""
    if body.model is not None and body.model.startswith(beginnings):
        body.ignored.add("model")
        body.model = None


def seed_of(body: SampledRequest) -> int:
    """Returns the requested seed, else a new one; at a temperature of 0 always the same, as callers expect."""
    if body.seed is not None:
        return body.seed
    return 0 if body.temperature == 0 else secrets.randbelow(MOST_EXACT)


def prompt_of(model: LoadedModel, request: RunRequest) -> list[int]:
    """Returns a request's prompt as tokens.

    Raises:
        ApiError: the model's template rejects it.
    """
    with refusing("messages" if isinstance(request, ChatRun) else "prompt"):
        return model.prompt_ids(request)


def _answer_length(
    asked: int | None, model: LoadedModel, config: GenerationConfig, prompt: int, least: int, most: int
) -> int:
    """Returns the greatest length of the answer in tokens: what was asked for, as far as there is room.

    Raises:
        ApiError: there is no room even for the ``least``.
    """
    room = model.context - prompt
    if room < least:
        raise ApiError(
            400,
            f"The prompt takes {prompt} tokens and the answer at least {least}, "
            f"but the model's context has {model.context}. Shorten the prompt.",
            param="messages",
            code="context_length_exceeded",
        )
    if asked is not None:
        return min(asked, room)
    if is_embedded(model.path_or_id):  # as window and terminal do: it was not trained to write more
        most = config.max_new_tokens
    return min(room, max(most, config.max_new_tokens))
