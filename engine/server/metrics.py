"""Counters in Prometheus' text format; only numbers, never the content of requests."""

from __future__ import annotations

import threading
from collections import defaultdict

HELP = {
    "requests_total": ("counter", "Requests answered, by path and status."),
    "prompt_tokens_total": ("counter", "Tokens of prompts."),
    "cached_tokens_total": ("counter", "Of these, tokens that were in the cache already."),
    "generated_tokens_total": ("counter", "Tokens of committed blocks, before the end token."),
    "decisions_total": ("counter", "Questions decided."),
    "denoising_steps_total": ("counter", "Denoising steps."),
    "canvas_positions_total": ("counter", "Positions denoised, counted once a step."),
    "runs_running": ("gauge", "Runs in progress."),
    "runs_waiting": ("gauge", "Runs that wait."),
    "request_seconds_sum": ("counter", "Seconds from request to end, of all runs together."),
    "request_seconds_count": ("counter", "Runs that ended."),
}
PREFIX = "safelight_"


class Metrics:
    """Counts since the server started; from any thread."""

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._lock = threading.Lock()

    def add(self, name: str, count: float = 1, labels: str = "") -> None:
        """Adds to a counter; ``labels`` as Prometheus writes them, without braces."""
        with self._lock:
            self._counts[name, labels] += count

    def text(self, running: int, waiting: int) -> str:
        """Returns all counters, with the current gauges."""
        with self._lock:
            counts = {**self._counts, ("runs_running", ""): running, ("runs_waiting", ""): waiting}
        lines = []
        for name, (kind, words) in HELP.items():
            lines += [f"# HELP {PREFIX}{name} {words}", f"# TYPE {PREFIX}{name} {kind}"]
            found = [(labels, count) for (known, labels), count in sorted(counts.items()) if known == name]
            for labels, count in found or [("", 0)]:
                lines.append(f"{PREFIX}{name}{{{labels}}} {count:g}" if labels else f"{PREFIX}{name} {count:g}")
        return "\n".join(lines) + "\n"
