"""A scheme that nothing else knows: packed, stored, planned for, loaded and multiplied, with no other file changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine import load_model
from engine.kernels import reference
from engine.kernels.table import ROWS, Kind, find, schemes
from engine.layers.packed_linear import PackedExperts, PackedLinear, PackedTokenTable
from engine.models.folder import quantize
from engine.models.opening import plan_model
from engine.quant import INT8, PRECISIONS, SCHEMES, Precision, Scheme, pack, register, unpack
from engine.quant.scheme import TensorSpec
from tests.engine.packing import ToyScheme, logits, packable, released, repacked


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheme]:
    scheme = register(ToyScheme("toy", 32))
    monkeypatch.setitem(PRECISIONS, "toy", Precision(scheme, scheme, scheme, scheme))
    yield scheme
    del SCHEMES["toy"]


def test_it_packs_and_unpacks(toy: Scheme) -> None:
    weight = torch.randn(3, 48, 96, generator=torch.Generator().manual_seed(0))
    weight *= torch.tensor([1, 30, 0.01])[:, None, None]
    packed = pack(weight, toy)
    assert {part: TensorSpec(tuple(t.shape), t.dtype) for part, t in packed.tensors.items()} == toy.tensors((3, 48, 96))
    assert packed.shape == (3, 48, 96)
    assert sum(tensor.nbytes for tensor in packed.tensors.values()) == toy.packed_bytes((3, 48, 96))
    for expert in range(3):
        alone, meant = pack(weight[expert], toy), unpack(packed[expert])
        assert torch.equal(meant, unpack(alone))
        assert torch.equal(unpack(packed[expert].rows(16, 32)), meant[16:32])
        assert (meant - weight[expert]).norm() < 0.1 * weight[expert].norm()
    assert Precision.from_dict(PRECISIONS["toy"].as_dict()) == PRECISIONS["toy"]


def test_the_plain_path_serves_it(toy: Scheme) -> None:
    kinds: tuple[Kind, ...] = ("cpu", "triton")
    for kind in kinds:
        found = [find(operation, toy, kind) for operation in ("linear", "experts", "expectation")]
        assert found == [reference.linear, reference.experts, reference.expectation]
    assert toy not in schemes("linear", "triton") + schemes("experts", "cpu")


def test_it_loads_runs_and_is_stored(toy: Scheme, tmp_path: Path) -> None:
    source = released(tmp_path / "released")
    direct = load_model(source, device="cpu", dtype="float32", quantization="toy")
    assert {type(module) for module in direct.network.modules()} >= {PackedExperts, PackedLinear, PackedTokenTable}
    plain = load_model(source, device="cpu", dtype="float32", quantization="none")
    state = plain.network.state_dict()
    for name, weight in load_file(source / "model.safetensors").items():
        path = name.removeprefix("model.decoder.")
        if path in state and PRECISIONS["toy"].scheme(path.removesuffix(".weight")) and weight.dim() > 1:
            state[path].copy_(repacked(name, weight, toy))

    found = logits(direct)
    torch.testing.assert_close(found, logits(plain), atol=1e-3, rtol=1e-3)
    quantize(source, tmp_path / "store", "toy", torch.device("cpu"))
    stored = load_model(tmp_path / "store", device="cpu", dtype="float32")
    assert stored.precision == PRECISIONS["toy"]
    assert torch.equal(logits(stored), found)


def test_it_is_planned_for(toy: Scheme, tmp_path: Path) -> None:
    folder = released(tmp_path / "released")
    config = packable().config
    experts, hidden, width = config.num_experts, config.hidden_size, config.moe_intermediate_size
    sizes = (((experts, 2 * width, hidden), 2), ((experts, hidden, width), 1))
    found = plan_model(folder, 32, "toy", device="cpu")
    assert found.precision == PRECISIONS["toy"]
    assert found.parts["experts"] == len(config.layers) * sum(toy.packed_bytes(*size) for size in sizes)


def test_the_plain_functions_fit_everything() -> None:
    """Whatever a later row needs, no operation is without a function."""
    for operation in {row.operation for row in ROWS}:
        last = [row for row in ROWS if row.operation == operation][-1]
        assert (last.schemes, last.needs) == (None, None)
        assert last.function.startswith("reference")
    assert INT8 in schemes("linear", "triton")
