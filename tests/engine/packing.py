"""A tiny model whose layers can be packed; a scheme without kernels; writers of the published layouts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine import GenerationConfig, Model, load_model
from engine.config import LayerConfig
from engine.layers.packed_linear import install
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import PRECISIONS, Packed, Precision, Scheme, pack, unpack
from engine.quant.scheme import Scaled
from engine.weights.layout import State
from tests.engine.small import write_checkpoint
from tests.engine.tiny import change_weights, network, tokens

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


class ToyScheme(Scaled):
    """Codes -7 to 7, a byte each, times an fp8 scale over 32 inputs, times an fp32 scale of the whole matrix."""

    bits: ClassVar[int] = 8
    codes_dtype: ClassVar[torch.dtype] = torch.int8
    scale_dtype: ClassVar[torch.dtype] = torch.float8_e4m3fn
    spread: ClassVar[float] = 73.3
    unit: ClassVar[int] = 32
    has_matrix_scales: ClassVar[bool] = True

    def matrix_scale(self, matrix: Tensor) -> Tensor:
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


def packed(precision: Precision = PRECISIONS["int4"], seed: int = 0) -> DiffusionGemma:
    """Returns ``packable``, packed."""
    made = packable(seed)
    with torch.device("meta"):
        empty = DiffusionGemma(made.config)
        install(empty, precision, torch.float32)
    state = State(empty, torch.device("cpu"), torch.float32)
    for name, parameter in made.named_parameters():
        state.put(name, parameter.detach())
    empty.load_state_dict(state.tensors, assign=True)
    return empty.requires_grad_(False).eval()


def released(folder: Path) -> Path:
    """Write a checkpoint of ``packable`` as Google lays them out."""
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


def quantise_nvfp4(weight: Tensor, margin: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(out, in) -> bytes (out, in / 2), e4m3 scales (out, in / 16), fp32 number (), and the weight they stand for.

    By the definition: of all 16 values of a code, the nearest. margin: what the largest scale leaves free.
    """
    out, inputs = weight.shape
    values = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    values = torch.cat([values, -values])
    number = weight.float().abs().max() / 6 / 448 * margin
    groups = weight.float().reshape(out, -1, 16)
    scales = (groups.abs().amax(-1) / 6 / number).to(torch.float8_e4m3fn)
    whole = (scales.float() * number)[..., None]
    codes = (groups[..., None] / whole[..., None] - values).abs().argmin(-1)
    pairs = codes.reshape(out, -1, 2).to(torch.uint8)
    return pairs[..., 0] + 16 * pairs[..., 1], scales, number, (values[codes] * whole).reshape(out, inputs)


Write = Callable[[str, Tensor], tuple[dict[str, Tensor], Tensor]]
"""Name and values of a matrix -> its tensors as published, and the values that they stand for."""


def published(source: Path, folder: Path) -> dict[str, Tensor]:
    """Write the checkpoint ``source`` in the published int4 layout.

    Returns:
        The weights that its packed tensors stand for, by their released names, in fp32.
    """

    def write(name: str, matrix: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        words, scales, values = quantise(matrix)
        shape = torch.tensor(matrix.shape)
        return {f"{name}_packed": words, f"{name}_scale": scales, f"{name}_shape": shape}, values

    meant = written_in_parts(source, folder, (".experts.", ".self_attn."), write)
    set_quantization(folder, {"group_0": {"weights": SCHEME, "targets": ["Linear"]}})
    return meant


def published_nvfp4(source: Path, folder: Path, publisher: str) -> dict[str, Tensor]:
    """Write it in NVFP4, as "modelopt" does, experts alone, or "compressed-tensors", attention, too.

    Both have scales for activations, and modelopt's for a KV cache. Returns what ``published`` does.
    """
    is_modelopt = publisher == "modelopt"

    def write(name: str, matrix: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        codes, scales, number, values = quantise_nvfp4(matrix, 1.7 if ".up_proj" in name else 1.0)
        base = name.removesuffix(".weight")
        if is_modelopt:
            numbers = {f"{base}.weight_scale_2": number, f"{base}.input_scale": torch.tensor(0.1)}
            return {name: codes, f"{base}.weight_scale": scales} | numbers, values
        numbers = {f"{base}.weight_global_scale": 1 / number[None], f"{base}.input_global_scale": torch.ones(1)}
        return {f"{base}.weight_packed": codes, f"{base}.weight_scale": scales} | numbers, values

    meant = written_in_parts(source, folder, (".experts.",) if is_modelopt else (".experts.", ".self_attn."), write)
    if is_modelopt:
        change_weights(folder, {"model.decoder.layers.0.self_attn.k_proj.k_scale": torch.ones(())})
        set_quantization(folder, {}, quant_method="modelopt", quant_algo="NVFP4", kv_cache_scheme={"num_bits": 8})
    else:
        groups = {"group_0": {"weights": {"num_bits": 4, "type": "float", "symmetric": True, "group_size": 16}}}
        set_quantization(folder, groups, format="nvfp4-pack-quantized")
    return meant


def written_in_parts(source: Path, folder: Path, parts: tuple[str, ...], write: Write) -> dict[str, Tensor]:
    """Write the matrices of some parts each by itself, by ``write``; returns what they stand for, by released names."""
    tensors, meant = {}, {}
    for name, tensor in load_file(source / "model.safetensors").items():
        base, _, last = name.rpartition(".")
        if not any(part in name for part in parts) or "_proj" not in name or ".vision_tower." in name:
            tensors[name] = tensor
            continue
        matrices = {name: tensor}
        if ".experts." in name:
            halves = ["gate_proj", "up_proj"] if last == "gate_up_proj" else ["down_proj"]
            matrices = {
                f"{base}.{expert}.{half}.weight": part
                for expert, matrix in enumerate(tensor)
                for half, part in zip(halves, matrix.chunk(len(halves)), strict=True)
            }
        written = [write(path, matrix) for path, matrix in matrices.items()]
        for own, _ in written:
            tensors |= own
        meant[name] = torch.cat([values for _, values in written]).view(tensor.shape)
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    for file in source.iterdir():
        if file.suffix != ".safetensors":
            (folder / file.name).write_bytes(file.read_bytes())
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


def logits(model: Model) -> Tensor:
    """Both modes: a prompt longer than the window, a canvas with and without self-conditioning."""
    cache = model.new_cache()
    hidden = model.prefill(tokens(20), cache)
    first = model.denoise(tokens(10, seed=1), cache)
    second = model.denoise(tokens(10, seed=2), cache, first / 0.8)
    return torch.cat([hidden.flatten(), first.flatten(), second.flatten()])


def oracle(source: Path, meant: dict[str, Tensor]) -> Tensor:
    """The plain network with the weights that the packed ones stand for."""
    model = load_model(source, device="cpu", dtype="float32", quantization="none")
    state = dict(model.network.state_dict())
    for name, weight in meant.items():
        target = state[name.removeprefix("model.decoder.")]
        assert target.shape == weight.shape
        target.copy_(weight)
    return logits(model)


def meaning(source: Path, precision: str) -> dict[str, Tensor]:
    """Returns the values of each weight of the released checkpoint, packed."""
    meant = {}
    for name, weight in load_file(source / "model.safetensors").items():
        path = name.removeprefix("model.decoder.")
        scheme = PRECISIONS[precision].scheme(path.removesuffix(".weight"))
        if scheme is not None and path.endswith(("_proj", "_proj.weight", "embed_tokens.weight")):
            meant[name] = repacked(name, weight, scheme)
    return meant


def repacked(name: str, weight: Tensor, scheme: Scheme) -> Tensor:
    """Returns the values of a weight of the released checkpoint, packed."""
    return unpack(pack(weight, scheme, matrices=2 if name.endswith("gate_up_proj") else 1))


def relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())
