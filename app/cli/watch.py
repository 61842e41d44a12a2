"""``--watch``: shows the canvas in the terminal, with the same reducer as the window. Runs no model.

Writes live to standard error, or to standard output if only that is a terminal; without a terminal (or with NO_COLOR)
the last frame is printed once, as plain text. Otherwise only results go to standard output.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
from rich.cells import cell_len
from rich.live import Live
from rich.text import Text

from app.cli import terminal
from app.state.run.canvas import BlockState, CanvasState, CellState
from app.state.run.end_words import block_end_words
from app.state.run.lines import line_ends
from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    PrefixPinned,
    StepFinished,
)

STYLES = {  # so that no state is shown by colour alone
    CellState.NOISE: "dim",
    CellState.CANDIDATE: "",
    CellState.ACCEPTED: "underline",
    CellState.REMELTED: "strike reverse red",
    CellState.SETTLED: "bold",
    CellState.GIVEN: "bold italic cyan",
    CellState.PADDING: "dim",
    CellState.FITTING: "bold underline",
    CellState.MASKED: "dim italic",
}
SHOWN = CanvasStarted | StepFinished | PrefixPinned | CanvasCommitted
MASK = "_"  # a position without text yet
CONTROL = "¤"  # end, padding and turn tokens
BREAK = "↲"


class PieceTexts(Protocol):
    """Gives the text of tokens; the model's tokenizer implements it."""

    def piece(self, token: int) -> str: ...
    def is_special(self, token: int) -> bool: ...


class Watcher:
    """Applies each event and shows the current block. A context manager, which restores the terminal at its end."""

    def __init__(
        self, pieces: PieceTexts, config: GenerationConfig, columns: int | None, pace: float, *, raw: bool
    ) -> None:
        self.state = CanvasState.under(config)
        self.pieces, self.config, self.columns, self.pace, self.raw = pieces, config, columns, pace, raw
        only_stdout = sys.stdout.isatty() and not sys.stderr.isatty()
        self.console = terminal.console(sys.stdout if only_stdout else sys.stderr)
        self.live: Live | None = None
        self._next_frame = 0.0

    def __enter__(self) -> Watcher:
        if self.console.is_terminal:
            # if the answer follows on the same terminal, the canvas is erased first
            self.live = Live(
                console=self.console,
                auto_refresh=False,
                transient=sys.stdout.isatty(),
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        block = self.state.current
        if self.live is not None:
            self.live.stop()
            if self.live.transient and block is not None:
                self.console.print(status(block, self.config, len(self.state.blocks)))
        elif block is not None:
            self.console.print(self.frame(block))

    def __call__(self, event: Event) -> None:
        """Applies and shows an event; each step is shown for at least ``pace`` seconds."""
        self.state.fold(event)
        block = self.state.current
        if self.live is None or block is None or not isinstance(event, SHOWN):
            return
        time.sleep(max(0.0, self._next_frame - time.monotonic()))
        self._next_frame = time.monotonic() + self.pace
        self.live.update(self.frame(block), refresh=True)

    def frame(self, block: BlockState) -> Text:
        """Returns the status line, the legend and the canvas."""
        width = min(terminal.MOST_COLUMNS, self.console.width - 1)
        text = Text(overflow="ellipsis", no_wrap=True)
        text.append(status(block, self.config, len(self.state.blocks)))
        text.append("\n")
        text.append(legend(block, calm=not self.raw))
        text.append("\n\n")
        text.append(canvas(block, self.pieces, width, self.columns, calm=not self.raw))
        text.append("\n")
        return text


def status(block: BlockState, config: GenerationConfig, blocks: int) -> Text:
    """Returns one line of numbers about a block."""
    parts = [f"block {block.block_index}"] if blocks > 1 or block.block_index else []
    if block.round is not None:
        parts.append(f"round {block.round.number + 1}, {block.round.pinned} hold")
    if block.temperature is None:
        parts.append("no step yet" if block.has_masks else "noise, no step yet")
    else:
        parts.append(f"steps {block.steps}" + ("" if block.has_masks else f"/{config.max_denoising_steps}"))
        of_all = "" if block.grows else f"/{block.length}"
        parts.append(f"{'written' if block.has_masks else 'accepted'} {block.accepted_count}{of_all}")
        if block.mean_entropy is not None:
            parts.append(f"mean entropy {block.mean_entropy:.3f} nats")
        parts.append(f"temperature {block.temperature:.2f}")
        if block.committed and not block.has_masks:
            parts.append(_end(block, config.max_denoising_steps))
    return Text(" · ".join(parts), style="dim", overflow="ellipsis", no_wrap=True)


def _end(block: BlockState, most: int) -> str:
    if block.reason == "converged":
        return "finished"
    return block_end_words(block) or f"stopped at the limit of {most} steps"


def legend(block: BlockState, *, calm: bool) -> Text:
    """Counts the positions in each state, each in the state's style; of text that grows, up to its end."""
    text = Text()
    counts = np.bincount(block.states(calm=calm)[: _shown(block, calm)], minlength=len(CellState))
    for state in CellState:
        if counts[state]:
            text.append("  " if text else "")
            text.append("not written" if state is CellState.MASKED else state.name.lower(), style=STYLES[state])
            text.append(f" {counts[state]}")
    return text


def canvas(block: BlockState, pieces: PieceTexts, width: int, columns: int | None, *, calm: bool) -> Text:
    """Returns the tokens of a block: ``columns`` per row if given (one character each), else wrapped at ``width``.

    A row also ends where a line of the text ends.
    """
    text = Text()
    used = 0
    ends = set(line_ends(block, pieces.piece))
    for position in range(_shown(block, calm)):
        cell = block.cell(position, calm)
        shown = glyph(cell.token, cell.state, pieces)
        if columns is not None and cell_len(shown) != 1:
            shown = CONTROL
        limit = columns if columns is not None else width
        if used and (position - 1 in ends or used + cell_len(shown) > limit):
            text.append("\n")
            used = 0
        text.append(shown, style=STYLES[cell.state])
        used += cell_len(shown)
    return text


def _shown(block: BlockState, calm: bool) -> int:
    """Counts the shown positions: all of a canvas; of text that grows, up to its last token."""
    if not block.grows:
        return block.length
    empty = np.isin(block.states(calm=calm), (CellState.MASKED, CellState.PADDING))
    return int(np.max(np.flatnonzero(~empty), initial=-1)) + 1


def glyph(token: int, state: CellState, pieces: PieceTexts) -> str:
    """Returns a token as visible text without line breaks or control characters."""
    if state is CellState.PADDING:
        return " "
    if state is CellState.MASKED:
        return MASK
    if pieces.is_special(token):
        return CONTROL
    return terminal.printable(pieces.piece(token)).replace("\n", BREAK).replace("\t", " ") or CONTROL


def watcher(
    args: argparse.Namespace, pieces: PieceTexts, config: GenerationConfig, columns: int | None = None
) -> AbstractContextManager[Watcher | None]:
    """Yields the observer that the options select; None without ``--watch``."""
    if not args.watch:
        return nullcontext()
    return Watcher(pieces, config, columns, args.pace / 1000, raw=args.raw)
