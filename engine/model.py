"""A loaded checkpoint: network, tokenizer, chat template and defaults in one object."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import catalog
from engine.cache import KVCache
from engine.chat_template import ChatTemplate, Message
from engine.config import GenerationConfig, ModelConfig, read_json
from engine.device import Placement, choose
from engine.errors import SafelightError
from engine.models.diffusion_gemma import DiffusionGemma
from engine.tokenizer import Tokenizer
from engine.weights.checkpoint import Progress, load_weights


@dataclass(frozen=True, eq=False)
class Model:
    """What ``load_model`` returns; immutable, used by one thread at a time."""

    name: str
    network: DiffusionGemma
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    generation_defaults: GenerationConfig
    placement: Placement
    load_seconds: float
    skipped_vision_tensors: int

    @property
    def config(self) -> ModelConfig:
        return self.network.config

    @property
    def device(self) -> torch.device:
        return self.placement.device

    @property
    def dtype(self) -> torch.dtype:
        return self.placement.dtype

    @property
    def parameter_count(self) -> int:
        """Numbers in the weights."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    def new_cache(self) -> KVCache:
        """An empty cache for one sequence."""
        return self.network.new_cache()

    def prefill(self, ids: Tensor | Sequence[int], cache: KVCache) -> Tensor:
        """Causal pass: ids (T,) -> hidden states (T, H); appends to the cache."""
        hidden: Tensor = self.network.prefill(torch.as_tensor(ids), cache)
        return hidden

    def denoise(
        self, canvas: Tensor | Sequence[int], cache: KVCache, self_conditioning_logits: Tensor | None = None
    ) -> Tensor:
        """Bidirectional pass: canvas (C,), logits of the step before (C, V) or None -> (C, V) fp32, soft-capped."""
        logits: Tensor = self.network.denoise(torch.as_tensor(canvas), cache, self_conditioning_logits)
        return logits

    def chat_ids(self, messages: Sequence[Message], **options: Any) -> list[int]:
        """Token ids of a conversation up to where the model's answer begins.

        Raises:
            SafelightError: there is no message, the last one is blank, or the chat template refuses them.
        """
        if not messages or not messages[-1]["content"].strip():
            raise SafelightError("the prompt is empty; write something first")
        return self.tokenizer.encode(self.chat_template.render(messages, **options))


def load_model(
    path_or_id: str | Path,
    device: str = "auto",
    dtype: str = "auto",
    quantization: str = "auto",
    progress: Progress | None = None,
) -> Model:
    """Load a DiffusionGemma checkpoint in the Hugging Face layout.

    Args:
        path_or_id: a folder with config.json, tokenizer.json and safetensors, or an embedded model's id.
        device: "auto", "cpu", "cuda" or "cuda:N".
        dtype: "auto" (bfloat16 on CUDA, float32 on the CPU), "float32" or "bfloat16".
        quantization: "auto" or "none"; weights are kept as they are.
        progress: called with the share loaded, 0 to 1.

    Raises:
        SafelightError: whatever is wrong with the folder, in one line.
    """
    started = time.perf_counter()
    if quantization not in ("auto", "none"):
        raise SafelightError(f"quantization {quantization!r} is not available; use auto or none")
    folder = catalog.resolve(path_or_id)
    placement = choose(device, dtype)
    config = ModelConfig.from_dict(read_json(folder / "config.json"))
    tokenizer = Tokenizer.from_folder(folder)
    if tokenizer.vocab_size > config.vocab_size:
        raise SafelightError(
            f"{folder}: tokenizer.json has {tokenizer.vocab_size} tokens, config.json only {config.vocab_size}"
        )
    template = ChatTemplate.from_folder(folder)
    defaults_path = folder / "generation_config.json"
    defaults = GenerationConfig.from_dict(read_json(defaults_path)) if defaults_path.exists() else GenerationConfig()
    with torch.device("meta"):
        network = DiffusionGemma(config)
    skipped = load_weights(network, folder, placement.device, placement.dtype, progress)
    return Model(
        name=folder.name,
        network=network.eval(),
        tokenizer=tokenizer,
        chat_template=template,
        generation_defaults=defaults,
        placement=placement,
        load_seconds=time.perf_counter() - started,
        skipped_vision_tensors=skipped,
    )
