"""An answer in chunks with choices, as chats and completions have it, and its cost."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.server.answer import ServedAnswer
from engine.server.errors import ApiError
from engine.server.planning import RunPlan
from engine.server.schemas import SampledRequest, StreamOptions
from engine.server.serving import DONE, AnswerWriter, Choice, event
from engine.text.output_parts import OutputPart


class ChunkWriter(AnswerWriter):
    """The part of an ``AnswerWriter`` that chats and completions share.

    Args:
        plans: of all answers, in the order of the choices; as many to each prompt as the request has ``n``.
        head: first fields of every chunk.
        kind: further fields of every chunk, but not of a whole answer.
        empty: fields of a choice that adds nothing.
    """

    def __init__(
        self,
        plans: Sequence[RunPlan],
        body: SampledRequest,
        head: dict[str, str],
        kind: dict[str, str],
        empty: dict[str, Any],
    ) -> None:
        plan, options = plans[0], body.stream_options or StreamOptions()
        self._usage, self._kind, self._empty, self._each = bool(options.include_usage), kind, empty, body.n or 1
        self._has_running_usage = self._usage and bool(options.continuous_usage_stats)
        self._base = {
            **head,
            "created": int(time.time()),
            "model": plan.name,
            "system_fingerprint": plan.fingerprint,
            "seed": plan.request.seed,  # our own field: repeats the answer; further ones have the next seeds
        }

    def add_frame(self, frame: dict[str, Any], answer: ServedAnswer) -> Iterator[bytes]:
        yield self._chunk(answer, self._empty, **frame)

    def end(self, answers: Sequence[ServedAnswer]) -> Iterator[bytes]:
        timings = {"timings": timings_of(answers)}
        for answer in answers:
            last = {} if self._usage or answer is not answers[-1] else timings
            yield self._chunk(answer, self._empty, answer.ending, self._logprobs(answer), **last)
        if self._usage:
            usage = usage_of(answers, self._each)
            yield event({**self._base, **self._kind, "choices": [], "usage": usage, **timings})
        yield event(DONE)

    def fail(self, error: ApiError) -> Iterator[bytes]:
        yield event(error.body)
        yield event(DONE)

    def _chunk(
        self,
        answer: ServedAnswer,
        fields: dict[str, Any],
        ending: Mapping[str, str] | None = None,
        logprobs: dict[str, Any] | None = None,
        **more: Any,
    ) -> bytes:
        """Returns a chunk with one choice, which has these fields."""
        choice = {"index": answer.index, **fields, "finish_reason": None, "logprobs": logprobs, **(ending or {})}
        usage = {"usage": usage_of([answer]) if self._has_running_usage else None} if self._usage else {}
        return event({**self._base, **self._kind, "choices": [choice], **usage, **more})

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        answers = [answer for _, answer in choices]
        entries = [
            {"index": answer.index, **self._entry(parts), **answer.ending, "logprobs": self._logprobs(answer)}
            for parts, answer in choices
        ]
        costs = {"usage": usage_of(answers, self._each), "timings": timings_of(answers)}
        return {**self._base, "choices": entries, **costs}

    @abstractmethod
    def _entry(self, parts: Sequence[OutputPart]) -> dict[str, Any]:
        """Returns the fields of a whole choice that hold what was written."""

    @abstractmethod
    def _logprobs(self, answer: ServedAnswer) -> dict[str, Any] | None:
        """Returns the certainty of the content's tokens since the last call."""


def usage_of(answers: Sequence[ServedAnswer], each: int = 1) -> dict[str, Any]:
    """Returns OpenAI's ``usage``, in tokens; ``each`` answers in a row share a prompt, which counts once."""
    written, read = sum(len(answer.tokens) for answer in answers), sum(one.prompt_tokens for one in answers[::each])
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": sum(answer.cached_tokens for answer in answers[::each])},
        "completion_tokens_details": {
            "reasoning_tokens": sum(answer.reasoning_tokens for answer in answers),
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
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


def timings_of(answers: Sequence[ServedAnswer]) -> dict[str, Any]:
    """Returns llama-server's ``timings``, with the additions of Unsloth's server; times are the engine's, added up."""
    read, cached = sum(one.prompt_tokens for one in answers), sum(one.cached_tokens for one in answers)
    reading, writing = sum(one.prompt_seconds for one in answers), sum(one.seconds for one in answers)
    written, steps = sum(len(one.tokens) for one in answers), sum(one.steps for one in answers)
    return {
        "cache_n": cached,
        "prompt_n": read - cached,
        "prompt_ms": 1000 * reading,
        "prompt_per_token_ms": _rate(1000 * reading, read - cached),
        "prompt_per_second": _rate(read - cached, reading),
        "predicted_n": written,
        "predicted_ms": 1000 * writing,
        "predicted_per_token_ms": _rate(1000 * writing, written),
        "predicted_per_second": _rate(written, writing),
        "diffusion": True,
        "diffusion_blocks": sum(one.blocks for one in answers),
        "diffusion_steps": steps,
        "diffusion_canvas": sum(one.positions for one in answers) // max(steps, 1),
        "diffusion_prompt_n": read,
        "diffusion_decode_ms": 1000 * writing,
        "diffusion_output_tok_s": _rate(written, writing),
        "diffusion_steps_per_second": _rate(steps, writing),
    }


def _rate(count: float, each: float) -> float:
    return count / each if each > 0 else 0.0
