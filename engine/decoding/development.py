"""What all ways of block diffusion share: a canvas from noise to the last step, and what is said of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.config import GenerationConfig, ModelConfig
from engine.decoding.fork_schedule import Course
from engine.decoding.sampler import Edits, to_host
from engine.decoding.steppers import Step
from engine.errors import SafelightError
from engine.events import CanvasCommitted, CanvasStarted, Event, GenerationFinished, StepFinished
from engine.types import Cancel, Tokens


@dataclass
class Tally:
    """What a run has spent."""

    steps: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Developed:
    """A canvas that is finished."""

    last: Step
    steps: int

    def committed(self, block: int, tokens: Tokens, text_length: int) -> CanvasCommitted:
        """What is said of it, with its tokens as the text has them."""
        reason: Literal["converged", "step_cap"] = "converged" if self.last.converged else "step_cap"
        return CanvasCommitted(block, tokens, text_length, self.steps, reason)


def develop(
    course: Course, block: int, edits: Edits, cancel: Cancel | None, tally: Tally
) -> Generator[Event, None, Developed | None]:
    """Take a canvas behind the cache's text from noise to its last step; returns None where it was cancelled."""
    stepper = course.stepper
    canvas = stepper.sampler.first_canvas(block, edits)
    yield CanvasStarted(block, to_host(canvas), stepper.sampler.pinned_mask(block))
    stepper.begin(block, canvas)
    for index in itertools.count():
        if cancel is not None and cancel.is_set():
            return None
        clock = time.perf_counter()
        if course.due(block, index):
            course.change(block, index)
        goes_on = course.due(block, index + 1)  # a change keeps a canvas from ending before it is made
        step = stepper.step(index, ahead=not goes_on)
        seconds = time.perf_counter() - clock
        tally.steps, tally.seconds = tally.steps + 1, tally.seconds + seconds
        yield StepFinished(
            block,
            index,
            course.config.temperature(index),
            step.argmax,
            step.candidates,
            step.entropy,
            step.accepted,
            step.next_canvas,
            seconds,
            *step.top,
        )
        if not goes_on and (step.converged or index + 1 >= course.config.max_denoising_steps):
            return Developed(step, index + 1)
    raise AssertionError


def room_for_blocks(shape: ModelConfig, prompt_length: int, length: int) -> int:
    """How many canvases of ``length`` tokens fit behind a prompt.

    Raises:
        SafelightError: none.
    """
    room = shape.max_position_embeddings - prompt_length
    if room < length:
        raise SafelightError(
            f"the prompt is {prompt_length} tokens long and the model has {shape.max_position_embeddings} "
            f"positions, {length} of which a canvas needs. Shorten the prompt"
        )
    return room // length


def cut_at_eos(tokens: Tokens, config: GenerationConfig) -> tuple[Tokens, int]:
    """The canvas with everything after its first end token padded, and the number of tokens before that."""
    ends = np.flatnonzero(np.isin(tokens, config.eos_token_ids))
    if not len(ends):
        return tokens, len(tokens)
    first = int(ends[0])
    tokens = tokens.copy()
    tokens[first + 1 :] = config.pad_token_id
    return tokens, first


def finished(reason: Literal["eos", "length", "cancelled"], done: Sequence[Tokens], tally: Tally) -> GenerationFinished:
    """The end of a run whose blocks' texts are ``done``."""
    tokens = np.concatenate(done) if done else np.empty(0, dtype=np.int32)
    return GenerationFinished(reason, tokens, len(done), tally.steps, tally.seconds)
