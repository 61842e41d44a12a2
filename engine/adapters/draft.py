"""The adapter with which a model drafts its own text: on in a drafting pass, off while the draft is verified.

Nemotron-Labs-Diffusion's checkpoints have it in ``linear_spec_lora`` (arXiv 2607.05722), over the output projections of
attention. Its scaling is 4 unless a config gives another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from engine.adapters.config import CONFIG, MOST_RANK, TENSORS, LoraConfig
from engine.adapters.lora import JoinedAdditions, LayerAdapter
from engine.adapters.reading import AdapterFiles
from engine.adapters.targets import Adapters, Targets
from engine.adapters.writing import save_adapter
from engine.config import MOST_TOKENS
from engine.declared import check_whole
from engine.errors import SafelightError
from engine.files import read_json, write_json
from engine.layers.adapted import addition, set_addition
from engine.store_files import DRAFT_FOLDER
from engine.weights.safetensors import Checkpoint

MASKS = "branch_masks"  # our own entry of adapter_config.json
MOST_BRANCH = 16
SCALING = 4.0
TARGETS = Targets(re.compile(r"layers\.[0-9]+\.self_attn\.o_proj"), (("encoder.", "denoise"),))


@dataclass(frozen=True)
class BranchMasks:
    """The masks of a draft that guesses in the pass that verifies: their token, and how many stand behind a row."""

    token: int
    size: int


class DraftAdapter:
    """Additions to a network's layers for drafting passes only; other additions of a layer stay.

    Args:
        masks: of a draft whose additions only masks have; None: all rows of its passes have them.
    """

    def __init__(self, network: nn.Module, adapters: Adapters, masks: BranchMasks | None = None) -> None:
        self.masks, self.adapters = masks, adapters
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


def read_branch_draft(
    folder: Path, network: nn.Module, targets: Targets, device: torch.device, dtype: torch.dtype, free_bytes: int
) -> DraftAdapter:
    """Reads a draft whose additions only masks have; see ``BranchMasks``.

    Args:
        targets: of the model's family.
        device, dtype, free_bytes: as ``AdapterFiles.read`` takes them.

    Raises:
        SafelightError: as ``AdapterFiles.open`` and ``AdapterFiles.read``; its config does not name the masks.
    """
    path = folder / CONFIG
    raw = read_json(path).get(MASKS)
    if not isinstance(raw, dict):
        raise SafelightError(f"{path} has no {MASKS}; it is no draft for masks behind a text")
    for name, most in (("token", MOST_TOKENS - 1), ("size", MOST_BRANCH)):
        check_whole(f"{path}: {name} of {MASKS}", raw.get(name), int(name == "size"), most)
    read = AdapterFiles.open(folder).read(network, targets, device, dtype, free_bytes)
    adapters = {path: LayerAdapter(None, one.causal) for path, one in read.items()}
    return DraftAdapter(network, adapters, BranchMasks(raw["token"], raw["size"]))


def save_branch_draft(folder: Path, adapters: Adapters, targets: Targets, masks: BranchMasks, base_name: str) -> None:
    """Writes a draft that ``read_branch_draft`` reads.

    Raises:
        SafelightError: it cannot be written.
    """
    save_adapter(
        folder, {path: LayerAdapter(one.denoise, None) for path, one in adapters.items()}, targets, base_name, ""
    )
    write_json(folder / CONFIG, read_json(folder / CONFIG) | {MASKS: asdict(masks)})


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
    if not 1 <= rank <= MOST_RANK:
        raise SafelightError(f"{folder / TENSORS} has the rank {rank}; download the model's {DRAFT_FOLDER} again")
    return AdapterFiles(LoraConfig(folder / CONFIG, rank, SCALING * rank), files, "")
