"""The options of an export, and the choice of frames by steps. Knows no Qt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.export import FORMATS, ExportFormat
from app.state.run.replay import NOISE, Frame, Replay
from engine import SafelightError, step_number

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
    if format.is_single:
        return (last,)
    return tuple(range(last + 1))


def frames_of(replay: Replay, block: int) -> tuple[int, ...]:
    """Returns the indices of a block's frames. Raises SafelightError if there is no such block."""
    found = tuple(place for place, frame in enumerate(replay.frames) if frame.block == block)
    if not found:
        raise SafelightError(f"there is no block {block + 1}; the run has {replay.blocks}")
    return found


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
