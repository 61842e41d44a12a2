"""A loaded checkpoint: network, tokenizer, chat template and defaults in one object."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import kernels
from engine.adapters.draft import DraftAdapter, read_draft
from engine.adapters.lora import Adapter, AdapterSlot
from engine.config import GenerationConfig, ModelConfig
from engine.errors import SafelightError, Sentence
from engine.layers.kv_cache import KVCache
from engine.layers.packed_linear import for_processor, packed_weights
from engine.memory.device import Placement, choose
from engine.memory.experimental import NAMES
from engine.memory.footprint import Mode
from engine.memory.plan import device_memory, free_bytes, require_room, spare_bytes
from engine.memory.several import run_bytes
from engine.models.device_check import settle
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.folder import ModelFolder
from engine.models.network import Network
from engine.models.opening import generation_defaults, open_model
from engine.models.prompt import image_starts, with_image_tokens, with_rows
from engine.models.registry import Family
from engine.models.vision.reader import ImageReader, drained
from engine.pictures import Picture
from engine.quant import Precision
from engine.text.chat_template import ChatTemplate
from engine.text.message import Message
from engine.text.tokenizer import Tokenizer
from engine.threads import available_threads, choose_threads, use_threads
from engine.types import Cancel, Progress

LEAST_CONTEXT = 4096  # tokens that must fit for a model to be loaded


@dataclass(frozen=True, eq=False)
class Model:
    """A loaded model; immutable except for its adapter and ``derived``, used by one thread at a time."""

    name: str
    folder: Path
    family: Family
    network: Network
    tokenizer: Tokenizer
    chat_template: ChatTemplate
    generation_defaults: GenerationConfig
    placement: Placement
    load_seconds: float
    skipped_vision_tensors: int  # of a tower of an unknown kind
    precision: Precision
    threads: int  # of the processor that a pass takes; 0 on a GPU
    most_threads: int  # that several runs in one pass may take
    draft: DraftAdapter | None = None  # on only in drafting passes
    adapter_slot: AdapterSlot = field(default_factory=AdapterSlot, init=False, repr=False)
    derived: dict[type, Any] = field(default_factory=dict, init=False, repr=False)
    """Objects that others have made from its present layers, by type; cleared when an adapter is loaded or removed."""

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
        """The loaded adapter; see ``load_adapter``."""
        return self.adapter_slot.adapter

    @property
    def parameter_count(self) -> int:
        """Numbers in the weights, without an adapter's."""
        plain = sum(parameter.numel() for parameter in self.network.parameters())
        return plain + sum(math.prod(weight.shape) for weight in packed_weights(self.network))

    def device_memory(self) -> tuple[int, int] | None:
        """Returns the taken and the total bytes of the model's device; None for a CPU."""
        return device_memory(self.device)

    def spare_bytes(self) -> int:
        """Returns the bytes of its device that a run could take now."""
        return spare_bytes(self.device)

    def run_bytes(self, prompt: int, settings: GenerationConfig, running: int) -> int:
        """Returns the bytes that a run takes at most, with ``prompt`` tokens before it and ``running`` others."""
        mode = Mode.on_device(self.device, self.dtype, self.precision)
        return run_bytes(self.config, mode, self.has_step_program, prompt, settings, running)

    def new_cache(self) -> KVCache:
        return self.network.new_cache()

    def prefill(self, ids: Tensor | Sequence[int], cache: KVCache) -> Tensor:
        """Reads text as ``Network.prefill``."""
        self.take_threads()
        return self.network.prefill(torch.as_tensor(ids), cache)

    def denoise(
        self, canvas: Tensor | Sequence[int], cache: KVCache, self_conditioning_logits: Tensor | None = None
    ) -> Tensor:
        """Predicts a canvas as ``DiffusionGemma.denoise``.

        Raises:
            SafelightError: the family has no such pass.
        """
        if not isinstance(self.network, DiffusionGemma):
            known = ", ".join(self.family.decoders)
            raise SafelightError(f"{self.name} does not start from noise; its decoders are {known}")
        self.take_threads()
        return self.network.denoise(torch.as_tensor(canvas), cache, self_conditioning_logits)

    def decode(
        self,
        ids: Tensor | Sequence[int],
        cache: KVCache,
        commit: int,
        first_logits: int = 0,
        positions: Tensor | None = None,
        is_causal: bool = True,
    ) -> Tensor:
        """Reads and predicts as ``Network.decode``."""
        self.take_threads(len(ids))
        return self.network.decode(torch.as_tensor(ids), cache, commit, first_logits, positions, is_causal)

    def take_threads(self, rows: int = 0) -> None:
        """Sets torch's threads to the model's for this thread's passes; to one for a pass of few rows in C.

        Torch's operations around such a pass are small: in several threads they wait for one another.
        """
        if self.threads:
            use_threads(1 if self.network.runs_in_c(rows) else self.threads)

    @property
    def has_step_program(self) -> bool:
        """True if a denoising step runs as one program on the device; else the plain path is as good, or is needed.

        It is needed if experts read values back to the host. On a CPU a program serves packed models: it holds no
        logits over the whole vocabulary. Families without denoising steps have none.
        """
        if not isinstance(self.network, DiffusionGemma):
            return False
        packed = self.precision.experts is not None
        if self.device.type != "cpu":
            packed |= self.config.runs_all_experts
        if self.dtype != torch.bfloat16 or not packed:
            return False
        return self.device.type == "cpu" or kernels.why_plain(self.device) is None

    @property
    def compute_path(self) -> Sentence:
        """The computing path in words: kernels, or plain torch and the reason."""
        if kernels.run_on(self.device, self.dtype):
            if self.has_step_program:
                return Sentence("Triton kernels, CUDA graph")
            if not self.config.denoises:
                packed = self.precision.is_packed
                return Sentence("Triton kernels") if packed else Sentence("plain torch: the weights are not packed")
            return Sentence("Triton kernels for the prompt, plain torch for the steps: the experts are not packed")
        if self.device.type == "cpu":
            if self.precision.is_packed:
                return Sentence("packed CPU kernels")
            return Sentence("plain torch: the weights are not packed")
        why = kernels.why_plain(self.device) or "the kernels compute in bfloat16"
        return Sentence("plain torch: {reason}", reason=why)

    @cached_property
    def vision(self) -> ImageReader | None:
        """The reader of images; None if the model has none."""
        tower = self.network.vision if isinstance(self.network, DiffusionGemma) else None
        return None if tower is None else ImageReader(tower, self.device)

    def chat_ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        image_tokens: int = GenerationConfig.image_tokens,
        **options: Any,
    ) -> list[int]:
        """Returns the token ids of a conversation up to the model's answer, without the rows of its images.

        Control tokens in the texts and names of messages and tools are ordinary text.

        Args:
            image_tokens: the most tokens that an image may take.

        Raises:
            SafelightError: there is no message, the last one is blank and no tool's result, the chat template refuses
                them, or there are images and the model cannot see.
        """
        last = messages[-1] if messages else {"content": "", "role": ""}
        if not (last["content"].strip() or last["role"] == "tool" or last.get("images")):
            raise SafelightError("the prompt is empty; write something first")
        counts = self.image_sizes(messages, image_tokens)  # before the template, which may know no images either
        text = self.chat_template.render(messages, tools, inert=self.tokenizer.inert, **options)
        ids = self.tokenizer.encode_rendered(text)
        fewest = len(last.get("images") or ())
        return with_image_tokens(ids, self._vision().config, counts, fewest) if counts else ids

    def image_sizes(self, messages: Sequence[Message], image_tokens: int) -> list[int]:
        """Returns the tokens of each image of a conversation, without its begin and end token.

        Raises:
            SafelightError: there are some, and the model cannot see.
        """
        images = [image for message in messages for image in message.get("images") or ()]
        return [self._vision().cost.soft_tokens(image["width"], image["height"], image_tokens) for image in images]

    def with_images(
        self, ids: Sequence[int], messages: Sequence[Message], pictures: Sequence[Picture], image_tokens: int
    ) -> Sequence[int]:
        """Adds the images of messages to the ids of ``chat_ids``: a ``Prompt`` if there are any.

        Raises:
            SafelightError: a picture is missing, or another one than the ids were made for; the model cannot see.
        """
        return drained(self.seeing(ids, messages, pictures, image_tokens))

    def seeing(
        self, ids: Sequence[int], messages: Sequence[Message], pictures: Sequence[Picture], image_tokens: int
    ) -> Generator[None, None, Sequence[int]]:
        """Does the same as ``with_images`` as a generator that pauses before each layer of the tower."""
        by_digest = {picture.digest: picture for picture in pictures}
        named = [image["digest"] for message in messages for image in message.get("images") or ()]
        if not named:
            return ids
        reader = self._vision()
        named = named[max(0, len(named) - len(image_starts(ids, reader.config))) :]  # the template may leave out others
        missing = next((digest for digest in named if digest not in by_digest), None)
        if missing is not None:
            raise SafelightError(f"the picture {missing[:12]}… of this conversation is missing; add it again")
        rows = list[tuple[str, Tensor]]()
        for picture in (by_digest[digest] for digest in named):
            self.take_threads()
            soft = yield from reader.reading(picture, image_tokens)
            rows.append((reader.key(picture, image_tokens), soft))
        return with_rows(ids, reader.config, rows)

    def _vision(self) -> ImageReader:
        if self.vision is None:
            raise SafelightError(f"{self.name} cannot see images; remove them, or choose a model that can")
        return self.vision


def load_model(
    path_or_id: str | Path,
    device: str = "auto",
    dtype: str = "auto",
    quantization: str = "auto",
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    threads: int = 0,
) -> Model:
    """Loads a checkpoint in the Hugging Face layout, or a GGUF file, of a family in ``models.registry``.

    Args:
        path_or_id: a folder with config.json, tokenizer.json and safetensors, a GGUF file, or an embedded model's id.
        device: "auto", "cpu", "cuda", "cuda:N", or an experimental one: "xpu", "mps".
        dtype: "float32", "bfloat16" or "auto": bfloat16 on a card, with packed weights, and for a large bf16 model on a
            CPU that multiplies bf16 fast; else float32.
        quantization: "auto" (packed weights stay as they are, others are packed only if they would not fit), or a name
            of ``engine.quant.PRECISIONS``.
        progress: called with the share loaded, 0 to 1.
        cancel: checked between tensors.
        threads: of the processor that a pass takes; 0 takes one, or all if the model is large enough to gain by it.

    Raises:
        SafelightError: the folder's fault, or too little memory, in one line and before loading starts.
    """
    started = time.perf_counter()
    opened, tokenizer, template, defaults = _read(path_or_id)
    folder, config = opened.path, opened.config
    settle(device)
    context = min(LEAST_CONTEXT, config.max_position_embeddings)
    plan = opened.plan(context, quantization, device, dtype)
    placement = choose(device, plan.dtype)
    if placement.is_experimental and device == "auto" and not plan.fits:
        plan = opened.plan(context, quantization, "cpu", dtype)
        why = Sentence("{name} has too little memory for this model", name=NAMES[placement.device.type])
        placement = replace(choose("cpu", plan.dtype), reason=why, is_news=True)
    require_room(plan)
    counted = choose_threads(config, threads)
    weights = opened.weights(quantization, placement.device, placement.dtype, plan.precision)
    network = weights.load(progress, cancel)
    if dtype == "auto":
        for_processor(network, torch.bfloat16)  # a network whose activations are fp32 is left exact by its loading
    free = free_bytes(placement.device)
    most = (threads or available_threads()) if placement.device.type == "cpu" else 0
    network.threads_in_c = most
    draft = read_draft(opened.path, network, placement.device, network.dtype, free) if opened.drafts else None
    return Model(
        name=opened.name,
        folder=folder,
        family=opened.family,
        network=network,
        tokenizer=tokenizer,
        chat_template=template,
        generation_defaults=defaults,
        placement=placement,
        load_seconds=time.perf_counter() - started,
        skipped_vision_tensors=weights.skipped,
        precision=weights.precision,
        threads=counted if placement.device.type == "cpu" else 0,
        most_threads=most,
        draft=draft,
    )


def check_model(path_or_id: str | Path) -> None:
    """Checks a model's small files and the headers of its weights, as loading does.

    Raises:
        SafelightError: the folder's fault, in one line.
    """
    opened, *_ = _read(path_or_id)
    opened.weights("auto", torch.device("meta"), None)


def check_small_files(folder: Path) -> None:
    """Checks a model's files except the weights, which need not be there.

    Raises:
        SafelightError: a fault of its config, its packing, its tokenizer, its template or its settings.
    """
    opened, *_ = _read(folder)
    _ = opened.published


def _read(path_or_id: str | Path) -> tuple[ModelFolder, Tokenizer, ChatTemplate, GenerationConfig]:
    """Reads everything of a model except its weights.

    Raises:
        SafelightError: a file is missing or damaged, or they do not go together.
    """
    opened = open_model(path_or_id)
    tokenizer, most = opened.tokenizer(), opened.config.vocab_size
    if tokenizer.vocab_size > most:
        raise SafelightError(
            f"{opened.path}: tokenizer.json has {tokenizer.vocab_size} tokens, config.json only {most}"
        )
    return opened, tokenizer, opened.template(), generation_defaults(opened, tokenizer)
