"""``generate``: the one way to run a model. The terminal, the window's worker and the tests all consume it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from engine.cache import KVCache
from engine.config import GenerationConfig
from engine.decoders.base import Cancel, Decoder, Denoiser
from engine.decoders.block_diffusion import block_diffusion
from engine.errors import SafelightError
from engine.events import Event


def generate(
    model: Denoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig | None = None,
    seed: int = 0,
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
) -> Iterator[Event]:
    """Generate text after a prompt, block by block, telling each denoising step as an event.

    Args:
        model: from ``load_model``.
        prompt_ids: token ids (T,), T >= 1, usually from ``model.chat_ids``.
        config: sampler settings; ``None`` takes DiffusionGemma's defaults. Prefer ``model.generation_defaults``.
        seed: the same seed, settings, machine and model repeat the run exactly.
        cancel: looked at between steps (``threading.Event`` will do); the run then ends with reason "cancelled".
        cache: of an earlier run of this model, or ``model.new_cache()``. What it shares with the prompt's beginning is
            not read again, and the rest of it is forgotten. In the end it holds the prompt and all committed canvases
            but the last. Text that was read in other pieces may round differently in its last digits.

    Yields:
        Events as described in ``engine.events``; the last is always ``GenerationFinished``.

    Raises:
        SafelightError: empty prompt, a prompt that does not fit, bad settings or seed, another model's cache,
            non-finite logits.
    """
    prompt = torch.as_tensor(prompt_ids, dtype=torch.long)
    if prompt.dim() != 1 or prompt.numel() == 0:
        raise SafelightError("the prompt is empty; write something first")
    if not 0 <= seed < 2**63:
        raise SafelightError(f"the seed must be between 0 and {2**63 - 1}, not {seed}")
    if cache is None:
        cache = model.new_cache()
    cache.claim(model, model.config)
    decode: Decoder = block_diffusion
    yield from decode(model, prompt, config or GenerationConfig(), seed, cancel, cache)
