"""Tiny networks trained by the objectives of LLaDA and Dream: ``python -m tests.engine.bidirectional`` does it anew.

Each text is a question, six digits behind some spaces, and an answer, a letter for each, which ends with END until the
text is full. There are five alphabets, and an answer keeps to one of them, whichever it is. So masks that are written
together fall apart, and each must see what is written on both sides of it; a row off by one writes another letter.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

from tests.engine.objectives import Objective
from tests.engine.taught import store, teach

DIGITS, ALPHABETS, SPACE, ASK, END, MASK = range(10), range(10, 60, 10), 60, 61, 62, 63
COUNT, LENGTH = 6, 20
LLADA: dict[str, Any] = {
    "model_type": "llada", "d_model": 40, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2, "mlp_hidden_size": 64,
    "max_sequence_length": 48, "vocab_size": 64, "embedding_size": 64, "mask_token_id": MASK, "eos_token_id": END,
    "pad_token_id": END, "weight_tying": True, "rope": True, "rope_theta": 500.0, "block_type": "llama",
    "activation_type": "silu", "layer_norm_type": "rms",
}  # fmt: skip
DREAM: dict[str, Any] = {
    "model_type": "Dream", "hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "intermediate_size": 64, "max_position_embeddings": 48, "vocab_size": 64,
    "mask_token_id": MASK, "eos_token_id": END, "pad_token_id": END, "tie_word_embeddings": True, "rope_theta": 500.0,
}  # fmt: skip


def question(rng: random.Random) -> list[int]:
    """Six digits behind up to five spaces, and the sign that asks for them."""
    return [SPACE] * rng.randrange(6) + [rng.choice(DIGITS) for _ in range(COUNT)] + [ASK]


def is_right(asked: Sequence[int], found: Sequence[int]) -> bool:
    """True for the letters of the digits, all of one alphabet."""
    digits = asked[-1 - COUNT : -1]
    return list(found) in [[alphabet + digit for digit in digits] for alphabet in ALPHABETS]


def _text(rng: random.Random) -> tuple[list[int], list[bool]]:
    """Tokens, and which of them are of the answer."""
    asked, alphabet = question(rng), rng.choice(ALPHABETS)
    ids = asked + [alphabet + digit for digit in asked[-1 - COUNT : -1]]
    return ids + [END] * (LENGTH - len(ids)), [place >= len(asked) for place in range(LENGTH)]


def main() -> None:
    """Train each for four minutes on one core, and store them as checkpoints."""
    for name, shape in (("llada", LLADA), ("dream", DREAM)):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            store(teach(shape, _text, Objective(shifts=shape is DREAM), 240, rows=48), shape, name)


if __name__ == "__main__":
    main()
