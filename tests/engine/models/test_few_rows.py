"""Passes of few rows in C: the same numbers as torch's in fp32, and a row's own whatever passes with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.adapters.lora import JoinedAdditions, LayerAdapter, LowRank
from engine.config import LayerConfig
from engine.kernels import native
from engine.layers import adapted
from engine.layers.kv_cache import KVCache
from engine.layers.packed_linear import PackedLinear, PackedTokenTable, PackedWeight, install
from engine.models.causal import network as networks
from engine.models.causal.config import CausalConfig, QueryScaling, Yarn
from engine.models.causal.network import MAX_ROWS, CausalNetwork
from engine.quant import INT4, INT4_G64, INT8, INT8_G16, INT8_G32, UINT4, Precision, Scheme, pack, to_blocks, unpack
from engine.quant.integers import for_blocks
from engine.quant.integers import rounded as uint4_values

FULL, NEAR = "full_attention", "sliding_attention"
VOCABULARY = 130
DRAWS = torch.Generator().manual_seed(5)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def config(**changes: Any) -> CausalConfig:
    layer = LayerConfig(FULL, 32, 2, 10_000.0, 1.0)
    shape = {
        "vocab_size": VOCABULARY, "hidden_size": 192, "intermediate_size": 384, "num_attention_heads": 6,
        "layers": (layer,) * 3, "sliding_window": 8, "canvas_length": 5,
        "num_experts": 0, "top_k_experts": 0, "moe_intermediate_size": 0, "max_position_embeddings": 512,
    }  # fmt: skip
    return CausalConfig(**(shape | changes))  # type: ignore[arg-type]


FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen": {"attention_bias": True, "query_key_norm": True, "tied": True},
    "gemma": {
        "layers": (LayerConfig(NEAR, 32, 2, 10_000.0, 1.0), LayerConfig(FULL, 64, 1, 1e6, 1.0)) * 2,
        "num_attention_heads": 4, "activation": "gelu_pytorch_tanh", "query_key_norm": True, "tied": True,
        "norms_add_one": True, "norms_results": True, "scales_embeddings": True, "query_divisor": 40.0,
    },
    "mistral": {
        "rope_scaling": Yarn(4.0, 64, attention_factor=1.1), "query_scaling": QueryScaling(0.3, 16),
        "output_bias": True, "rotated": 16,
    },
}  # fmt: skip


def filled(shape: CausalConfig, dtype: torch.dtype = torch.float32) -> CausalNetwork:
    made = CausalNetwork(shape).requires_grad_(False).eval()
    for parameter in made.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=1.5 * parameter.shape[-1] ** -0.5, generator=DRAWS)
        else:
            parameter.uniform_(-0.4, 0.4, generator=DRAWS)
            parameter.add_(not shape.norms_add_one)
    return made.to(dtype)


def packed(
    shape: CausalConfig, precision: Precision, block: int, dtype: torch.dtype
) -> tuple[CausalNetwork, CausalNetwork]:
    """A packed network, as one in memory, and an unpacked one in fp32 with the values of its codes."""
    plain = filled(shape)
    made = CausalNetwork(shape).requires_grad_(False).eval().to(dtype)
    made.load_state_dict(plain.state_dict())
    plain.load_state_dict({name: value.float() for name, value in made.state_dict().items()})
    install(made, precision, dtype)
    for name, module in made.named_modules():
        if isinstance(module, PackedLinear | PackedTokenTable):
            exact = plain.get_submodule(name).weight
            exact.copy_(_pack_into(module.weight, exact, block))
    return made, plain


def _pack_into(weight: PackedWeight, values: Tensor, block: int) -> Tensor:
    """Packs a matrix into a weight; returns the values that its codes stand for."""
    found = pack(values, weight.scheme)
    weight.codes, weight.scales = found.codes.clone(), found.scales.contiguous()
    if weight.scheme in (INT8, INT8_G16, INT8_G32):
        return unpack(found)
    exact = uint4_values(found) if weight.scheme == UINT4 else unpack(found)
    to_blocks(weight.codes, block)
    pairs = torch.stack([found.scales, torch.zeros_like(found.scales)], -1)
    weight.block, weight.scales = block, for_blocks(found.scales) if weight.scheme == UINT4 else pairs[..., 0]
    return exact


@torch.inference_mode()
def by_torch(network: CausalNetwork, ids: Tensor, text: Tensor, **how: Any) -> Tensor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "MAX_ROWS", 0)
        cache = network.new_cache()
        network.prefill(text, cache)
        return network.decode(ids, cache, 0, **how)


@torch.inference_mode()
def in_c(network: CausalNetwork, ids: Tensor, text: Tensor, **how: Any) -> Tensor:
    assert network._layers_in_c() is not None
    cache = network.new_cache()
    network.prefill(text, cache)  # by torch: it is longer
    return network.decode(ids, cache, 0, **how)


def tokens(count: int) -> Tensor:
    return torch.randint(VOCABULARY, (count,), generator=DRAWS)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("family", FAMILIES)
def test_they_are_those_of_torch(family: str) -> None:
    network, text = filled(config(**FAMILIES[family])), tokens(MAX_ROWS + 14)
    for rows in (1, 7, MAX_ROWS):
        ids = tokens(rows)
        for causal in (True, False):
            want = by_torch(network, ids, text, is_causal=causal)
            found = in_c(network, ids, text, is_causal=causal)
            torch.testing.assert_close(found, want, rtol=1e-4, atol=2e-5 * float(want.std()))
    ids = tokens(5)
    assert torch.equal(in_c(network, ids, text, first_logits=3), in_c(network, ids, text)[3:])


@pytest.mark.parametrize(
    ("scheme", "dtype"),
    [
        *((scheme, torch.float32) for scheme in (INT8, INT8_G16, INT8_G32, INT4, INT4_G64, UINT4)),
        *((scheme, torch.bfloat16) for scheme in (INT8, INT4, UINT4)),
    ],
    ids=str,
)
def test_packed_ones_are_exact_to_the_16_bits_of_activations(scheme: Scheme, dtype: torch.dtype, block: int) -> None:
    layers = (LayerConfig(FULL, 64, 2, 10_000.0, 1.0),) * 2
    shape = config(layers=layers, num_attention_heads=4, attention_bias=True, tied=True)
    network, exact = packed(shape, Precision(attention=scheme, dense=scheme, embedding=INT8), block, dtype)
    text = tokens(MAX_ROWS + 30)
    # Embeddings, keys and values are rounded to 8 bits in bf16; else nothing is but activations, to 16.
    limit = 5e-4 if dtype == torch.float32 else 3e-2
    for rows in (3, MAX_ROWS):
        ids, cache = tokens(rows), exact.new_cache()
        with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
            patch.setattr(networks, "MAX_ROWS", 0)
            exact.prefill(text, cache)
            own = copied(cache, network)
            want = exact.decode(ids, cache, 0)
        assert network._layers_in_c() is not None
        found = network.decode(ids, own, 0)
        assert float((found - want).abs().max() / want.std()) < limit


@torch.inference_mode()
def copied(cache: KVCache, network: CausalNetwork) -> KVCache:
    """Copies a text's keys and values into a network's cache, and rounds them as it has them in both."""
    made = network.new_cache()
    made.reserve(cache.length)
    for layer in range(len(network.layers)):
        for to, its in zip(made.buffers(layer), cache.buffers(layer), strict=True):
            to[:, :, : cache.length] = its[:, :, : cache.length]
            its[:, :, : cache.length] = to[:, :, : cache.length]
    made.advance(cache.length)
    return made


@pytest.mark.usefixtures("block", "threads")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_has_the_same_bits_whatever_passes_with_it(family: str) -> None:
    network, text, ids = filled(config(**FAMILIES[family])), tokens(40), tokens(MAX_ROWS)
    together = in_c(network, ids, text)
    torch.set_num_threads(3)
    assert torch.equal(in_c(network, ids, text), together)
    cache = network.new_cache()
    network.prefill(text, cache)
    with torch.inference_mode():
        alone = [network.decode(ids[row : row + 1], cache, 1) for row in range(MAX_ROWS)]
        assert torch.equal(torch.cat(alone), together)
        cache.truncate(40)
        assert torch.equal(network.decode(ids[:5], cache, 0), together[:5])  # with other numbers behind the text


@pytest.mark.usefixtures("block")
def test_what_c_does_not_read_stays_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert filled(config(layers=(LayerConfig(FULL, 8, 2, 10_000.0, 1.0),)))._layers_in_c() is None
    assert filled(config(), torch.float64)._layers_in_c() is None
    network = filled(config())
    first = network._layers_in_c()
    assert first is not None
    assert network._layers_in_c() is first
    adapted.set_addition(network.layers[1].self_attn.q_proj, lambda _x, out, _rows: out)
    assert network._layers_in_c() is None
    adapted.set_addition(network.layers[1].self_attn.q_proj, None)
    assert network._layers_in_c() is not None
    made, _ = packed(config(), Precision(attention=INT4, dense=INT4), 16, torch.bfloat16)
    assert made._layers_in_c() is None  # codes in blocks of other sizes
    monkeypatch.setattr(native, "library", lambda: None)
    assert filled(config())._layers_in_c() is None


def adapter(layer: torch.nn.Linear, rank: int) -> LowRank:
    made = LowRank(layer.in_features, layer.out_features, rank, 0.7).requires_grad_(False)
    for part in made.parameters():
        part.normal_(std=0.2, generator=DRAWS)
    return made


@pytest.mark.usefixtures("block")
def test_adapters_of_text_add_to_their_layers() -> None:
    network, text = filled(config(attention_bias=True)), tokens(20)
    ids = tokens(4)
    plain = in_c(network, ids, text)
    for layer in network.layers:
        attention, mlp = layer.self_attn, layer.mlp
        adapted.set_addition(attention.q_proj, LayerAdapter(adapter(attention.q_proj, 4), None))
        adapted.set_addition(attention.v_proj, LayerAdapter(None, adapter(attention.v_proj, 8)))
        adapted.set_addition(attention.o_proj, LayerAdapter(adapter(attention.o_proj, 3), adapter(attention.o_proj, 5)))
        own = LayerAdapter(None, adapter(mlp.up_proj, 2)), LayerAdapter(adapter(mlp.up_proj, 6), None)
        adapted.set_addition(mlp.up_proj, JoinedAdditions(*own))
        adapted.set_addition(mlp.down_proj, LayerAdapter(None, adapter(mlp.down_proj, 16)))
    assert network._layers_in_c() is not None
    want, found = by_torch(network, ids, text), in_c(network, ids, text)
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(found, plain, atol=0.1)
    for layer in network.layers:
        for part in layer.modules():
            adapted.set_addition(part, None)
    assert torch.equal(in_c(network, ids, text), plain)


@pytest.mark.usefixtures("block", "threads")
def test_torch_takes_one_thread_where_c_takes_all() -> None:
    network = filled(config())
    assert [network.runs_in_c(rows) for rows in (0, 1, MAX_ROWS, MAX_ROWS + 1)] == [False, True, True, False]
    text, ids = tokens(20), tokens(4)
    torch.set_num_threads(1)
    alone = in_c(network, ids, text)
    network.threads_in_c = 3
    assert torch.equal(in_c(network, ids, text), alone)
    assert torch.get_num_threads() == 1
