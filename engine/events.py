"""What a generation tells the world: frozen, picklable facts in plain Python and numpy, on the CPU.

Order of a run: PrefillFinished (missing where a long prompt was cancelled while it was read), then for each block
CanvasStarted, StepFinished ..., CanvasCommitted (missing where the run was cancelled inside a block whose tokens are
not written one behind the other), and GenerationFinished last, always. C is the canvas length. A backend that reports
no steps has TextArrived in place of blocks, and PrefillFinished anywhere before the end, if it is told how long the
prompt was.

Blocks of a run may be decoded in different ways; each tells its own, by whether its CanvasStarted has a filler. A
*rescued* block begins with uniform noise, and goes on behind the steps that its cap allows with further StepFinished
of the same block, a pass each, which write as in a block with a filler. The first of them is of the pass that read the
last step's argmax canvas causally: accepted is the prefix that was kept and the token drawn behind it, with the causal
predictions there; what was accepted behind it no longer is, but for pinned tokens. Each other one has one token more.
Where nothing is written yet the last step's argmax, entropy and likeliest tokens stand, not accepted. CanvasCommitted
then has the reason "step_cap", and more ``steps`` than the cap.

A *verified* block has CanvasVerified behind its last step. Where doubtful spans of it are written anew, further
StepFinished follow, and another CanvasVerified behind each such rewrite.

In a run whose answer must fit a format PrefixPinned comes between two steps of a block, and before its first. A
decision has one step a block, and SlotsRead after it; a backend that reports no steps has one SlotsRead alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.types import Tokens


def step_number(step: int) -> int:
    """A denoising step as people count it, from 1; events, files and arguments count from 0."""
    return step + 1


@dataclass(frozen=True, eq=False)
class PrefillFinished:
    """The prompt is in the cache."""

    prompt_tokens: int
    reused_tokens: int  # of these, how many were in the cache already
    seconds: float


@dataclass(frozen=True, eq=False)
class CanvasStarted:
    """A new block: what it begins with, and where pinned tokens stand.

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

    In a block with a filler it is one pass that wrote tokens. Then ``accepted_mask`` is where something is written,
    ``next_canvas`` what is; ``argmax_canvas`` has the likeliest token too where the pass predicted one, ``candidates``
    what was drawn there. Where it predicted nothing, ``entropy`` is 0 and ``top_tokens`` the one token K times; but a
    block's first step has those that were predicted where tokens were written while the block before was open.
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
    """The argmax canvas was read under the format of the answer; what it allows is pinned, the rest denoised again."""

    block_index: int
    step: int  # of the block, that comes next
    round: int  # from 0 in each block
    canvas: Tokens  # (C,) that the next step begins with
    pinned: int  # positions before this one are pinned from here on
    written: int  # of those newly pinned, how many the model had written; the format forced or chose the others


@dataclass(frozen=True, eq=False)
class CanvasVerified:
    """The argmax canvas of the last step was read causally: how likely each token is by the text before it alone.

    ``probabilities`` is NaN behind the end token, and at the first position where the model's state before it is not
    known: behind a prompt that was in the cache as a whole.
    """

    block_index: int
    step: int  # of the block, its last so far
    rewrite: int  # of the block's canvas, from 1; 0: the canvas as it was first finished
    probabilities: NDArray[np.float32]  # (C,)
    is_kept: bool  # whether this canvas stands; else, or where its text is the same, the one before the rewrite does
    canvas: Tokens  # (C,) what stands from here on, with noise where it is doubtful
    doubtful: NDArray[np.bool_]  # (C,) written anew by the next steps, all else pinned; nowhere: no rewrite follows


@dataclass(frozen=True, eq=False)
class SlotsRead:
    """What the slots of a decision's canvas came to, one a question. All log-probabilities are finite, in nats."""

    block_index: int  # which read, from 0
    logprobs: tuple[NDArray[np.float32], ...]  # of each question's options, over the whole vocabulary
    argmax_is_label: tuple[bool, ...]  # whether the likeliest token of all is one of the labels


@dataclass(frozen=True, eq=False)
class CanvasCommitted:
    """A finished block. After the first end token, ``tokens`` holds padding."""

    block_index: int
    tokens: Tokens  # (C,)
    text_length: int  # tokens before the end token; C if there is none
    steps: int
    reason: Literal["converged", "step_cap"]


@dataclass(frozen=True, eq=False)
class TextArrived:
    """More of an answer whose steps and tokens nobody reports."""

    text: str
    is_thought: bool = False  # it belongs to the thinking, not to the answer
    counted: int = 0  # tokens that came with it, where the backend says


@dataclass(frozen=True, eq=False)
class GenerationFinished:
    """The end of a run, with all committed tokens before the end token."""

    reason: Literal["eos", "length", "cancelled"]
    tokens: Tokens  # (N,)
    blocks: int  # committed
    steps: int  # of all blocks
    seconds: float  # of the engine, without prefill and without waiting for the consumer
    why: str = ""  # "length" in a sentence, where it was not the length that ended the run

    @property
    def tokens_per_forward(self) -> float:
        """Tokens generated a step."""
        return len(self.tokens) / self.steps if self.steps else 0.0


Event = (
    PrefillFinished
    | CanvasStarted
    | StepFinished
    | PrefixPinned
    | CanvasVerified
    | SlotsRead
    | CanvasCommitted
    | TextArrived
    | GenerationFinished
)


@dataclass(frozen=True, eq=False)
class Influence:
    """What changing one token of a canvas did to the distributions of one step. C positions, K likeliest tokens."""

    position: int  # whose token was changed
    token: int  # what it was changed to
    kl: NDArray[np.float32]  # (C,) KL(before || after) in nats, at least 0; 0 at ``position``
    measured: NDArray[np.bool_]  # (C,) True but at ``position``
    before_top: tuple[Tokens, NDArray[np.float32]]  # (C, K) likeliest tokens and their probabilities
    after_top: tuple[Tokens, NDArray[np.float32]]
