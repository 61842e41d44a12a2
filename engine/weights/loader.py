"""From a model folder to a network with its weights: finds the layout, packs what is to be packed, fills.

The layouts of a folder are told apart by what lies in it: our store has a manifest, a published quantised checkpoint
declares itself in its config.json, anything else is read as released. The headers are read once, in
``StoredWeights``; all that follows, a count of memory as well as the loading, is decided from those.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import torch
from torch import nn

from engine import store_files
from engine.errors import SafelightError, quoted
from engine.layers.packed_linear import for_processor, install, precision_in
from engine.quant import PRECISIONS, Precision
from engine.types import Cancel, Progress
from engine.weights import packed_store
from engine.weights.layout import Layout, Names, State, TensorSource, check, fill, released
from engine.weights.published import Published
from engine.weights.safetensors import Checkpoint

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class StoredWeights:
    """The headers of a model folder's weights, or of a GGUF file's."""

    checkpoint: TensorSource
    precision: Precision | None  # how they are packed; None: they are not
    manifest: packed_store.Manifest | None  # of a store
    layout: Callable[[State, Names], Layout] = released  # where they are not packed
    published: Published | None = None  # of a published quantised checkpoint

    @staticmethod
    def open(folder: Path, published: Published | None = None) -> StoredWeights:
        """Read the headers.

        Args:
            published: what the folder declares, unless it is a store.

        Raises:
            SafelightError: there are no weights, or files are missing, damaged or packed in an unknown way.
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
        """The type of most of its numbers, as safetensors writes it; FP8 is read as bf16."""
        if self.published is not None and self.published.scheme is None:
            return "BF16"
        counts = Counter[str]()
        for header in self.checkpoint.headers.values():
            counts[header.dtype] += math.prod(header.shape)
        return counts.most_common(1)[0][0]

    def precision_for(self, quantization: str, unpacked: Precision | None = None) -> Precision:
        """How the weights will be packed once they are loaded, in whatever network; ``fit`` knows which.

        Args:
            quantization: "auto" or a name of ``PRECISIONS``. Weights that are packed already stay as they are, and any
                other wish is refused.
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
        """Compare the headers with a network that is to have them; no tensor is read.

        Args:
            network: without memory (on the meta device); packed layers are put in where ``precision`` has them, or,
                if it has no experts, its form for dense models.
            dtype: of what is not packed; None keeps the checkpoint's.

        Raises:
            SafelightError: the checkpoint does not fit the network, or its layers cannot be packed so.
        """
        precision = precision_in(network, precision)
        if precision.is_packed:
            with torch.device("meta"):
                install(network, precision, dtype or torch.bfloat16)
        state = State(network, device, dtype)
        if self.manifest is not None:
            layout = packed_store.stored(state, self.checkpoint)
        elif self.published is not None:
            layout, names = self.published.layout(state, names, self.checkpoint), self.published.with_ignored(names)
        else:
            layout = self.layout(state, names)
        skipped = check(self.checkpoint, layout, names)
        return Weights(network, self.checkpoint, layout, state, precision, self.manifest, skipped)


@dataclass(frozen=True)
class Weights(Generic[Network]):
    """A folder's weights, checked against their network and not read yet."""

    network: Network  # on the meta device
    checkpoint: TensorSource
    layout: Layout
    state: State
    precision: Precision
    manifest: packed_store.Manifest | None  # of a store
    skipped: int  # tensors that are known and not read

    @property
    def final_bytes(self) -> int:
        """What a packed store of them takes on disk, but for its small files."""
        return sum(self.state.final_bytes(path) for path in (*self.state.plain, *self.state.packed))

    def load(self, progress: Progress | None = None, cancel: Cancel | None = None) -> Network:
        """Read everything; the network is ready for inference.

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
    """
    Raises:
        SafelightError: it is neither "auto" nor a name of ``PRECISIONS``.
    """
    if quantization != "auto" and quantization not in PRECISIONS:
        raise SafelightError(f"unknown quantization {quoted(quantization)}; use auto, {', '.join(PRECISIONS)}")
