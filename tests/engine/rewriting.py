"""A tiny network trained by LLaDA2.1's objective; ``python -m tests.engine.rewriting`` trains it anew.

A question is some digits, and its answer their running sums modulo two, from any start. So all sums of an answer must
agree on the start, and guesses without regard to one another do not. In training some written tokens are wrong, to be
corrected.
"""

from __future__ import annotations

import random

from engine.training.objectives import Objective
from tests.engine.taught import store, teach

RADIX, COUNT, BLOCK, TURNS = 2, 7, 8, 3
ASK, END, MASK = 2, 3, 4
SHAPE = {
    "model_type": "sdar", "block_size": BLOCK, "mask_token_id": MASK, "vocab_size": 5, "hidden_size": 48,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 12, "max_position_embeddings": 96, "rope_theta": 500.0, "tie_word_embeddings": True,
    "eos_token_id": END,
}  # fmt: skip


def question(rng: random.Random) -> list[int]:
    """The digits, and the sign that asks for their sums: as long as a block."""
    return [*(rng.randrange(RADIX) for _ in range(COUNT)), ASK]


def answer(asked: list[int], start: int) -> list[int]:
    """The one from a start, and the end that fills its block."""
    return [*((start + sum(asked[: place + 1])) % RADIX for place in range(COUNT)), END]


def text(rng: random.Random) -> tuple[list[int], list[bool]]:
    """Tokens, and which of them are of an answer."""
    ids = list[int]()
    for _ in range(TURNS):
        asked = question(rng)
        ids += asked + answer(asked, rng.randrange(RADIX))
    return ids, [place // BLOCK % 2 == 1 for place in range(len(ids))]


def main() -> None:
    """Train for six minutes on one core, and store it as a checkpoint."""
    store(teach(SHAPE, text, Objective(block=BLOCK, wrong=0.5), 360), SHAPE, "rewriting")


if __name__ == "__main__":
    main()
