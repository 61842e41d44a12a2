"""A tiny network trained by Fast-dLLM v2's objective; ``python -m tests.engine.fast_dllm`` trains it anew.

Its texts are those of ``sdar``, in blocks of six. The row before a mask predicts it, and each text comes twice, with
complementary masks.
"""

from __future__ import annotations

import random

from tests.engine import sdar
from tests.engine.objectives import Objective
from tests.engine.taught import store, teach

BLOCK, PART, END = 6, 3, sdar.END
SHAPE = {name: value for name, value in sdar.SHAPE.items() if name != "block_size"} | {
    "model_type": "Fast_dLLM_Qwen", "bd_size": BLOCK, "hidden_size": 40, "head_dim": 10, "intermediate_size": 64,
}  # fmt: skip


def text(rng: random.Random) -> tuple[list[int], list[bool]]:
    """Tokens, and which of them are of an answer."""
    return sdar.turns(rng, BLOCK)


def main() -> None:
    """Train for four minutes on one core, and store it as a checkpoint."""
    store(teach(SHAPE, text, Objective(block=BLOCK, shifts=True, complements=True), 240), SHAPE, "fast_dllm")


if __name__ == "__main__":
    main()
