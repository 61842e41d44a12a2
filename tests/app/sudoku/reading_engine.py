"""A stand-in for the engine that reads one board from any picture: tokens are characters, two steps a row."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from engine import (
    SIGHT,
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
)
from engine.service import Capabilities
from tests.app.sudoku.scripted import PUZZLE
from tests.app.sudoku.solver_engine import SolverEngine
from tests.fake_engine import END, FakeTokenizer


class SignTokenizer(FakeTokenizer):
    """A token is a character's code."""

    def piece(self, token: int) -> str:
        return "<eos>" if token == END else chr(token)


class ReadingEngine(SolverEngine):
    """Solves as it always does, and reads what is ``written``, 81 characters; at first sight it doubts ``doubts``.

    Each row waits for ``gate`` where ``hold`` is set. Its siblings share all of this.
    """

    def __init__(self, first: ReadingEngine | None = None) -> None:
        super().__init__()
        self.written = PUZZLE.replace("0", ".")
        self.doubts: tuple[int, ...] = ()
        self.loaded_by_siblings: list[str] = []  # and when they were unloaded
        self._first = first
        if first is not None:
            self.gate, self.able = first.gate, Capabilities(images=True)

    def sibling(self) -> ReadingEngine:
        return ReadingEngine(self)

    def load_model(self, path: str, progress: Any = None, threads: int = 0) -> Any:
        model = super().load_model(path, progress, threads)
        if path == SIGHT:
            model.tokenizer = SignTokenizer()
        if self._first is not None:
            self._first.loaded_by_siblings.append(path)
        return model

    def unload(self) -> Any:
        if self._first is not None:
            self._first.loaded_by_siblings.append("let go")
        return super().unload()

    def generate(
        self,
        model: Any,
        ids: list[int],
        config: GenerationConfig,
        seed: int,
        cancel: threading.Event,
        cache: Any = None,
    ) -> Iterator[Event]:
        first = self._first
        asked = re.search(r"row (\d)", self.prompts[-1][-1]["content"])
        if first is None or asked is None:
            yield from super().generate(model, ids, config, seed, cancel, cache)
            return
        row = int(asked[1]) - 1
        signs = [ord(sign) for sign in first.written[9 * row : 9 * row + 9]]
        final = np.array([*signs, END], dtype=np.int32)
        shares = [0.4 if 9 * row + column in first.doubts else 0.99 for column in range(len(signs))]
        yield PrefillFinished(len(ids), 0, 0.01)
        yield CanvasStarted(0, final, np.zeros(len(final), dtype=np.bool_))
        if first.hold:
            self.gate.acquire(timeout=30)  # a test that fails must not hang
        if cancel.is_set():
            yield GenerationFinished("cancelled", np.zeros(0, dtype=np.int32), 0, 0, 0.1)
            return
        for step in range(2):
            likely = np.array([[*shares, 1.0] if step == 0 else np.ones(len(final))], dtype=np.float32).T
            entropy, accepted = np.zeros(len(final), dtype=np.float32), np.full(len(final), step == 1)
            yield StepFinished(0, step, 0.7, final, final, entropy, accepted, final, 0.01, final[:, None], likely)
        yield CanvasCommitted(0, final, len(signs), 2, "converged")
        yield GenerationFinished("eos", final[:-1], 1, 2, 0.1)
