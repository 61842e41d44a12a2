"""A tiny network trained by SDAR's objective, and how it was trained: ``python -m tests.engine.sdar`` does it anew.

Each text is a few turns of a question, six digits behind some spaces, and an answer, a letter for each: that of the
last digit of the question in the same block. So it takes blocks that lie where they did in training, and a digit that
sees all of its own. A text is read with a noised copy, in blocks: a block of the copy sees itself and the clean blocks
before it, a clean block sees itself and those before it, and a mask predicts the token of its own place. Source:
``modeling_sdar.py`` of JetAstra/SDAR, its block mask and its loss, weighted by one over the share of masks.
"""

from __future__ import annotations

import random

from tests.engine.objectives import Objective
from tests.engine.taught import store, teach

DIGITS, LETTERS, SPACE, ASK, END, MASK = range(10), range(10, 20), 20, 21, 22, 23
COUNT, BLOCK, LENGTH = 6, 5, 55
SHAPE = {
    "model_type": "sdar", "block_size": BLOCK, "mask_token_id": MASK, "vocab_size": 24, "hidden_size": 48,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
    "max_position_embeddings": 96, "rope_theta": 500.0, "tie_word_embeddings": True, "eos_token_id": END,
}  # fmt: skip


def question(rng: random.Random, spaces: int) -> list[int]:
    """Six digits behind so many spaces, and the sign that asks for them."""
    return [SPACE] * spaces + [rng.choice(DIGITS) for _ in range(COUNT)] + [ASK]


def answer(asked: list[int], before: int, block: int = BLOCK) -> list[int]:
    """The right one, of a question behind so many tokens."""
    first, behind = before + len(asked) - 1 - COUNT, before + len(asked) - 1
    last = [min((place // block + 1) * block, behind) - 1 for place in range(first, behind)]
    return [*(LETTERS[asked[place - before]] for place in last), END]


def turns(rng: random.Random, block: int = BLOCK) -> tuple[list[int], list[bool]]:
    """Tokens, and which of them are of an answer."""
    ids, own = list[int](), list[bool]()
    while len(ids) < LENGTH:
        asked = question(rng, rng.randrange(BLOCK + 2))
        ids += asked + answer(asked, len(ids), block)
        own += [False] * len(asked) + [True] * (COUNT + 1)
    return ids[:LENGTH], own[:LENGTH]


def main() -> None:
    """Train for five minutes on one core, and store it as a checkpoint."""
    store(teach(SHAPE, turns, Objective(block=BLOCK), 300), SHAPE, "sdar")


if __name__ == "__main__":
    main()
