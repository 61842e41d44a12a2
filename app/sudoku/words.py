"""A board, a run on a puzzle and a bin in words: for labels, tool tips and who reads by ear. Knows no widgets."""

from __future__ import annotations

from dataclasses import dataclass

from app.canvas.words import STATE_WORDS
from app.state.sudoku.board import bin_name
from app.state.sudoku.solve_frame import ShownCell, SolveFrame
from app.system.i18n import tr, trn
from engine import GenerationFinished, PrefillFinished, Recording, StepFinished, step_number
from engine.tasks.sudoku import GIVENS, Bin

SAMPLE = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
"""Stands there at first sight, so that one click solves something."""

UNKNOWN = "–"


# --- a board ----------------------------------------------------------------------------------------------------------


def of_board(frame: SolveFrame) -> str:
    """How a board stands, in a sentence or two."""
    conflicts = trn("{count} conflict", "{count} conflicts", len(frame.conflicts))
    if not frame.started:
        filled = trn("{count} digit entered", "{count} digits entered", sum(bool(cell.given) for cell in frame.cells))
        return tr("{filled}, {conflicts}.", filled=filled, conflicts=conflicts)
    if frame.verdict is not None:
        after = trn("After {count} step.", "After {count} steps.", frame.steps)
        return f"{frame.verdict.text} {after}"
    if frame.step < 0:
        return tr("Before the first step: noise in all cells.")
    return tr(
        "Step {step}: {accepted} of 81 cells accepted, {conflicts}.",
        step=step_number(frame.step),
        accepted=frame.accepted,
        conflicts=conflicts,
    )


def of_cell(frame: SolveFrame, index: int) -> str:
    """A cell in one sentence: its row and column, its digit, its state, what is wrong with it."""
    cell = frame.cells[index]
    facts = [_content(cell), *_state(frame, cell), *_faults(cell)]
    row, column = divmod(index, 9)
    return tr("Row {row}, column {column}: {facts}", row=row + 1, column=column + 1, facts=", ".join(facts))


def details(frame: SolveFrame, index: int) -> list[str]:
    """What else is known of a cell, a line for each fact."""
    cell = frame.cells[index]
    lines = []
    if cell.marks:
        marks = (
            tr("{digit} at {percent} %", digit=mark.digit, percent=f"{100 * mark.probability:.0f}")
            for mark in cell.marks
        )
        lines.append(tr("Pencil marks: {marks}", marks=", ".join(marks)))
    if frame.started and not frame.committed and cell.text:
        lines.append(tr("On the canvas: {text}", text=repr(cell.text)))
    if cell.entropy is not None:
        lines.append(tr("Entropy: {entropy} nats", entropy=f"{cell.entropy:.3f}"))
    if cell.remelts:
        lines.append(trn("{count} remelt", "{count} remelts", cell.remelts))
    return lines


def _content(cell: ShownCell) -> str:
    if cell.violated:
        written = cell.digit or repr(cell.text)
        return tr("{digit} where the given is {given}", digit=written, given=cell.given)
    return cell.digit or cell.given or (tr("no digit") if cell.text or cell.marks else tr("blank"))


def _state(frame: SolveFrame, cell: ShownCell) -> list[str]:
    said = [tr("given")] if cell.given and not cell.violated else []
    if frame.started and not (frame.committed and said):
        state = tr(STATE_WORDS[cell.state])
        said += [state] if state not in said else []
    return said


def _faults(cell: ShownCell) -> list[str]:
    found = [tr("changed given")] if cell.violated else []
    found += [tr("in conflict")] if cell.in_conflict else []
    return found + ([tr("wrong")] if cell.wrong and not cell.violated else [])


# --- a run ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spent:
    """What a run took."""

    steps: int
    seconds: float  # of prefill and denoising, without the pace at which it was shown
    is_stopped: bool  # by the user

    @staticmethod
    def of(trace: Recording) -> Spent:
        """Of a run as far as it is recorded."""
        steps, seconds, ended = 0, 0.0, None
        for event in trace.events:
            match event:
                case PrefillFinished():
                    seconds += event.seconds
                case StepFinished():
                    steps += 1
                    seconds += event.seconds
                case GenerationFinished():
                    ended = event
        return Spent(steps, seconds, ended is not None and ended.reason == "cancelled")

    @property
    def words(self) -> str:
        """As "7 steps, 0.12 s"."""
        return tr("{steps}, {seconds} s", steps=steps_text(self.steps), seconds=f"{self.seconds:.2f}")


def steps_text(count: int) -> str:
    return trn("{count} step", "{count} steps", count)


def result_text(frame: SolveFrame | None, spent: Spent, problem: str = "") -> str:
    """How a run went: the solver's verdict, or why there is none; with steps and seconds."""
    if problem:
        return problem
    if spent.is_stopped:
        return tr("Stopped before the end. {spent}.", spent=spent.words)
    if frame is None or frame.verdict is None:
        return tr("The run ended without an answer. {spent}.", spent=spent.words)
    return tr("{verdict} {spent}.", verdict=frame.verdict.text, spent=spent.words)


def figures(frame: SolveFrame | None) -> tuple[str, str, str]:
    """Step, mean entropy and accepted cells of a frame."""
    if frame is None or frame.step < 0:
        return UNKNOWN, UNKNOWN, UNKNOWN
    entropy = UNKNOWN if frame.entropy is None else tr("{entropy} nats", entropy=f"{frame.entropy:.2f}")
    return str(frame.steps), entropy, tr("{accepted} of {cells}", accepted=frame.accepted, cells=len(frame.cells))


# --- a bin ------------------------------------------------------------------------------------------------------------


def bin_title(bin: Bin) -> str:
    """A bin as a button has it."""
    return bin_name(bin).capitalize()


def bin_tip(bin: Bin) -> str:
    """What a bin is."""
    givens = GIVENS[bin]
    return tr("A fresh puzzle with {low} to {high} givens and one solution", low=givens.low, high=givens.high)
