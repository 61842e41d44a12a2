"""GGUF files of causal families that are loaded without an import."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf.constants import GGMLQuantizationType as Kind

from engine import Model, SafelightError, catalog, load_model
from engine.fingerprint import fingerprint
from engine.kernels import cpu_int4
from engine.layers.packed_linear import packed_weights
from engine.memory.machine import AbsentCard, card_of
from engine.models.opening import plan_model, run_settings
from engine.quant import INT8, INT8_G16, INT8_G32, UINT4, Precision, unpack
from engine.weights.gguf import checkpoint
from tests.engine import gguf_files
from tests.engine.gguf_files import Mix

needs_kernels = pytest.mark.skipif(find_spec("triton") is None, reason="kernels need Triton")
EMBEDDED = catalog.resolve(catalog.GAPS)
PROMPT = [{"role": "user", "content": "Reverse the word canvas."}]


def q5_0(name: str, shape: tuple[int, ...]) -> Kind:
    kind = gguf_files.q8_0(name, shape)
    return Kind.Q5_0 if kind == Kind.Q8_0 else kind


def logits(model: Model) -> torch.Tensor:
    ids = torch.tensor(model.chat_ids(PROMPT))
    return model.decode(ids, model.new_cache(), 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return gguf_files.small(tmp_path / "small.gguf", EMBEDDED, "llama", gguf_files.q4_1)


@pytest.mark.parametrize(
    ("architecture", "mix", "at_once"),
    [("llama", gguf_files.q4_1, 40 * 64), ("gemma3", gguf_files.q4_0, checkpoint.AT_ONCE)],
    ids=["in pieces", "whole"],
)
def test_four_bits_stay_as_they_are(
    architecture: str, mix: Mix, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every weight and logit is that of the file's own numbers, where fp32 is asked for."""
    monkeypatch.setattr(checkpoint, "AT_ONCE", at_once)
    path = gguf_files.small(tmp_path / "small.gguf", EMBEDDED, architecture, mix)
    model = load_model(path, device="cpu", dtype="float32")
    plain = load_model(path, device="cpu", dtype="float32", quantization="none")
    assert model.name == "small"
    assert model.precision == Precision(attention=UINT4, dense=UINT4, embedding=INT8_G32)
    expected: dict[str, Any] = dict(plain.network.named_parameters())
    packed = {name: weight for name, weight in model.network.named_modules() if weight in packed_weights(model.network)}
    assert len(packed) == 15
    for name, weight in packed.items():
        assert torch.equal(unpack(weight.packed), expected[name])
    torch.testing.assert_close(logits(model), logits(plain), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(cpu_int4.block() == 0, reason="this processor has no int4 kernel in torch")
def test_by_default_products_are_of_bf16_and_sums_of_fp32(file: Path) -> None:
    model, exact = load_model(file, device="cpu"), load_model(file, device="cpu", dtype="float32")
    assert model.dtype == torch.float32
    fours = [weight for weight in packed_weights(model.network) if weight.scheme == UINT4]
    blocks = {weight.block for weight in fours if weight.shape[0] % cpu_int4.block() == 0}
    assert blocks == {cpu_int4.block()}
    assert {weight.block for weight in packed_weights(exact.network)} == {0}
    found, expected = logits(model), logits(exact)
    assert found.dtype == torch.float32
    assert ((found - expected).norm() / expected.norm()).item() < 2e-2


@pytest.mark.parametrize(
    ("mix", "precision"),
    [
        (gguf_files.q8_0, Precision(attention=INT8_G32, dense=INT8_G32, embedding=INT8_G32)),
        (q5_0, Precision(attention=INT8_G32, dense=INT8_G32, embedding=INT8_G32)),
        (gguf_files.f16, Precision()),
    ],
)
def test_others_stay_as_they_are_or_take_eight_bits(mix: Mix, precision: Precision, tmp_path: Path) -> None:
    path = gguf_files.small(tmp_path / "small.gguf", EMBEDDED, "llama", mix)
    assert load_model(path, device="cpu").precision == precision


def test_each_layer_of_a_mixed_file_keeps_its_codes(tmp_path: Path) -> None:
    """Q4_K_M files are such; what no scheme of ours has is rounded to 8 bits in groups."""
    kinds = {
        "blk.0.ffn_down": (Kind.Q4_K, UINT4),
        "blk.1.ffn_down": (Kind.Q6_K, INT8_G16),
        "ffn_gate": (Kind.Q4_0, UINT4),
        "ffn_up": (Kind.Q5_0, INT8_G32),
        "attn_v": (Kind.Q5_1, INT8_G32),
        "": (Kind.Q8_0, INT8_G32),
    }

    def mix(name: str, shape: tuple[int, ...]) -> Kind:
        return Kind.F32 if len(shape) == 1 else next(kind for part, (kind, _) in kinds.items() if part in name)

    path = gguf_files.small(tmp_path / "small.gguf", EMBEDDED, "llama", mix, inner=256)
    model = load_model(path, device="cpu", dtype="float32")
    own = model.precision
    assert (own.dense, own.attention, own.embedding) == (UINT4, INT8_G32, INT8_G32)
    ups = [(f"layers.{layer}.mlp.up_proj", INT8_G32) for layer in range(2)]
    assert own.others == {*ups, ("layers.1.mlp.down_proj", INT8_G16)}
    plain = load_model(path, device="cpu", dtype="float32", quantization="none").network
    for name, weight in model.network.named_modules():
        if weight in packed_weights(model.network):
            exact = any(part in name for part in ("gate", "up", "q_proj", "k_proj", "o_proj", "embed"))
            atol = 0 if exact else 2e-2 if "v_proj" in name else 4e-3  # of numbers up to 4
            torch.testing.assert_close(unpack(weight.packed), plain.get_parameter(name), rtol=0, atol=atol)
    found, expected = logits(load_model(path, device="cpu")), logits(model)
    assert ((found - expected).norm() / expected.norm()).item() < 0.1  # in bf16, unpacked as well


@needs_kernels
def test_a_card_keeps_four_bits_where_its_kernels_read_them(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = card_of("24GB")
    kept = plan_model(file, device=card)
    assert (kept.quantization, kept.precision) == ("as stored", Precision(attention=UINT4, dense=UINT4))
    assert kept.dtype == "bfloat16"
    unpacked = plan_model(file, device=card, quantization="none")
    packed = [kept.parts[part] / unpacked.parts[part] for part in ("attention", "dense")]
    assert packed == [5 / 16] * 2  # 4 bits, and 32 for 32 inputs, in place of 16
    assert plan_model(file, device=card, dtype="float32").quantization == "none"
    monkeypatch.setattr("engine.kernels.why_plain", lambda _device: "the card is too old")
    assert plan_model(file, device=card).quantization == "none"


@needs_kernels
def test_a_file_too_large_for_a_card_is_packed_again(tmp_path: Path) -> None:
    path = gguf_files.small(tmp_path / "small.gguf", EMBEDDED, "llama", gguf_files.q8_0)
    kept = plan_model(path, 64, device=card_of("24GB"))
    assert (kept.quantization, kept.precision) == ("as stored", Precision(attention=INT8, dense=INT8))
    smaller = plan_model(path, 64, device=AbsentCard("small", kept.total_bytes - 1))
    assert (smaller.quantization, smaller.fits) == ("int4", True)


def test_settings_and_traces_know_it(file: Path, tmp_path: Path) -> None:
    settings = run_settings(file)
    assert settings.decoders == ("autoregressive",)
    assert settings.defaults == load_model(file, device="cpu").generation_defaults
    before = fingerprint(file)
    data = file.read_bytes()
    other = tmp_path / "other.gguf"
    other.write_bytes(data[:-8] + bytes(8))
    assert before == fingerprint(file) != fingerprint(other)


def test_a_model_that_denoises_is_imported(tmp_path: Path) -> None:
    path = gguf_files.tiny(tmp_path / "tiny.gguf", EMBEDDED)
    with pytest.raises(SafelightError, match="is a GGUF file; import it first: safelight quantize FILE FOLDER"):
        load_model(path)
