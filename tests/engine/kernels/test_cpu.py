"""Products of packed weights on a CPU against the oracle in fp32, and the memory that they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine import GenerationFinished, generate, load_model
from engine.config import GELU, Activation
from engine.kernels import cpu, cpu_decode, cpu_int4, cpu_int8, cpu_vocabulary, cpu_w4a8, reference, reference_step
from engine.layers.attention import attend
from engine.layers.packed_linear import PackedExperts
from engine.models.folder import quantize
from engine.quant import (
    FP4_F32,
    INT4,
    INT4_G64,
    INT8,
    NF4,
    NF4_F32,
    NVFP4,
    UINT4,
    Packed,
    Scheme,
    pack,
    unpack,
)
from tests.engine.kernels.blocks import DRAWS, choices, in_blocks, random
from tests.engine.packing import released
from tests.engine.tiny import tokens

SCHEMES = [NF4, NF4_F32, FP4_F32, INT4, INT4_G64, INT8, NVFP4]
BOUNDS = {torch.float32: 2e-6, torch.bfloat16: 8e-3}  # relative, of the norm


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    DRAWS.manual_seed(0)
    monkeypatch.setattr(cpu, "has_bf16_units", lambda: True)


def relative(found: Tensor, expected: Tensor) -> float:
    return float((found.float() - expected).norm() / expected.norm())


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("scheme", [*SCHEMES, UINT4], ids=str)
def test_linear_agrees_with_the_oracle(scheme: Scheme, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "AT_ONCE", 20 * 192)  # pieces of 20 rows, decoded by 7
    monkeypatch.setattr(cpu_decode, "DECODED", 7 * 192)
    weight, x = pack(random(75, 192), scheme), random(2, 3, 192).to(dtype)
    found = cpu.linear(x, weight)
    assert found.dtype == dtype
    assert found.shape == (2, 3, 75)
    assert relative(found, reference.linear(x.float(), weight)) < BOUNDS[dtype]


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("scheme", "activation"), [*((scheme, GELU) for scheme in SCHEMES), (NF4, "silu")], ids=str)
def test_experts_agree_with_the_oracle(scheme: Scheme, activation: Activation, dtype: torch.dtype) -> None:
    gate_up, down = pack(random(7, 128, 192), scheme), pack(random(7, 192, 64), scheme)
    x, weights = random(9, 192).to(dtype), torch.rand(9, 3, generator=DRAWS)
    chosen = choices(9, 3, 6)  # the seventh has nothing to do
    found = cpu.experts(x, weights, chosen, gate_up, down, activation)
    assert found.dtype == dtype
    assert relative(found, reference.experts(x.float(), weights, chosen, gate_up, down, activation)) < BOUNDS[dtype]


def test_without_bf16_units_bf16_is_multiplied_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "has_bf16_units", lambda: False)
    weight, x = pack(random(75, 192), INT4), random(3, 192).bfloat16()
    exact = reference.linear(x.float(), weight)
    assert torch.equal(cpu.linear(x, weight), exact.bfloat16()) or relative(cpu.linear(x, weight), exact) < 2e-3


@pytest.mark.parametrize("dtype", BOUNDS)
def test_expectation_agrees_with_the_oracle(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "AT_ONCE", 20 * 64)
    table, p = pack(random(75, 64), INT8), torch.rand(2, 3, 75, generator=DRAWS).to(dtype)
    assert relative(cpu.expectation(p, table), reference.expectation(p.float(), table)) < BOUNDS[dtype]


@pytest.mark.parametrize(("text_rows", "window"), [(0, None), (0, 8), (5, None), (5, 8), (5, 100)])
def test_attention_agrees_with_the_oracle(text_rows: int, window: int | None) -> None:
    queries, keys, values = random(4, 12, 16), random(2, 60, 16), random(2, 60, 16)
    end = 40
    first = 0 if window is None else max(0, end - 12 + text_rows - (window - 1))
    span = torch.tensor([first, end], dtype=torch.int32)
    found = cpu.attention(queries, keys, values, span, text_rows, window)
    expected = reference_step.attention(queries, keys, values, span, text_rows, window)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("heads", "key_heads"), [(6, 2), (4, 4), (3, 1)])
@pytest.mark.parametrize("rows", [1, 3, cpu.FEW_QUERIES])
def test_few_bf16_queries_are_written_out_as_exactly(
    rows: int, heads: int, key_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "KEYS_AT_ONCE", 50 * 16)  # one head of keys at a time
    queries = random(2, rows, heads, 16).bfloat16().transpose(1, 2)
    room = random(2, 2, key_heads, 60, 16).bfloat16()
    keys, values = room[0, ..., 4:54, :], room[1, ..., 4:54, :]  # as a cache has them
    mask = None if rows == 1 else torch.ones(rows, 50, dtype=torch.bool).tril(50 - rows)
    with torch.inference_mode(), monkeypatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", None)
        found = attend(queries, keys, values, mask)
    assert found.dtype == torch.bfloat16
    exact = F.scaled_dot_product_attention(
        queries.double(), keys.double(), values.double(), attn_mask=mask, scale=1.0, enable_gqa=True
    )
    torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=1e-5)  # one rounding to bf16


def test_many_queries_and_fp32_are_left_to_torch() -> None:
    for rows, dtype in ((cpu.FEW_QUERIES + 1, torch.bfloat16), (1, torch.float32)):
        queries, keys, values = (random(1, 2, count, 16).to(dtype) for count in (rows, 50, 50))
        expected = F.scaled_dot_product_attention(queries, keys, values, scale=1.0)
        assert torch.equal(attend(queries, keys, values, None), expected)


def knobs(**more: Any) -> dict[str, Any]:
    return {"temperature": torch.tensor([0.7]), "draw": torch.tensor([5, 2]), "cap": 30.0, "embed_scale": 8.0, **more}


@pytest.mark.parametrize("case", ["plain", "banned", "pinned", "several runs", "no numbers"])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_the_vocabulary_by_pieces_is_the_whole(dtype: torch.dtype, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four pieces, the last one short; one of them may be banned altogether, at the beginning or behind it."""
    monkeypatch.setattr(cpu_vocabulary, "PIECE", 256)
    table, hidden = pack(random(900, 64), INT8), (3 * random(17, 64)).to(dtype)
    places, forbidden = torch.arange(17), torch.zeros(900, dtype=torch.bool)
    settings = knobs()
    match case:
        case "banned":
            forbidden[:256] = forbidden[600:700] = True
            settings = knobs(forbidden=forbidden)
        case "pinned":
            settings = knobs(pinned=torch.where(places % 6 == 3, 700 - places, -1).int())
        case "no numbers":
            hidden[2, 5] = torch.nan
        case "several runs":
            draws = torch.stack([places // 3 + (1 << 40), 7 - places, places], dim=1)
            settings = knobs(temperature=0.4 + places / 20, draw=draws)
    found = cpu_vocabulary.vocabulary_stage(hidden, table, **settings)
    expected = reference_step.vocabulary_stage(hidden, table, **settings)
    assert int(found.nonfinite) == int(expected.nonfinite) == (case == "no numbers")
    if case == "no numbers":
        return
    assert found.soft.dtype == dtype
    assert relative(found.soft, expected.soft.float()) < max(1e-5, 2 * BOUNDS[dtype])
    atol = 1e-4 if dtype == torch.float32 else 0.1  # in bf16 a logit is rounded, as the plain path does
    for name in ("entropy", "logsumexp", "probability"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), atol=atol, rtol=0)
    if dtype == torch.float32:
        assert torch.equal(found.argmax, expected.argmax)
        assert torch.equal(found.candidate, expected.candidate)
    assert (found.argmax == expected.argmax).float().mean() > 0.8
    assert not forbidden[found.candidate].any()


class LargestTensor(TorchDispatchMode):
    """The bytes of the largest memory that any operation gives back, weights apart."""

    def __init__(self, *weights: Packed) -> None:
        super().__init__()
        given = [part for weight in weights for part in (weight.codes, weight.scales)]
        self.known, self.most = {part.untyped_storage().data_ptr() for part in given}, 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, for a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        made = [leaf.untyped_storage() for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]
        self.most = max([self.most, *(memory.nbytes() for memory in made if memory.data_ptr() not in self.known)])
        return found


@pytest.mark.parametrize("scheme", [NF4, INT4], ids=str)
def test_no_more_than_a_piece_is_unpacked_at_once(scheme: Scheme, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a stack of experts nor a whole matrix nor logits over the vocabulary."""
    monkeypatch.setattr(cpu, "AT_ONCE", 16 * 1024)
    monkeypatch.setattr(cpu_decode, "DECODED", 4 * 1024)
    monkeypatch.setattr(cpu_vocabulary, "PIECE", 128)
    codes = torch.randint(0, 256, (8, 512, 128), dtype=torch.uint8, generator=DRAWS)
    scales = torch.ones(8, 256 // scheme.group_size, 512).bfloat16()
    widen, narrow = (Packed(codes[:, :rows], scales[..., :rows].contiguous(), scheme) for rows in (512, 256))
    x, chosen = torch.ones(4, 256).bfloat16(), torch.arange(8).view(4, 2)
    with LargestTensor(widen, narrow) as seen:
        cpu.experts(x, torch.ones(4, 2), chosen, widen, narrow)
    assert seen.most <= 16 * 1024 * 2
    table = pack(random(4096, 64), INT8)
    with LargestTensor(table) as seen:
        cpu.linear(x[:, :64], table)
        cpu_vocabulary.vocabulary_stage(x[:, :64], table, **knobs())
    assert seen.most <= 4 * 4096 * 4


# --- codes in blocks of rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize("scheme", [INT4, INT4_G64], ids=str)
def test_codes_in_blocks_mean_the_same_weight(scheme: Scheme, block: int) -> None:
    """The matrix, one of a stack, some rows of it, and by slices."""
    tiles = pack(random(3, 192, 128), scheme)
    blocks = in_blocks(tiles, block)
    assert not torch.equal(blocks.codes, tiles.codes)
    assert torch.equal(unpack(blocks), unpack(tiles))
    assert torch.equal(unpack(blocks[1].rows(64, 128)), unpack(tiles[1])[64:128])
    assert torch.equal(torch.cat([rows for _, rows in reference.slices(blocks[2])]), unpack(tiles[2]))


def test_where_torch_reads_other_blocks_codes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor's layout is tried, not believed."""
    for capability, rows in (("DEFAULT", {}), ("ODD", {"ODD": 16})):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda name=capability: name)
        monkeypatch.setattr(cpu_int4, "ROWS", rows)
        assert cpu_int4.block.__wrapped__() == 0
    monkeypatch.setattr(cpu_int4, "block", lambda: 64)
    assert cpu_int4.block_for(pack(random(96, 64), INT4)) == 0
    assert cpu_int4.block_for(pack(random(128, 64), NF4)) == 0
    assert cpu_int4.block_for(pack(random(128, 64), INT4)) == 64


needs_int4 = pytest.mark.skipif(cpu_int4.block() == 0, reason="this processor has no int4 kernel in torch")


@needs_int4
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("scheme", [INT4, INT4_G64], ids=str)
def test_experts_in_blocks_agree_with_the_oracle(
    scheme: Scheme, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch's kernel; ``test_cpu_w4a8`` has ours."""
    monkeypatch.setattr(cpu_w4a8, "serves", lambda _: False)
    gate_up, down = pack(random(5, 128, 192), scheme), pack(random(5, 192, 64), scheme)
    x, weights = random(40, 192).to(dtype), torch.rand(40, 3, generator=DRAWS)
    chosen = choices(40, 3, 4)
    found = cpu.experts(x, weights, chosen, *(in_blocks(one, cpu_int4.block()) for one in (gate_up, down)))
    assert found.dtype == dtype
    assert relative(found, reference.experts(x.float(), weights, chosen, gate_up, down)) < BOUNDS[dtype]


@needs_int4
@pytest.mark.parametrize("count", [1, 32, 129])
def test_uint4_in_blocks_agrees_with_the_oracle(count: int) -> None:
    """The int4 kernel, and decoding for many tokens: both with scales and zero points rounded to bf16."""
    tiles, x = pack(random(128, 512) + 0.3, UINT4), random(count, 512).to(torch.bfloat16)
    blocks = in_blocks(tiles, cpu_int4.block())
    assert relative(unpack(blocks), unpack(tiles)) < 2e-3
    assert torch.equal(unpack(blocks.rows(64, 128)), unpack(blocks)[64:])
    found = cpu.linear(x, blocks)
    assert relative(found, reference.linear(x.float(), blocks)) < 4e-3
    assert relative(found, reference.linear(x.float(), tiles)) < BOUNDS[torch.bfloat16]


@needs_int4
@pytest.mark.parametrize(
    ("count", "dtype"), [(1, torch.bfloat16), (32, torch.bfloat16), (129, torch.bfloat16), (3, torch.float32)], ids=str
)
def test_linear_in_blocks_agrees_with_the_oracle(
    count: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The int4 kernel or decoding, rows shared by two threads; a few blocks are unpacked at once, if any."""
    monkeypatch.setattr(cpu, "AT_ONCE", 100 * 512)
    monkeypatch.setattr(cpu, "LEAST_WORK", 1 << 22)
    tiles, x = pack(random(640, 512), INT4), random(count, 512).to(dtype)
    weight = in_blocks(tiles, cpu_int4.block())
    with LargestTensor(weight) as seen:
        found = cpu.linear(x, weight)
    assert relative(found, reference.linear(x.float(), tiles)) < BOUNDS[dtype]
    assert seen.most <= 4 * 100 * 512


needs_int8 = pytest.mark.skipif(not cpu_int8.is_fast(), reason="this processor has no int8 kernel in torch")


@needs_int8
@pytest.mark.parametrize(
    ("tokens", "inputs", "offset", "is_decoded"),
    [(1, 192, 0, False), (4, 192, 0, False), (5, 192, 0, True), (1, 200, 0, True), (1, 192, 8, True)],
)
def test_a_few_tokens_by_8_bit_rows_decode_none(
    tokens: int, inputs: int, offset: int, is_decoded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are scales rounded. The kernel reads 16 inputs at a time, from an address that is a multiple of that."""
    decoded = list[Packed]()
    fill = cpu_decode.Int8Rows.fill
    monkeypatch.setattr(cpu_decode.Int8Rows, "fill", lambda self, *args: (decoded.append(args[0]), fill(self, *args)))
    monkeypatch.setattr(cpu, "LEAST_WORK", 1 << 14)  # rows are shared by two threads
    weight, x = pack(random(75, inputs), INT8), random(tokens, inputs).bfloat16()
    room = torch.empty(75 * inputs + offset, dtype=torch.int8)[offset:].view(75, inputs).copy_(weight.codes)
    found = cpu.linear(x, Packed(room, weight.scales, INT8))
    assert bool(decoded) == is_decoded
    torch.testing.assert_close(found.float(), reference.linear(x.float(), weight), rtol=2**-7, atol=1e-3)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_that_take_experts_of_their_own_come_to_the_same(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some experts have nothing to do; torch's threads are as before."""
    gate_up, down = pack(random(9, 128, 192), INT4), pack(random(9, 192, 64), INT4)
    x, weights = random(40, 192), torch.rand(40, 3, generator=DRAWS)
    chosen = choices(40, 3, 5) + 2
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        alone = cpu.experts(x, weights, chosen, gate_up, down)
        monkeypatch.setattr(cpu, "LEAST_PAIRS", 1)
        given_back: list[int] = []
        monkeypatch.setattr(cpu, "_trimming", lambda: given_back.append)
        for grad in (False, True):
            with torch.inference_mode(not grad):
                shared = cpu.experts(x.clone().requires_grad_(grad), weights, chosen, gate_up, down)
            torch.testing.assert_close(shared, alone, atol=1e-3, rtol=1e-4)
        assert torch.get_num_threads() == threads
        assert given_back == [0, 0]  # once a layer, and not for a little work
    finally:
        torch.set_num_threads(before)


@needs_int4
def test_a_loaded_store_is_put_into_blocks_and_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network in bf16 with its experts in blocks and in tiles, and gradients through them; the file stays."""
    source = released(tmp_path / "source")
    quantize(source, tmp_path / "store", "int4", torch.device("cpu"))
    before = {file: file.read_bytes() for file in (tmp_path / "store").iterdir()}
    blocks = load_model(tmp_path / "store", device="cpu")
    assert {file: file.read_bytes() for file in before} == before
    monkeypatch.setattr(cpu_int4, "block_for", lambda _: 0)
    monkeypatch.setattr(cpu_w4a8, "serves", lambda _: False)
    tiles = load_model(tmp_path / "store", device="cpu")
    found = []
    for model, block in ((blocks, cpu_int4.block()), (tiles, 0)):
        experts = model.network.layers[0].experts
        assert isinstance(experts, PackedExperts)
        assert (experts.gate_up_proj.block, experts.down_proj.block) == (block, block)
        cache = model.new_cache()
        hidden = model.prefill(tokens(20), cache)
        x = random(6, 128).bfloat16().requires_grad_()
        DRAWS.manual_seed(0)
        chosen = torch.tensor([[0, 1], [2, 3], [4, 5]] * 2)
        out = experts(x, torch.ones(6, 2), chosen)
        found.append((hidden, model.denoise(tokens(10), cache), torch.autograd.grad(out.float().square().sum(), x)[0]))
    for ours, theirs in zip(*found, strict=True):
        errors = (ours.float() - theirs.float()).norm(dim=-1) / theirs.float().norm(dim=-1)
        assert errors.median() < 0.03  # rows near a tie of a router may choose other experts


def test_a_packed_model_takes_programs_on_a_cpu(tmp_path: Path) -> None:
    """No logits over the vocabulary, no commit of its own, and two blocks of text."""
    model = load_model(released(tmp_path), device="cpu", dtype="bfloat16", quantization="int4")
    cache = model.new_cache()
    events = list(generate(model, tokens(5).tolist(), model.generation_defaults.replace(eos_token_ids=()), cache=cache))
    assert isinstance(events[-1], GenerationFinished)
    assert len(events[-1].tokens) == 30
    assert model.has_step_program
    plain = load_model(tmp_path, device="cpu", dtype="bfloat16", quantization="none")
    assert not plain.has_step_program
