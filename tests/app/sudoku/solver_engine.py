"""A stand-in for the engine that writes boards: right ones, or as spoilt as a test wants them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine import (
    MINI,
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    SafelightError,
    StepFinished,
)
from engine.tasks import sudoku
from tests.fake_engine import END, FakeEngine, FakeTokenizer

LENGTH, BREAK = 96, 12


class DigitTokenizer(FakeTokenizer):
    """Tokens 2 to 11 are the digits 0 to 9, 12 a line break, 1 the end."""

    def piece(self, token: int) -> str:
        return "<eos>" if token == END else "\n" if token == BREAK else str(token - 2) if 2 <= token < 12 else "?"

    def encode(self, text: str) -> list[int]:
        return [BREAK if sign == "\n" else ord(sign) - ord("0") + 2 for sign in text]

    encode_prompt = encode_rendered = encode


class SolverEngine(FakeEngine):
    """``steps_of`` says how many steps a model takes, by its path; ``wrong`` cells are written wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 4
        self.steps_of: dict[str, int] = {}
        self.wrong: tuple[int, ...] = ()
        self.loads: list[str] = []
        self.adapters: list[str | None] = []  # loaded and unloaded, in order
        self.defaults = GenerationConfig(max_new_tokens=LENGTH, eos_token_ids=(END,))

    def load_model(self, path: str, progress: Any = None, threads: int = 0) -> Any:
        made = super().load_model(path, progress, threads)
        self.loads.append(path)
        made.tokenizer = DigitTokenizer()
        made.config = SimpleNamespace(
            canvas_length=64 if path == MINI else LENGTH, vocab_size=32, max_position_embeddings=1000
        )
        made.adapter = None
        made.path = path
        return made

    def load_adapter(self, model: Any, path: str) -> None:
        if path == "bad":
            raise SafelightError("bad is not an adapter's folder: it has no adapter_config.json")
        self.adapters.append(path)
        model.adapter = SimpleNamespace(title=f"the {path} adapter", fingerprint="1", name=path)

    def unload_adapter(self, model: Any) -> None:
        self.adapters.append(None)
        model.adapter = None

    def answer(self) -> str:
        """Returns the board that is written for the latest prompt."""
        board = self.prompts[-1][-1]["content"].replace("\n", "")
        solved = list(sudoku.solutions(board, 1)[0])
        for cell in self.wrong:
            solved[cell] = str(int(solved[cell]) % 9 + 1)
        return "".join(solved)

    def generate(
        self,
        model: Any,
        ids: list[int],
        config: GenerationConfig,
        seed: int,
        cancel: threading.Event,
        cache: object = None,  # noqa: ARG002 - as the engine has it
    ) -> Iterator[Event]:
        self.seeds.append(seed)
        self.configs.append(config)
        text = sudoku.rows(self.answer())
        final = np.full(LENGTH, END, dtype=np.int32)
        final[: len(text)] = DigitTokenizer().encode(text)
        pinned = np.zeros(LENGTH, dtype=np.bool_)
        for position, token in config.pinned:
            pinned[position] = True
            final[position] = token
        steps = self.steps_of.get(model.path, self.steps)
        rng = np.random.default_rng(seed)
        noise = rng.integers(2, 32, LENGTH).astype(np.int32)
        yield PrefillFinished(len(ids), 0, 0.01)
        yield CanvasStarted(0, noise, pinned)
        for step in range(steps):
            if self.hold:
                self.gate.acquire(timeout=30)  # a test that fails must not hang
            if cancel.is_set():
                yield GenerationFinished("cancelled", np.zeros(0, dtype=np.int32), 0, step, 0.1)
                return
            if step == self.fail_at:
                raise self.failure
            accepted = np.arange(LENGTH) < LENGTH * (step + 1) // steps
            canvas = np.where(accepted, final, noise).astype(np.int32)
            entropy = np.full(LENGTH, 0.5, dtype=np.float32)
            yield StepFinished(0, step, 0.7, final, final, entropy, accepted, canvas, 0.01)
        yield CanvasCommitted(0, final, len(text), steps, "converged")
        yield GenerationFinished("eos", final[: len(text)], 1, steps, 0.1)
