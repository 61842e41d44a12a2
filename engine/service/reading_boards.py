"""Reads Sudokus from pictures: nine runs on one picture, which is encoded once. Knows neither Qt nor torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from engine.catalog import EMBEDDED, SIGHT
from engine.errors import SafelightError
from engine.events import CanvasCommitted, Event, StepFinished
from engine.pictures import Picture
from engine.service.backend import Backend, run_alone
from engine.service.failures import explained
from engine.service.replies import BoardAdvanced, BoardEnded, LoadedModel, RunAdvanced, RunEnded, ServiceReply
from engine.service.requests import BoardRequest, LoadRequest, RunRequest
from engine.service.sibling import Runner, load_sibling
from engine.tasks.sudoku_pictures import EMPTY, IMAGE_TOKENS, ROW_QUESTIONS, ReadBoard, ReadRow, row_of
from engine.text.message import image_of

CANDIDATES = 10  # reported for each position and step: all that can stand in a cell
SEED = 0  # of the noise: fixed, so that a picture is always read the same
MOST_TOKENS = 16  # of a row: nine cells and the end token
TITLE = next(model.title for model in EMBEDDED if model.id == SIGHT)


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
        load = LoadRequest(SIGHT, TITLE, request.threads, cancel=request.cancel)
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
    config = model.defaults.replace(image_tokens=IMAGE_TOKENS, top_k=CANDIDATES, max_new_tokens=MOST_TOKENS)
    for number, question in enumerate(ROW_QUESTIONS, start=1):
        asked = ({"role": "user", "content": question, "images": [image_of(picture)]},)
        request = RunRequest("chat", asked, config, SEED, keep=False, pictures=(picture,), cancel=cancel)
        reader = RowReader(number, model.piece)
        for reply in run_alone(runner.backend, request):
            if isinstance(reply, RunAdvanced):
                reader.add(reply.event)
            elif isinstance(reply, RunEnded) and reply.message:
                raise SafelightError(reply.message)
        if cancel.is_set():
            return
        yield reader.row()


class RowReader:
    """Collects the events of a row's run.

    Only its first step shows doubts: later ones see the guess of the step before, and agree with it, right or wrong.

    Args:
        piece: returns the text of a token.
    """

    def __init__(self, number: int, piece: Callable[[int], str]) -> None:
        self._number, self._piece = number, piece
        self._first: StepFinished | None = None
        self._committed: CanvasCommitted | None = None

    def add(self, event: Event) -> None:
        """Adds the next event."""
        match event:
            case StepFinished(block_index=0, step=0):
                self._first = event
            case CanvasCommitted(block_index=0):
                self._committed = event

    def row(self) -> ReadRow:
        """Returns the row.

        Raises:
            SafelightError: the text is no row.
        """
        done = self._committed
        tokens = [] if done is None else done.tokens[: done.text_length].tolist()
        signs = [(sign, place) for place, token in enumerate(tokens) for sign in self._piece(token).strip()]
        cells = row_of("".join(sign for sign, _ in signs), self._number)
        return ReadRow(cells.replace(EMPTY, "0"), tuple(self._at_first(place, tokens[place]) for _, place in signs))

    def _at_first(self, place: int, token: int) -> float:
        """Returns the probability of a token in the first step; 0 if it was not among the likeliest."""
        first = self._first
        if first is None or first.top_tokens is None or first.top_probabilities is None:
            return 0.0
        return float(first.top_probabilities[place][first.top_tokens[place] == token].sum())
