"""The events of a generation: frozen, picklable facts in plain Python and numpy, on the CPU.

Order of the events: PrefillFinished first. For each block CanvasStarted, StepFinished …, CanvasCommitted. Then
GenerationFinished, always last. PrefillFinished is missing if a long prompt was cancelled while it was read.
CanvasCommitted is missing if the run was cancelled inside a block whose tokens are not written in order. C is the
length of the block's canvas: one for all blocks of a run, unless ``GenerationConfig.has_equal_blocks`` is False. A
backend that reports no steps sends TextArrived in place of blocks; it sends PrefillFinished at any place before the
end, if it knows the length of the prompt.

The blocks of a run may be decoded by different methods. A block is written token by token if its CanvasStarted has a
filler, else denoised. A denoised block *stalls* if its entropy no longer falls; it is then taken as it is.

A run whose answer must fit a format has PrefixPinned between two steps of a block, and before its first. A decision has
one step a block, followed by SlotsRead; a backend that reports no steps sends a single SlotsRead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.types import Tokens

BlockEnd = Literal["converged", "step_cap", "stalled"]
"""Why a block took no more denoising steps."""
Kind = Literal["prefill", "canvas", "step", "pins", "slots", "commit", "text", "end"]

MAX_ANSWER = 2**20  # tokens of a prompt, and of an answer
MAX_BLOCKS = 4_096  # four contexts of the largest model in canvases of 256
MAX_STEPS = 10_000  # of a block, as in the settings
MAX_RECORDS = 30_000  # events of a run: thirty times what ten blocks of 48 steps take
MAX_END = 1_000  # bytes of why a run ended early


class EventRecord(NamedTuple):
    """The record of an event in a trace file, see ``engine.trace.codec``."""

    code: bytes
    kind: Kind  # of its entry in an index
    place: str  # in words, of its block and step
    order: tuple[str, ...] = ()  # of the stored fields, if it is not that of the class


class Figure(NamedTuple):
    """A stored number: its letter in ``struct``, and the largest value."""

    letter: str = "d"
    most: int | str = 0  # "C": the length of the canvas; or that of the field of this name
    options: tuple[Any, ...] = ()  # the values; their index is stored


class Row(NamedTuple):
    """A stored array over the positions of the canvas, or a text."""

    kind: Literal["tokens", "reals", "mask", "token", "text"] = "tokens"  # "token": one, or none
    over: str = ""  # the array that it is stored as an exclusive or with
    is_wide: bool = False  # (C, K), or None
    is_counted: bool = False  # of any length, which is stored with the figures
    most: int = 0  # bytes of a text; 0: as many as any text


Seconds = Annotated[float, Figure()]
Canvas = Annotated[Tokens, Row()]  # (C,)
Mask = Annotated[NDArray[np.bool_], Row("mask")]  # (C,)
Position = Annotated[int, Figure("I", "C")]


def step_number(step: int) -> int:
    """Returns the number of a denoising step as people count it, from 1; events, files and arguments count from 0."""
    return step + 1


@dataclass(frozen=True, eq=False)
class PrefillFinished:
    """The prompt is in the cache."""

    record: ClassVar = EventRecord(b"PREF", "prefill", "at the prompt")
    prompt_tokens: Annotated[int, Figure("Q", MAX_ANSWER)]
    reused_tokens: Annotated[int, Figure("Q", "prompt_tokens")]  # number of these that were already in the cache
    seconds: Seconds


@dataclass(frozen=True, eq=False)
class CanvasStarted:
    """A new block: its first canvas, and the positions of pinned tokens.

    Uniform noise is replaced as the block is denoised. A block that is written a few tokens at a time has its
    ``filler`` where nothing is written yet; the rest of ``canvas`` was written while the block before it was open.
    """

    record: ClassVar = EventRecord(b"CANV", "canvas", "at the beginning of block {block}")
    block_index: int
    canvas: Canvas
    pinned_mask: Mask
    filler: Annotated[int | None, Row("token")] = None  # token id; None: the canvas is uniform noise


@dataclass(frozen=True, eq=False)
class StepFinished:
    """One denoising step; ``step`` counts up from 0 in each block.

    In a block with a filler it is one pass that wrote tokens. ``accepted_mask`` then marks the written positions, and
    ``next_canvas`` holds their tokens. ``argmax_canvas`` also has the likeliest token where the pass predicted one, and
    ``candidates`` the token drawn there. Where the pass predicted nothing, ``entropy`` is 0 and ``top_tokens`` repeats
    the one token K times. A block's first step keeps earlier predictions of tokens that were written while the block
    before it was open.
    """

    record: ClassVar = EventRecord(
        b"STEP",
        "step",
        "at step {step} of block {block}",
        (
            *("temperature", "seconds", "argmax_canvas", "candidates", "next_canvas", "entropy", "accepted_mask"),
            *("top_tokens", "top_probabilities"),
        ),
    )
    block_index: int
    step: int
    temperature: Annotated[float, Figure()]
    argmax_canvas: Canvas  # best guess at every position
    candidates: Annotated[Tokens, Row(over="argmax_canvas")]  # (C,) token sampled at every position
    entropy: Annotated[NDArray[np.float32], Row("reals")]  # (C,) nats, of the temperature-scaled logits
    accepted_mask: Mask  # candidate kept; the others are re-noised
    next_canvas: Annotated[Tokens, Row(over="candidates")]  # (C,)
    seconds: Seconds
    top_tokens: Annotated[Tokens | None, Row(over="argmax_canvas", is_wide=True)] = None  # (C, K), likeliest first
    top_probabilities: Annotated[NDArray[np.float32] | None, Row("reals", is_wide=True)] = None  # (C, K)


@dataclass(frozen=True, eq=False)
class PrefixPinned:
    """The argmax canvas was read under the answer's format: what fits is pinned, the rest denoised again."""

    record: ClassVar = EventRecord(b"PINS", "pins", "before step {step} of block {block}")
    block_index: int
    step: int  # of the block: the step that comes next
    round: Position  # from 0 in each block
    canvas: Canvas  # the next step begins with it
    pinned: Position  # positions before this one are pinned from here on
    # Of the newly pinned positions, how many the model had written; the format forced or chose the others.
    written: Annotated[int, Figure("I", "pinned")]


@dataclass(frozen=True, eq=False)
class SlotsRead:
    """The results of a decision's slots, one a question. All log-probabilities are finite, in nats."""

    record: ClassVar = EventRecord(b"SLOT", "slots", "at read {block}")
    block_index: int  # index of the read, from 0
    logprobs: tuple[NDArray[np.float32], ...]  # of each question's options, over the whole vocabulary
    argmax_is_label: tuple[bool, ...]  # True if the likeliest token of all is one of the labels


@dataclass(frozen=True, eq=False)
class CanvasCommitted:
    """A finished block. After its text and the end token behind it, if any, ``tokens`` holds padding."""

    record: ClassVar = EventRecord(b"COMM", "commit", "at the end of block {block}")
    block_index: int
    tokens: Canvas
    text_length: Position  # tokens before the end token; without one C
    steps: Annotated[int, Figure("I", MAX_STEPS)]
    # Earlier versions had a fourth reason.
    reason: Annotated[BlockEnd, Figure("I", 3, ("converged", "step_cap", "stalled", "converged"))]


@dataclass(frozen=True, eq=False)
class TextArrived:
    """More text of an answer whose steps and tokens are not reported."""

    record: ClassVar = EventRecord(b"PART", "text", "in the middle of the text", ("counted", "is_thought", "text"))
    text: Annotated[str, Row("text")]
    is_thought: Annotated[bool, Figure("I", 1, (False, True))] = False  # it belongs to the thinking, not to the answer
    counted: Annotated[int, Figure("I", MAX_ANSWER)] = 0  # tokens that arrived with it, if the backend says so


@dataclass(frozen=True, eq=False)
class GenerationFinished:
    """The end of a run, with all committed tokens before the end token."""

    record: ClassVar = EventRecord(
        b"DONE", "end", "at the end of the run", ("reason", "blocks", "steps", "tokens", "seconds", "why")
    )
    reason: Annotated[Literal["eos", "length", "cancelled"], Figure("I", 2, ("eos", "length", "cancelled"))]
    tokens: Annotated[Tokens, Row(is_counted=True)]  # (N,)
    blocks: Annotated[int, Figure("I", MAX_BLOCKS)]  # committed
    steps: Annotated[int, Figure("I", MAX_RECORDS)]  # of all blocks
    seconds: Seconds  # of the engine, without prefill and without waiting for the consumer
    # The cause in a sentence if the reason is "length" but the length did not end the run.
    why: Annotated[str, Row("text", most=MAX_END)] = ""

    @property
    def tokens_per_forward(self) -> float:
        """Tokens generated per step."""
        return len(self.tokens) / self.steps if self.steps else 0.0


Event = (
    PrefillFinished
    | CanvasStarted
    | StepFinished
    | PrefixPinned
    | SlotsRead
    | CanvasCommitted
    | TextArrived
    | GenerationFinished
)


@dataclass(frozen=True, eq=False)
class PromptScores:
    """The log-probabilities of a prompt's tokens by the text before each alone, in nats. T tokens, K likeliest ones.

    Nothing is before the first token, so that the others have a row each.
    """

    tokens: Tokens  # (T,)
    logprobs: NDArray[np.float32]  # (T - 1,) of the tokens from the second on
    top_tokens: Tokens  # (T - 1, K) in their place, likeliest first
    top_logprobs: NDArray[np.float32]  # (T - 1, K)


@dataclass(frozen=True, eq=False)
class Influence:
    """The effect of changing one token of a canvas on the distributions of one step. C positions, K top tokens."""

    position: int  # whose token was changed
    token: int  # what it was changed to
    kl: NDArray[np.float32]  # (C,) KL(before || after) in nats, at least 0; 0 where not measured
    measured: NDArray[np.bool_]  # (C,) False at ``position``, and where nothing is predicted
