"""Describes a board and its cells in words, for tool tips and screen readers. Knows no widgets."""

from __future__ import annotations

from app.canvas.words import STATE_WORDS, token_words
from app.state.run.canvas import CellState
from app.state.sudoku.placing import Placed
from app.state.sudoku.solve_frame import ShownCell, SolveFrame
from app.system.i18n import tr, trn
from engine import step_number


def of_board(frame: SolveFrame) -> str:
    conflicts = trn("{count} conflict", "{count} conflicts", len(frame.conflicts))
    if not frame.started:
        filled = trn("{count} digit entered", "{count} digits entered", sum(bool(cell.given) for cell in frame.cells))
        return tr("{filled}, {conflicts}.", filled=filled, conflicts=conflicts)
    if frame.verdict is not None:
        if not frame.steps:  # the run is not known
            return frame.verdict.text
        after = trn("After {count} step.", "After {count} steps.", frame.steps)
        return f"{frame.verdict.text} {after}"
    if frame.step < 0:
        is_masked = any(cell.state == CellState.MASKED for cell in frame.cells)
        return tr("Nothing is written yet.") if is_masked else tr("Before the first step: noise in all cells.")
    return tr(
        "Step {step}: {accepted} of 81 cells accepted, {conflicts}.",
        step=step_number(frame.step),
        accepted=frame.accepted,
        conflicts=conflicts,
    )


def of_cell(frame: SolveFrame, index: int) -> str:
    """Returns a cell in one sentence: its row and column, its digit, its state and its faults."""
    cell = frame.cells[index]
    facts = [_content(cell), *_state(frame, cell), *_faults(cell)]
    row, column = divmod(index, 9)
    return tr("Row {row}, column {column}: {facts}", row=row + 1, column=column + 1, facts=", ".join(facts))


def cell_name(position: int, placed: Placed | None) -> str:
    """Returns the name of a cell of a canvas: its row and column in a Sudoku, else its position."""
    if placed is None or position not in placed.positions:
        return tr("position {position}", position=position)
    row, column = divmod(placed.positions.index(position), 9)
    return tr("row {row}, column {column}", row=row + 1, column=column + 1)


def details(frame: SolveFrame, index: int) -> list[str]:
    """Returns further facts about a cell, a line for each."""
    cell = frame.cells[index]
    lines = []
    if cell.marks:
        marks = (
            tr("{digit} at {percent} %", digit=mark.digit, percent=f"{100 * mark.probability:.0f}")
            for mark in cell.marks
        )
        lines.append(tr("Pencil marks: {marks}", marks=", ".join(marks)))
    if frame.started and not frame.committed and cell.text:
        lines.append(tr("On the canvas: {text}", text=token_words(cell.text)))
    if cell.entropy is not None:
        lines.append(tr("Entropy: {entropy} nats", entropy=f"{cell.entropy:.3f}"))
    if cell.times_taken_back:
        lines.append(trn("Taken back {count} time", "Taken back {count} times", cell.times_taken_back))
    return lines


def _content(cell: ShownCell) -> str:
    if cell.violated:
        written = cell.digit or token_words(cell.text)
        return tr("{digit} where the given is {given}", digit=written, given=cell.given)
    return cell.digit or cell.given or (tr("no digit") if cell.text or cell.marks else tr("blank"))


def _state(frame: SolveFrame, cell: ShownCell) -> list[str]:
    said = [tr("given")] if cell.given and not cell.violated else []
    if frame.started and not (frame.committed and said):
        state = tr(STATE_WORDS[cell.state])
        said += [state] if state not in said else []
    return said


def _faults(cell: ShownCell) -> list[str]:
    faults = [tr("changed given")] if cell.violated else []
    faults += [tr("in conflict")] if cell.in_conflict else []
    return faults + ([tr("wrong")] if cell.wrong and not cell.violated else [])
