"""Folds the replies of a race into canvases, texts and figures. Knows neither Qt nor torch."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from app.state.run.canvas import CanvasState
from engine import CanvasCommitted, CanvasStarted, Event, GenerationFinished, Recording, StepFinished
from engine.service import (
    Lane,
    LanePassed,
    RaceEnded,
    RaceLoading,
    RaceRequest,
    RunAdvanced,
    RunEnded,
    RunStarted,
    ServiceReply,
)

MAX_COMPARED = 4_000  # characters of a text, as the time of a comparison grows with the product of both lengths


@dataclass(frozen=True)
class LaneFigures:
    """The figures of a lane so far.

    Args:
        tokens: tokens of the text; of an unfinished block, the accepted ones before its end token so far.
        steps: denoising steps, or passes that wrote.
        forwards: forward passes after the prompt, including those that only commit text.
        seconds: time of the engine, without the prompt and the other lanes' passes.
    """

    tokens: int = 0
    steps: int = 0
    forwards: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_forward(self) -> float | None:
        """Tokens per forward; None before the first forward."""
        return self.tokens / self.forwards if self.forwards else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second; None until a time is known."""
        return self.tokens / self.seconds if self.seconds > 0 else None


def text_length(trace: Recording | None, canvas: NDArray[np.int32]) -> int:
    """Returns the number of positions before the first end token of a run's canvas (C,); C if it has none.

    The positions after it are padding.
    """
    ends = () if trace is None else trace.header.config.eos_token_ids
    end_places = np.flatnonzero(np.isin(canvas, ends))
    return int(end_places[0]) if len(end_places) else len(canvas)


@dataclass(eq=False)
class LaneRun:
    """A lane that is running or has ended.

    Args:
        moments: the figures at each frame of the lane's ``Replay``: at a block's start, after each step, at the commit.
    """

    lane: Lane
    trace: Recording | None = None
    canvas: CanvasState = field(default_factory=CanvasState)
    moments: list[LaneFigures] = field(default_factory=list)
    is_over: bool = False
    problem: str = ""
    _committed: int = 0
    _open: int = 0
    _steps: int = 0
    _forwards: int = 0
    _seconds: float = 0.0

    @property
    def figures(self) -> LaneFigures:
        return LaneFigures(self._committed + self._open, self._steps, self._forwards, self._seconds)

    @property
    def reason(self) -> str:
        """The reason why the text ended: "eos", "length" or "cancelled"; empty until it ends."""
        return "" if self.canvas.finished is None else self.canvas.finished.reason

    @property
    def text(self) -> str:
        """The text written so far, as it is shown."""
        return "" if self.trace is None else self.trace.text

    def fold(self, event: Event) -> None:
        self.canvas.fold(event)
        match event:
            case StepFinished():
                self._open = int(event.accepted_mask[: text_length(self.trace, event.argmax_canvas)].sum())
                self._steps += 1
                self._seconds += event.seconds
            case CanvasCommitted():
                self._committed, self._open = self._committed + event.text_length, 0
            case GenerationFinished():
                self._committed, self._open = len(event.tokens), 0
                self._steps, self._seconds = event.steps, event.seconds
                most = len(event.tokens)  # before its end token was known, padding counted as text
                self.moments = [replace(one, tokens=min(one.tokens, most)) for one in self.moments]
        if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted):
            self.moments.append(self.figures)
        else:
            self._mend_moment()

    def _mend_moment(self) -> None:
        """Updates the figures of the latest frame, which were not complete when it came."""
        if self.moments:
            self.moments[-1] = self.figures

    def apply(self, reply: RunStarted | RunAdvanced | LanePassed | RunEnded) -> None:
        match reply:
            case RunStarted(_, trace):
                self.trace = trace
            case RunAdvanced(_, event):
                self.fold(event)
            case LanePassed(_, forwards):
                self._forwards = forwards
                self._mend_moment()
            case RunEnded(_, message):
                self.is_over, self.problem = True, message


@dataclass(eq=False)
class RaceRun:
    """A race: its lanes in order, the model being loaded, and the problem if it failed."""

    request: RaceRequest
    lanes: list[LaneRun]
    loading: RaceLoading | None = None
    is_over: bool = False
    problem: str = ""

    @staticmethod
    def from_request(request: RaceRequest) -> RaceRun:
        """Returns the state before the first reply."""
        return RaceRun(request, [LaneRun(lane) for lane in request.lanes])

    def apply(self, reply: ServiceReply) -> None:
        match reply:
            case RunStarted() | RunAdvanced() | LanePassed() | RunEnded():
                self.loading = None
                next(one for one in self.lanes if one.lane.run_id == reply.run_id).apply(reply)
            case RaceLoading():
                self.loading = reply
            case RaceEnded(_, message):
                self.loading, self.is_over, self.problem = None, True, message

    @property
    def was_stopped(self) -> bool:
        """True if the race ended before its lanes did, without a failure."""
        cut = (one for one in self.lanes if one.reason in ("", "cancelled"))
        return self.is_over and not self.problem and any(not one.problem for one in cut)

    def agreement(self, lane: int) -> float:
        """Returns the agreement of a lane's text with the first lane's, from 0 to 1."""
        return agreement(self.lanes[lane].text, self.lanes[0].text)


def agreement(one: str, other: str) -> float:
    """Returns the share of two texts' characters that are in both in the same order; 1 if both are equal or empty.

    Only the first ``MAX_COMPARED`` characters of each are compared.
    """
    if one == other:
        return 1.0
    matcher = difflib.SequenceMatcher(None, one[:MAX_COMPARED], other[:MAX_COMPARED], autojunk=False)
    return matcher.ratio()
