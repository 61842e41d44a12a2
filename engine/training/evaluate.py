"""Measures how well a model solves held-out puzzles, by the public ``generate``. No solver takes part."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.decoding.generate import generate
from engine.events import GenerationFinished
from engine.tasks import sudoku
from engine.threads import use_threads
from engine.training.adapter import TrainingMeasured
from engine.training.puzzles import Format, Pair
from engine.types import Cancel


def measure(
    format: Format, pairs: Sequence[Pair], step: int = 0, seed: int = 0, cancel: Cancel | None = None
) -> TrainingMeasured | None:
    """Solves each puzzle once after a step of training, with the model's own settings; None if it was cancelled."""
    threads = torch.get_num_threads()
    try:
        return _measure(format, pairs, step, seed, cancel)
    finally:
        use_threads(threads)  # passes set their own number of threads; training uses more


def _measure(
    format: Format, pairs: Sequence[Pair], step: int, seed: int, cancel: Cancel | None
) -> TrainingMeasured | None:
    model = format.model
    config = model.generation_defaults.replace(max_new_tokens=model.config.canvas_length)
    solved = blanks = right = kept = steps = 0
    for board, solution in pairs:
        ended: GenerationFinished | None = None
        for event in generate(model, format.ids(board), config, seed, cancel):
            if isinstance(event, GenerationFinished):
                ended = event
        assert ended is not None
        if ended.reason == "cancelled":
            return None
        answer = sudoku.read_answer(model.tokenizer.decode(ended.tokens.tolist()))
        verdict = sudoku.judge(board, answer)
        empty = [cell for cell in range(sudoku.SIZE) if board[cell] == "0"]
        solved, kept, steps = solved + verdict.valid, kept + verdict.givens_kept, steps + ended.steps
        blanks, right = blanks + len(empty), right + sum(answer[cell] == solution[cell] for cell in empty)
    count = len(pairs)
    return TrainingMeasured(step, count, solved / count, right / max(1, blanks), kept / count, steps / count)
