"""An answer in chunks with choices, as chats and completions have it, and its cost."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from engine.server.answer import ServedAnswer
from engine.server.errors import ApiError
from engine.server.planning import RunPlan
from engine.server.schemas import SampledRequest
from engine.server.sse import ALIVE, DONE, EVENTS, event


class ChunkWriter(ABC):
    """The part of an ``AnswerWriter`` that chats and completions share.

    Args:
        head: first fields of every chunk.
        kind: further fields of every chunk, but not of a whole answer.
        empty: fields of a choice that adds nothing.
    """

    content_type, alive = EVENTS, ALIVE

    def __init__(
        self, plan: RunPlan, body: SampledRequest, head: dict[str, str], kind: dict[str, str], empty: dict[str, Any]
    ) -> None:
        self._plan, self._usage, self._kind, self._empty = plan, body.includes_usage, kind, empty
        self._base = {
            **head,
            "created": int(time.time()),
            "model": plan.name,
            "system_fingerprint": plan.fingerprint,
            "seed": plan.request.seed,  # our own field: repeats the answer
        }

    def add_frame(self, frame: dict[str, Any]) -> Iterator[bytes]:
        yield self._chunk(self._empty, **frame)

    def end(self, answer: ServedAnswer) -> Iterator[bytes]:
        timings = {"timings": timings_of(answer)}
        last = {} if self._usage else timings
        yield self._chunk(self._empty, answer.ending, self._logprobs(answer), **last)
        if self._usage:
            usage = usage_of(answer, self._plan)
            yield event({**self._base, **self._kind, "choices": [], "usage": usage, **timings})
        yield event(DONE)

    def fail(self, error: ApiError) -> Iterator[bytes]:
        yield event(error.body)
        yield event(DONE)

    def _chunk(
        self,
        fields: dict[str, Any],
        ending: Mapping[str, str] | None = None,
        logprobs: dict[str, Any] | None = None,
        **more: Any,
    ) -> bytes:
        """Returns a chunk with one choice, which has these fields."""
        choice = {"index": 0, **fields, "finish_reason": None, "logprobs": logprobs, **(ending or {})}
        usage = {"usage": None} if self._usage else {}
        return event({**self._base, **self._kind, "choices": [choice], **usage, **more})

    def _whole(
        self, fields: dict[str, Any], logprobs: dict[str, Any] | None, answer: ServedAnswer, **kind: str
    ) -> dict[str, Any]:
        choice = {"index": 0, **fields, **answer.ending, "logprobs": logprobs}
        times = {"usage": usage_of(answer, self._plan), "timings": timings_of(answer)}
        return {**self._base, **kind, "choices": [choice], **times}

    @abstractmethod
    def _logprobs(self, answer: ServedAnswer) -> dict[str, Any] | None:
        """Returns the certainty of the content's tokens since the last call."""


def usage_of(answer: ServedAnswer, plan: RunPlan) -> dict[str, Any]:
    """Returns OpenAI's ``usage``, in tokens."""
    written = len(answer.tokens)
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": written,
        "total_tokens": answer.prompt_tokens + written,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        "completion_tokens_details": {
            "reasoning_tokens": answer.reasoning_tokens,
            "accepted_prediction_tokens": answer.accepted_tokens,
            "rejected_prediction_tokens": len(plan.settings.prediction) - answer.accepted_tokens,
        },
    }


def usage_of_items(read: int, cached: int, written: int, thought: int = 0) -> dict[str, Any]:
    """Returns the ``usage`` of OpenAI's responses and decisions, in tokens."""
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": read + written,
    }


def timings_of(answer: ServedAnswer) -> dict[str, Any]:
    """Returns llama-server's ``timings``, with the additions of Unsloth's server; times are the engine's."""
    fresh, written = answer.prompt_tokens - answer.cached_tokens, len(answer.tokens)
    return {
        "cache_n": answer.cached_tokens,
        "prompt_n": fresh,
        "prompt_ms": 1000 * answer.prompt_seconds,
        "prompt_per_second": _rate(fresh, answer.prompt_seconds),
        "predicted_n": written,
        "predicted_ms": 1000 * answer.seconds,
        "predicted_per_second": _rate(written, answer.seconds),
        "diffusion": True,
        "diffusion_blocks": answer.blocks,
        "diffusion_steps": answer.steps,
        "diffusion_canvas": answer.positions // max(answer.steps, 1),
        "diffusion_prompt_n": answer.prompt_tokens,
        "diffusion_decode_ms": 1000 * answer.seconds,
        "diffusion_output_tok_s": _rate(written, answer.seconds),
        "diffusion_steps_per_second": _rate(answer.steps, answer.seconds),
    }


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
