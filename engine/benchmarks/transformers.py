"""Measures denoising steps by transformers, for ``safelight bench --shape … --compare transformers``.

It uses the fastest documented method: bf16, a static cache, and the compilation that ``generate`` then does itself. The
time of a step is the difference of a long and a short run over the difference of their steps, so that prefill and
set-up cancel out.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.benchmarks.measuring import wait
from engine.errors import SafelightError
from engine.files import read_json
from engine.memory.device import Placement
from engine.models.registry import family_of

SHORT, LONG = 4, 20  # steps of the short and the long run
ROUNDS = 3
NEVER = 1e-30  # a confidence threshold, in nats, that no canvas reaches


def transformers_step_ms(folder: Path, placement: Placement, context: int) -> dict[str, Any]:
    """Returns the milliseconds of a denoising step of a random model of a shape.

    Args:
        folder: with the shape's config.json.
        context: tokens of the prompt, 1 or more.

    Raises:
        SafelightError: transformers is not installed, or the device has no room for the weights in bf16.
    """
    try:
        import transformers  # an optional dependency
        from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion
        from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
            DiffusionGemmaGenerationConfig,
            EntropyBoundSamplerConfig,
        )
    except ImportError:
        raise SafelightError("comparing needs transformers 5.20 or newer; pip install transformers") from None
    raw = read_json(folder / "config.json")
    shape = family_of(raw).read_config(raw)
    config = DiffusionGemmaConfig.from_dict({**raw, "vision_config": _small_vision()})
    static = placement.device.type == "cuda"
    try:
        model = random_model(DiffusionGemmaForBlockDiffusion, config, placement)
    except torch.OutOfMemoryError as error:
        raise SafelightError(f"{placement.device} has no room for this shape in {placement.dtype}") from error
    prompt = torch.arange(context, device=placement.device)[None] % shape.vocab_size

    def seconds(steps: int) -> float:
        settings = DiffusionGemmaGenerationConfig(
            max_new_tokens=shape.canvas_length,
            max_denoising_steps=steps,
            sampler_config=EntropyBoundSamplerConfig(entropy_bound=0.1),
            t_min=0.4,
            t_max=0.8,
            stability_threshold=1,
            confidence_threshold=NEVER,
            cache_implementation="static" if static else None,
            pad_token_id=0,
            bos_token_id=2,
        )
        started = time.perf_counter()
        model.generate(prompt, generation_config=settings)
        wait(placement.device)
        return time.perf_counter() - started

    for steps in (SHORT, LONG):  # compiles
        seconds(steps)
    times = [1e3 * (seconds(LONG) - seconds(SHORT)) / (LONG - SHORT) for _ in range(ROUNDS)]
    return {
        "by": f"transformers {transformers.__version__}",
        "dtype": str(placement.dtype).removeprefix("torch."),
        "cache": "static, compiled" if static else "dynamic",
        "step_ms": statistics.median(times),
    }


def random_model(kind: Any, config: Any, placement: Placement) -> Any:
    """Returns a transformers model of a class with random weights, each of them made once.

    It is built and tied on the meta device. Built on the device, encoder and decoder have their own weights until they
    are tied, which takes 102 GB for a model of 51.

    Raises:
        torch.OutOfMemoryError: the device has no room for it.
    """
    with torch.device("meta"):
        model = kind._from_config(config, dtype=placement.dtype)
    made: dict[int, tuple[Tensor, Tensor]] = {}  # by the old one's id; it keeps that alive, so that no id is reused

    def real(old: Tensor) -> Tensor:
        if id(old) not in made:
            if isinstance(old, nn.Parameter):
                new: Tensor = nn.Parameter(torch.empty_like(old, device=placement.device), requires_grad=False)
            else:
                # values that the model's own code does not set below are scalars of 1
                new = torch.ones_like(old, device=placement.device)
            made[id(old)] = old, new
        return made[id(old)][1]

    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            tensors.update({name: real(tensor) for name, tensor in tensors.items() if tensor is not None})
        module._is_hf_initialized = False
    with torch.no_grad():
        model.initialize_weights()
    return model.eval()


def _small_vision() -> dict[str, Any]:
    """Returns the smallest vision tower: text needs none, but the class requires one."""
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "position_embedding_size": 8}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4, "patch_size": 2}
    return {"model_type": "gemma4_vision", **sizes}
