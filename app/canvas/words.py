"""Describes a block and its cells in words, for tool tips and assistive technology. Without widgets."""

from __future__ import annotations

import unicodedata
from typing import Literal

from app.canvas.glyphs import looks_special, visible
from app.state.run.canvas import BlockState, Cell, CellState
from app.system.i18n import tr, trn
from engine import step_number

SLOT: Literal["slot"] = "slot"
LegendKey = CellState | Literal["slot"]
STATE_WORDS: dict[LegendKey, str] = {  # shown through ``tr``
    CellState.NOISE: "noise",
    CellState.CANDIDATE: "candidate",
    CellState.ACCEPTED: "accepted",
    CellState.TAKEN_BACK: "taken back",
    CellState.SETTLED: "settled",
    CellState.GIVEN: "given",
    CellState.PADDING: "padding",
    CellState.FITTING: "fits",
    CellState.MASKED: "not written",
    SLOT: "slot of a question",
}
STATE_TIPS: dict[LegendKey, str] = {  # what the states mean, shown through ``tr``
    CellState.NOISE: "A random token: the model has not decided yet",
    CellState.CANDIDATE: "The best guess so far, not sure enough to stay",
    CellState.ACCEPTED: "Sure enough to stay at this step",
    CellState.TAKEN_BACK: "Accepted at the step before, and no longer: it is decided again",
    CellState.SETTLED: "Accepted for two steps or more without a change",
    CellState.GIVEN: "Set by you or by the format; the model does not change it",
    CellState.PADDING: "After the end of the block's text",
    CellState.FITTING: "Written by the model, and kept because it fits the format",
    CellState.MASKED: "Nothing is written here yet",
    SLOT: "The answer to a question is read here",
}

_NAMES = {  # names of control tokens, shown through ``tr``
    "<eos>": "end of text",
    "</s>": "end of text",
    "<|endoftext|>": "end of text",
    "<bos>": "start of text",
    "<pad>": "padding",
    "<unk>": "unknown token",
    "<mask>": "mask",
    "<turn|>": "end of the turn",
    "<end_of_turn>": "end of the turn",
    "<|im_end|>": "end of the turn",
    "<|turn>": "start of a turn",
    "<start_of_turn>": "start of a turn",
    "<|im_start|>": "start of a turn",
}
# Spaces are visible between the quotation marks; the joiner combines several characters into one.
_KEPT = (" ", "\u200d")
_OPEN, _CLOSE = "\u2068", "\u2069"  # isolate right-to-left text, so that the text around it keeps its direction


def token_words(piece: str) -> str:
    """Returns a token's text in quotation marks, with signs for invisible characters; a control token in words."""
    if piece in _NAMES:
        return tr(_NAMES[piece])
    if looks_special(piece):
        return tr("control token {name}", name=piece.strip("<|/>").replace("_", " "))
    if piece == "\n":
        return visible(piece)
    text = "".join(character if character in _KEPT else visible(character) for character in piece)
    turned = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in piece)
    return f"{_OPEN}'{text}'{_CLOSE}" if turned else f"'{text}'"


def of_block(block: BlockState | None) -> str:
    if block is None:
        return tr("Empty canvas.")
    facts = {
        "block": block.block_index + 1,
        "steps": _steps(block.steps),
        "accepted": block.accepted_count,
        "length": block.length,
    }
    if block.grows:
        written = block.accepted_count if block.text_length is None else block.text_length
        said = trn("{count} token of text", "{count} tokens of text", written)
        return tr("Canvas block {block}, {steps} so far: {text}.", text=said, **facts)
    if block.committed:
        return tr(
            "Canvas block {block}, finished after {steps}: {text} of {length} are text, {count} taken back.",
            text=block.text_length or 0,
            count=block.taken_back_total,
            **facts,
        )
    if block.has_masks:
        return tr("Canvas block {block}, {steps} so far: {accepted} of {length} written.", **facts)
    if block.step < 0:
        return tr("Canvas block {block}, before the first step: {length} tokens of noise.", **facts)
    return tr(
        "Canvas block {block}, step {step}: {accepted} of {length} accepted, {back} taken back.",
        step=step_number(block.step),
        back=block.taken_back_count,
        **facts,
    )


def of_cell(cell: Cell, text: str, row: int, column: int) -> str:
    """Describes a cell in one sentence: its row and column (given from 0), its token's text and its state."""
    return tr(
        "Row {row}, column {column}: {text}, {state}",
        row=row + 1,
        column=column + 1,
        text=token_of(cell, text),
        state=tr(STATE_WORDS[cell.state]),
    )


def token_of(cell: Cell, text: str) -> str:
    """Returns a cell's token in words; "nothing yet" if none is written."""
    return tr("nothing yet") if cell.state == CellState.MASKED else token_words(text)


def heading(cell: Cell, text: str, index: int) -> list[str]:
    """Returns two lines: a cell's position and token, and its state."""
    return [
        tr("Position {index}: {text}", index=index, text=token_of(cell, text)),
        tr("State: {state}", state=tr(STATE_WORDS[cell.state])),
    ]


def details(cell: Cell) -> list[str]:
    """Returns further facts about a cell, one in each line."""
    lines = [] if cell.entropy is None else [tr("Entropy: {entropy} nats", entropy=f"{cell.entropy:.3f}")]
    if cell.causal is not None:
        lines.append(tr("Causal probability: {share}", share=f"{cell.causal:.1%}"))
    lines.append(tr("Accepted at {steps}", steps=_steps(cell.accepted_steps)))
    return (
        [*lines, trn("Taken back {count} time", "Taken back {count} times", cell.times_taken_back)]
        if cell.times_taken_back
        else lines
    )


def _steps(number: int) -> str:
    return trn("{count} step", "{count} steps", number)
