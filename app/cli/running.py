"""Loads a model and runs one generation for the terminal, from events to one outcome. Prints no results."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from rich.cells import cell_len
from rich.live import Live
from rich.text import Text

import engine
from app.cli import terminal
from app.cli.loading import chosen, failure
from app.state.run.canvas import BlockState, CanvasState, CellState
from app.state.run.lines import line_ends
from app.state.run.stats import block_end_words
from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    PrefixPinned,
    StepFinished,
    TextArrived,
)
from engine.service import LoadedModel, RunAdvanced, RunEnded, Runner, RunRequest, RunStarted, run_alone
from engine.trace import Draft

if TYPE_CHECKING:
    from engine import Model

STYLES = {  # so that no state is shown by colour alone
    CellState.NOISE: "dim",
    CellState.CANDIDATE: "",
    CellState.ACCEPTED: "underline",
    CellState.TAKEN_BACK: "strike reverse red",
    CellState.SETTLED: "bold",
    CellState.GIVEN: "bold italic cyan",
    CellState.PADDING: "dim",
    CellState.FITTING: "bold underline",
    CellState.MASKED: "dim italic",
}
SHOWN_EVENTS = CanvasStarted | StepFinished | PrefixPinned | CanvasCommitted
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
        if self.live is None or block is None or not isinstance(event, SHOWN_EVENTS):
            return
        time.sleep(max(0.0, self._next_frame - time.monotonic()))
        self._next_frame = time.monotonic() + self.pace
        self.live.update(self.frame(block), refresh=True)

    def frame(self, block: BlockState) -> Text:
        """Returns the status line, the legend and the canvas."""
        width = min(terminal.MAX_COLUMNS, self.console.width - 1)
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
            text.append(
                "not written" if state is CellState.MASKED else state.name.lower().replace("_", " "),
                style=STYLES[state],
            )
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


@dataclass
class Outcome:
    """A run's text and its cost, so far. Times exclude loading and watching."""

    config: GenerationConfig  # with the decoder that wrote
    seed: int | None = None  # None: the server chose its own
    text: str = ""
    thinking: str = ""  # not part of the text
    reason: str = "cancelled"
    why: str = ""  # explains the reason "length" in a sentence, if the length limit did not end the run
    failure: Exception | None = None  # why the answer broke off
    counted: int = 0  # tokens of text that arrived without a canvas
    blocks: int = 0  # number of committed blocks
    steps: int = 0
    rounds: int = 0  # how often a prefix was pinned, if the answer had a format
    prefill_seconds: float = 0.0
    seconds: float = 0.0  # without prefill
    stopped: bool = False  # by Ctrl+C; ``text`` then ends with the unfinished canvas's draft

    def __post_init__(self) -> None:
        self._draft = Draft(self.config.eos_token_ids)

    def fold(self, event: Event) -> None:
        """Adds the run's next event."""
        self._draft.fold(event)
        match event:
            case TextArrived():
                self.counted += event.counted
            case PrefillFinished():
                self.prefill_seconds = event.seconds
            case StepFinished():
                self.steps += 1
                self.seconds += event.seconds
            case PrefixPinned():
                self.rounds += 1
            case CanvasCommitted():
                self.blocks += 1
            case GenerationFinished():
                self.reason, self.why, self.seconds = event.reason, event.why, event.seconds

    @property
    def tokens(self) -> list[int]:
        """The tokens of the text, before the end token."""
        return self._draft.tokens()

    @property
    def length(self) -> int:
        """Returns the number of tokens of the text."""
        return len(self.tokens) or self.counted

    @property
    def tokens_per_forward(self) -> float:
        return len(self.tokens) / self.steps if self.steps else 0.0


def load(args: argparse.Namespace, default: str) -> Model:
    """Loads the model and adapter of the options, with a note on standard error if that is a terminal."""
    name = chosen(args, default)
    with terminal.note(f"Loading {name} …"):
        model = engine.load_model(
            name, device=args.device, dtype=args.dtype, quantization=args.quantization, threads=args.threads
        )
        if args.adapter is not None:
            engine.load_adapter(model, args.adapter)
    if model.placement.is_news:
        terminal.say(model.placement.reason)
    return model


def names_of(model: Model | LoadedModel) -> dict[str, str]:
    """Returns the names for a JSON record: the model's, and its adapter's if it has one."""
    adapter = Path(model.adapter) if isinstance(model.adapter, str) else model.adapter
    return {"model": model.name} | ({} if adapter is None else {"adapter": adapter.name})


def seed_of(args: argparse.Namespace) -> int | None:
    """Returns the seed given after the subcommand, else the one given before it; None without one."""
    return args.seed if args.seed is not None else getattr(args, "window_seed", None)


def seed(args: argparse.Namespace) -> int:
    """Returns the given seed, else 0."""
    return seed_of(args) or 0


def answered(args: argparse.Namespace, runner: Runner, model: LoadedModel, request: RunRequest) -> Outcome:
    """Runs a request to its end, or until it is cancelled; shows it meanwhile if the options say so.

    Args:
        model: that writes, whose tokens are shown.
    """
    outcome, watch, trace = Outcome(request.config), None, None
    with ExitStack() as watching:
        for reply in run_alone(runner.backend, request):
            match reply:
                case RunStarted(trace=begun):
                    trace = begun
                    if args.watch:
                        columns, pace = model.traits.canvas_columns, args.pace / 1000
                        watch = watching.enter_context(Watcher(model, begun.config, columns, pace, raw=args.raw))
                case RunAdvanced(event=event):
                    outcome.fold(event)
                    if watch is not None:
                        watch(event)
                case RunEnded(message=message, details=details):
                    outcome.failure = failure(message, details)
    outcome.stopped, outcome.seed = request.cancel.is_set(), request.seed
    if trace is not None:
        outcome.text, outcome.thinking = trace.reply()
        outcome.seed = trace.seed
        outcome.config = request.config.replace(decoder=trace.config.decoder or request.config.decoder)
    if outcome.failure is not None:
        outcome.reason = "failed"
    return outcome


def follow(events: Iterable[Event], config: GenerationConfig) -> Outcome:
    """Collects the events of a run in an outcome, except for its text."""
    outcome = Outcome(config)
    for event in events:
        outcome.fold(event)
    return outcome


def print_json(record: dict[str, Any]) -> None:
    """Prints a JSON object on one line of standard output and flushes it."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(record, ensure_ascii=not unicode), flush=True)
