"""Random access to the frames of a recorded run. Knows neither Qt nor torch, nor where the run is recorded.

The state at a frame comes from the reducer of the live view, fed with the same events. Plots and histories are read
from the arrays of a block over its steps. Padding after the end token does not count in any figure.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.state.run.canvas import BlockState, CanvasState, Mask, PinnedRound, Tokens, predicted_by
from app.system.i18n import tr
from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    Fork,
    PrefixPinned,
    Recording,
    SafelightError,
    SlotsRead,
    StepFinished,
    TraceHeader,
    open_trace,
)

Floats = NDArray[np.float32]
NOISE = -1
"""The step of a block's first frame, before any step was taken."""
KEPT_BLOCKS = 6  # blocks whose arrays are in memory at once
BLOCK_BYTES = 16 * 2**20  # of one block's arrays: about fourteen times that of 48 steps on a canvas of 256
BLOCK_STEPS = 1_000  # most steps of a block that are read, as the window waits meanwhile


def read_run(run: Recording | Path) -> tuple[Replay, Recording]:
    """Returns a replay and the recording that it reads from. Meant for a thread, as a long run takes a while.

    Raises:
        SafelightError: its file cannot be read.
    """
    recording = open_trace(run) if isinstance(run, Path) else run
    replay = Replay(recording)
    for block in range(min(replay.blocks, KEPT_BLOCKS)):
        replay.record(block)  # fills the replay's cache
    return replay, recording


class Frame(NamedTuple):
    """One picture of a replay: a block's noise (step ``NOISE``), one of its steps, or its commit (step = its steps).

    Pins appear in the frame of the step or commit that follows them. A read of a decision is a block of noise and one
    step. The values of the slots appear in that step's frame, and the commit has no frame.
    """

    block: int
    step: int


@dataclass(frozen=True, eq=False)
class BlockRecord:
    """One block over its S steps of C positions. Arrays that were not recorded are None."""

    index: int
    noise: Tokens  # (C,)
    pinned: Mask  # (C,) from the start
    held: Mask  # (S, C) pinned at a step: from the start, by a fork or by a round
    argmax: Tokens  # (S, C)
    candidates: Tokens  # (S, C)
    accepted: Mask  # (S, C)
    following: Tokens  # (S, C) the canvas after the step
    entropy: Floats  # (S, C) nats
    temperature: Floats  # (S,)
    seconds: Floats  # (S,)
    top_tokens: Tokens | None  # (S, C, K), likeliest first
    top_probabilities: Floats | None  # (S, C, K)
    final: Tokens | None  # (C,) None if the block was not committed
    text_length: int | None
    reason: str
    snapshots: tuple[BlockState, ...]  # noise, each step, and the commit if there is one
    rounds: tuple[PinnedRound, ...] = ()  # of a run whose answer must fit a format
    filler: int | None = None  # token of positions that are not written; None if the block began as noise

    @property
    def steps(self) -> int:
        return len(self.argmax)

    @property
    def has_masks(self) -> bool:
        """True if the block is written over masks. Entropy and top candidates are then kept as in ``BlockState``."""
        return self.filler is not None

    @cached_property
    def begun(self) -> Mask:
        """(C,) positions written before the first step."""
        return np.zeros(self.length, dtype=np.bool_) if self.filler is None else self.noise != self.filler

    @cached_property
    def predicted(self) -> Mask | None:
        """(S, C) positions that the pass of a step predicted; None if steps predict every position."""
        if self.filler is None:
            return None
        return predicted_by(self.argmax, self.shown)

    @property
    def shown(self) -> Tokens:
        """(S, C) the canvas before each step, unless a round came between."""
        return np.vstack([self.noise, self.following])[: self.steps]

    @property
    def length(self) -> int:
        return len(self.noise)

    @property
    def counted(self) -> slice:
        """The positions that enter figures: those before the end token, or all if that is not known."""
        return slice(0, self.text_length)

    @cached_property
    def taken_back(self) -> Mask:
        """(S, C) accepted at the step before and re-noised at this one, but not by a round.

        Over masks, written before this step and replaced by it.
        """
        if self.has_masks:
            written = np.vstack([self.begun, self.accepted])[: self.steps]
            return np.asarray(written & (self.shown != self.following))
        before = np.vstack([np.zeros((1, self.length), dtype=np.bool_), self.accepted[:-1]])[: self.steps]
        before[[one.step for one in self.rounds if one.step < self.steps]] = False
        return before & ~self.accepted

    @property
    def free(self) -> Mask:
        """(C,) positions that the model wrote: not pinned by a user, nor forced or chosen by a format."""
        pinned = self.pinned | self.held.any(axis=0) | self.snapshots[-1].pinned_mask
        return ~pinned | self.snapshots[-1].fitting_mask

    @property
    def causal(self) -> Floats | None:
        """(C,) probability of each token of the finished block by the text before it alone; None if it was not read."""
        return self.snapshots[-1].causal

    def round_at(self, step: int) -> PinnedRound | None:
        """Returns the round right before a step or the commit, if there is one."""
        return next((one for one in self.rounds if one.step == step), None)

    @cached_property
    def changed(self) -> Mask:
        """(S, C) the argmax differs from the step before; False at the first step and where a mask had no guess."""
        changed = np.zeros((self.steps, self.length), dtype=np.bool_)
        changed[1:] = self.argmax[1:] != self.argmax[:-1]
        if self.predicted is not None:
            changed[1:] &= self.predicted[1:] & self.predicted[:-1]
        return changed

    @cached_property
    def settled_at(self) -> NDArray[np.int32]:
        """(C,) the first step from which the argmax no longer changes; 0 if the block has no steps.

        Over masks it is the step that wrote the position's last token, or the last step if none did.
        """
        if not self.steps:
            return np.zeros(self.length, dtype=np.int32)
        if self.has_masks:
            first = np.where(self.accepted.any(axis=0), self.accepted.argmax(axis=0), self.steps - 1)
            last = np.where(self.taken_back, np.arange(self.steps)[:, None], 0).max(axis=0)
            return np.asarray(np.maximum(first, last), dtype=np.int32)
        places = np.arange(self.steps)[:, None]
        return np.asarray(np.where(self.changed, places, 0).max(axis=0), dtype=np.int32)

    @cached_property
    def mean_entropy(self) -> Floats:
        """(S,) mean entropy in nats of the counted positions that the step predicted."""
        counted = self.entropy[:, self.counted]
        if self.predicted is not None:
            here = self.predicted[:, self.counted]
            sums = np.where(here, counted, 0).sum(axis=1)
            return np.asarray(sums / np.maximum(here.sum(axis=1), 1), dtype=np.float32)
        return counted.mean(axis=1) if counted.shape[1] else np.zeros(self.steps, dtype=np.float32)

    @cached_property
    def accepted_counts(self) -> NDArray[np.int64]:
        """(S,) number of counted positions accepted."""
        return np.asarray(self.accepted[:, self.counted].sum(axis=1))

    @cached_property
    def change_counts(self) -> NDArray[np.int64]:
        """(S,) number of counted positions whose argmax changed."""
        return np.asarray(self.changed[:, self.counted].sum(axis=1))

    @cached_property
    def taken_back_counts(self) -> NDArray[np.int64]:
        """(S,) number of counted positions taken back."""
        return np.asarray(self.taken_back[:, self.counted].sum(axis=1))


class Replay:
    """Random access to a run. A block is read on first access; ``refresh`` adds the events recorded since."""

    def __init__(self, trace: Recording) -> None:
        self._trace = trace
        self._ranges: list[range] = []  # of each block's events
        self._committed: set[int] = set()
        self.problem = ""  # why a part could not be read, in a sentence
        self.cut: dict[int, str] = {}  # by block that could not be read whole: why
        self._reads: list[int] = []  # places of a decision's ``SlotsRead`` events
        self._read = 0
        self._records: OrderedDict[int, BlockRecord] = OrderedDict()
        self.opinions: dict[int, Floats] = {}  # (C,) of finished blocks, see ``opine``
        self.frames: list[Frame] = []
        self._sources: list[int] = []  # place of each frame's event
        self._places: dict[Frame, int] = {}
        self.refresh()

    @property
    def blocks(self) -> int:
        return len(self._ranges)

    def refresh(self) -> None:
        """Adds the events that were recorded since the last call; known frames stay as they are."""
        for place, (kind, _, step) in enumerate(self._trace.entries[self._read :], start=self._read):
            if kind == "canvas":
                self._ranges.append(range(place, place + 1))
                self._add(Frame(self.blocks - 1, NOISE), place)
            elif kind in ("step", "commit", "slots") and self._ranges:
                self._ranges[-1] = range(self._ranges[-1].start, place + 1)
                self._records.pop(self.blocks - 1, None)
                if kind == "step":
                    self._add(Frame(self.blocks - 1, step), place)
                elif kind == "commit" and not self.is_decision:
                    self._add(Frame(self.blocks - 1, self.frames[-1].step + 1 if self.frames else 0), place)
                    self._committed.add(self.blocks - 1)
            if kind == "slots":
                self._reads.append(place)
            self._read = place + 1

    @property
    def is_decision(self) -> bool:
        """True if the blocks are reads of one decision."""
        return self._trace.header.decision is not None

    @property
    def read_count(self) -> int:
        """Reads of a decision that have a canvas; 0 for any other run."""
        return self.blocks if self.is_decision else 0

    def reads(self, place: int | None = None) -> list[SlotsRead]:
        """Returns a decision's reads in order, up to a frame or all of them; damaged ones are left out."""
        frame = None if place is None or not self.frames else self.frames[place]
        reads = []
        for event_place in self._reads:
            try:
                event = self._trace.event(event_place)
            except SafelightError as error:
                self.problem = str(error)
                continue
            assert isinstance(event, SlotsRead)
            if frame is None or (event.block_index, NOISE) < (frame.block, frame.step):
                reads.append(event)
        return reads

    def _add(self, frame: Frame, source: int) -> None:
        self._places[frame] = len(self.frames)
        self.frames.append(frame)
        self._sources.append(source)

    def place(self, frame: Frame) -> int:
        """Returns the index of a frame among all. Raises KeyError if the run has no such frame."""
        return self._places[frame]

    def first_of(self, block: int) -> int:
        """Returns the place of a block's noise."""
        return self._places[Frame(block, NOISE)]

    def steps_of(self, block: int) -> int:
        """Returns the number of a block's steps so far, without reading the block."""
        end = self.first_of(block + 1) if block + 1 < self.blocks else len(self.frames)
        return end - self.first_of(block) - 1 - self.committed(block)

    def committed(self, block: int) -> bool:
        """True if a block has a commit frame; does not read the block."""
        return block in self._committed

    def record(self, block: int) -> BlockRecord:
        """Returns a block over all its steps, and keeps it in memory. Raises IndexError if there is no such block."""
        if block not in self._records:
            self._records[block] = self.peek(block)
            while len(self._records) > KEPT_BLOCKS:
                self._records.popitem(last=False)
        self._records.move_to_end(block)
        return self._records[block]

    def peek(self, block: int) -> BlockRecord:
        """Returns a block like ``record``, without adding it to the blocks in memory. Raises IndexError."""
        if not 0 <= block < self.blocks:
            raise IndexError(f"there is no block {block} among {self.blocks}")
        if block in self._records:
            return self._records[block]
        places = self._ranges[block]
        events: list[Event] = []
        room = BLOCK_BYTES
        try:
            for place in places:
                event = self._trace.event(place)
                if isinstance(event, PrefixPinned):
                    room -= event.canvas.nbytes
                elif isinstance(event, StepFinished):
                    room -= _room(event)
                    if len(events) > 1 and (room < 0 or event.step >= BLOCK_STEPS):
                        said = tr(
                            "Block {block} is too long to be shown whole; its first {count} steps are.",
                            block=block + 1,
                            count=event.step,
                        )
                        raise SafelightError(said)
                events.append(event)
        except SafelightError as error:  # the events before it are still shown
            self.problem = self.cut[block] = str(error)
        if not events:
            nothing = np.zeros(0, dtype=np.int32)
            events = [CanvasStarted(block, nothing, np.zeros(0, dtype=np.bool_))]
        record = _record(block, events, self._trace.header)
        if record.final is not None:
            record.snapshots[-1].causal = self.opinions.get(block)
        return record

    def opine(self, opinions: dict[int, Floats]) -> None:
        """Adds a second opinion on the finished text: by block, how likely each token (C,) is behind the text before.

        It belongs to the frame of the commit. NaN where not known.
        """
        self.opinions = opinions
        self._records.clear()

    def canvas(self, place: int) -> Tokens | None:
        """Returns the tokens on the canvas at a frame, from its event alone; None if the event cannot be read."""
        try:
            event = self._trace.event(self._sources[place])
        except SafelightError:
            return None
        match event:
            case CanvasStarted():
                return event.canvas
            case StepFinished():
                return event.next_canvas
            case CanvasCommitted():
                return event.tokens
        return None

    def snapshot(self, place: int) -> BlockState:
        """Returns the state of the canvas at a frame, equal to the one shown live.

        If that part of the record cannot be read (see ``problem``), it is the block's last readable state.
        """
        frame = self.frames[place]
        snapshots = self.record(frame.block).snapshots
        return snapshots[min(frame.step + 1, len(snapshots) - 1)]

    def next_change(self, place: int, position: int, direction: int, *, calm: bool = False) -> int | None:
        """Returns the nearest frame after (1) or before (-1) with another token or state at a position, or None.

        With ``calm`` it compares the calm view, which hides changes from noise to other noise.
        """
        now = self._shown(place, position, calm)
        place += direction
        while 0 <= place < len(self.frames):
            if position < self.snapshot(place).length and self._shown(place, position, calm) != now:
                return place
            place += direction
        return None

    def _shown(self, place: int, position: int, calm: bool) -> tuple[int, int, int]:
        state = self.snapshot(place)
        if position >= state.length:
            return -1, -1, -1
        return state.block_index, int(state.tokens(calm=calm)[position]), int(state.states(calm=calm)[position])


def _room(step: StepFinished) -> int:
    """Returns the bytes of a step: its arrays, and those that the reducer makes of them."""
    tops = 0 if step.top_tokens is None else 8 * step.top_tokens.size
    return 31 * len(step.argmax_canvas) + tops


def _record(index: int, events: list[Event], header: TraceHeader) -> BlockRecord:
    started = events[0]
    assert isinstance(started, CanvasStarted)
    steps = [event for event in events if isinstance(event, StepFinished)]
    committed = next((event for event in events if isinstance(event, CanvasCommitted)), None)
    length = len(started.canvas)

    def stack(name: str, like: type) -> NDArray[Any]:
        return np.stack([getattr(step, name) for step in steps]) if steps else np.zeros((0, length), dtype=like)

    tops = [step.top_tokens for step in steps if step.top_tokens is not None]
    shares = [step.top_probabilities for step in steps if step.top_probabilities is not None]
    has_top = len(tops) == len(shares) == len(steps) and len({top.shape for top in tops}) == 1
    arrays = {
        "argmax_canvas": stack("argmax_canvas", np.int32),
        "candidates": stack("candidates", np.int32),
        "accepted_mask": stack("accepted_mask", np.bool_),
        "next_canvas": stack("next_canvas", np.int32),
        "entropy": stack("entropy", np.float32),
    }
    if has_top:
        arrays |= {"top_tokens": np.stack(tops), "top_probabilities": np.stack(shares)}
    if started.filler is not None:
        _carry(started.canvas, arrays)
    pins = [event for event in events if isinstance(event, PrefixPinned)]
    held = _held(
        started, len(steps), [change for change in header.changes if change.block == started.block_index], pins
    )
    snapshots = _snapshots(events, arrays, held, CanvasState.under(header.config))
    return BlockRecord(
        index=index,
        noise=started.canvas,
        pinned=started.pinned_mask,
        held=held,
        argmax=arrays["argmax_canvas"],
        candidates=arrays["candidates"],
        accepted=arrays["accepted_mask"],
        following=arrays["next_canvas"],
        entropy=arrays["entropy"],
        temperature=np.array([step.temperature for step in steps], dtype=np.float32),
        seconds=np.array([step.seconds for step in steps], dtype=np.float32),
        top_tokens=arrays.get("top_tokens"),
        top_probabilities=arrays.get("top_probabilities"),
        final=None if committed is None else committed.tokens,
        text_length=None if committed is None else committed.text_length,
        reason="" if committed is None else committed.reason,
        snapshots=snapshots,
        rounds=tuple(_rounds(snapshots)),
        filler=started.filler,
    )


def _carry(shown: Tokens, arrays: dict[str, NDArray[Any]]) -> None:
    """Carries the predictions of a pass over masks on to later steps that do not predict there, as the reducer does.

    Changes ``arrays`` in place.
    """
    for step, argmax in enumerate(arrays["argmax_canvas"]):
        elsewhere = ~predicted_by(argmax, shown)
        for name in ("entropy", "top_tokens", "top_probabilities"):
            if name in arrays and (step or name != "top_tokens"):
                arrays[name][step][elsewhere] = arrays[name][step - 1][elsewhere] if step else 0
        shown = arrays["next_canvas"][step]


def _rounds(snapshots: Sequence[BlockState]) -> Iterator[PinnedRound]:
    last = None
    for snapshot in snapshots:
        if snapshot.round is not None and snapshot.round is not last:
            yield snapshot.round
        last = snapshot.round


def _held(started: CanvasStarted, steps: int, changes: Sequence[Fork], pins: Sequence[PrefixPinned]) -> Mask:
    """Returns the positions (S, C) pinned at each step. A fork's pins come from its header, not from events."""
    now, length = started.pinned_mask.copy(), len(started.canvas)
    rows = np.zeros((steps, length), dtype=np.bool_)
    pinned = {pin.step: pin.pinned for pin in pins}
    for step in range(steps):
        now[: pinned.get(step, 0)] = True
        for change in changes:
            if change.step == step:
                now[[position for position, _ in change.edits if position < length]] = False
                now[[position for position, _ in change.pinned if position < length]] = True
        rows[step] = now
    return rows


def _snapshots(
    events: list[Event], arrays: dict[str, NDArray[Any]], held: Mask, canvases: CanvasState
) -> tuple[BlockState, ...]:
    """Returns the reducer's state at each frame of a block; ``canvases`` is the state before the block.

    The rows of ``arrays`` (S, ...) replace the arrays of the steps, so that each is in memory once.
    """
    snapshots: list[BlockState] = []
    step = 0
    for event in events:
        if isinstance(event, StepFinished):
            event = replace(event, **{name: rows[step] for name, rows in arrays.items()})
            canvases.blocks[-1].pinned_mask = held[step]
            step += 1
        canvases.fold(event)
        if isinstance(event, SlotsRead):
            snapshots.pop()  # it belongs to the frame of the step before it
        if not isinstance(event, PrefixPinned):  # which belongs to the next frame
            snapshots.append(copy.copy(canvases.blocks[-1]))
    last = snapshots[-1]
    for snapshot in snapshots:  # all are laid out on the lines of the block's last text
        snapshot.outcome = last.kept if last.outcome is None else last.outcome
    return tuple(snapshots)
