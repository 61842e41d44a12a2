"""From a model folder to a network with its weights: finds the layout, packs what is to be packed, fills.

The three layouts are told apart by what lies in the folder: our store has a manifest, a published int4 checkpoint has
``quantization_config`` in its config.json, anything else is read as released.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from engine.config import ModelConfig
from engine.decoding.protocols import Cancel
from engine.errors import SafelightError
from engine.files import read_json
from engine.layers.packed_linear import for_processor, install
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import DEFAULT, PRECISIONS, Precision
from engine.weights import compressed_tensors, packed_store, store_files
from engine.weights.safetensors import Checkpoint, Layout, Progress, State, check, fill, released


@dataclass(frozen=True)
class Weights:
    """A folder's weights, checked against its config and not read yet."""

    network: DiffusionGemma  # on the meta device
    checkpoint: Checkpoint
    layout: Layout
    state: State
    precision: Precision
    manifest: packed_store.Manifest | None  # of a store
    skipped_vision_tensors: int

    def load(self, progress: Progress | None = None, cancel: Cancel | None = None) -> DiffusionGemma:
        """Read everything; the network is ready for inference.

        Raises:
            SafelightError: a file is damaged, or ``cancel`` was set.
        """
        if self.manifest is not None:
            packed_store.fill_verified(self.checkpoint, self.layout, self.manifest, progress, cancel)
        else:
            fill(self.checkpoint, self.layout, progress, cancel)
        self.network.load_state_dict(self.state.tensors, assign=True)
        for_processor(self.network, self.network.dtype)
        self.network.requires_grad_(False)
        return self.network.eval()


def open_weights(
    folder: Path,
    config: ModelConfig,
    quantization: str,
    device: torch.device,
    dtype: torch.dtype | None,
    unpacked: Precision | None = None,
) -> Weights:
    """Read the headers of a model folder and check them.

    Args:
        quantization: "auto" or a name of ``quant.PRECISIONS``. Weights that are packed already stay as they are, and
            any other wish is refused.
        dtype: of what is not packed; None keeps the checkpoint's.
        unpacked: what "auto" means for weights in the released layout; None leaves them unpacked.

    Raises:
        SafelightError: an unknown or impossible quantization, or a checkpoint that does not fit its config.
    """
    if quantization != "auto" and quantization not in PRECISIONS:
        raise SafelightError(f"unknown quantization {quantization!r}; use auto, {', '.join(PRECISIONS)}")
    with torch.device("meta"):
        network = DiffusionGemma(config)
    wish = None if quantization == "auto" else PRECISIONS[quantization]
    published = read_json(folder / "config.json").get("quantization_config")
    manifest = packed_store.Manifest.read(folder / store_files.MANIFEST) if packed_store.is_store(folder) else None
    if manifest is None and (folder / store_files.PARTIAL).exists():
        raise SafelightError(f"{folder} is an unfinished conversion; run safelight quantize again to finish it")
    if manifest is not None:
        checkpoint, layout_of, precision = (
            packed_store.open_store(folder, manifest),
            packed_store.stored,
            manifest.precision,
        )
    elif published is not None:
        checkpoint = Checkpoint(folder)
        precision = compressed_tensors.precision(compressed_tensors.read_scheme(published), checkpoint)
        layout_of = compressed_tensors.compressed
    else:
        checkpoint, layout_of, precision = Checkpoint(folder), released, wish or unpacked or Precision()
    if wish is not None and wish.experts != precision.experts:
        raise SafelightError(
            f"{folder} holds experts packed as {precision.experts}; use quantization auto, or a checkpoint in bf16"
        )
    if precision.is_packed:
        with torch.device("meta"):
            install(network, precision, dtype or torch.bfloat16)
    state = State(network, device, dtype)
    layout = layout_of(state)
    skipped = check(checkpoint, layout)
    return Weights(network, checkpoint, layout, state, precision, manifest, skipped)


def quantize(
    source: Path,
    destination: Path,
    quantization: str,
    device: torch.device,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> packed_store.Manifest:
    """Convert a checkpoint into a packed store; see ``store.write_store``.

    Args:
        quantization: a name of ``quant.PRECISIONS`` other than "none"; "auto" keeps what is packed already and takes
            the default otherwise.

    Raises:
        SafelightError: the source is no model, or is a store already; the destination cannot be used.
    """
    if quantization == "none":
        raise SafelightError("a packed store needs a quantization; use auto, nf4, int4 or int4-g64")
    config = ModelConfig.from_dict(read_json(source / "config.json"))
    weights = open_weights(source, config, quantization, device, None, PRECISIONS[DEFAULT])
    if weights.manifest is not None:
        raise SafelightError(f"{source} is packed already; load it as it is")
    return packed_store.write_store(
        weights.checkpoint, weights.layout, weights.state, weights.precision, destination, progress, cancel
    )
