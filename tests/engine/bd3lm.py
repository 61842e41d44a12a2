"""A tiny network trained by BD3-LM's objective; ``python -m tests.engine.bd3lm`` trains it anew.

A question is six digits behind some spaces, and its answer a letter for each: that of the last digit in the same block.
Blocks are counted from the question's end, so an answer depends on how many tokens of a block come before it. In
training each question fills whole blocks.
"""

from __future__ import annotations

import random

from tests.engine import sdar
from tests.engine.objectives import Objective
from tests.engine.taught import store, teach

BLOCK, END = 4, sdar.END
SHAPE = {name: value for name, value in sdar.SHAPE.items() if name != "block_size"} | {
    "model_type": "a2d-qwen3", "block_size": BLOCK, "hidden_size": 40, "head_dim": 10, "intermediate_size": 64,
}  # fmt: skip


def answer(asked: list[int]) -> list[int]:
    """The right one, and as many ends as fill its last block."""
    first = -len(asked) % BLOCK  # places of the first block that are not there
    return [*sdar.answer([sdar.SPACE] * first + asked, 0, BLOCK), END]


def text(rng: random.Random) -> tuple[list[int], list[bool]]:
    """Tokens, and which of them are of an answer."""
    ids, own = list[int](), list[bool]()
    for _ in range(2):
        asked = sdar.question(rng, rng.choice([1, 5]))
        ids += asked + answer(asked)
        own += [False] * len(asked) + [True] * (sdar.COUNT + 2)
    left = 40 - len(ids)  # all texts are equally long
    return ids + [sdar.SPACE] * left, own + [False] * left


def main() -> None:
    """Train for four minutes on one core, and store it as a checkpoint."""
    store(teach(SHAPE, text, Objective(block=BLOCK), 240), SHAPE, "bd3lm")


if __name__ == "__main__":
    main()
