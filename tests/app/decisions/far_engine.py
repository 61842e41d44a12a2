"""A stand-in for a model elsewhere that sends probabilities and no canvas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from engine import GenerationConfig, GenerationFinished, ModelIdentity, Trace, TraceHeader
from engine.events import SlotsRead
from engine.service import Capabilities, PassWanted, RunAdvanced, RunEnded, RunReply, RunRequest, RunStarted
from tests.app.cli.deciding_backend import Words
from tests.fake_engine import FakeEngine


class FarEngine(FakeEngine):
    """Chooses the first option, or fails with ``problem``; with ``hold``, each run waits for ``gate``."""

    def __init__(self) -> None:
        super().__init__()
        self.able = Capabilities(decisions=True)
        self.problem = ""

    def load_model(self, path: str, *options: Any, **more: Any) -> Any:
        model = super().load_model(path, *options, **more)
        model.tokenizer, model.config.canvas_length = Words(), 64
        return model

    def begin(self, request: RunRequest) -> Iterator[RunReply | PassWanted]:  # type: ignore[override]
        header = TraceHeader(ModelIdentity("far"), "", GenerationConfig(), 0, decision=request.decision)
        yield RunStarted(request.run_id, Trace(header=header, piece=str, is_special=lambda _token: False))
        if self.hold:
            self.gate.acquire()
        if self.problem:
            yield RunEnded(request.run_id, self.problem)
            return
        nothing = np.zeros(0, dtype=np.int32)
        if request.cancel.is_set():
            yield RunAdvanced(request.run_id, GenerationFinished("cancelled", nothing, 0, 0, 0.0))
        else:
            rows = []
            for question in request.decision.questions:
                others = len(question.options) - 1
                shares = np.array([0.9, *[0.1 / others] * others], dtype=np.float32)
                rows.append(np.log(shares))
            yield RunAdvanced(request.run_id, SlotsRead(0, tuple(rows), (True,) * len(rows)))
            yield RunAdvanced(request.run_id, GenerationFinished("eos", nothing, 0, 0, 0.0))
        yield RunEnded(request.run_id)
