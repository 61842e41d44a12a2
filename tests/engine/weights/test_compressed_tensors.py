"""Checkpoints that compressed-tensors' own library writes: their weights are those that it reads back itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm
from transformers import Qwen3Config, Qwen3ForCausalLM

from engine.models.folder import ModelFolder
from engine.quant import INT4_G64, INT8, NVFP4, Packed, unpack
from engine.weights.layout import fill

tqdm.monitor_interval = 0  # else the library's bars leave a thread behind

SHAPE = {
    "vocab_size": 128,
    "hidden_size": 256,
    "intermediate_size": 384,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def written(folder: Path, preset: str) -> dict[str, Tensor]:
    """Write a random Qwen3 quantised by a preset of the library's; returns the weights as the library reads them."""
    from compressed_tensors.compressors import ModelCompressor  # seconds, in each process that collects the tests
    from compressed_tensors.quantization import (
        QuantizationConfig,
        QuantizationStatus,
        apply_quantization_config,
        preset_name_to_scheme,
    )

    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**SHAPE)).bfloat16()
    scheme = preset_name_to_scheme(preset, targets=["Linear"])
    config = QuantizationConfig(config_groups={"group_0": scheme}, ignore=["lm_head"])
    apply_quantization_config(model, config)
    linears = {name: module for name, module in model.named_modules() if hasattr(module, "quantization_scheme")}
    for module in linears.values():
        set_scales(module)
    config.quantization_status = QuantizationStatus.FROZEN
    compressor = ModelCompressor.from_pretrained_model(model)
    assert compressor is not None
    compressor.compress_model(model)
    folder.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")
    model.config.save_pretrained(folder)
    compressor.update_config(folder)
    compressor.decompress_model(model)
    return {f"{name}.weight": module.weight.float() for name, module in linears.items()}


def set_scales(module: nn.Module) -> None:
    """Scales by the smallest and largest value of each group, as an observer would find them."""
    from compressed_tensors.quantization import QuantizationStrategy  # seconds, in each process that collects the tests
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    args, weight = module.quantization_scheme.weights, module.weight.detach().float()
    out, inputs = weight.shape
    match args.strategy:
        case QuantizationStrategy.TENSOR:
            grouped = weight.reshape(1, -1)
        case QuantizationStrategy.CHANNEL:
            grouped = weight[:, None]
        case QuantizationStrategy.BLOCK:
            rows, columns = args.block_structure
            grouped = weight.reshape(out // rows, rows, inputs // columns, columns).transpose(1, 2).flatten(2)
        case _:
            grouped = weight.reshape(out, -1, args.group_size)
    whole = generate_gparam(weight.amin(), weight.amax()) if hasattr(module, "weight_global_scale") else None
    scale, zero = calculate_qparams(grouped.amin(-1), grouped.amax(-1), args, global_scale=whole)
    if whole is not None:
        module.weight_global_scale.data = whole.reshape(module.weight_global_scale.shape)
    module.weight_scale.data = scale.reshape(module.weight_scale.shape).to(module.weight_scale.dtype)
    if hasattr(module, "weight_zero_point"):
        module.weight_zero_point.data = zero.reshape(module.weight_zero_point.shape)


PRESETS = {
    "FP8": None,
    "FP8_DYNAMIC": None,
    "FP8_BLOCK": None,
    "W8A8": INT8,
    "W8A16": None,
    "W4A16": INT4_G64,
    "NVFP4A16": NVFP4,
}  # and the scheme that the layers keep


@pytest.mark.parametrize("preset", PRESETS)
def test_the_weights_are_those_that_the_library_reads(tmp_path: Path, preset: str) -> None:
    meant = written(tmp_path / "tiny", preset)
    assert len(meant) == 14
    raw = json.loads((tmp_path / "tiny/config.json").read_text())
    assert raw["quantization_config"]["quant_method"] == "compressed-tensors"
    weights = ModelFolder.open(tmp_path / "tiny").weights("auto", torch.device("cpu"), torch.float32)
    assert weights.precision.dense == weights.precision.attention == PRESETS[preset]
    fill(weights.checkpoint, weights.layout)
    for name, weight in meant.items():
        path, found = name.removeprefix("model."), weights.state.tensors
        if PRESETS[preset] is not None:
            codes, scales, whole = (found.get(f"{path}.{part}") for part in ("codes", "scales", "matrix_scales"))
            assert codes is not None
            assert scales is not None
            module = weights.state.packed[path]
            found = {path: unpack(Packed(codes, scales, module.scheme, whole))}
        assert (found[path] != 0).any()
        # The library rounds its product to bf16.
        torch.testing.assert_close(found[path], weight, rtol=2**-8, atol=1e-7)
