"""Imports a GGUF file: its model becomes a packed store, dequantised and packed again piece by piece.

The file holds all that a model folder has: shape and sampler in its keys, tokenizer and template next to them. It has
no vision part: that is a separate file, in a layout of llama.cpp's.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from gguf.constants import GGMLQuantizationType as Kind

from engine import kernels
from engine.catalog import PackagedModel
from engine.errors import SafelightError, quoted
from engine.memory.device import Placement
from engine.memory.machine import AbsentCard
from engine.memory.plan import Plan, Subject
from engine.model_files import model_title
from engine.models.causal.gguf import DESCRIBE
from engine.models.diffusion_gemma import gguf as diffusion_gemma
from engine.models.folder import ModelFolder, check_packs, quantize
from engine.models.gguf_description import Describe, GGUFDescription
from engine.models.registry import family_of
from engine.quant import DEFAULT, INT8, INT8_G32, UINT4, Precision, Scheme
from engine.text.chat_template import ChatTemplate
from engine.text.gguf_tokenizer import tokenizer_files, tokenizer_of
from engine.text.template_sandbox import compile_template
from engine.text.tokenizer import Tokenizer
from engine.types import Cancel, Progress
from engine.weights.gguf.checkpoint import KEPT, GGUFCheckpoint, in_pieces
from engine.weights.gguf.header import GGUFHeader
from engine.weights.loader import StoredWeights
from engine.weights.packed_store import Manifest, companions_of

ARCHITECTURES: dict[str, Describe] = {diffusion_gemma.ARCHITECTURE: diffusion_gemma.describe, **DESCRIBE}
FLOATS = frozenset(("F32", "F16", "BF16"))
FOURS = frozenset(kind.name for kind, kept in KEPT.items() if kept.scheme == UINT4)
OWN = ("config.json", "generation_config.json")  # made from the file's keys, whatever the tokenizer's folder has
FOUR_BITS_FROM = 2 * 10**9
"""Numbers of a model without experts from which it is packed in four bits by default. Four bits cost a small model much
quality (``tests.bench.perplexity``), and its eight bits are few bytes."""
SMALL_TABLE = 2**26
"""Numbers of a token table up to which it stays unpacked: 8 bits with one scale a row are its largest error then."""


@dataclass(frozen=True)
class GGUFModel(ModelFolder):
    """A GGUF file of a known family, with its header and small files read."""

    header: GGUFHeader
    described: GGUFDescription
    files: dict[str, bytes]  # of its tokenizer; without tokenizer.json if that is in the file
    fast: Tokenizer
    id: str = ""  # by which it is known; else its file's name

    def packing(self, quantization: str) -> str:
        """Returns the precision that it is packed in; "auto" is four bits, for a small dense model eight."""
        if quantization != "auto":
            return quantization
        return DEFAULT if self.config.num_experts or self.numbers >= FOUR_BITS_FROM else "int8"

    @cached_property
    def numbers(self) -> int:
        return sum(math.prod(tensor.shape) for tensor in self.header.tensors.values())

    @staticmethod
    def open_file(path: Path, tokenizer: Path | None = None) -> GGUFModel:
        """Opens a GGUF file.

        Args:
            tokenizer: a model folder whose tokenizer and chat template are taken in place of the file's.

        Raises:
            SafelightError: the file is damaged, or of another model; or its tokenizer cannot be used.
        """
        header = GGUFHeader.read(path)
        architecture = header.values.get("general.architecture")
        describe = ARCHITECTURES.get(architecture) if isinstance(architecture, str) else None
        if describe is None:
            name = header.values.get("general.name")
            title = f" ({quoted(name)})" if isinstance(name, str) else ""
            raise SafelightError(
                f"{path} holds a model of the architecture {quoted(architecture)}{title}; only "
                f"{', '.join(ARCHITECTURES)} can be imported"
            )
        if tokenizer is None:
            raw, files = _tokenizer_of(path, header)
            fast = Tokenizer.from_parts(raw, f"the tokenizer of {path}")
        else:
            files = _tokenizer_in(tokenizer)
            fast = Tokenizer.from_bytes(files["tokenizer.json"], f"the tokenizer of {tokenizer}")
        with _named(path):
            described = describe(header, fast.token_id)
            family = dataclasses.replace(family_of(described.config), names=described.names)
            config = family.read_config(described.config)
        if fast.vocab_size > config.vocab_size:
            raise SafelightError(f"{path}: its tokenizer has {fast.vocab_size} tokens, its model {config.vocab_size}")
        return GGUFModel(path, described.config, family, config, header, described, files, fast)

    @cached_property
    def stored(self) -> StoredWeights:
        checkpoint = GGUFCheckpoint(self.header)
        layout = partial(in_pieces, checkpoint=checkpoint, rewritten=self.described.rewritten)
        return StoredWeights(checkpoint, None, None, layout)

    @property
    def name(self) -> str:
        return self.id or model_title(self.path)

    def known_as(self, model: PackagedModel) -> GGUFModel:
        """Returns the model under the id, and with the settings of a packaged one."""
        described = dataclasses.replace(self.described, generation=self.described.generation | dict(model.settings))
        return dataclasses.replace(self, id=model.id, described=described)

    def small_file(self, name: str) -> dict[str, Any]:
        return json.loads((self._made | self.files).get(name, b"{}"))

    def tokenizer(self) -> Tokenizer:
        return self.fast

    def template(self) -> ChatTemplate:
        source = self.files.get("chat_template.jinja", b"").decode() or None
        return ChatTemplate.from_settings(self.small_file("tokenizer_config.json"), source, self.path)

    def loadable(self) -> GGUFModel:
        """Returns the model, if it can be loaded without an import.

        Raises:
            SafelightError: it denoises canvases; those models are so large that they are imported.
        """
        if self.config.denoises:
            raise SafelightError(f"{self.path} is a GGUF file; import it first: safelight quantize FILE FOLDER")
        return self

    def own_precision(self, on_cpu: bool) -> Precision:
        """Returns the precision that keeps its weights as they are, or nearly.

        On a processor, each layer of a dense model keeps its codes where a scheme has them, and else takes eight bits
        in groups. Elsewhere a part is in four bits where all of it has a scale, or a scale and a minimum, for 32
        inputs, and else in eight. Floats stay.
        """
        schemes, parts = dict[str, Scheme | None](), dict[str, Any]()
        kinds, numbers = defaultdict[str, set[str]](set), defaultdict[str, Counter[Scheme | None]](Counter)
        head = "lm_head" if any(layer == "lm_head" for layer, *_ in self._matrices) else "embed_tokens"
        for layer, kind, shape in self._matrices:
            part = Precision.part(layer)
            schemes[layer] = _scheme_of(kind, shape, is_table=layer == "embed_tokens" == head)
            kinds[part].add(kind.name if shape[-1] % UINT4.unit == 0 else "")
            numbers[part][schemes[layer]] += math.prod(shape)
        if not on_cpu or self.config.num_experts or self.config.denoises:
            parts = {part: _scheme_of_all(part, types, numbers[part].total()) for part, types in kinds.items()}
            return Precision(**parts)
        parts = {part: types.most_common(1)[0][0] for part, types in numbers.items()}
        others = ((layer, own) for layer, own in schemes.items() if own != parts[Precision.part(layer)])
        return Precision(**parts, others=frozenset(others))

    @cached_property
    def _matrices(self) -> list[tuple[str, Kind, tuple[int, ...]]]:
        """The layers that can be packed, with the types and shapes of their weights."""
        with torch.device("meta"):
            parameters = self.family.build(self.config).named_parameters()
        matrices = []
        for path, parameter in parameters:
            tensor, layer = self.header.tensors.get(self.family.names.released(path)), path.rpartition(".")[0]
            if tensor is not None and parameter.dim() > 1 and Precision.part(layer):
                matrices.append((layer, tensor.type, tuple(parameter.shape)))
        return matrices

    def _subject(self, quantization: str, place: Placement) -> Subject:
        """Returns the subject of a plan: "auto" is as it is on a processor, and on a card whose kernels can read it.

        On a processor, activations of a small model all in four bits stay fp32 then: in bf16 its answers change.
        """
        on_cpu = place.device.type == "cpu"
        stays = quantization == "auto" and (on_cpu or kernels.run_on(place.device, place.dtype))
        own = self.own_precision(on_cpu) if stays else None
        mixed = set() if own is None else {Precision.part(layer) for layer, _ in own.others} - {"embedding"}
        is_small = self.numbers < FOUR_BITS_FROM and own is not None and own.dense == UINT4 and not mixed
        return Subject(
            self.name,
            self.config,
            self.family.build,
            own,
            notes=self.described.notes,
            has_fp32_sums=stays and on_cpu and is_small,
            repacks=True,
        )

    def companions(self) -> dict[str, bytes]:
        with _named(self.path):
            return self._made | (self.files if "tokenizer.json" in self.files else tokenizer_files(self.header.values))

    @property
    def _made(self) -> dict[str, bytes]:
        made = {"config.json": self.raw, "generation_config.json": self.described.generation}
        return {name: json.dumps(raw, indent=2).encode() for name, raw in made.items()}


def _scheme_of(kind: Kind, shape: tuple[int, ...], is_table: bool) -> Scheme | None:
    """Returns the scheme in which a processor has a weight; none multiplies by a table in four bits."""
    if kind.name in FLOATS:
        return None
    kept = KEPT[kind].scheme if kind in KEPT else INT8_G32
    fits = shape[-1] % math.lcm(kept.unit, kept.group_size) == 0 and not (kept == UINT4 and is_table)
    return kept if fits else INT8_G32 if shape[-1] % INT8_G32.group_size == 0 else INT8


def _scheme_of_all(part: str, kinds: set[str], numbers: int) -> Scheme | None:
    """Returns the scheme of a part whose tensors have these types and so many numbers."""
    if kinds <= FLOATS or (part == "embedding" and numbers <= SMALL_TABLE):
        return None
    return UINT4 if kinds <= FOURS and part != "embedding" else INT8


def plan_import(
    path: Path,
    context: int | None = None,
    quantization: str = "auto",
    device: str | AbsentCard = "auto",
    dtype: str = "auto",
) -> Plan:
    """Counts what the imported model would take, in memory and on disk, from the header alone.

    Args:
        context, device, dtype: as ``ModelFolder.plan`` takes them.
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


def _tokenizer_of(path: Path, header: GGUFHeader) -> tuple[dict[str, Any], dict[str, bytes]]:
    try:
        raw, files = tokenizer_of(header.values)
    except SafelightError as error:
        raise SafelightError(
            f"{path} {error}. Download tokenizer.json and the chat template of the original model, and give their "
            f"folder: safelight quantize FILE DST --tokenizer FOLDER"
        ) from None
    with _named(path):
        if "chat_template.jinja" in files:
            compile_template(files["chat_template.jinja"].decode())
    return raw, files


def _tokenizer_in(folder: Path) -> dict[str, bytes]:
    files = {name: data for name, data in companions_of(folder).items() if name not in OWN}
    missing = [name for name in ("tokenizer.json", "tokenizer_config.json") if name not in files]
    if missing:
        raise SafelightError(f"{folder} has no {missing[0]}; give the folder of a model")
    return files


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Puts the file's name before an error."""
    try:
        yield
    except SafelightError as error:
        raise SafelightError(f"{error}" if str(path) in str(error) else f"{path} {error}") from None
