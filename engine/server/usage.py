"""The cost of an answer, in OpenAI's and llama-server's format."""

from __future__ import annotations

from typing import Any

from engine.server.answer import ServedAnswer
from engine.server.planning import RunPlan


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


def timings_of(answer: ServedAnswer) -> dict[str, Any]:
    """Returns llama-server's ``timings``, with the additions of Unsloth's server; the engine's times, in
    milliseconds.
    """
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
