"""Reads Sudokus from pictures: nine runs on one picture, which is encoded once. Knows neither Qt nor torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from engine import catalog
from engine.catalog import SIGHT
from engine.errors import SafelightError
from engine.events import CanvasCommitted, StepFinished
from engine.pictures import Picture
from engine.service.backend import Backend, Runner, load_sibling, run_alone
from engine.service.replies import (
    BoardAdvanced,
    BoardEnded,
    LoadedModel,
    RunAdvanced,
    RunEnded,
    ServiceReply,
    explained,
)
from engine.service.requests import BoardRequest, ChatRun, LoadRequest
from engine.tasks.sudoku_pictures import EMPTY, IMAGE_TOKENS, ROW_QUESTIONS, ReadBoard, ReadRow, row_of
from engine.text.message import image_of

CANDIDATES = 10  # reported for each position and step: all that can stand in a cell
SEED = 0  # of the noise: fixed, so that a picture is always read the same
MAX_ROW_TOKENS = 16  # of a row: nine cells and the end token


def read_board(
    request: BoardRequest, backend: Backend, present: LoadedModel | None, put: Callable[[ServiceReply], object]
) -> None:
    """Reads a board; the replies end with ``BoardEnded``.

    Args:
        backend: of the loaded model; the model that sees is loaded in its sibling, unless it is the loaded one.
        present: the loaded model.
    """
    board, message, details = None, "", ""
    try:
        board = _read(request, backend, present, put)
    except Exception as error:  # whatever the libraries raise
        message, details = explained(error)
    put(BoardEnded(request.board_id, board, message, details))


def _read(
    request: BoardRequest, backend: Backend, present: LoadedModel | None, put: Callable[[ServiceReply], object]
) -> ReadBoard | None:
    is_here = present is not None and present.path_or_id == SIGHT and present.adapter is None
    runner = Runner(backend, present) if present is not None and is_here else None
    if runner is None:
        load = LoadRequest(SIGHT, catalog.title(SIGHT), request.threads, cancel=request.cancel)
        runner = load_sibling(backend, load, lambda _share: None)
    if runner is None:
        return None
    try:
        rows = list[ReadRow]()
        put(BoardAdvanced(request.board_id, ()))
        for row in read_rows(runner, request.picture, request.cancel):
            rows.append(row)
            put(BoardAdvanced(request.board_id, tuple(rows)))
    finally:
        if not is_here:
            runner.backend.unload()
    return None if request.cancel.is_set() else ReadBoard.from_rows(rows).checked()


def read_rows(runner: Runner, picture: Picture, cancel: threading.Event) -> Iterator[ReadRow]:
    """Yields the rows of a picture, one after another; fewer if that is cancelled.

    Raises:
        SafelightError: one cannot be read, or the model cannot see.
    """
    model = runner.model
    config = model.defaults.replace(image_tokens=IMAGE_TOKENS, top_k=CANDIDATES, max_new_tokens=MAX_ROW_TOKENS)
    for number, question in enumerate(ROW_QUESTIONS, start=1):
        asked = ({"role": "user", "content": question, "images": [image_of(picture)]},)
        request = ChatRun(config, SEED, asked, keep=False, pictures=(picture,), cancel=cancel)
        # Only the first step shows doubts: later ones see the guess of the step before, and agree, right or wrong.
        first: StepFinished | None = None
        tokens: list[int] = []
        for reply in run_alone(runner.backend, request):
            match reply:
                case RunAdvanced(event=StepFinished(block_index=0, step=0) as step):
                    first = step
                case RunAdvanced(event=CanvasCommitted(block_index=0) as done):
                    tokens = done.tokens[: done.text_length].tolist()
                case RunEnded(message=message) if message:
                    raise SafelightError(message)
        if cancel.is_set():
            return
        signs = [(sign, place) for place, token in enumerate(tokens) for sign in model.piece(token).strip()]
        cells = row_of("".join(sign for sign, _ in signs), number)
        yield ReadRow(cells.replace(EMPTY, "0"), tuple(_share(first, place, tokens[place]) for _, place in signs))


def _share(step: StepFinished | None, place: int, token: int) -> float:
    """Returns the probability of a token in a step; 0 if it was not among the likeliest."""
    if step is None or step.top_tokens is None or step.top_probabilities is None:
        return 0.0
    return float(step.top_probabilities[place][step.top_tokens[place] == token].sum())
