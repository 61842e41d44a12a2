"""A backend without a model that decides by what the state says, for tests of ``safelight decide``."""

from __future__ import annotations

import math
import os
import re
import signal
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine import GenerationConfig, SlotsRead
from engine.service import (
    AdapterChanged,
    AdapterRequest,
    Capabilities,
    LoadedModel,
    LoadReply,
    LoadRequest,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
    RunAdvanced,
    RunEnded,
    RunRequest,
    RunSteps,
)

MASS = 0.5  # of all labels


class DecidingBackend:
    """The number in a state is the first option's probability; the others share the rest. "broken" fails.

    ``interrupt_at`` is the number of the run that Ctrl+C comes with; it goes on until it is cancelled.
    """

    capabilities = Capabilities(decisions=True, parallel_runs=2)

    def __init__(self) -> None:
        self.states: list[str] = []
        self.requests: list[RunRequest] = []
        self.interrupt_at = 0
        self.fingerprint = "f"

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        def nothing(*_: Any) -> Any:
            raise AssertionError

        report(
            ModelLoaded(
                LoadedModel(
                    path_or_id=request.path_or_id,
                    title=request.title,
                    name="made-up",
                    defaults=GenerationConfig(),
                    canvas_length=16,
                    parameter_count=1,
                    device="cpu",
                    load_seconds=0.0,
                    vocab_size=2,
                    piece=nothing,
                    is_special=nothing,
                    decode=nothing,
                    write=nothing,
                    count_tokens=nothing,
                    encode=lambda text: [1 + zlib.crc32(text.encode())],  # any text is one token
                    prompt_ids=lambda _request: [0],
                    fingerprint=self.fingerprint,
                    context=4_096,
                    capabilities=self.capabilities,
                )
            )
        )

    def unload(self) -> ModelUnloaded:
        return ModelUnloaded()

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        return AdapterChanged(request.path_or_id, "an adapter")

    def admits(self, _request: RunRequest, running: Sequence[RunRequest]) -> bool:
        return len(running) < self.capabilities.parallel_runs

    def begin(self, request: RunRequest) -> RunSteps:
        assert request.decision is not None
        self.states.append(request.decision.state)
        self.requests.append(request)
        if len(self.states) == self.interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)
        while 0 < self.interrupt_at <= len(self.states) and not request.cancel.is_set():
            yield PassWanted(None)
        if not request.cancel.is_set() and "broken" not in request.decision.state:
            found = re.search(r"\d\.\d+", request.decision.state)
            first = float(found[0]) if found else 0.9
            counts = [len(question.options) for question in request.decision.questions]
            shares = [[first, *[(1 - first) / (count - 1)] * (count - 1)] for count in counts]
            logprobs = tuple(np.array([math.log(MASS * share) for share in row], np.float32) for row in shares)
            yield RunAdvanced(request.run_id, SlotsRead(0, logprobs, tuple(True for _ in counts)))
        yield RunEnded(request.run_id, "the card fell out" if "broken" in request.decision.state else "")

    def perform(self, passes: Sequence[PassWanted]) -> None:
        for one in passes:
            one.is_done = True
