"""A loaded checkpoint: network, tokenizer, chat template and defaults in one object."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import catalog, kernels
from engine.adapters.loading import Adapter, AdapterSlot
from engine.config import GenerationConfig, ModelConfig
from engine.decoding.protocols import Cancel
from engine.decoding.sampler import Sampler
from engine.decoding.step_program import StepProgram
from engine.decoding.steppers import LastProgram
from engine.errors import SafelightError
from engine.files import read_json
from engine.layers.kv_cache import KVCache
from engine.layers.moe import DENSE_EXPERTS
from engine.layers.packed_linear import packed_weights
from engine.memory.device import Placement, choose
from engine.memory.plan import device_memory, plan, require_room
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import Precision
from engine.text.chat_template import ChatTemplate, Message
from engine.text.tokenizer import Tokenizer
from engine.threads import choose_threads, use_threads
from engine.weights.loader import open_weights
from engine.weights.safetensors import Progress

LEAST_CONTEXT = 4096  # tokens that must fit for a model to be loaded


@dataclass(frozen=True, eq=False)
class Model:
    """What ``load_model`` returns; immutable but for its adapter and last program, used by one thread at a time."""

    name: str
    folder: Path
    network: DiffusionGemma
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    generation_defaults: GenerationConfig
    placement: Placement
    load_seconds: float
    skipped_vision_tensors: int
    precision: Precision
    threads: int  # of the processor that a pass takes; 0 on a GPU
    last_program: LastProgram = field(default_factory=LastProgram, init=False, repr=False)
    adapter_slot: AdapterSlot = field(default_factory=AdapterSlot, init=False, repr=False)

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
    def adapter(self) -> Adapter | None:
        """The adapter that is on it; see ``load_adapter``."""
        return self.adapter_slot.adapter

    @property
    def parameter_count(self) -> int:
        """Numbers in the weights, without an adapter's."""
        plain = sum(parameter.numel() for parameter in self.network.parameters())
        return plain + sum(math.prod(weight.shape) for weight in packed_weights(self.network))

    def device_memory(self) -> tuple[int, int] | None:
        """Bytes taken and there, on the model's device; None for a CPU."""
        return device_memory(self.device)

    def new_cache(self) -> KVCache:
        """An empty cache for one sequence."""
        return self.network.new_cache()

    def prefill(self, ids: Tensor | Sequence[int], cache: KVCache) -> Tensor:
        """Causal pass: ids (T,) -> hidden states (T, H); appends to the cache."""
        self._take_threads()
        hidden: Tensor = self.network.prefill(torch.as_tensor(ids), cache)
        return hidden

    def denoise(
        self, canvas: Tensor | Sequence[int], cache: KVCache, self_conditioning_logits: Tensor | None = None
    ) -> Tensor:
        """Bidirectional pass: canvas (C,), logits of the step before (C, V) or None -> (C, V) fp32, soft-capped."""
        self._take_threads()
        logits: Tensor = self.network.denoise(torch.as_tensor(canvas), cache, self_conditioning_logits)
        return logits

    def _take_threads(self) -> None:
        if self.threads:
            use_threads(self.threads)

    def step_program(self, cache: KVCache, sampler: Sampler) -> StepProgram | None:
        """The denoising step as a program on the device; None where the plain path is as good, or experts ask the host.

        On a CPU it serves packed models: it holds no logits over the whole vocabulary.
        """
        packed = self.precision.experts is not None
        if self.device.type != "cpu":
            packed |= self.config.num_experts <= DENSE_EXPERTS
        if self.dtype != torch.bfloat16 or not packed:
            return None
        if self.device.type != "cpu" and kernels.why_plain(self.device) is not None:
            return None
        return self.last_program.get(self.network, cache, sampler)

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
    cancel: Cancel | None = None,
    threads: int = 0,
) -> Model:
    """Load a DiffusionGemma checkpoint in the Hugging Face layout.

    Args:
        path_or_id: a folder with config.json, tokenizer.json and safetensors, or an embedded model's id.
        device: "auto", "cpu", "cuda" or "cuda:N".
        dtype: "auto" (bfloat16 on CUDA and with packed weights, else float32), "float32" or "bfloat16".
        quantization: "auto" (packed weights stay as they are, others are packed only if they would not fit), "none",
            "nf4", "int4" or "int4-g64".
        progress: called with the share loaded, 0 to 1.
        cancel: looked at between tensors.
        threads: of the processor that a pass takes; 0 takes one, or all where the model is large enough to gain by it.

    Raises:
        SafelightError: whatever is wrong with the folder, or too little memory, in one line and before it starts.
    """
    started = time.perf_counter()
    folder = catalog.resolve(path_or_id)
    config = ModelConfig.from_dict(read_json(folder / "config.json"))
    tokenizer = Tokenizer.from_folder(folder)
    if tokenizer.vocab_size > config.vocab_size:
        raise SafelightError(
            f"{folder}: tokenizer.json has {tokenizer.vocab_size} tokens, config.json only {config.vocab_size}"
        )
    template = ChatTemplate.from_folder(folder)
    defaults_path = folder / "generation_config.json"
    defaults = GenerationConfig.from_dict(read_json(defaults_path)) if defaults_path.exists() else GenerationConfig()
    found = plan(folder, min(LEAST_CONTEXT, config.max_position_embeddings), quantization, device, dtype)
    require_room(found)
    placement = choose(device, found.dtype)
    counted = choose_threads(config, threads)
    weights = open_weights(folder, config, quantization, placement.device, placement.dtype, found.precision)
    return Model(
        name=folder.name,
        folder=folder,
        network=weights.load(progress, cancel),
        tokenizer=tokenizer,
        chat_template=template,
        generation_defaults=defaults,
        placement=placement,
        load_seconds=time.perf_counter() - started,
        skipped_vision_tensors=weights.skipped_vision_tensors,
        precision=weights.precision,
        threads=counted if placement.device.type == "cpu" else 0,
    )
