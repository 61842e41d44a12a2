"""Memory of a run on the plain path, by its prompt and its settings."""

from __future__ import annotations

import pytest
import torch

from engine import GenerationConfig, generate
from engine.memory.footprint import Mode
from engine.memory.several import run_bytes
from engine.quant import Precision
from tests.engine.tiny import CANVAS, CONFIG, network, tokens

PLAIN = Mode(torch.float32, Precision(), on_cpu=True, has_kernels=False)


@pytest.mark.parametrize(("prompt", "blocks", "canvas"), [(5, 1, None), (700, 3, None), (40, 2, 40)])
def test_a_run_takes_its_cache_and_what_a_step_holds(prompt: int, blocks: int, canvas: int | None) -> None:
    length = canvas or CANVAS
    config = GenerationConfig(
        max_new_tokens=(blocks - 1) * length + 1, max_denoising_steps=1, eos_token_ids=(), canvas_length=canvas
    )
    made = network()
    cache = made.new_cache()
    list(generate(made, tokens(prompt), config, cache=cache))
    logits = 4 * length * CONFIG.vocab_size
    counted = run_bytes(CONFIG, PLAIN, False, prompt, config, running=1)
    assert cache.nbytes + 2 * logits <= counted
    assert run_bytes(CONFIG, PLAIN, False, prompt, config.replace(max_new_tokens=9 * length), 1) >= counted


def test_what_has_no_room_for_all_its_blocks_is_counted_to_the_last_position() -> None:
    config = GenerationConfig(max_new_tokens=10**6)
    most = run_bytes(CONFIG, PLAIN, False, 1, config, 0)
    assert most == run_bytes(CONFIG, PLAIN, False, 1, config.replace(max_new_tokens=2 * 10**6), 0)
    assert run_bytes(CONFIG, PLAIN, False, CONFIG.max_position_embeddings + 7, config, 0) > 0
