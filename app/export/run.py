"""Exports a run in any format, with functions that several formats share: header, ending, notices. Knows no Qt."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, TypeVar

from app.export import FORMATS, ExportFormat
from app.state.run.replay import NOISE, BlockRecord, Frame, Replay
from app.state.sudoku.board import EMPTY
from app.state.sudoku.placing import Placed, placed
from app.system.i18n import trn
from engine import Recording, SafelightError, TraceHeader, step_number
from engine.tasks.decisions.questions import Decision, OneOf, Option, Question, Score, YesNo

UNSAID = "…"
PATIENCE_SECONDS = 0.02  # wait for work in a thread before the caller may do something else
Made = TypeVar("Made")
FPS_LOW, FPS_HIGH = 0.5, 50.0  # GIF times are hundredths of a second; players slow down faster ones


@dataclass(frozen=True)
class Options:
    """Export options. ``frames`` are indices in ``Replay.frames``; None for the format's default: all, or the last."""

    format: str = "html"  # a name in ``FORMATS``
    prompt: bool = True  # include the prompt
    theme: Literal["darkroom", "paper"] = "darkroom"
    board: bool = True  # show a Sudoku as a board instead of its tokens
    calm: bool = True
    scale: int = 1  # pixels of the picture per pixel of the layout, 1 or 2
    fps: float = 5.0  # frames a second of GIF and MP4
    frames: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise SafelightError(f"there is no format {self.format!r}; choose one of {', '.join(FORMATS)}")
        if self.scale not in (1, 2):
            raise SafelightError(f"the scale must be 1 or 2, not {self.scale!r}")
        if not FPS_LOW <= self.fps <= FPS_HIGH:
            raise SafelightError(
                f"the speed must be from {FPS_LOW:g} to {FPS_HIGH:g} frames a second, not {self.fps:g}"
            )
        if self.frames is not None and not self.frames:
            raise SafelightError("no frames are chosen; choose at least one")


def format_of(path: Path) -> ExportFormat:
    """Returns the format for a file's suffix; ``.png`` is one step. Raises SafelightError if there is none."""
    for format in FORMATS.values():
        if path.suffix.lower() == format.suffix:
            return format
    known = ", ".join(dict.fromkeys(format.suffix for format in FORMATS.values()))
    raise SafelightError(f"{path.name} does not end in any of {known}; name the format with --format")


def chosen(replay: Replay, options: Options) -> tuple[int, ...]:
    """Returns the indices of the frames to draw.

    Raises:
        SafelightError: nothing has been recorded yet, or a chosen frame does not exist.
    """
    last, format = len(replay.frames) - 1, FORMATS[options.format]
    if last < 0:
        raise SafelightError("this run has no canvas yet, so there is nothing to export. Let it take a step first")
    if options.frames is not None:
        beyond = [place for place in options.frames if not 0 <= place <= last]
        if beyond:
            raise SafelightError(f"there is no frame {beyond[0]}; the run has frames 0 to {last}")
        return options.frames[:1] if format.is_single else options.frames
    return (last,) if format.is_single else tuple(range(last + 1))


def frames_of(replay: Replay, block: int) -> tuple[int, ...]:
    """Returns the indices of a block's frames. Raises SafelightError if there is no such block."""
    places = tuple(place for place, frame in enumerate(replay.frames) if frame.block == block)
    if not places:
        raise SafelightError(f"there is no block {block + 1}; the run has {replay.blocks}")
    return places


def parse_steps(text: str, replay: Replay, block: int) -> tuple[int, ...]:
    """Returns the indices of a block's frames given as text: steps and ranges as ``1,4-8``, ``noise`` and ``end``.

    Steps count from 1, as everywhere in the interface; the order is free.

    Raises:
        SafelightError: the text is malformed, or the block does not have a step.
    """
    within = frames_of(replay, block)
    steps = sum(replay.frames[place].step != NOISE for place in within) - replay.committed(block)
    places: list[int] = []
    for word in (part.strip().lower() for part in text.split(",")):
        if word == "noise":
            places.append(replay.place(Frame(block, NOISE)))
        elif word == "end":
            places.append(within[-1])
        else:
            first, dash, last = word.partition("-")
            try:
                low = int(first)
                high = (steps if not last else int(last)) if dash else low
            except ValueError:
                raise SafelightError(f"{word!r} names no step; write steps as 1,4-8,end") from None
            if not 1 <= low <= high <= steps:
                known = f"it has steps 1 to {steps}, and noise before them" if steps else "it has noise alone"
                raise SafelightError(f"block {block + 1} has no step {word}; {known}")
            places += [replay.place(Frame(block, step)) for step in range(steps) if low <= step_number(step) <= high]
    return tuple(dict.fromkeys(places))


Share = Generator[float, None, str]
"""A running export: yields the share done, 0 to 1. Closing it leaves no file behind.

It returns a sentence about what is missing in the file and why; empty if the file is complete.
"""


def in_thread(work: Callable[[], Made], share: float) -> Generator[float, None, Made]:
    """Runs work in a thread and returns its result; yields ``share`` until it is done.

    Raises the work's own exceptions. Closing the generator waits for the work to end.
    """
    future = Future[Made]()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name="export")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(PATIENCE_SECONDS)
            yield share
    finally:
        thread.join()
    return future.result()


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


def board_in(run: Recording, record: BlockRecord, *, prompt: bool) -> Placed | None:
    """Returns the place of the Sudoku in a block, without givens if not ``prompt``; None if there is none."""
    cells = placed(run.prompt, record.snapshots[-1], run.piece)
    return cells if cells is None or prompt else Placed(EMPTY.cells, cells.positions)


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
        SafelightError: there is nothing to export, a chosen frame does not exist, the disk is full
            or the file cannot be written. An existing file then stays unchanged.
    """
    options = options or Options()
    writer = import_module(f"app.export.{FORMATS[options.format].module}")
    missing: str = yield from writer.write(run, path, options)
    return missing
