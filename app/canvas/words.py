"""A block and its cells in words, for tool tips and assistive technology. Without Qt."""

from __future__ import annotations

from app.state.run.canvas import BlockState, Cell, CellState
from app.system.i18n import tr, trn
from engine import step_number

STATE_WORDS: dict[CellState, str] = {  # shown through ``tr``
    CellState.NOISE: "noise",
    CellState.CANDIDATE: "candidate",
    CellState.ACCEPTED: "accepted",
    CellState.REMELTED: "remelted",
    CellState.SETTLED: "settled",
    CellState.GIVEN: "given",
    CellState.PADDING: "padding",
}


def of_block(block: BlockState | None) -> str:
    """How a canvas stands, in a sentence."""
    if block is None:
        return tr("Empty canvas.")
    number = block.block_index + 1
    if block.committed:
        return tr(
            "Canvas block {block}, committed after {steps}: {text} of {length} are text, {remelts}.",
            block=number,
            steps=_steps(block.steps),
            text=block.text_length or 0,
            length=block.length,
            remelts=_remelts(block.remelt_total),
        )
    if block.step < 0:
        return tr(
            "Canvas block {block}, before the first step: {length} tokens of noise.",
            block=number,
            length=block.length,
        )
    return tr(
        "Canvas block {block}, step {step}: {accepted} of {length} accepted, {remelted} remelted.",
        block=number,
        step=step_number(block.step),
        accepted=block.accepted_count,
        length=block.length,
        remelted=block.remelted_count,
    )


def of_cell(cell: Cell, text: str, row: int, column: int) -> str:
    """A cell in one sentence: its place, counted from 0, its token's text, its state."""
    return tr(
        "Row {row}, column {column}: {text}, {state}",
        row=row + 1,
        column=column + 1,
        text=repr(text),
        state=tr(STATE_WORDS[cell.state]),
    )


def heading(cell: Cell, text: str, index: int) -> list[str]:
    """A cell's position and token, and its state, a line each."""
    return [
        tr("Position {index}: token {token}, {text}", index=index, token=cell.token, text=repr(text)),
        tr("State: {state}", state=tr(STATE_WORDS[cell.state])),
    ]


def details(cell: Cell) -> list[str]:
    """What else is known of a cell, a line for each fact."""
    lines = [] if cell.entropy is None else [tr("Entropy: {entropy} nats", entropy=f"{cell.entropy:.3f}")]
    return [*lines, tr("Accepted at {steps}", steps=_steps(cell.accepted_steps)), _remelts(cell.remelts)]


def _steps(number: int) -> str:
    return trn("{count} step", "{count} steps", number)


def _remelts(number: int) -> str:
    return trn("{count} remelt", "{count} remelts", number)
