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
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.types import Tokens

BlockEnd = Literal["converged", "step_cap", "stalled"]
"""Why a block took no more denoising steps."""


def step_number(step: int) -> int:
    """Returns the number of a denoising step as people count it, from 1; events, files and arguments count from 0."""
    return step + 1


@dataclass(frozen=True, eq=False)
class PrefillFinished:
    """The prompt is in the cache."""

    prompt_tokens: int
    reused_tokens: int  # number of these tokens that were already in the cache
    seconds: float


@dataclass(frozen=True, eq=False)
class CanvasStarted:
    """A new block: its first canvas, and the positions of pinned tokens.

    Uniform noise is replaced as the block is denoised. A block that is written a few tokens at a time has its
    ``filler`` where nothing is written yet; the rest of ``canvas`` was written while the block before it was open.
    """

    block_index: int
    canvas: Tokens  # (C,)
    pinned_mask: NDArray[np.bool_]  # (C,)
    filler: int | None = None  # token id; None: the canvas is uniform noise


@dataclass(frozen=True, eq=False)
class StepFinished:
    """One denoising step; ``step`` counts up from 0 in each block.

    In a block with a filler it is one pass that wrote tokens. ``accepted_mask`` then marks the written positions, and
    ``next_canvas`` holds their tokens. ``argmax_canvas`` also has the likeliest token where the pass predicted one, and
    ``candidates`` the token drawn there. Where the pass predicted nothing, ``entropy`` is 0 and ``top_tokens`` repeats
    the one token K times. A block's first step keeps earlier predictions of tokens that were written while the block
    before it was open.
    """

    block_index: int
    step: int
    temperature: float
    argmax_canvas: Tokens  # (C,) best guess at every position
    candidates: Tokens  # (C,) token sampled at every position
    entropy: NDArray[np.float32]  # (C,) nats, of the temperature-scaled logits
    accepted_mask: NDArray[np.bool_]  # (C,) candidate kept; the others are re-noised
    next_canvas: Tokens  # (C,)
    seconds: float
    top_tokens: Tokens | None = None  # (C, K), likeliest first
    top_probabilities: NDArray[np.float32] | None = None  # (C, K)


@dataclass(frozen=True, eq=False)
class PrefixPinned:
    """The argmax canvas was read under the answer's format: what fits is pinned, the rest denoised again."""

    block_index: int
    step: int  # of the block: the step that comes next
    round: int  # from 0 in each block
    canvas: Tokens  # (C,) the next step begins with it
    pinned: int  # positions before this one are pinned from here on
    written: int  # of the newly pinned positions, how many the model had written; the format forced or chose the others


@dataclass(frozen=True, eq=False)
class SlotsRead:
    """The results of a decision's slots, one a question. All log-probabilities are finite, in nats."""

    block_index: int  # index of the read, from 0
    logprobs: tuple[NDArray[np.float32], ...]  # of each question's options, over the whole vocabulary
    argmax_is_label: tuple[bool, ...]  # True if the likeliest token of all is one of the labels


@dataclass(frozen=True, eq=False)
class CanvasCommitted:
    """A finished block. After its text and the end token behind it, if any, ``tokens`` holds padding."""

    block_index: int
    tokens: Tokens  # (C,)
    text_length: int  # tokens before the end token; without one C
    steps: int
    reason: BlockEnd


@dataclass(frozen=True, eq=False)
class TextArrived:
    """More text of an answer whose steps and tokens are not reported."""

    text: str
    is_thought: bool = False  # it belongs to the thinking, not to the answer
    counted: int = 0  # tokens that arrived with it, if the backend says so


@dataclass(frozen=True, eq=False)
class GenerationFinished:
    """The end of a run, with all committed tokens before the end token."""

    reason: Literal["eos", "length", "cancelled"]
    tokens: Tokens  # (N,)
    blocks: int  # committed
    steps: int  # of all blocks
    seconds: float  # of the engine, without prefill and without waiting for the consumer
    why: str = ""  # the cause in a sentence if the reason is "length" but the length did not end the run

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
