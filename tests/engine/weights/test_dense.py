"""A dense network whose layers are packed: its arithmetic, its store, and its codes on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine import SafelightError
from engine.config import LayerConfig
from engine.kernels import cpu_int4, why_plain
from engine.layers.packed_linear import PackedLinear, PackedTokenTable, PackedWeight, for_processor, packed_weights
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.quant import INT4, INT8, NF4, NF4_F32, PRECISIONS, Precision, unpack
from engine.weights.layout import Names
from engine.weights.loader import StoredWeights, Weights
from engine.weights.packed_store import write_store
from tests.engine.tiny import tokens

CPU = torch.device("cpu")
SHAPE: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "layers": (LayerConfig("full_attention", 16, 2, 10_000.0, 1.0),) * 2,
    "sliding_window": 1,
    "num_experts": 0,
    "top_k_experts": 0,
    "moe_intermediate_size": 0,
    "canvas_length": 8,
    "max_position_embeddings": 64,
}
KINDS: dict[str, dict[str, Any]] = {  # Qwen2.5's biases, Qwen3's norms
    "biased": {"attention_bias": True, "tied": True},
    "normed": {"query_key_norm": True, "tied": False},
}


def network(kind: str) -> CausalNetwork:
    """Random, in fp32."""
    made = CausalNetwork(CausalConfig(**SHAPE, **KINDS[kind])).requires_grad_(False).eval()
    draws = torch.Generator().manual_seed(0)
    for parameter in made.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=draws) * 64**-0.5 + (parameter.dim() == 1))
    return made


def opened(folder: Path, kind: str, quantization: str, dtype: torch.dtype | None = None) -> Weights[CausalNetwork]:
    with torch.device("meta"):
        empty = CausalNetwork(CausalConfig(**SHAPE, **KINDS[kind]))
    stored = StoredWeights.open(folder)
    return stored.fit(empty, Names(lambda path: path), stored.precision_for(quantization), CPU, dtype)


def write_weights(made: CausalNetwork, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    save_file(made.state_dict(), folder / "model.safetensors")


def logits(made: CausalNetwork) -> Tensor:
    cache = made.new_cache()
    made.prefill(tokens(9), cache)
    return made.decode(tokens(6, seed=1), cache, 2)


@pytest.mark.parametrize(("kind", "quantization", "scheme"), [("biased", "int4", INT4), ("normed", "nf4", NF4)])
def test_a_packed_network_and_its_store(kind: str, quantization: str, scheme: Any, tmp_path: Path) -> None:
    """They compute what the network does whose weights are those that the codes stand for."""
    plain = network(kind)
    write_weights(plain, tmp_path / "plain")
    packed = opened(tmp_path / "plain", kind, quantization, torch.float32).load()
    layer = packed.layers[1]
    linears = [module for module in layer.modules() if isinstance(module, PackedLinear)]
    assert [module.weight.scheme for module in linears] == [scheme] * 7
    assert [module.bias is not None for module in linears] == [kind == "biased"] * 3 + [False] * 4
    ends = [module for module in (packed.embed_tokens, packed.lm_head) if module is not None]
    assert all(isinstance(end, PackedTokenTable | PackedLinear) and end.weight.scheme == INT8 for end in ends)
    meant = dict(plain.named_parameters())
    for path, module in packed.named_modules():
        if isinstance(module, PackedLinear | PackedTokenTable):
            meant[f"{path}.weight"].copy_(unpack(module.weight.packed))
    torch.testing.assert_close(logits(packed), logits(plain), atol=1e-4, rtol=1e-4)

    source = opened(tmp_path / "plain", kind, quantization)
    parts = source.checkpoint, source.layout, source.state, source.precision  # none of which says that it has experts
    manifest = write_store(*parts, {}, tmp_path / "store")
    assert manifest.precision == Precision(None, scheme, scheme, INT8, INT8) == PRECISIONS[quantization].for_dense()
    stored = opened(tmp_path / "store", kind, quantization, torch.float32)
    assert torch.equal(logits(stored.load()), logits(packed))
    with pytest.raises(SafelightError, match=rf"holds weights packed as {scheme}; use quantization auto"):
        opened(tmp_path / "store", kind, "int4-g64")


@pytest.mark.skipif(cpu_int4.block() == 0, reason="this processor has no int4 kernel in torch")
def test_layers_are_put_into_blocks_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few tokens go through its int4 kernel; the table, whose rows are looked up, keeps its order."""
    write_weights(network("biased"), tmp_path)
    plain, packed = (opened(tmp_path, "biased", "int4", dtype).load() for dtype in (torch.float32, torch.bfloat16))
    for_processor(packed, torch.bfloat16)  # a second time changes nothing
    blocks = {str(weight.scheme): weight.block for weight in packed_weights(packed)}
    with monkeypatch.context() as patch:  # scales were laid out once
        patch.setattr(cpu_int4, "spread", lambda _: pytest.fail("scales are laid out at a call"))
        found = logits(packed)
    wanted = logits(plain)
    assert float((found - wanted).norm() / wanted.norm()) < 0.05
    assert blocks == {"int4-g32": cpu_int4.block(), "int8": 0}
    assert {weight.block for weight in packed_weights(plain)} == {0}


@pytest.mark.skipif(why_plain(torch.device("meta")) is not None, reason="no Triton for this machine")
def test_bitsandbytes_scales_become_bf16_for_the_kernels_of_a_card() -> None:
    """The meta device counts as one; codes stay, and in fp32, which has no kernels, scales, too."""
    with torch.device("meta"):
        layer = PackedLinear(PackedWeight((8, 128), NF4_F32, "layer"))
    for_processor(layer, torch.float32)
    assert (layer.weight.scheme, layer.weight.scales.dtype) == (NF4_F32, torch.float32)
    for_processor(layer, torch.bfloat16)
    assert (layer.weight.scheme, layer.weight.scales.dtype) == (NF4, torch.bfloat16)
