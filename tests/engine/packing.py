"""A tiny model whose layers can be packed; a scheme without kernels; a writer of the published int4 layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine import GenerationConfig
from engine.config import LayerConfig
from engine.layers.packed_linear import install
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import BF16, PRECISIONS, Activations, Packed, Precision, Scheme
from engine.training.export import write_checkpoint
from engine.weights.layout import State
from tests.engine.tiny import network

GROUP = 32
SHAPE: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 64,
    "moe_intermediate_size": 64,
    "num_experts": 6,
    "layers": (
        LayerConfig("sliding_attention", 16, 2, 10_000.0, 1.0),
        LayerConfig("full_attention", 32, 1, 1_000_000.0, 0.25),
    ),
}
SCHEME = {"num_bits": 4, "type": "int", "symmetric": True, "group_size": GROUP, "strategy": "group"}


class ToyScheme(Scheme):
    """Codes -7 to 7, a byte each, times an fp8 scale over 32 inputs, times an fp32 scale of the whole matrix."""

    bits: ClassVar[int] = 8
    codes_dtype: ClassVar[torch.dtype] = torch.int8
    scale_dtype: ClassVar[torch.dtype] = torch.float8_e4m3fn
    spread: ClassVar[float] = 73.3
    unit: ClassVar[int] = 32
    has_global_scale: ClassVar[bool] = True

    def global_scale(self, matrix: Tensor) -> Tensor:
        return matrix.abs().amax().float() / 448  # the largest fp8 number

    def scales(self, extreme: Tensor) -> Tensor:
        return extreme.abs() / 7

    def encode(self, scaled: Tensor) -> Tensor:
        return scaled.round().clamp(-7, 7).to(torch.int8)

    def decode(self, packed: Packed) -> Tensor:
        return packed.codes.float()


def packable(seed: int = 0) -> DiffusionGemma:
    """A random network with inputs in multiples of 64."""
    return network(seed, **SHAPE)


def packed(precision: Precision = PRECISIONS["int4"], seed: int = 0, activations: Activations = BF16) -> DiffusionGemma:
    """The same network, packed."""
    made = packable(seed)
    with torch.device("meta"):
        empty = DiffusionGemma(made.config)
        install(empty, precision, torch.float32, activations)
    state = State(empty, torch.device("cpu"), torch.float32)
    for name, parameter in made.named_parameters():
        state.put(name, parameter.detach())
    empty.load_state_dict(state.tensors, assign=True)
    return empty.requires_grad_(False).eval()


def released(folder: Path) -> Path:
    """Its checkpoint as Google lays them out."""
    write_checkpoint(packable(), folder, GenerationConfig(max_new_tokens=30, max_denoising_steps=4))
    return folder


def quantise(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(out, in) -> int32 words (out, in / 8), bf16 scales (out, in / 32), and the weight they stand for, in fp32."""
    out, inputs = weight.shape
    groups = weight.float().reshape(out, -1, GROUP)
    scales = (groups.abs().amax(-1) / 7.5).bfloat16()
    values = (groups / scales.float()[..., None]).round().clamp(-8, 7)
    words = torch.zeros(out, inputs // 8, dtype=torch.int64)
    for place in range(8):
        words |= (values.reshape(out, -1).long()[:, place::8] + 8) << (4 * place)
    words = torch.where(words >= 2**31, words - 2**32, words).int()
    return words, scales, (values * scales.float()[..., None]).reshape(out, inputs)


def published(source: Path, folder: Path) -> dict[str, Tensor]:
    """Write the checkpoint ``source`` in the published int4 layout.

    Returns:
        The weights that its packed tensors stand for, by their released names, in fp32.
    """
    tensors, meant = {}, {}
    for name, tensor in load_file(source / "model.safetensors").items():
        base, _, last = name.rpartition(".")
        if ".experts." in name:
            halves = ["gate_proj", "up_proj"] if last == "gate_up_proj" else ["down_proj"]
            matrices = {
                f"{base}.{expert}.{half}": part
                for expert, matrix in enumerate(tensor)
                for half, part in zip(halves, matrix.chunk(len(halves)), strict=True)
            }
        elif ".self_attn." in name and "_proj." in name and ".vision_tower." not in name:
            matrices = {base: tensor}
        else:
            tensors[name] = tensor
            continue
        rows = []
        for path, matrix in matrices.items():
            words, scales, values = quantise(matrix)
            tensors |= {f"{path}.weight_packed": words, f"{path}.weight_scale": scales}
            tensors[f"{path}.weight_shape"] = torch.tensor(matrix.shape)
            rows.append(values)
        meant[name] = torch.cat(rows).view(tensor.shape)
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    for file in source.iterdir():
        if file.suffix != ".safetensors":
            (folder / file.name).write_bytes(file.read_bytes())
    set_quantization(folder, {"group_0": {"weights": SCHEME, "targets": ["Linear"]}})
    return meant


def set_quantization(folder: Path, groups: dict[str, Any], **changes: Any) -> None:
    """Write ``quantization_config`` into a folder's config.json."""
    raw = json.loads((folder / "config.json").read_text())
    raw["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": groups,
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(raw))
