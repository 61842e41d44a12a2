"""Loads a network with its weights from a model folder: finds the layout, packs and fills.

The layout of a folder follows from its files. Our store has a manifest. A published quantised checkpoint declares
itself in its config.json. Anything else is read as released. The headers are read once, in ``StoredWeights``; memory
plans and loading are both based on them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from engine import store_files
from engine.errors import SafelightError, quoted
from engine.layers.packed_linear import PACKABLE, for_processor, install, precision_in
from engine.quant import PRECISIONS, Precision
from engine.types import Cancel, Progress
from engine.weights import bitsandbytes, packed_store
from engine.weights.layout import Layout, Names, State, TensorSource, check, fill
from engine.weights.matrices import released
from engine.weights.published import Published
from engine.weights.safetensors import Checkpoint

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class StoredWeights:
    """The headers of a model folder's weights, or of a GGUF file's."""

    checkpoint: TensorSource
    precision: Precision | None  # their packing; None: they are not packed
    manifest: packed_store.Manifest | None  # of a store
    layout: Callable[[State, Names], Layout] = released  # if they are not packed
    published: Published | None = None  # of a published quantised checkpoint

    @staticmethod
    def open(folder: Path, published: Published | None = None) -> StoredWeights:
        """Reads the headers.

        Args:
            published: what the folder declares, unless it is a store.

        Raises:
            SafelightError: there are no weights, or files are missing, damaged or packed in an unknown form.
        """
        manifest = packed_store.Manifest.read(folder / store_files.MANIFEST) if packed_store.is_store(folder) else None
        if manifest is None and (folder / store_files.PARTIAL).exists():
            raise SafelightError(f"{folder} is an unfinished conversion; run safelight quantize again to finish it")
        if manifest is not None:
            return StoredWeights(packed_store.open_store(folder, manifest), manifest.precision, manifest)
        checkpoint = Checkpoint(folder)
        precision = None if published is None else published.precision(checkpoint)
        return StoredWeights(checkpoint, precision, None, published=published)

    @property
    def number(self) -> str:
        """The type of most of its numbers, in safetensors' notation; FP8 is read as bf16."""
        if self.published is not None and self.published.scheme is None:
            return "BF16"
        counts = Counter[str]()
        for header in self.checkpoint.headers.values():
            counts[header.dtype] += math.prod(header.shape)
        return counts.most_common(1)[0][0]

    def precision_for(self, quantization: str, unpacked: Precision | None = None) -> Precision:
        """Returns the packing of the weights once they are loaded; ``fit`` adapts it to a network.

        Args:
            quantization: "auto" or a name of ``PRECISIONS``. Weights that are packed already stay as they are, and any
                other value is refused.
            unpacked: what "auto" means for weights that are not packed; None leaves them so.

        Raises:
            SafelightError: an unknown or impossible quantization.
        """
        check_quantization(quantization)
        wish = None if quantization == "auto" else PRECISIONS[quantization]
        precision = self.precision or wish or unpacked or Precision()
        if wish is not None and wish.bulk != precision.bulk:
            raise SafelightError(
                f"{self.checkpoint.folder} holds weights packed as {precision.bulk}; use quantization auto, or a "
                "checkpoint in bf16"
            )
        return precision

    def fit(
        self, network: Network, names: Names, precision: Precision, device: torch.device, dtype: torch.dtype | None
    ) -> Weights[Network]:
        """Compares the headers with the network that they are for; no tensor is read.

        Args:
            network: without memory (on the meta device); packed layers are installed by ``precision``, or, if it has no
                experts, by its form for dense models.
            dtype: of unpacked tensors; None keeps the checkpoint's.

        Raises:
            SafelightError: the checkpoint does not fit the network, or its layers cannot be packed so.
        """
        precision = precision_in(network, precision)
        precision = self._without_plain(network, names, precision)
        if precision.is_packed:
            with torch.device("meta"):
                install(network, precision, dtype or torch.bfloat16)
        state = State(network, device, dtype)
        if self.manifest is not None:
            layout = packed_store.stored(state)
        elif self.published is not None:
            layout, names = self.published.layout(state, names, self.checkpoint), self.published.with_ignored(names)
        else:
            layout = self.layout(state, names)
        skipped = check(self.checkpoint, layout, names)
        return Weights(network, self.checkpoint, layout, state, precision, self.manifest, skipped)

    def _without_plain(self, network: Network, names: Names, precision: Precision) -> Precision:
        """Returns a packing that leaves out the layers that a store, or a checkpoint of bitsandbytes, does not pack."""
        checkpoint, headers = self.checkpoint, self.checkpoint.headers
        by_layer = self.published is not None and self.published.tensors is None
        if not by_layer and self.manifest is None:
            return precision
        plain, packed = set[str](), set[str]()
        for layer, module in network.named_modules():
            if isinstance(module, PACKABLE) and precision.scheme(layer) is not None:
                shapes = {
                    f"{layer}.{name}": tuple(own.shape) for name, own in module.named_parameters() if own.dim() > 1
                }
                keeps = (
                    bitsandbytes.packs(path, shape, names, checkpoint) if by_layer else f"{path}.codes" in headers
                    for path, shape in shapes.items()
                )
                (packed if all(keeps) else plain).add(layer)
        used = {Precision.part(layer) for layer in packed} if by_layer else precision.as_dict().keys()
        unused = dict[str, Any].fromkeys(precision.as_dict().keys() - used)
        left = frozenset((layer, None) for layer in plain if Precision.part(layer) in used)
        return replace(precision, **unused, others=left)


@dataclass(frozen=True)
class Weights(Generic[Network]):
    """A folder's weights, checked against their network and not read yet."""

    network: Network  # on the meta device
    checkpoint: TensorSource
    layout: Layout
    state: State
    precision: Precision
    manifest: packed_store.Manifest | None  # of a store
    skipped: int  # number of tensors that are known and not read

    @property
    def final_bytes(self) -> int:
        """Bytes that a packed store of them takes on disk, without its small files."""
        return sum(self.state.final_bytes(path) for path in (*self.state.plain, *self.state.packed))

    def load(self, progress: Progress | None = None, cancel: Cancel | None = None) -> Network:
        """Reads everything; the network is ready for inference.

        Raises:
            SafelightError: a file is damaged, or ``cancel`` was set.
        """
        if self.manifest is not None:
            packed_store.fill_verified(self.checkpoint, self.layout, self.manifest, progress, cancel)
        else:
            fill(self.checkpoint, self.layout, progress, cancel)
        self.network.load_state_dict(self.state.tensors, assign=True)
        plain = next((p.dtype for p in self.network.parameters()), torch.bfloat16)
        for_processor(self.network, plain)
        self.network.requires_grad_(False)
        return self.network.eval()


def check_quantization(quantization: str) -> None:
    """Checks the name of a quantization.

    Raises:
        SafelightError: it is neither "auto" nor a name of ``PRECISIONS``.
    """
    if quantization != "auto" and quantization not in PRECISIONS:
        raise SafelightError(f"unknown quantization {quoted(quantization)}; use auto, {', '.join(PRECISIONS)}")
