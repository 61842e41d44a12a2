"""Block diffusion against mlx-vlm's loop, with both of its samplers: every canvas that the model reads, and the text.

On request, with its packages (0.7.10 was used):
``uv run --with mlx-vlm --with "mlx[cpu]" pytest -m real -n 0 tests/real/test_authors_mlx_vlm.py``.
Their temperature is 0, their default, so that the likeliest token is drawn; their noise is set to that of our run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from engine import CanvasCommitted, CanvasStarted, GenerationConfig, StepFinished
from engine.decoding import sampling
from engine.decoding.generate import generate
from tests.engine.decoding.test_oracle import SHAPE, VOCABULARY, Table

pytestmark = pytest.mark.real

RUNS = 300
NONE = VOCABULARY + 1  # an end token that never comes


class Sharp(Table):
    """Logits that depend on prefix, canvas and the likeliest tokens that are fed back, by numbers that both round."""

    def logits(self, prefix: list[int], canvas: list[int], conditioning: torch.Tensor | None) -> torch.Tensor:
        fed = None if conditioning is None else conditioning.argmax(dim=-1).tolist()
        calm = random.Random(f"{self.seed} {prefix}")
        rng = calm if calm.random() < self.calm else random.Random(f"{self.seed} {prefix} {canvas} {fed}")
        sharp = [rng.choice([1.0, 5.0, 12.0]) for _ in canvas]
        rows = [[rng.gauss(0, width) for _ in range(VOCABULARY)] for width in sharp]
        return torch.tensor(rows).clamp(-30, 30)


class Theirs:
    """The model as mlx-vlm calls it; notes each canvas that it reads."""

    def __init__(self, table: Sharp, config: GenerationConfig, mx: Any) -> None:
        self.table, self.mx, self.read = table, mx, list[list[int]]()
        stopping = {name: getattr(config, name) for name in ("confidence_threshold", "stability_threshold")}
        own = {"t_min": config.t_min, "t_max": config.t_max, "sampler_config": {"entropy_bound": config.entropy_bound}}
        self.config = SimpleNamespace(
            generation_config=own | stopping,
            canvas_length=SHAPE.canvas_length,
            text_config=SimpleNamespace(vocab_size=VOCABULARY),
        )
        self.prefix: list[int] = []

    def make_cache(self) -> list[Any]:
        return []

    def diffusion_prepare_self_conditioning(self) -> None:
        return None

    def diffusion_prefill_cache(self, ids: Any, cache: Any, **_: Any) -> Any:
        return self.diffusion_update_cache(ids, cache)

    def diffusion_update_cache(self, ids: Any, cache: Any) -> Any:
        self.prefix += ids[0].tolist()
        return cache

    def diffusion_decoder_masks(self, *_: Any) -> None:
        return None

    def diffusion_self_conditioning(self, logits: Any, _context: Any) -> Any:
        return logits

    def diffusion_decoder_logits(self, canvas: Any, self_conditioning: Any, **_: Any) -> Any:
        self.read.append(canvas[0].tolist())
        fed = None if self_conditioning is None else torch.from_numpy(np.array(self_conditioning[0]))
        return self.mx.array(self.table.logits(self.prefix, self.read[-1], fed).numpy())[None]


def text() -> Mock:
    """Returns a tokenizer whose pieces are numbers, and which never stops."""
    return Mock(last_segment="", stopping_criteria=lambda _token: False)


@pytest.mark.parametrize("acceptance", ["confidence_threshold", "entropy_bound"])
def test_runs_equal_those_of_mlx_vlm(acceptance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mx = pytest.importorskip("mlx.core", reason="mlx is not installed; see the head of this file")
    theirs = pytest.importorskip("mlx_vlm.generate.diffusion", reason="mlx-vlm is not installed")
    monkeypatch.setattr(theirs, "make_streaming_detokenizer", lambda _processor: text())
    monkeypatch.setattr(sampling, "sample_candidates", lambda logits, _generator: logits.argmax(dim=-1))
    steps = 0
    for seed in range(RUNS):
        rng = random.Random(seed)
        config = GenerationConfig(
            max_new_tokens=rng.choice([6, 12, 17]),
            max_denoising_steps=rng.randint(1, 9),
            acceptance=acceptance,
            entropy_bound=rng.choice([0.001, 0.1, 1.0, 8.0]),
            accept_probability=rng.choice([0.3, 0.6, 0.9, 0.99]),
            t_max=rng.choice([0.8, 1.5]),
            t_min=rng.choice([0.4, 0.8]),
            stability_threshold=rng.randint(1, 3),
            confidence_threshold=rng.choice([0.005, 0.5, 2.0]),
            eos_token_ids=(),
        )
        prompt = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 9))]
        events = list(generate(Sharp(seed, 0.7), prompt, config, seed))
        begun = [event.canvas for event in events if isinstance(event, CanvasStarted)]
        taken = [event for event in events if isinstance(event, StepFinished)]
        canvases = [begun[event.block_index] if not event.step else taken[place - 1].next_canvas
                    for place, event in enumerate(taken)]  # fmt: skip
        noise = iter([begun[0], *_noises(taken, begun, config)])
        monkeypatch.setattr(theirs, "_diffusion_initialize_canvas", _noise_of(noise, mx))
        model, tokenizer = Theirs(Sharp(seed, 0.7), config, mx), text()
        for _ in theirs.stream_diffusion_generate(
            model, tokenizer, tokenizer, mx.array([prompt]), None, None,
            max_tokens=config.max_new_tokens, skip_special_token_ids=[], temperature=0.0,
            max_denoising_steps=config.max_denoising_steps, diffusion_sampler=acceptance.replace("_", "-"),
            diffusion_threshold=config.accept_probability, diffusion_full_canvas=True,
        ):  # fmt: skip
            pass
        assert model.read == [canvas.tolist() for canvas in canvases], seed
        committed = [token for event in events if isinstance(event, CanvasCommitted) for token in event.tokens.tolist()]
        last = len(committed) - SHAPE.canvas_length  # they do not read the last canvas
        assert model.prefix == prompt + committed[:last], seed
        steps += len(taken)
    assert steps > 3 * RUNS


def _noises(taken: list[StepFinished], begun: list[Any], config: GenerationConfig) -> list[Any]:
    """Returns the canvases of noise in the order in which they draw them: none after a canvas's last possible step."""
    found = []
    for place, event in enumerate(taken):
        if event.step + 1 < config.max_denoising_steps:
            found.append(event.next_canvas)
        if place + 1 < len(taken) and taken[place + 1].step == 0:
            found.append(begun[taken[place + 1].block_index])
    return found


def _noise_of(noise: Any, mx: Any) -> Callable[..., Any]:
    return lambda *_: mx.array(next(noise))[None]
