"""What a race comes to, reply by reply: canvases, texts, figures. Knows neither Qt nor torch."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

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

MOST_COMPARED = 4_000  # characters of a text: to compare two takes the product of their lengths


@dataclass(frozen=True)
class LaneFigures:
    """What a lane has written and spent so far.

    Args:
        tokens: of the text; of a block that develops, those that are accepted before the end that it has so far.
        steps: denoising steps, or passes that wrote.
        forwards: behind the prompt, those that only commit text included.
        seconds: of the engine, without the prompt and without the other lanes' turns.
    """

    tokens: int = 0
    steps: int = 0
    forwards: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_forward(self) -> float | None:
        """None before the first."""
        return self.tokens / self.forwards if self.forwards else None

    @property
    def tokens_per_second(self) -> float | None:
        """None before any time is known."""
        return self.tokens / self.seconds if self.seconds > 0 else None


def text_length(trace: Recording | None, canvas: NDArray[np.int32]) -> int:
    """Positions before the first end token of a run's canvas (C,); C if it has none. Behind it stands padding."""
    ends = () if trace is None else trace.header.config.eos_token_ids
    found = np.flatnonzero(np.isin(canvas, ends))
    return int(found[0]) if len(found) else len(canvas)


@dataclass(eq=False)
class LaneRun:
    """A lane under way or at its end.

    Args:
        moments: its figures at each frame of its ``Replay``: when a block began, after a step, and at the commit.
    """

    lane: Lane
    trace: Recording | None = None
    canvas: CanvasState = field(default_factory=CanvasState)
    moments: list[LaneFigures] = field(default_factory=list)
    is_over: bool = False
    problem: str = ""
    details: str = ""
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
        """Why its text ended: "eos", "length" or "cancelled"; empty before."""
        return "" if self.canvas.finished is None else self.canvas.finished.reason

    @property
    def text(self) -> str:
        """What it has written, as people read it."""
        return "" if self.trace is None else self.trace.text

    def fold(self, event: Event) -> None:
        """Take in its next event."""
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
        if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted):
            self.moments.append(self.figures)
        else:
            self._mend_moment()

    def _mend_moment(self) -> None:
        """The latest frame has other figures than were known when it came."""
        if self.moments:
            self.moments[-1] = self.figures

    def take(self, reply: RunStarted | RunAdvanced | LanePassed | RunEnded) -> None:
        """Take in its next reply."""
        match reply:
            case RunStarted(_, trace):
                self.trace = trace
            case RunAdvanced(_, event):
                self.fold(event)
            case LanePassed(_, forwards):
                self._forwards = forwards
                self._mend_moment()
            case RunEnded(_, message, details):
                self.is_over, self.problem, self.details = True, message, details


@dataclass(eq=False)
class RaceRun:
    """A race: its lanes in their order, what is being loaded for it, how it ended."""

    request: RaceRequest
    lanes: list[LaneRun]
    loading: RaceLoading | None = None
    is_over: bool = False
    problem: str = ""
    details: str = ""

    @staticmethod
    def of(request: RaceRequest) -> RaceRun:
        """Before the first reply."""
        return RaceRun(request, [LaneRun(lane) for lane in request.lanes])

    def take(self, reply: ServiceReply) -> bool:
        """Take in a reply; whether it is of this race."""
        match reply:
            case RunStarted() | RunAdvanced() | LanePassed() | RunEnded():
                self.loading = None
                found = next((one for one in self.lanes if one.lane.run_id == reply.run_id), None)
                if found is not None:
                    found.take(reply)
                return found is not None
            case RaceLoading() if reply.race_id == self.request.race_id:
                self.loading = reply
                return True
            case RaceEnded(race_id, message, details) if race_id == self.request.race_id:
                self.loading, self.is_over, self.problem, self.details = None, True, message, details
                return True
        return False

    @property
    def was_stopped(self) -> bool:
        """Whether it ended before its lanes did, though nothing failed."""
        cut = (one for one in self.lanes if one.reason in ("", "cancelled"))
        return self.is_over and not self.problem and any(not one.problem for one in cut)

    def agreement(self, lane: int) -> float:
        """How far a lane's text is the first one's, from 0 to 1."""
        return agreement(self.lanes[lane].text, self.lanes[0].text)


def agreement(one: str, other: str) -> float:
    """The share of two texts' characters that stand in both in the same order; 1 if both are the same or empty.

    Of long texts, of their beginnings.
    """
    if one == other:
        return 1.0
    matcher = difflib.SequenceMatcher(None, one[:MOST_COMPARED], other[:MOST_COMPARED], autojunk=False)
    return matcher.ratio()
