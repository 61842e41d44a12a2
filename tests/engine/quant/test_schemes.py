"""Packed weights: codes, scales and their order, against bitsandbytes and against arithmetic written out."""

from __future__ import annotations

import pytest
import torch

from engine import SafelightError
from engine.quant import (
    FP4_F32,
    INT4,
    INT4_G64,
    INT8,
    INT8_G16,
    INT8_G32,
    NF4,
    NF4_F32,
    NF4_VALUES,
    NVFP4,
    PRECISIONS,
    SCHEMES,
    UINT4,
    Packed,
    Precision,
    Scheme,
    join_nibbles,
    pack,
    split_nibbles,
    unpack,
)  # fmt: skip
from engine.quant.integers import Int4

# Relative error on Gaussian weights: the figures in the field for these layouts, and a little.
ERRORS = {
    NF4: 0.093,
    NF4_F32: 0.093,
    FP4_F32: 0.13,
    INT4: 0.087,
    INT4_G64: 0.096,
    INT8: 0.009,
    INT8_G32: 0.0057,
    INT8_G16: 0.0049,
    NVFP4: 0.096,
    UINT4: 0.082,
}


def gaussian(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_error_on_gaussian_weights(scheme: Scheme) -> None:
    weight = gaussian(256, 1024)
    packed = pack(weight, scheme)
    error = ((unpack(packed) - weight).norm() / weight.norm()).item()
    assert ERRORS[scheme] * 0.85 < error < ERRORS[scheme]
    assert packed.shape == (256, 1024)
    assert sum(tensor.nbytes for tensor in packed.tensors.values()) == scheme.packed_bytes((256, 1024))


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_packing_what_was_unpacked_changes_nothing(scheme: Scheme) -> None:
    once = unpack(pack(gaussian(3, 32, 128), scheme))
    again = pack(once, scheme)
    torch.testing.assert_close(unpack(again), once, rtol=8e-3 if isinstance(scheme, Int4) else 1e-6, atol=0)


def test_nf4_is_bitsandbytes() -> None:
    from bitsandbytes import functional  # seconds, in each process that collects the tests

    weight = gaussian(64, 256)
    weight[:, ::64] = 4.0  # an absmax that bf16 holds exactly
    weight.clamp_(-4, 4)
    theirs, state = functional.quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=False)
    ours = pack(weight, NF4)
    nibbles = split_nibbles(ours.codes)
    assert torch.equal(nibbles[:, 0::2] << 4 | nibbles[:, 1::2], theirs.view(64, 128))
    torch.testing.assert_close(unpack(ours), functional.dequantize_4bit(theirs, state), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(torch.tensor(NF4_VALUES), state.code, rtol=0, atol=1e-7)


def test_int4_spends_its_lowest_code_on_the_extreme() -> None:
    weight = torch.zeros(2, 64)
    weight[0, :32], weight[1, 40] = torch.linspace(-2, 8, 32), -16.0
    packed = pack(weight, INT4)
    assert packed.scales.tolist() == [[-1.0, 0.0], [0.0, 2.0]]  # (groups, out)
    codes, values = split_nibbles(packed.codes), unpack(packed)
    assert codes[0, 31] == codes[1, 40] == 0
    assert (values[0, 31], values[1, 40], values[1, :32].abs().max()) == (8.0, -16.0, 0)


def test_tile_order() -> None:
    codes = torch.arange(128, dtype=torch.uint8)[None] % 16
    packed = join_nibbles(codes)
    for byte in range(64):
        tile, place = divmod(byte, 32)
        low, high = codes[0, 64 * tile + place], codes[0, 64 * tile + 32 + place]
        assert packed[0, byte] == low | high << 4
    assert torch.equal(split_nibbles(packed), codes)


def test_int8_rows_have_their_own_scale() -> None:
    packed = pack(torch.tensor([[1.0, -0.5, 0.0], [254.0, 127.0, -254.0], [0.0, 0.0, 0.0]]), INT8)
    assert packed.codes.tolist() == [[127, -64, 0], [127, 64, -127], [0, 0, 0]]
    assert packed.scales.shape == (1, 3)
    assert packed.scales[0, 1] == 2.0


def test_large_weights_are_packed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = gaussian(50, 128)
    whole = pack(weight, INT4)
    monkeypatch.setattr("engine.quant.scheme.AT_ONCE", 128 * 7)
    pieces = pack(weight, INT4)
    assert torch.equal(whole.codes, pieces.codes)
    assert torch.equal(whole.scales, pieces.scales)


WIDE = type(INT4)("wide", 96)  # of tiles of 64


@pytest.mark.parametrize(
    ("scheme", "inputs", "least"),
    [(WIDE, 128, 192), *((scheme, 96, 64) for scheme in (NF4, INT4, INT4_G64, NVFP4))],
    ids=str,
)
def test_inputs_must_fill_groups_and_tiles(scheme: Scheme, inputs: int, least: int) -> None:
    why = f"q_proj has {inputs} inputs, which .* cannot pack: it needs a multiple of {least}"
    with pytest.raises(SafelightError, match=why):
        pack(gaussian(4, inputs), scheme, "q_proj")
    assert pack(gaussian(4, least), scheme).shape == (4, least)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_must_be_finite(bad: float) -> None:
    weight = gaussian(4, 64)
    weight[2, 5] = bad
    for scheme in SCHEMES.values():
        with pytest.raises(SafelightError, match="down_proj holds values that are not finite"):
            pack(weight, scheme, "down_proj")


def test_precision_names_the_parts() -> None:
    precision = PRECISIONS["nf4"]
    assert precision.scheme("layers.3.experts") == NF4
    layer = ("layers.3.self_attn.q_proj", "layers.3.mlp.up_proj")
    for path in (*layer, "self_conditioning.down_proj", "embed_tokens", "lm_head"):
        assert precision.scheme(path) == INT8, path
    for path in ("layers.3.router.proj", "layers.3.input_layernorm", "norm"):
        assert precision.scheme(path) is None, path
    assert Precision.from_dict(precision.as_dict()) == precision
    assert not PRECISIONS["none"].is_packed
    with pytest.raises(SafelightError, match="does not know: 'experts' as 'q2'"):
        Precision.from_dict({"experts": "q2"})


def test_unpack_takes_a_type() -> None:
    assert unpack(pack(gaussian(4, 64), NF4), torch.bfloat16).dtype == torch.bfloat16
    assert isinstance(pack(gaussian(2, 4, 64), NF4)[1], Packed)
