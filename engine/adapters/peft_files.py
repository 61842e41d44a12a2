"""Reads PEFT's LoRA files for a network, headers checked before a tensor is read, never a pickle; and writes them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from engine.adapters.config import BASE_FINGERPRINT, CONFIG, TENSOR, TENSORS, LoraConfig, tensor_name
from engine.adapters.lora import Adapters, LayerAdapter, LowRank, Mode, Place, Targets, size_of
from engine.errors import SafelightError
from engine.files import explained, write_json
from engine.weights.safetensors import FLOATING, Checkpoint, Header, save_whole

# Parts of the network that trainings adapt but that cannot have an adapter here, by a part of the module's name.
ELSEWHERE = {
    ".experts": "experts",
    ".router": "the router",
    "embed_tokens": "the token table",
    "lm_head": "the token table",
    "vision": "the vision tower",
}


class Matrices(NamedTuple):
    """A module's two tensors by name, their rank, and the factor of their product."""

    down: str
    up: str
    rank: int
    scaling: float


@dataclass(frozen=True)
class AdapterFiles:
    """An adapter's folder, opened: its config and the headers of its tensors."""

    config: LoraConfig
    checkpoint: Checkpoint
    base_fingerprint: str  # empty if it is not stated

    @staticmethod
    def open(folder: Path) -> AdapterFiles:
        """Opens a folder.

        Raises:
            SafelightError: a file is missing or damaged, or describes something other than plain LoRA.
        """
        config = LoraConfig.read(folder)
        path = folder / TENSORS
        if not path.is_file():
            other = next((file.name for suffix in ("*.bin", "*.pt", "*.pth") for file in folder.glob(suffix)), None)
            hint = f": {other} is a pickle, which is never opened; save the adapter as safetensors" if other else ""
            raise SafelightError(f"{path} is missing{hint}")
        checkpoint = Checkpoint(folder, [path])
        return AdapterFiles(config, checkpoint, checkpoint.metadata(path).get(BASE_FINGERPRINT, ""))

    @property
    def numbers(self) -> int:
        """The count of numbers in all tensors."""
        return sum(math.prod(header.shape) for header in self.checkpoint.headers.values())

    def read(
        self, network: nn.Module, targets: Targets, device: torch.device, dtype: torch.dtype, free_bytes: int
    ) -> dict[str, LayerAdapter]:
        """Returns the adapters by our module paths, frozen.

        Args:
            device, dtype: of the network's activations.
            free_bytes: memory of that device that they may take.

        Raises:
            SafelightError: a tensor is unknown, missing, of a wrong shape or type, or not finite; or they do not fit
                into the memory that is free.
        """
        matrices_of = self._check(network, targets)
        self._require_room(device, dtype, free_bytes)
        by_path: dict[str, dict[Mode, LowRank]] = {}
        for place, matrices in matrices_of.items():
            by_path.setdefault(place.path, {})[place.mode] = self._low_rank(matrices, device, dtype)
        return {path: targets.joined(parts).requires_grad_(False).eval() for path, parts in by_path.items()}

    def _check(self, network: nn.Module, targets: Targets) -> dict[Place, Matrices]:
        """Returns the matrices by the layer they belong to, checked by the headers."""
        layers, headers, file = targets.layers(network), self.checkpoint.headers, self.checkpoint.folder / TENSORS
        matrices_of: dict[Place, Matrices] = {}
        for name, header in headers.items():
            match = TENSOR.fullmatch(name)
            module, letter = match.groups() if match else (name, "")
            place = targets.place_named(module)
            if place is None or not letter:
                raise SafelightError(f"{file}: tensor {name} {_why_not(name)}")
            if place.path not in layers:
                raise SafelightError(
                    f"{file}: tensor {name} belongs to a layer that this model lacks; load the model that the adapter "
                    "was made for"
                )
            other = tensor_name(module, "B" if letter == "A" else "A")
            if other not in headers:
                raise SafelightError(f"{file}: tensor {other} is missing; save the adapter again")
            rank = self.config.rank_of(module)
            wrong = _what_is_wrong(header, letter, rank, size_of(layers[place.path]))
            if wrong is not None:
                raise SafelightError(f"{file}: tensor {name} {wrong}")
            matrices_of[place] = Matrices(
                tensor_name(module, "A"), tensor_name(module, "B"), rank, self.config.scaling_of(module)
            )
        if not matrices_of:
            raise SafelightError(f"{file} contains no adapter; save the adapter again")
        return matrices_of

    def _require_room(self, device: torch.device, dtype: torch.dtype, free: int) -> None:
        needed = self.numbers * dtype.itemsize
        if needed > free:
            raise SafelightError(
                f"{self.checkpoint.folder / TENSORS} takes {needed / 1e9:.1f} GB and {device} has "
                f"{free / 1e9:.1f} GB free; close other programs, or train an adapter of a lower rank"
            )

    def _low_rank(self, matrices: Matrices, device: torch.device, dtype: torch.dtype) -> LowRank:
        with torch.device("meta"):
            made = LowRank(1, 1, matrices.rank, matrices.scaling)
        for part, name in (("down", matrices.down), ("up", matrices.up)):
            tensor = self.checkpoint.read(name)
            if not tensor.isfinite().all():
                raise SafelightError(
                    f"{self.checkpoint.folder / TENSORS}: tensor {name} has values that are not finite; train the "
                    "adapter again"
                )
            # A copy: the tensor just read lies in the mapped file.
            setattr(made, part, torch.nn.Parameter(tensor.to(device, dtype, copy=True)))
        return made


def _what_is_wrong(header: Header, letter: str, rank: int, size: tuple[int, int]) -> str | None:
    """Returns what is wrong with a matrix's shape or type, and what to do; None if nothing is."""
    expected = (rank, size[1]) if letter == "A" else (size[0], rank)
    ranked, wide = (0, 1) if letter == "A" else (1, 0)
    if len(header.shape) != 2 or header.shape[wide] != expected[wide]:
        return (
            f"has shape {header.shape}, this model's layer asks for {expected}; load the model that the adapter was "
            "made for"
        )
    if header.shape[ranked] != rank:
        return f"has rank {header.shape[ranked]}, adapter_config.json says {rank}; save the adapter again"
    if header.dtype not in FLOATING:
        return f"has the type {header.dtype}; expected floating point"
    return None


def _why_not(name: str) -> str:
    """Says why a tensor cannot be used, and what to do."""
    for part, title in ELSEWHERE.items():
        if part in name:
            return (
                f"is an adapter over {title}, which is not supported; train one over attention, dense MLP and "
                "self-conditioning"
            )
    if "lora_magnitude_vector" in name:
        return "belongs to DoRA, which is not supported; train the adapter without use_dora"
    return "is not known; use an adapter that PEFT made on DiffusionGemmaForBlockDiffusion"


def save_adapter(
    folder: Path,
    adapters: Adapters,
    targets: Targets,
    base_name: str,
    base_fingerprint: str,
    dtype: torch.dtype = torch.bfloat16,
) -> None:
    """Writes ``adapter_config.json`` and ``adapter_model.safetensors``; each file appears whole.

    Ranks and alphas come from the adapters: alpha is a ``LowRank``'s scaling times its rank.

    Args:
        folder: made if it is not there.
        targets: of the model's family; names the layers.
        base_name: id or folder name of the model that they were trained on.
        base_fingerprint: of that model's folder (``engine.fingerprint.fingerprint``). The adapter will load on no
            other; "" allows any, for other packings of the same weights.
        dtype: of the matrices, bf16 or fp32.

    Raises:
        SafelightError: there is nothing to write, or it cannot be written.
    """
    parts: dict[str, LowRank] = {}
    for path, adapter in sorted(adapters.items()):
        for mode in targets.modes_of(path):
            part = adapter.causal if mode == "causal" else adapter.denoise
            if part is not None:
                parts[targets.peft_name(Place(path, mode))] = part
    if not parts:
        raise SafelightError("there is no adapter to save")
    tensors = {}
    for name, part in parts.items():
        for letter, matrix in (("A", part.down), ("B", part.up)):
            tensors[tensor_name(name, letter)] = matrix.detach().to("cpu", dtype).contiguous()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise explained(fault, folder) from fault
    metadata = {"format": "pt"} | ({BASE_FINGERPRINT: base_fingerprint} if base_fingerprint else {})
    save_whole(folder / TENSORS, tensors, metadata)
    write_json(folder / CONFIG, _config(parts, base_name))


def _config(parts: dict[str, LowRank], base_name: str) -> dict[str, object]:
    ranks = {name: part.down.shape[0] for name, part in parts.items()}
    alphas = {name: _whole(part.scaling * ranks[name]) for name, part in parts.items()}
    rank, alpha = (Counter(values.values()).most_common(1)[0][0] for values in (ranks, alphas))
    return {
        "peft_type": "LORA",
        "base_model_name_or_path": base_name,
        "task_type": None,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": alpha,
        "rank_pattern": {name: other for name, other in ranks.items() if other != rank},
        "alpha_pattern": {name: other for name, other in alphas.items() if other != alpha},
        "use_rslora": False,
        "use_dora": False,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "init_lora_weights": True,
        "modules_to_save": None,
        "target_modules": list(parts),
    }


def _whole(alpha: float) -> float:
    """Returns a whole number if possible, as PEFT writes it."""
    return round(alpha) if abs(alpha - round(alpha)) < 1e-9 else alpha
