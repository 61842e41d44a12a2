"""A model's folder, with config and headers read once: its memory plan, its weights, and its conversion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from engine import store_files
from engine.adapters.draft import draft_numbers
from engine.config import ModelConfig
from engine.errors import SafelightError
from engine.files import read_json
from engine.memory.device import Placement, choose
from engine.memory.machine import AbsentCard
from engine.memory.plan import Plan, Subject, count
from engine.model_files import model_title
from engine.models.network import Network
from engine.models.registry import Family, family_of
from engine.quant import DEFAULT, NVFP4, PRECISIONS, Precision
from engine.text.chat_template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.types import Cancel, Progress
from engine.weights import packed_store
from engine.weights.loader import StoredWeights, Weights, check_quantization
from engine.weights.published import Published


@dataclass(frozen=True)
class ModelFolder:
    """The folder of a checkpoint in any layout that loads, or with only a ``config.json``."""

    path: Path
    raw: dict[str, Any]  # its config.json
    family: Family
    config: ModelConfig

    @staticmethod
    def open(path: Path) -> ModelFolder:
        """Opens a folder.

        Raises:
            SafelightError: its ``config.json`` is missing or damaged, or of no family that is known.
        """
        raw = read_json(path / "config.json")
        family = family_of(raw)
        return ModelFolder(path, raw, family, family.read_in(path, raw))

    @cached_property
    def published(self) -> Published | None:
        """The quantization that a published checkpoint declares; None: there is none.

        Raises:
            SafelightError: it cannot be read.
        """
        return Published.read(self.path, self.raw)

    @property
    def drafts(self) -> bool:
        """True if its family drafts its own text, by the checkpoint's adapter if there is one."""
        return "self_speculation" in self.family.decoders

    @cached_property
    def stored(self) -> StoredWeights:
        """The headers of its weights, read on first use.

        Raises:
            SafelightError: there are no weights, or they cannot be read.
        """
        return StoredWeights.open(self.path, None if packed_store.is_store(self.path) else self.published)

    @cached_property
    def stored_config(self) -> ModelConfig:
        """The config as far as the weights have it: without the vision tower if that was left out.

        Raises:
            SafelightError: as ``stored``.
        """
        beginnings = ("vision.", *self.family.names.skipped)  # in a store and as released
        has_tower = any(name.startswith(beginnings) for name in self.stored.checkpoint.headers)
        return self.config if has_tower else replace(self.config, vision=None)

    def weights(
        self,
        quantization: str,
        device: torch.device,
        dtype: torch.dtype | None,
        unpacked: Precision | None = None,
    ) -> Weights[Network]:
        """Returns the weights, checked against the config and not read yet.

        Args:
            quantization, unpacked: as ``StoredWeights.precision_for`` takes them.
            dtype: of unpacked tensors; None keeps the checkpoint's.

        Raises:
            SafelightError: an unknown or impossible quantization, or a checkpoint that does not fit its config.
        """
        precision = self.stored.precision_for(quantization, unpacked)
        with torch.device("meta"):
            network = self.family.build(self.stored_config)
        return self.stored.fit(network, self.family.names, precision, device, dtype)

    @property
    def name(self) -> str:
        return model_title(self.path)

    def small_file(self, name: str) -> dict[str, Any]:
        """Returns a file of JSON next to ``config.json``; empty if there is none.

        Raises:
            SafelightError: it is damaged.
        """
        path = self.path / name
        return read_json(path) if path.exists() else {}

    def tokenizer(self) -> Tokenizer:
        """Reads its tokenizer. Slow if that is large.

        Raises:
            SafelightError: it is missing or damaged.
        """
        return Tokenizer.from_folder(self.path, (self.config.bos_token_id,) if self.family.starts_with_bos else ())

    def template(self) -> ChatTemplate:
        """Reads its chat template.

        Raises:
            SafelightError: it cannot be compiled.
        """
        return ChatTemplate.from_folder(self.path)

    def companions(self) -> dict[str, bytes]:
        """Returns the small files that a store also has; see ``packed_store.companions_of``."""
        return packed_store.companions_of(self.path)

    def plan(
        self,
        context: int | None = None,
        quantization: str = "auto",
        device: str | AbsentCard = "auto",
        dtype: str = "auto",
    ) -> Plan:
        """Counts the memory that it would take, from its headers and config.json alone.

        Args:
            context: tokens of committed text, 1 or more; None takes 32 768, or what the model has.
            quantization: "auto" keeps packed weights as they are. Others stay unpacked if they fit, and else take the
                default precision. Or a name of ``PRECISIONS``.
            device, dtype: as ``load_model`` takes them. For an ``AbsentCard`` all memory counts as free.

        Raises:
            SafelightError: there is no such device, the checkpoint is damaged, or an argument is out of range.
        """
        check_quantization(quantization)
        place = choose(device, dtype)
        return count(self._subject(quantization, place), place, context, quantization, dtype)

    def _subject(self, quantization: str, _place: Placement) -> Subject:
        """Returns the subject of a plan, by its headers, or by its config if the weights are missing."""
        build, name, draft = self.family.build, self.path.name, draft_numbers(self.path) if self.drafts else 0
        is_store = packed_store.is_store(self.path) or (self.path / store_files.PARTIAL).exists()
        if is_store or any(self.path.glob("*.safetensors")):
            # On the meta device: headers are checked, and nothing is allocated.
            weights = self.weights(quantization, torch.device("meta"), None)
            skipped = ["its part for images is of a kind that is not supported: it is skipped and counts 0"]
            notes = self._notes(self.stored.published) + (skipped if weights.skipped else [])
            is_bf16 = self.stored.number == "BF16"
            stored = None if self.stored.precision is None else weights.precision
            return Subject(name, self.stored_config, build, stored, is_bf16, tuple(notes), draft)
        notes = ["counted from config.json; the weights are not here yet", *self._notes(self.published)]
        if self.published is None or self.published.scheme is None:
            is_bf16 = "bfloat16" in (self.raw.get("dtype"), self.raw.get("torch_dtype")) or self.published is not None
            return Subject(name, self.config, build, None, is_bf16, tuple(notes), draft)
        scheme = self.published.scheme
        if quantization != "auto" and PRECISIONS[quantization].experts != scheme:
            raise SafelightError(f"{self.path} is packed as {scheme}; use quantization auto, or a checkpoint in bf16")
        packed = "experts are" if scheme == NVFP4 else "experts and attention are"
        rest = "8-bit" if self.published.tensors is not None else "not packed"
        notes += [f"{packed} taken to be {scheme}, the rest {rest}"]
        return Subject(name, self.config, build, self.published.expected, notes=tuple(notes), draft=draft)

    def _notes(self, published: Published | None) -> list[str]:
        """Returns notes on settings of the checkpoint that are not followed."""
        small = "the checkpoint asks for an 8-bit key-value cache; that is ignored, the cache keeps the number type"
        has_small_cache = published is not None and published.has_small_cache
        return [note for note in (small if has_small_cache else "", _ignored_settings(self.path)) if note]


def quantize(
    source: Path | ModelFolder,
    destination: Path,
    quantization: str,
    device: torch.device,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> packed_store.Manifest:
    """Converts a checkpoint into a packed store; see ``packed_store.write_store``.

    Args:
        quantization: a name of ``PRECISIONS`` other than "none"; "auto" keeps what is packed already and takes the
            default otherwise.

    Raises:
        SafelightError: the source is no model, or is a store already; the destination cannot be used.
    """
    opened = source if isinstance(source, ModelFolder) else ModelFolder.open(source)
    check_packs(quantization)
    if opened.stored.manifest is not None:
        raise SafelightError(f"{opened.path} is packed already; load it as it is")
    weights = opened.weights(quantization, device, None, PRECISIONS[DEFAULT])
    companions = opened.companions()
    return packed_store.write_store(
        weights.checkpoint, weights.layout, weights.state, weights.precision, companions, destination, progress, cancel
    )


def check_packs(quantization: str) -> None:
    """Checks that a quantization packs weights.

    Raises:
        SafelightError: it leaves weights unpacked, which no packed store does.
    """
    if quantization == "none":
        known = ", ".join(name for name in PRECISIONS if name != "none")
        raise SafelightError(f"a packed store needs a quantization; use auto, {known}")


_IGNORED: dict[str, Any] = {  # with the value that leaves text unchanged
    "bad_words_ids": [], "begin_suppress_tokens": [], "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0,
    "exponential_decay_length_penalty": None, "forced_bos_token_id": None, "forced_eos_token_id": None,
    "frequency_penalty": 0.0, "guidance_scale": 1.0, "max_length": 20, "min_length": 0, "min_new_tokens": 0,
    "no_repeat_ngram_size": 0, "num_beams": 1, "penalty_alpha": 0.0, "presence_penalty": 0.0, "sequence_bias": None,
    "stop_strings": [], "suppress_tokens": [], "top_h": None, "typical_p": 1.0, "watermarking_config": None,
}  # fmt: skip
"""Settings of ``generation_config.json`` that change the text in transformers or vLLM, and are not followed here."""


def _ignored_settings(folder: Path) -> str:
    """Returns a note that names the settings of ``generation_config.json`` that are not followed; "" for none.

    Raises:
        SafelightError: the file is damaged.
    """
    path = folder / "generation_config.json"
    raw = read_json(path) if path.exists() else {}
    ignored = [name for name, neutral in _IGNORED.items() if raw.get(name) not in (None, neutral)]
    return f"these settings of generation_config.json are not followed: {', '.join(ignored)}" if ignored else ""
