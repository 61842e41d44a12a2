"""Reads safetensors checkpoints in the Hugging Face layout, one tensor at a time. No pickle is ever opened.

Every tensor the model needs must be there once, with the right shape; anything left over is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.config import read_json
from engine.errors import SafelightError
from engine.models.diffusion_gemma import DiffusionGemma

Progress = Callable[[float], None]
"""Called with the share of the weights read so far, 0 to 1."""

DECODER = "model.decoder."
ENCODER = "model.encoder.language_model."
VISION = ("model.encoder.vision_tower.", "model.encoder.embed_vision.")


def checkpoint_name(parameter: str) -> str:
    """The released name of one of our parameters."""
    if parameter.endswith(".causal_layer_scalar"):
        return ENCODER + parameter.replace("causal_layer_scalar", "layer_scalar")
    return DECODER + parameter


def shards(folder: Path) -> list[Path]:
    """The checkpoint's safetensors files.

    Raises:
        SafelightError: there are none, or one that the index names is missing.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        names = set(map(str, weight_map.values())) if isinstance(weight_map, dict) else set()
        if not names:
            raise SafelightError(f"{index} has no weight_map; download the model again")
        files = [folder / name for name in sorted(names)]
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        other = next((path.name for suffix in ("*.bin", "*.pt", "*.pth") for path in folder.glob(suffix)), None)
        hint = f"; {other} is a pickle, which is never opened" if other else ""
        raise SafelightError(f"{folder} has no .safetensors weights{hint}")
    for file in files:
        if not file.exists():
            raise SafelightError(f"{file} is missing; download the model again")
    return files


def tensors(folder: Path) -> Iterator[tuple[str, Callable[[], Tensor], tuple[int, ...]]]:
    """Each tensor's name, a function that reads it, and its shape; headers are checked when a file is opened."""
    for file in shards(folder):
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 (not a dict)
                    yield name, partial(opened.get_tensor, name), tuple(opened.get_slice(name).get_shape())
        except (SafetensorError, OSError) as error:
            raise SafelightError(f"{file} is damaged or truncated ({error}); download it again") from error


def load_weights(
    network: DiffusionGemma,
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    progress: Progress | None = None,
) -> int:
    """Fill a network built on the meta device.

    Returns:
        How many vision tensors were recognised and skipped (images are not supported yet).

    Raises:
        SafelightError: a tensor is missing, surplus, doubled, of another shape or not of a floating type, or a file
            is damaged.
    """
    wanted = {checkpoint_name(name): name for name, _ in network.named_parameters()}
    shapes = {checkpoint_name(name): tuple(param.shape) for name, param in network.named_parameters()}
    filled: dict[str, Tensor] = {}
    skipped = 0
    for name, read, shape in tensors(folder):
        if name.startswith(VISION):
            skipped += 1
            continue
        if name not in wanted:
            raise SafelightError(f"{folder}: tensor {name} is not part of this model; the checkpoint does not fit")
        if name in filled:
            raise SafelightError(f"{folder}: tensor {name} is stored twice")
        if shape != shapes[name]:
            raise SafelightError(f"{folder}: tensor {name} has shape {shape}; config.json asks for {shapes[name]}")
        tensor = read()
        if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise SafelightError(f"{folder}: tensor {name} has the type {tensor.dtype}; expected floating point")
        filled[name] = tensor.to(device=device, dtype=dtype, copy=True)
        if progress is not None:
            progress(len(filled) / len(wanted))
    missing = sorted(wanted.keys() - filled.keys())
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise SafelightError(f"{folder}: tensor {missing[0]} is missing{more}; download the model again")
    network.load_state_dict({wanted[name]: tensor for name, tensor in filled.items()}, assign=True)
    network.requires_grad_(False)
    return skipped
