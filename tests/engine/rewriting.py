"""A tiny network trained by LLaDA2.1's objective; ``python -m tests.engine.rewriting`` trains it anew.

A question is a space, six digits and the sign that asks for their letters; an answer keeps to one of five alphabets,
whichever it is, and fills its block with ends. So guesses without regard to one another do not agree. In training some
written tokens are wrong, to be corrected.
"""

from __future__ import annotations

import random

from tests.engine.bidirectional import ALPHABETS, ASK, COUNT, DIGITS, END, MASK, SPACE
from tests.engine.objectives import Objective
from tests.engine.taught import store, teach

BLOCK, TURNS = COUNT + 2, 2
SHAPE = {
    "model_type": "sdar", "block_size": BLOCK, "mask_token_id": MASK, "vocab_size": 64, "hidden_size": 40,
    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 10, "max_position_embeddings": 48, "rope_theta": 500.0, "tie_word_embeddings": True,
    "eos_token_id": END,
}  # fmt: skip


def question(rng: random.Random) -> list[int]:
    """Returns one that fills a block."""
    return [SPACE, *(rng.choice(DIGITS) for _ in range(COUNT)), ASK]


def text(rng: random.Random) -> tuple[list[int], list[bool]]:
    """Tokens, and which of them are of an answer."""
    ids = list[int]()
    for _ in range(TURNS):
        asked, alphabet = question(rng), rng.choice(ALPHABETS)
        ids += asked + [alphabet + digit for digit in asked[1:-1]] + [END, END]
    return ids, [place // BLOCK % 2 == 1 for place in range(len(ids))]


def main() -> None:
    """Train for five minutes on one core, and store it as a checkpoint."""
    store(teach(SHAPE, text, Objective(block=BLOCK, wrong=0.4), 300, rows=32), SHAPE, "rewriting")


if __name__ == "__main__":
    main()
