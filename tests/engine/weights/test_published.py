"""FP8 and GPTQ's layout: what is loaded is what their definitions say, and what transformers reads."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import FineGrainedFP8Config, Qwen3Config, Qwen3ForCausalLM

from engine import SafelightError, load_model
from engine.files import read_json, write_json
from engine.models.folder import ModelFolder
from engine.quant import INT4, INT4_G64, Packed, Precision, unpack
from engine.weights.layout import fill
from engine.weights.loader import Weights
from tests.engine.packing import logits, meaning, oracle, relative, set_quantization, written_in_parts
from tests.engine.tiny import change_weights
from tests.engine.weights.test_compressed_tensors import SHAPE

CPU = torch.device("cpu")


def open_weights(folder: Path, quantization: str = "auto") -> Weights[Any]:
    return ModelFolder.open(folder).weights(quantization, CPU, torch.float32)


def written(folder: Path, declared: dict[str, Any], quantise: Callable[[str, Tensor], dict[str, Tensor]]) -> None:
    """Write a random Qwen3 whose linear layers but the head are ``quantise``d."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**SHAPE)).bfloat16()
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        is_layer = "_proj.weight" in name
        tensors |= quantise(name.removesuffix(".weight"), tensor.float()) if is_layer else {name: tensor}
    folder.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    model.config.save_pretrained(folder)
    raw = read_json(folder / "config.json") | {"dtype": "bfloat16", "quantization_config": declared}
    write_json(folder / "config.json", raw)


def in_blocks(base: str, matrix: Tensor) -> dict[str, Tensor]:
    """FP8 in blocks of 128 by 128, as Qwen publishes it."""
    rows, columns = (size // 128 for size in matrix.shape)
    blocks = matrix.view(rows, 128, columns, 128)
    scales = blocks.abs().amax((1, 3), keepdim=True) / 448
    codes = (blocks / scales).view(matrix.shape).to(torch.float8_e4m3fn)
    return {f"{base}.weight": codes, f"{base}.weight_scale_inv": scales.view(rows, columns).bfloat16()}


def test_fp8_in_blocks_is_what_transformers_reads(tmp_path: Path) -> None:
    declared = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
    written(tmp_path / "tiny", declared, in_blocks)
    theirs = Qwen3ForCausalLM.from_pretrained(
        tmp_path / "tiny", quantization_config=FineGrainedFP8Config(dequantize=True), dtype=torch.float32
    )
    weights = open_weights(tmp_path / "tiny")
    assert weights.precision == Precision()
    fill(weights.checkpoint, weights.layout)
    wanted = theirs.state_dict()
    assert len(weights.state.tensors) == len(wanted)
    for name, found in weights.state.tensors.items():
        want = wanted[name if name.startswith("lm_head") else f"model.{name}"]
        torch.testing.assert_close(found, want.float(), rtol=2**-7, atol=0)  # theirs is rounded to bf16
    packed = open_weights(tmp_path / "tiny", "int4")
    assert packed.precision.bulk == INT4
    packed.load()


def in_gptq(size: int, zero: int) -> Callable[[str, Tensor], dict[str, Tensor]]:
    """Codes by the definition, for a code of zero as it is stored."""

    def quantise(base: str, matrix: Tensor) -> dict[str, Tensor]:
        out, inputs = matrix.shape
        grouped = matrix.view(out, -1, size)
        scales = (grouped.abs().amax(-1) / 7).bfloat16()
        codes = ((grouped / scales[..., None].float()).round() + 8).clamp(0, 15).view(out, inputs).T.long()
        words = sum(codes[place::8] << 4 * place for place in range(8))
        zeros = torch.full((inputs // size, out // 8), sum(zero << 4 * place for place in range(8)))
        return {
            f"{base}.qweight": as_int32(words),
            f"{base}.qzeros": as_int32(zeros),
            f"{base}.scales": scales.T,
            f"{base}.g_idx": (torch.arange(inputs) // size).int(),
        }

    return quantise


def as_int32(words: Any) -> Tensor:
    found: Tensor = torch.where(words >= 2**31, words - 2**32, words).int()
    return found


def meant(tensors: dict[str, Tensor], base: str) -> Tensor:
    """The weight (out, in), number by number."""
    words, scales = tensors[f"{base}.qweight"], tensors[f"{base}.scales"].float()
    codes = torch.stack([words >> 4 * place & 15 for place in range(8)], dim=1).flatten(0, 1)
    return ((codes - 8) * scales.repeat_interleave(len(codes) // len(scales), 0)).T


DECLARED = {"bits": 4, "sym": True, "data_type": "int"}


@pytest.mark.parametrize(
    ("declared", "size", "zero", "scheme"),
    [
        ({"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq"}, 128, 7, INT4_G64),
        ({"quant_method": "auto-round", "packing_format": "auto_round:auto_gptq"}, 32, 7, INT4),
        ({"quant_method": "gptq", "checkpoint_format": "gptq_v2", "desc_act": False}, 64, 8, INT4_G64),
    ],
)
def test_int4_in_gptqs_layout_stays_as_it_is(
    tmp_path: Path, declared: dict[str, Any], size: int, zero: int, scheme: Any
) -> None:
    written(tmp_path / "tiny", DECLARED | declared | {"group_size": size}, in_gptq(size, zero))
    tensors, weights = load_file(tmp_path / "tiny/model.safetensors"), open_weights(tmp_path / "tiny")
    assert weights.precision.attention == weights.precision.dense == scheme
    fill(weights.checkpoint, weights.layout)
    found = weights.state.tensors
    layers = [path for path, module in weights.state.packed.items() if module.scheme == scheme]
    assert len(layers) == 14
    for path in layers:
        made = unpack(Packed(found[f"{path}.codes"], found[f"{path}.scales"], scheme))
        assert torch.equal(made, meant(tensors, f"model.{path.removesuffix('.weight')}"))


LAYER = "model.layers.1.mlp.up_proj"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"qzeros": torch.full((4, 48), 0x12345678).int()}, "qzeros has zeros"),
        ({"g_idx": torch.arange(256).flip(0).int() // 64}, "g_idx puts inputs in another order"),
        ({"scales": torch.ones(2, 384)}, "scales has shape (2, 384)"),
    ],
)
def test_codes_that_are_no_symmetric_int4_are_refused(tmp_path: Path, change: dict[str, Tensor], message: str) -> None:
    written(tmp_path / "tiny", DECLARED | {"quant_method": "gptq", "group_size": 64}, in_gptq(64, 7))
    change_weights(tmp_path / "tiny", {f"{LAYER}.{name}": tensor for name, tensor in change.items()})
    with pytest.raises(SafelightError, match=re.escape(message)):
        open_weights(tmp_path / "tiny").load()


@pytest.mark.parametrize(
    "change", [{"sym": False}, {"bits": 8}, {"desc_act": True}, {"group_size": 48}, {"checkpoint_format": "marlin"}]
)
def test_other_arithmetic_is_refused_by_its_declaration(tmp_path: Path, change: dict[str, Any]) -> None:
    declared = DECLARED | {"quant_method": "gptq", "group_size": 64} | change
    write_json(tmp_path / "config.json", {"model_type": "qwen3", **SHAPE, "quantization_config": declared})
    with pytest.raises(SafelightError, match="only symmetric int4 in GPTQ's layout"):
        assert ModelFolder.open(tmp_path).published


def by_rows(name: str, matrix: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """FP8 with a scale a row, and the values."""
    scales = matrix.float().abs().amax(-1, keepdim=True) / 448
    codes = (matrix.float() / scales).to(torch.float8_e4m3fn)
    return {name: codes, f"{name}_scale": scales}, codes.float() * scales


@pytest.mark.parametrize("quantization", ["none", "int4"])
def test_fp8_experts_apart_and_a_surplus_head(source: Path, tmp_path: Path, quantization: str) -> None:
    """vLLM's fastest published checkpoint is such a one; finetunes write the table once more, as a head."""
    folder, plain = tmp_path / "fp8", tmp_path / "plain"
    meant = written_in_parts(source, folder, (".experts.", ".self_attn.", ".mlp."), by_rows)
    groups = {"a": {"weights": {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel"}}}
    set_quantization(folder, groups, format="float-quantized")
    table = load_file(folder / "model.safetensors")["model.decoder.embed_tokens.weight"]
    surplus = {"lm_head.weight": table, "model.encoder.embed_vision.embedding.weight": torch.ones(4, 4)}
    change_weights(folder, surplus)
    shutil.copytree(source, plain)
    change_weights(plain, {name: tensor.contiguous() for name, tensor in meant.items()})
    found, want = (logits(load_model(one, "cpu", "float32", quantization)) for one in (folder, plain))
    assert relative(found, want) <= 1e-6
    values = meant if quantization == "none" else meaning(plain, quantization)
    assert relative(found, oracle(source, values)) <= (1e-6 if quantization == "none" else 1e-4)
