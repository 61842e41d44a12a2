"""Exports a run in any format, with functions that several formats share: header, ending, notices. Knows no Qt."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from app.export import FORMATS
from app.export.options import Options
from app.state.run.replay import BlockRecord, Replay
from app.state.sudoku.board import EMPTY
from app.state.sudoku.placing import Placed, placed
from app.system.i18n import trn
from engine import Recording, TraceHeader
from engine.tasks.decisions.questions import Decision, OneOf, Option, Question, Score, YesNo

UNSAID = "…"
PATIENCE_SECONDS = 0.02  # wait for work in a thread before the caller may do something else
Made = TypeVar("Made")
Share = Generator[float, None, str]
"""A running export: yields the share done, 0 to 1. Closing it leaves no file behind.

It returns a sentence about what is missing in the file and why; empty if the file is complete.
"""


def in_thread(work: Callable[[], Made], share: float) -> Generator[float, None, Made]:
    """Runs work in a thread and returns its result; yields ``share`` until it is done.

    Raises the work's own exceptions. Closing the generator waits for the work to end.
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
    """Returns a run's header without the model's folder, whose path may contain the user's name.

    ``prompt`` False leaves out the prompt, as text and as tokens.
    """
    header = dataclasses.replace(run.header, model=dataclasses.replace(run.header.model, path=""))
    if prompt:
        return header
    decision = None if header.decision is None else _unsaid(header.decision)
    return dataclasses.replace(header, prompt="", messages=(), prompt_ids=(), decision=decision, output_format=None)


def _unsaid(decision: Decision) -> Decision:
    """Returns a decision with its texts replaced by placeholders; the number of options stays."""
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
    """Returns the reason why the run ended: ``eos``, ``length``, ``cancelled``; empty without a recorded end."""
    return "" if run.result is None else run.result.reason


def board_in(run: Recording, record: BlockRecord, *, prompt: bool) -> Placed | None:
    """Returns the place of the Sudoku in a block, without givens if not ``prompt``; None if there is none."""
    found = placed(run.prompt, record.snapshots[-1], run.piece)
    return found if found is None or prompt else Placed(EMPTY.cells, found.positions)


def missing(replay: Replay) -> str:
    """Returns a sentence about blocks that could not be read completely so far; empty if all could."""
    said = [replay.cut[block] for block in sorted(replay.cut)]
    if len(said) < 2:
        return "".join(said)
    more = trn("{count} more block is cut short too.", "{count} more blocks are cut short too.", len(said) - 1)
    return f"{said[0]} {more}"


def export(run: Recording, path: Path, options: Options | None = None) -> Share:
    """Writes a run to a file; yields the share done, 0 to 1. Closing the generator early leaves no file behind.

    Returns a sentence about what is missing in the file, as of a block that is too long or damaged; empty if nothing.

    A file of that name is replaced once everything is written. Pictures need a ``QGuiApplication``.

    Raises:
        SafelightError: there is nothing to export, a chosen frame does not exist, ffmpeg is missing, the disk is full
            or the file cannot be written. An existing file then stays unchanged.
    """
    options = options or Options()
    writer = import_module(f"app.export.{FORMATS[options.format].module}")
    missing: str = yield from writer.write(run, path, options)
    return missing
