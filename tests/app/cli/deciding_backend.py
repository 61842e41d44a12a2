"""A backend without a model that decides by what the state says, for tests of ``safelight decide``."""

from __future__ import annotations

import math
import os
import re
import signal
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine import SlotsRead
from engine.service import Capabilities, PassWanted, RunAdvanced, RunEnded, RunRequest, RunSteps
from tests.fake_engine import FakeEngine, FakeTokenizer

MASS = 0.5  # of all labels


class Words(FakeTokenizer):
    """Any text is one token."""

    def encode(self, text: str) -> list[int]:
        return [1 + zlib.crc32(text.encode())]

    encode_prompt = encode_rendered = encode_inert = encode


class DecidingBackend(FakeEngine):
    """The number in a state is the first option's probability; the others share the rest. "broken" fails.

    ``interrupt_at`` is the number of the run that Ctrl+C comes with; it goes on until it is cancelled.
    """

    def __init__(self) -> None:
        super().__init__()
        self.able = Capabilities(decisions=True, parallel_runs=2)
        self.states: list[str] = []
        self.interrupt_at = 0

    def load_model(self, path: str, *options: Any, **more: Any) -> Any:
        model = super().load_model(path, *options, **more)
        model.tokenizer, model.config.canvas_length = Words(), 16
        return model

    def admits(self, _request: RunRequest, running: Sequence[RunRequest]) -> bool:
        return len(running) < self.able.parallel_runs

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
