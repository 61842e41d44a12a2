"""Plans of published models with masks, against arithmetic on their tensors and their passes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine import kernels
from engine.files import write_json
from engine.kernels import cpu_int4
from engine.layers.embedding import LOGITS_AT_ONCE
from engine.memory import plan as planning
from engine.memory.machine import card_of
from engine.models.folder import ModelFolder
from tests.engine.published import PUBLISHED

ROOMY = 200 * 10**9


@dataclass(frozen=True)
class Sizes:
    """Sizes that a pass depends on, as their authors publish them."""

    hidden: int
    width: int  # of an MLP
    layers: int
    heads: int
    keys: int
    vocabulary: int
    context: int  # planned for
    block: int
    head: int = 128
    chosen: int = 0  # experts of a token
    expert: int = 0  # width of one

    def kept(self) -> int:
        """Bytes of keys and values in 16 bits, in buffers of a multiple of 512 tokens."""
        tokens = -(-(self.context + self.block) // 512) * 512
        return self.layers * 2 * self.keys * self.head * 2 * tokens


SIZES = {
    "LLaDA-8B": Sizes(4096, 12288, 32, 32, 32, 126464, 4064, 32),
    "LLaDA-MoE-7B-A1B": Sizes(2048, 0, 16, 16, 16, 157184, 8160, 32, chosen=8, expert=1024),
    "Dream-7B": Sizes(3584, 18944, 28, 28, 4, 152064, 32768, 512),
    "Fast-dLLM v2 1.5B": Sizes(1536, 8960, 28, 12, 2, 151936, 32736, 32),
    "Fast-dLLM v2 7B": Sizes(3584, 18944, 28, 28, 4, 152064, 32736, 32),
    "dllm Qwen3-0.6B": Sizes(1024, 3072, 28, 16, 8, 151936, 32768, 32),
    "RND1": Sizes(2048, 0, 48, 32, 4, 151936, 8192, 256, chosen=8, expert=768),
    "SDAR-8B": Sizes(4096, 12288, 36, 32, 8, 151936, 16352, 4),
}
WHOLE = set(SIZES) - {"Fast-dLLM v2 1.5B", "Fast-dLLM v2 7B", "SDAR-8B"}  # read all of a text in a pass


def weights(name: str, is_int4: bool, on_cpu: bool) -> float:
    """Bytes of all tensors: in 16 bits, or matrices in 4 bits (with a bf16 scale for 32) and in 8 bits.

    A processor's kernel reads a zero point with each scale. Of a model with experts only these take 4 bits.
    """
    four, total = 4 / 8 + (4 if on_cpu and cpu_int4.block() else 2) / 32, 0.0
    for tensor, size in PUBLISHED[name].tensors.items():
        ends = any(part in tensor for part in ("embed", "lm_head", "wte", "transformer.ff_out"))
        dense = not ends and not (SIZES[name].chosen and ".experts." not in tensor)
        is_plain = len(size) == 1 or "mlp.gate.weight" in tensor
        bits = 2.0 if is_plain or not is_int4 else four if dense else 1.0
        if ".experts." in tensor and is_int4:
            bits = 4 / 8 + 2 / 32
        total += math.prod(size) * bits
    return total


def pass_bytes(name: str, is_int4: bool, on_cpu: bool) -> float:
    """Bytes of a pass in 16 bits: three fp32 rows for residual stream, norm and result of a branch, and the branch."""
    own = SIZES[name]
    rows = own.context + own.block if name in WHOLE else 512
    seen, queries, keys = own.context + own.block, own.heads * own.head, own.keys * own.head
    mlp = rows * 2 * 3 * own.width
    copied = keys if on_cpu else queries * (own.heads > own.keys)  # reordered there, on a card one for each query head
    mask = 0 if name in WHOLE else rows * seen  # a byte a pair, and as numbers
    seeing = rows * 6 * queries + 4 * copied * seen + 2 * mask
    attention = rows * 4 * keys + max(rows * 14 * queries, seeing)  # 14: a norm in fp32
    experts = 0
    if own.chosen and is_int4 and not on_cpu:  # kernels keep a row for each expert of a token
        experts = rows * 2 * (2 * own.hidden + own.chosen * (own.expert + own.hidden))
    return rows * 12 * own.hidden + mask + max(mlp, attention, experts)


def vocabulary_bytes(name: str) -> float:
    """Bytes of a block's fp32 logits, with ten buffers of a piece of them."""
    own = SIZES[name]
    logits = 4 * own.block * own.vocabulary
    return max((3 if name in WHOLE else 2) * logits, logits + 10 * min(logits, 4 * LOGITS_AT_ONCE))


@pytest.mark.parametrize("quantization", ["none", "int4"])
@pytest.mark.parametrize("place", ["12GB", "cpu"])
@pytest.mark.parametrize("name", SIZES)
def test_an_independent_count_agrees_within_two_percent(
    name: str, place: str, quantization: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "why_plain", lambda device: "none" if device.type == "cpu" else None)
    monkeypatch.setattr(planning, "free_bytes", lambda _: ROOMY)
    on_cpu, is_int4, own = place == "cpu", quantization == "int4", SIZES[name]
    write_json(tmp_path / "config.json", PUBLISHED[name].raw)
    device = "cpu" if on_cpu else card_of(place)
    found = ModelFolder.open(tmp_path).plan(own.context, quantization, device, "bfloat16")
    parts = found.parts
    assert found.dtype == "bfloat16"
    stored = sum(parts[part] for part in ("experts", "attention", "dense", "embedding", "other"))
    assert stored == pytest.approx(weights(name, is_int4, on_cpu), rel=0.02)
    assert parts["other"] < 0.02 * stored  # norms, biases and routers
    assert parts["kv_cache"] == own.kept()
    stage, rows = vocabulary_bytes(name), pass_bytes(name, is_int4, on_cpu)
    libraries = 0 if on_cpu else 2 * 32 * 2**20
    stated = sum(parts[part] for part in ("process", "cuda_context", "reserve"))
    expected = weights(name, is_int4, on_cpu) + parts["kv_cache"] + libraries + max(rows, stage) + stated
    assert found.total_bytes == pytest.approx(expected, rel=0.02)
    assert found.fits is (found.total_bytes <= found.free_bytes)
