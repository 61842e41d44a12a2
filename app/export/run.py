"""What several export formats need of a run: its header, its ending, notices. Knows no Qt."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import TypeVar

from app.state.run.replay import BlockRecord, Replay
from app.state.sudoku.board import EMPTY
from app.state.sudoku.placing import Placed, placed
from app.system.i18n import trn
from engine import Recording, TraceHeader
from engine.tasks.decisions.questions import Decision, OneOf, Option, Question, Score, YesNo

UNSAID = "…"
PATIENCE_SECONDS = 0.02  # with work beside the caller, before the caller may do something else
Made = TypeVar("Made")
Share = Generator[float, None, str]
"""An export under way: yields what part is done, 0 to 1. Closing it leaves nothing behind.

It returns what is not in the file though it was asked for, and why, in a sentence; empty where all is.
"""


def in_thread(work: Callable[[], Made], share: float) -> Generator[float, None, Made]:
    """Do beside the caller what takes longer than a frame; ``share`` of the whole is done meanwhile.

    Raises whatever the work does. Closing it waits for the work's end.
    """
    found = Future[Made]()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:
            found.set_exception(error)

    thread = threading.Thread(target=run, name="export")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(PATIENCE_SECONDS)
            yield share
    finally:
        thread.join()
    return found.result()


def header_of(run: Recording, *, prompt: bool) -> TraceHeader:
    """What was fixed before the first event, without the model's folder, which may name its owner.

    ``prompt`` False leaves out what was asked, as text and as tokens.
    """
    header = dataclasses.replace(run.header, model=dataclasses.replace(run.header.model, path=""))
    if prompt:
        return header
    decision = None if header.decision is None else _unsaid(header.decision)
    return dataclasses.replace(header, prompt="", messages=(), prompt_ids=(), decision=decision, output_format=None)


def _unsaid(decision: Decision) -> Decision:
    """A decision whose questions have as many options, and say nothing."""
    asked: list[Question] = []
    for question in decision.questions:
        options = tuple(Option(str(place + 1)) for place in range(len(question.options)))
        match question:
            case YesNo():
                asked.append(YesNo(UNSAID))
            case OneOf():
                asked.append(OneOf(UNSAID, options))
            case Score():
                asked.append(Score(UNSAID, options))
    return dataclasses.replace(decision, state=UNSAID, instructions="", questions=tuple(asked))


def ending(run: Recording) -> str:
    """How the run ended: ``eos``, ``length``, ``cancelled``; empty where it was not recorded to its end."""
    return "" if run.result is None else run.result.reason


def board_in(run: Recording, record: BlockRecord, *, prompt: bool) -> Placed | None:
    """Where a block writes a Sudoku, of no givens without the ``prompt``; None where it does not."""
    found = placed(run.prompt, record.snapshots[-1], run.piece)
    return found if found is None or prompt else Placed(EMPTY.cells, found.positions)


def missing(replay: Replay) -> str:
    """What could not be read whole of the blocks that were looked at; empty where all could."""
    said = [replay.cut[block] for block in sorted(replay.cut)]
    if len(said) < 2:
        return "".join(said)
    more = trn("{count} more block is cut short too.", "{count} more blocks are cut short too.", len(said) - 1)
    return f"{said[0]} {more}"
