"""NVFP4 as both publish it: what loads is what is written there, to the rounding of fp32."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine import SafelightError, load_model
from engine.models.folder import quantize
from engine.models.opening import plan_model
from engine.quant import INT8, NVFP4, Precision, unpack
from tests.engine.packing import (
    logits,
    meaning,
    oracle,
    published_nvfp4,
    quantise_nvfp4,
    relative,
    set_quantization,
)
from tests.engine.tiny import change_weights

PUBLISHERS = {"modelopt": INT8, "compressed-tensors": NVFP4}  # and how attention is packed there
EXPERT = "model.decoder.layers.1.experts.3.up_proj"
CPU = torch.device("cpu")


Folders = dict[str, tuple[Path, dict[str, Tensor]]]  # the checkpoint of a publisher, and the values of its tensors


@pytest.fixture(scope="module")
def folders(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Folders:
    base = tmp_path_factory.mktemp("published")
    return {name: (base / name, published_nvfp4(source, base / name, name)) for name in PUBLISHERS}


@pytest.mark.parametrize("publisher", PUBLISHERS)
def test_it_loads_as_it_is(publisher: str, source: Path, folders: Folders, tmp_path: Path) -> None:
    folder, meant = folders[publisher]
    model = load_model(folder, device="cpu", dtype="float32")
    assert model.precision == Precision(NVFP4, PUBLISHERS[publisher], INT8, INT8, INT8)
    found = logits(model)
    assert relative(found, oracle(source, {**meaning(source, "int4"), **meant})) <= 1e-5
    for name, weight in meant.items():
        packed = model.network.get_submodule(name.removeprefix("model.decoder.")).packed
        torch.testing.assert_close(unpack(packed), weight, rtol=1e-6, atol=0)  # no value was rounded anew
    # Gate and up were packed apart, and each kept its own number.
    numbers = model.network.get_submodule("layers.1.experts.gate_up_proj").packed.matrix_scales
    assert numbers is not None
    gate, up = numbers.unbind(dim=-1)
    assert (gate != up).all()
    quantize(folder, tmp_path / "store", "auto", CPU)
    stored = load_model(tmp_path / "store", device="cpu", dtype="float32", quantization="nvfp4")
    assert stored.precision == model.precision
    assert torch.equal(logits(stored), found)


def test_it_is_planned_for(folders: Folders, tmp_path: Path) -> None:
    found = plan_model(folders["modelopt"][0], 32, device="cpu")
    assert (found.quantization, found.precision) == ("as stored", Precision(NVFP4, INT8, INT8, INT8, INT8))
    assert any("8-bit key-value cache; that is ignored" in note for note in found.notes)
    assert not any("cache" in note for note in plan_model(folders["compressed-tensors"][0], 32, device="cpu").notes)
    (tmp_path / "config.json").write_bytes((folders["modelopt"][0] / "config.json").read_bytes())
    early = plan_model(tmp_path, 32, device="cpu")  # the weights are not here yet
    assert (early.precision, early.parts) == (found.precision, found.parts)
    assert any("experts are taken to be nvfp4" in note for note in early.notes)


def test_modelopt_may_declare_it_next_to_the_config(folders: Folders, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders["modelopt"][0], tmp_path / "tiny"))
    raw = json.loads((folder / "config.json").read_text())
    del raw["quantization_config"]
    (folder / "config.json").write_text(json.dumps(raw))

    def declare(inner: object) -> None:
        (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": inner}))

    declare({"quant_algo": "NVFP4", "group_size": 16})
    assert load_model(folder, device="cpu", dtype="float32").precision.experts == NVFP4
    for inner, message in (
        ({"quant_algo": "W4A8_AWQ"}, "hf_quant_config.json: modelopt's 'W4A8_AWQ' weights"),
        ({"quant_algo": "NVFP4", "group_size": 32}, "in groups of 32 cannot be read"),
        ({"quant_algo": ["NVFP4"]}, "modelopt's ['NVFP4'] weights"),
        ([1], "weights quantised as None (None)"),
    ):
        declare(inner)
        with pytest.raises(SafelightError, match=re.escape(message)):
            load_model(folder, device="cpu")


def test_a_plain_weight_of_a_packed_part_is_packed_like_the_others(
    source: Path, folders: Folders, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders["compressed-tensors"][0], tmp_path / "tiny"))
    name = "model.decoder.layers.0.self_attn.q_proj.weight"
    weight = load_file(source / "model.safetensors")[name]
    ends = ("packed", "scale", "global_scale")
    change_weights(folder, {f"{name}_{end}": None for end in ends} | {name: weight})
    model = load_model(folder, device="cpu", dtype="float32")
    packed = model.network.get_submodule("layers.0.self_attn.q_proj.weight").packed
    torch.testing.assert_close(unpack(packed), quantise_nvfp4(weight)[3], rtol=1e-6, atol=0)


# --- bad input ----------------------------------------------------------------------------------------------------


def changed(**change: Tensor | None) -> Callable[[Path], None]:
    return lambda folder: change_weights(folder, {f"{EXPERT}.{name}": tensor for name, tensor in change.items()})


def declared(**changes: object) -> Callable[[Path], None]:
    return lambda folder: set_quantization(folder, {}, **changes)


def weights(**facts: object) -> Callable[[Path], None]:
    return declared(format="nvfp4-pack-quantized", config_groups={"group_0": {"weights": facts}})


def e4m3(value: float, groups: int = 8) -> Tensor:
    return torch.full((64, groups), value).to(torch.float8_e4m3fn)


def without_scales(folder: Path) -> None:
    names = load_file(folder / "model.safetensors")
    change_weights(folder, {name: None for name in names if name.endswith(".weight_scale")})


NO_NUMBERS = f"{EXPERT}.weight_scale holds scales that are not positive numbers"
BAD = {
    "missing scales": ("modelopt", changed(weight_scale=None), f"tensor {EXPERT}.weight_scale is missing"),
    "no scales": ("modelopt", without_scales, "nvfp4 weights are declared, and no tensor holds scales (.weight_scale)"),
    "plain scales": ("modelopt", changed(weight_scale=torch.ones(64, 8)), "weight_scale has the type F32"),
    "scales of 32": ("modelopt", changed(weight_scale=e4m3(1, 4)), "weight_scale has shape (64, 4)"),
    "no numbers": ("modelopt", changed(weight_scale=e4m3(float("nan"))), NO_NUMBERS),
    "number zero": ("modelopt", changed(weight_scale_2=torch.zeros(())), "weight_scale_2 is 0.0, not a positive"),
    "divisor zero": (
        "compressed-tensors", changed(weight_global_scale=torch.zeros(1)), "weight_global_scale is 0.0, not a positive",
    ),
    "surplus": ("modelopt", changed(pre_quant_scale=torch.ones(128)), "pre_quant_scale is not part of this model"),
    "mixed": ("modelopt", declared(quant_method="modelopt", quant_algo="MIXED_PRECISION"), "'MIXED_PRECISION' weights"),
    "int": ("compressed-tensors", weights(num_bits=4, type="int", group_size=16), "4-bit 'int' weights in groups"),
    "group": ("compressed-tensors", weights(num_bits=4, type="float", group_size=32), "in groups of 32 cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
def test_bad_nvfp4_is_refused(fault: str, folders: Folders, tmp_path: Path) -> None:
    publisher, breaks, message = BAD[fault]
    folder = Path(shutil.copytree(folders[publisher][0], tmp_path / "tiny"))
    breaks(folder)
    with pytest.raises(SafelightError, match=re.escape(message)):
        load_model(folder, device="cpu")
