"""Writes trained adapters as PEFT does, so that they load in PEFT and here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch

from engine.adapters.config import BASE_FINGERPRINT, CONFIG, TENSORS, tensor_name
from engine.adapters.lora import LowRank
from engine.adapters.targets import Adapters, Place, Targets
from engine.errors import SafelightError
from engine.files import explained, write_json
from engine.weights.safetensors import save_whole


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
    rank, alpha = (Counter(found.values()).most_common(1)[0][0] for found in (ranks, alphas))
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
