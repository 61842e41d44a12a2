"""The adapter with which a model drafts its own text: on in a drafting pass, off while the draft is verified.

Nemotron-Labs-Diffusion's checkpoints have it in ``linear_spec_lora`` (arXiv 2607.05722), over the output projections of
attention. Its scaling is 4 unless a config gives another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from engine.adapters.config import CONFIG, MAX_RANK, TENSORS, LoraConfig
from engine.adapters.lora import Adapters, JoinedAdditions, Targets
from engine.adapters.peft_files import AdapterFiles
from engine.errors import SafelightError
from engine.layers.adapted import addition, set_addition
from engine.store_files import DRAFT_FOLDER
from engine.weights.safetensors import Checkpoint

SCALING = 4.0
TARGETS = Targets(re.compile(r"layers\.[0-9]+\.self_attn\.o_proj"), (("encoder.", "denoise"),))


class DraftAdapter:
    """Additions to a network's layers for drafting passes only; other additions of a layer stay."""

    def __init__(self, network: nn.Module, adapters: Adapters) -> None:
        self._layers = [(network.get_submodule(path), adapter) for path, adapter in adapters.items()]

    @contextmanager
    def on(self) -> Iterator[None]:
        """Adds to the layers' outputs within the context."""
        before = [addition(layer) for layer, _ in self._layers]
        try:
            for (layer, adapter), other in zip(self._layers, before, strict=True):
                set_addition(layer, adapter if other is None else JoinedAdditions(other, adapter))
            yield
        finally:
            for (layer, _), other in zip(self._layers, before, strict=True):
                set_addition(layer, other)


def read_draft(
    checkpoint: Path, network: nn.Module, device: torch.device, dtype: torch.dtype, free_bytes: int
) -> DraftAdapter | None:
    """Returns the draft adapter in a checkpoint's folder; None if it has none.

    Args:
        device, dtype, free_bytes: as ``AdapterFiles.read`` takes them.

    Raises:
        SafelightError: as ``AdapterFiles.open`` and ``AdapterFiles.read``.
    """
    with _opened(checkpoint / DRAFT_FOLDER) as files:
        return None if files is None else DraftAdapter(network, files.read(network, TARGETS, device, dtype, free_bytes))


def draft_numbers(checkpoint: Path) -> int:
    """Returns how many numbers are in the draft adapter of a checkpoint's folder; 0 if it has none.

    Raises:
        SafelightError: as ``AdapterFiles.open``.
    """
    with _opened(checkpoint / DRAFT_FOLDER) as files:
        return 0 if files is None else files.numbers


@contextmanager
def _opened(folder: Path) -> Iterator[AdapterFiles | None]:
    if not (folder / TENSORS).is_file():
        yield None
        return
    try:
        yield AdapterFiles.open(folder) if (folder / CONFIG).exists() else _without_config(folder)
    except OSError as error:
        raise SafelightError(f"{folder} cannot be read: {error.strerror or error}") from error


def _without_config(folder: Path) -> AdapterFiles:
    """Opens an adapter without a config; its rank is the tensors', which must be equal in all."""
    files = Checkpoint(folder, [folder / TENSORS])
    shapes = [header.shape for name, header in files.headers.items() if name.endswith(".lora_A.weight")]
    rank = shapes[0][0] if shapes and shapes[0] else 1
    if not 1 <= rank <= MAX_RANK:
        raise SafelightError(f"{folder / TENSORS} has the rank {rank}; download the model's {DRAFT_FOLDER} again")
    return AdapterFiles(LoraConfig(folder / CONFIG, rank, SCALING * rank), files, "")
