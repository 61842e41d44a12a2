"""Imports a GGUF file: its model becomes a packed store, dequantised and packed again piece by piece.

The file holds all that a model folder has: shape and sampler in its keys, tokenizer and template next to them. It has
no vision part: that is a separate file, in a layout of llama.cpp's.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import torch

from engine.errors import SafelightError, quoted
from engine.memory.card import AbsentCard
from engine.memory.plan import Plan, Subject
from engine.models.causal.gguf import DESCRIBE
from engine.models.diffusion_gemma import gguf as diffusion_gemma
from engine.models.folder import ModelFolder, check_packs, quantize
from engine.models.gguf_description import Describe, GGUFDescription
from engine.models.registry import family_of
from engine.quant import DEFAULT
from engine.text.gguf_tokenizer import tokenizer_files
from engine.text.template_compiling import compile_template
from engine.text.tokenizer import Tokenizer
from engine.types import Cancel, Progress
from engine.weights.gguf.checkpoint import GGUFCheckpoint, in_pieces
from engine.weights.gguf.header import GGUFHeader
from engine.weights.loader import StoredWeights
from engine.weights.packed_store import Manifest, companions_of

ARCHITECTURES: dict[str, Describe] = {diffusion_gemma.ARCHITECTURE: diffusion_gemma.describe, **DESCRIBE}
OWN = ("config.json", "generation_config.json")  # made from the file's keys, whatever the tokenizer's folder has
FOUR_BITS_FROM = 2 * 10**9
"""Numbers of a model without experts from which it is packed in four bits by default. Four bits cost a small model much
quality (``tests.bench.perplexity``), and its eight bits are few bytes."""


@dataclass(frozen=True)
class GGUFModel(ModelFolder):
    """A GGUF file of a known family, with its header and small files read."""

    header: GGUFHeader
    described: GGUFDescription
    tokenizer: dict[str, bytes]  # the files of one

    def packing(self, quantization: str) -> str:
        """Returns the precision that it is packed in; "auto" is four bits, for a small dense model eight."""
        if quantization != "auto":
            return quantization
        numbers = sum(math.prod(header.shape) for header in self.stored.checkpoint.headers.values())
        return DEFAULT if self.config.num_experts or numbers >= FOUR_BITS_FROM else "int8"

    @staticmethod
    def open_file(path: Path, tokenizer: Path | None = None) -> GGUFModel:
        """Opens a GGUF file.

        Args:
            tokenizer: a model folder whose tokenizer and chat template are taken in place of the file's.

        Raises:
            SafelightError: the file is damaged, or of another model; or its tokenizer cannot be used.
        """
        header = GGUFHeader.read(path)
        found = header.values.get("general.architecture")
        describe = ARCHITECTURES.get(found) if isinstance(found, str) else None
        if describe is None:
            name = header.values.get("general.name")
            title = f" ({quoted(name)})" if isinstance(name, str) else ""
            raise SafelightError(
                f"{path} holds a model of the architecture {quoted(found)}{title}; only {', '.join(ARCHITECTURES)} "
                "are imported"
            )
        files = _tokenizer_of(path, header) if tokenizer is None else _tokenizer_in(tokenizer)
        fast = Tokenizer.from_bytes(files["tokenizer.json"], f"the tokenizer of {tokenizer or path}")
        with _named(path):
            described = describe(header, fast.token_id)
            family = dataclasses.replace(family_of(described.config), names=described.names)
            config = family.read_config(described.config)
        if fast.vocab_size > config.vocab_size:
            raise SafelightError(f"{path}: its tokenizer has {fast.vocab_size} tokens, its model {config.vocab_size}")
        return GGUFModel(path, described.config, family, config, header, described, files)

    @cached_property
    def stored(self) -> StoredWeights:
        layout = partial(in_pieces, rewritten=self.described.rewritten)
        return StoredWeights(GGUFCheckpoint(self.header), None, None, layout)

    def companions(self) -> dict[str, bytes]:
        made = {"config.json": self.raw, "generation_config.json": self.described.generation}
        return {name: json.dumps(raw, indent=2).encode() for name, raw in made.items()} | self.tokenizer

    def _subject(self, _quantization: str) -> Subject:
        return Subject(self.path.name, self.config, self.family.build, None, notes=self.described.notes)


def plan_import(
    path: Path,
    context: int | None = None,
    quantization: str = "auto",
    device: str | AbsentCard = "auto",
    dtype: str = "auto",
) -> Plan:
    """Counts what the imported model would take, in memory and on disk, from the header alone.

    Args:
        context, device, dtype: as ``folder.plan`` takes them.
        quantization: as ``import_gguf`` takes it.

    Raises:
        SafelightError: as ``import_gguf``, before anything is written; or an argument is out of range.
    """
    check_packs(quantization)
    opened = GGUFModel.open_file(path)
    packing = opened.packing(quantization)
    planned = opened.plan(context, packing, device, dtype)
    weights = opened.weights(packing, torch.device("meta"), None)
    return dataclasses.replace(planned, copy_bytes=weights.final_bytes)


def import_gguf(
    source: Path,
    destination: Path,
    quantization: str,
    device: torch.device,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
    tokenizer: Path | None = None,
) -> Manifest:
    """Converts a GGUF file into a packed store, as ``folder.quantize`` does a folder.

    Args:
        tokenizer: a model folder whose tokenizer and chat template are taken in place of the file's.

    Raises:
        SafelightError: the file is damaged or of another model, or its tokenizer or the destination is of no use.
    """
    opened = GGUFModel.open_file(source, tokenizer)
    return quantize(opened, destination, opened.packing(quantization), device, progress, cancel)


def _tokenizer_of(path: Path, header: GGUFHeader) -> dict[str, bytes]:
    try:
        files = tokenizer_files(header.values)
    except SafelightError as error:
        raise SafelightError(
            f"{path} {error}. Download tokenizer.json and the chat template of the original model, and give their "
            f"folder: safelight quantize FILE DST --tokenizer FOLDER"
        ) from None
    with _named(path):
        if "chat_template.jinja" in files:
            compile_template(files["chat_template.jinja"].decode())
    return files


def _tokenizer_in(folder: Path) -> dict[str, bytes]:
    found = {name: data for name, data in companions_of(folder).items() if name not in OWN}
    missing = [name for name in ("tokenizer.json", "tokenizer_config.json") if name not in found]
    if missing:
        raise SafelightError(f"{folder} has no {missing[0]}; give the folder of a model")
    return found


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Puts the file's name before an error."""
    try:
        yield
    except SafelightError as error:
        raise SafelightError(f"{error}" if str(path) in str(error) else f"{path} {error}") from None
