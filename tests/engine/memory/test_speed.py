"""Expected speeds: exact on a shape that was computed by hand, never less for more work."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
import torch

from engine import SKILLS
from engine.benchmarks.product_calls import reference_config, reference_precision
from engine.benchmarks.products import CANDIDATES
from engine.config import ModelConfig
from engine.kernels import cpu_int4
from engine.kernels.measurement import MeasuredSetting, Measurement, Timed
from engine.memory.footprint import Mode
from engine.memory.pass_work import AttentionLayers, ExpertLayers, MatrixProduct, PassWork, pass_work
from engine.memory.reference_pass import FAMILIES as FAMILIES_MEASURED
from engine.memory.reference_pass import HIDDEN, KINDS, TEXT, Family, Kind, kind_of, reference_work
from engine.memory.speed import CONTEXT, SERVING, expected, speed_of
from engine.models.causal.network import CausalNetwork
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.opening import plan_model
from engine.models.registry import FAMILIES
from engine.quant import PRECISIONS, Precision
from tests.engine.packing import SHAPE
from tests.engine.tiny import CONFIG

SECONDS = {  # of a product of one row with a matrix of 1000 numbers
    "fp32": 1.0,
    "bf16": 0.5,
    "int8 torch": 0.2,
    "int8 decoded": 0.3,
    "int4 torch": 0.1,
    "int4 decoded": 0.4,
    "nf4 decoded": 0.6,
    "experts int4": 0.05,
    "attention fp32": 0.01,
    "attention bf16": 0.02,
    "vocabulary int8": 0.001,
    "sampler": 2.0,
    "drawing": 3.0,
    "rest causal fp32": 0.07,
    "rest causal bf16": 0.08,
    "rest diffusion fp32": 0.09,
    "rest diffusion bf16": 0.11,
    "read": 1e-6,
    **{f"layer {family} {kind}": 1e-9 for family in FAMILIES_MEASURED for kind in KINDS},
}


def in_proportion(skipped: str = "", scale: float = 1.0) -> Measurement:
    """A machine on which each time is in proportion to the numbers of the matrix and to the rows, on one thread."""
    times = [
        Timed(name, 1, 1, size, rows, scale * seconds * size / 1000 * rows)
        for name, seconds in SECONDS.items()
        if name != skipped
        for size in (1, 2**14)
        for rows in (1, 2**6)
    ]
    return Measurement(MeasuredSetting("", "", "", 1, ""), tuple(times))


def work(**changes: object) -> PassWork:
    made = PassWork(
        is_bf16=False,
        hidden=100,
        vocabulary=1000,
        canvas=10,
        depth=2,
        products=(MatrixProduct("fp32", 100, 20, 3),),
        experts=(),
        attention=(AttentionLayers(40, None, 2),),
        head=MatrixProduct("fp32", 100, 1000),
        fed_back=(),
        denoises=False,
        is_program=False,
        reads_whole=False,
        in_steps=False,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_a_token_takes_the_sum_of_its_parts() -> None:
    found = expected(work(), in_proportion(), 1, context=49)
    assert found is not None
    layers = 2 * 0.07 * 0.1 + 3 * 1.0 * 2 + 2 * 0.01 * 50 * 40 / 1000
    assert found.tokens_per_second == pytest.approx(1 / (layers + 100.0 + 3.0))
    rows = 49
    piece = 49 * (2 * 0.07 * 0.1 + 3 * 1.0 * 2 + 2 * 0.01 * (rows + 24) * 40 / 1000)
    assert found.prefill_tokens_per_second == pytest.approx(rows / piece)
    assert (found.step_seconds, found.context, found.rows) == (None, 49, 10)


def test_a_denoising_step_also_feeds_back_and_samples() -> None:
    plain = work(denoises=True, in_steps=True, fed_back=(MatrixProduct("fp32", 100, 100, 1),))
    found = expected(plain, in_proportion(), 1, context=0)
    assert found is not None
    layers = 2 * 0.09 * 0.1 + 3 * 2.0 + 2 * 0.01 * 10 * 40 / 1000
    assert found.step_seconds == pytest.approx(10 * (layers + 10.0 + 2 * 100.0 + 2.0))
    program = dataclasses.replace(plain, is_program=True, is_bf16=True, head=MatrixProduct("int8", 100, 1000))
    stage = expected(program, in_proportion(), 1, context=0)
    assert stage is not None
    layers = 2 * 0.11 * 0.1 + 3 * 2.0 + 2 * 0.02 * 10 * 40 / 1000
    assert stage.step_seconds == pytest.approx(10 * (layers + 10.0 + 0.001 * 100 * 1000 / 1000))


def test_a_token_in_c_takes_its_weights_and_the_keys_beyond_the_reference() -> None:
    products = (
        MatrixProduct("int4", 100, 20, 4),
        MatrixProduct("int8 groups", 100, 10, 2),
        MatrixProduct("fp32", 10, 10),
    )
    dense = work(in_c=True, products=products, head=MatrixProduct("int8", 100, 1000))
    few = {"few int4": 0.004, "few int8": 0.007, "few attention": 0.0003}  # for 1000 weights, or keys times numbers
    made = in_proportion()
    times = [Timed(name, 1, 1, size, 1, seconds * size / 1000) for name, seconds in few.items() for size in (1, 2**21)]
    whole = dataclasses.replace(made, times=(*made.times, *times))
    weights = 8 * 0.004 + 2 * 0.007 + 0.1 * 1e-6 + 100 * 0.007
    for context, keys in ((100, 0), (TEXT + 50, 50)):
        found = expected(dense, whole, 1, context)
        assert found is not None
        seconds = weights + 2 * keys * 40 / 1000 * 0.0003 + 3.0
        assert found.tokens_per_second == pytest.approx(1 / seconds)
    by_torch = expected(dense, made, 1, 100)
    assert by_torch is not None
    assert (
        by_torch.tokens_per_second == expected(dataclasses.replace(dense, in_c=False), whole, 1, 100).tokens_per_second
    )  # type: ignore[union-attr]


def test_a_window_bounds_the_keys() -> None:
    near = work(attention=(AttentionLayers(40, 8, 2),))
    few, many = (expected(near, in_proportion(), 1, context) for context in (7, 4000))
    assert few is not None
    assert many is not None
    assert few.tokens_per_second == many.tokens_per_second


def test_experts_are_those_that_some_row_chose() -> None:
    stack = ExpertLayers("int4", 8, 2, 10, 100, 1)
    one = expected(work(products=(), attention=(), experts=(stack,), is_bf16=True), in_proportion(), 1, 1)
    assert one is not None
    rest = 2 * 0.08 * 0.1
    assert one.tokens_per_second == pytest.approx(1 / (rest + 2 * 3 * 0.05 + 100.0 + 3.0))


def test_a_product_takes_at_least_as_long_as_its_weights_take_to_be_read() -> None:
    slow = in_proportion("read")
    slow = dataclasses.replace(slow, times=(*slow.times, Timed("read", 1, 1, 1, 1, 0.004)))
    found = expected(work(attention=()), slow, 1, 1)
    assert found is not None
    assert found.tokens_per_second == pytest.approx(1 / (2 * 0.007 + 3 * 2000 * 0.004 + 100_000 * 0.004 + 3.0))


@pytest.mark.parametrize(("rows", "seconds"), [(16, 16 * 0.1), (17, 17 * 0.4), (64, 64 * 0.4)])
def test_rows_choose_the_product_by_the_measured_limit(rows: int, seconds: float) -> None:
    """The kernel of few rows takes longer than decoding from 17 rows on."""
    made = in_proportion("int4 torch")
    bent = [
        Timed("int4 torch", 1, 1, 2**14, count, time * 2**14 / 1000)
        for count, time in ((1, 0.1), (16, 1.6), (17, 17.0), (64, 64.0))
    ]
    one = work(canvas=rows, in_steps=True, attention=(), products=(MatrixProduct("int4", 128, 128),))
    without = dataclasses.replace(one, products=())
    full, empty = (
        expected(each, dataclasses.replace(made, times=(*made.times, *bent)), 1, 0) for each in (one, without)
    )
    assert full is not None
    assert empty is not None
    assert full.step_seconds is not None
    assert empty.step_seconds is not None
    assert full.step_seconds - empty.step_seconds == pytest.approx(seconds * 2**14 / 1000)


def test_a_model_that_reads_whole_texts_only_takes_steps() -> None:
    found = expected(work(reads_whole=True, in_steps=True), in_proportion(), 1, context=30)
    assert found is not None
    layers = 2 * 0.07 * 0.1 + 3 * 2.0 + 2 * 0.01 * 40 * 40 / 1000
    assert found.step_seconds == pytest.approx(40 * layers + 10 * (100.0 + 3.0))
    assert found.tokens_per_second is found.prefill_tokens_per_second is None


@pytest.mark.parametrize(("hidden", "longer"), [(50, 0.25), (128, 0.25), (352, 0.5), (576, 0.75), (4096, 0.75)])
def test_calls_take_longer_one_after_another(hidden: int, longer: float) -> None:
    """By what whole small layers take beyond their parts: a quarter of a second at 128, three quarters at 576."""
    alone = in_proportion("layer causal fp32")
    layers = []
    for size in HIDDEN:
        own = reference_work("causal", "fp32", size, True)
        speed = expected(own, in_proportion(), 1, TEXT)
        assert speed is not None
        assert speed.tokens_per_second is not None
        rest = own.head.weights / 1000 + 3.0 * own.vocabulary / 1000
        layers.append((1 / speed.tokens_per_second - rest) / own.depth)
    times = [
        Timed("layer causal fp32", 1, size, 1, 1, layer + more)
        for size, layer, more in zip(HIDDEN, layers, (0.25, 0.75), strict=True)
    ]
    made = dataclasses.replace(alone, times=(*alone.times, *times))
    fast, slow = (expected(work(hidden=hidden), each, 1, 1) for each in (in_proportion(), made))
    assert fast is not None
    assert slow is not None
    assert fast.tokens_per_second is not None
    assert slow.tokens_per_second is not None
    assert 1 / slow.tokens_per_second - 1 / fast.tokens_per_second == pytest.approx(2 * longer, rel=1e-3)


@pytest.mark.parametrize("family", FAMILIES_MEASURED)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_work_of_a_reference_is_that_of_its_network(family: Family, kind: Kind, hidden: int) -> None:
    precision, dtype = reference_precision(family, kind)
    config = reference_config(family, hidden)
    build = CausalNetwork if family == "causal" else DiffusionGemma
    found = pass_work(build, config, Mode(dtype, precision, on_cpu=True, has_kernels=False), family != "causal")  # type: ignore[arg-type]
    meant = reference_work(family, kind, hidden, cpu_int4.block() > 0)

    def sums(products: tuple[MatrixProduct, ...]) -> dict[MatrixProduct, int]:
        counts = Counter[MatrixProduct]()
        for one in products:
            counts[dataclasses.replace(one, count=1)] += one.count
        return counts

    assert sums(found.products) == sums(meant.products)
    assert (found.experts, set(found.attention)) == (meant.experts, set(meant.attention))
    assert (found.is_bf16, found.hidden, found.depth, found.head) == (
        meant.is_bf16, meant.hidden, meant.depth, meant.head
    )  # fmt: skip
    assert kind_of(found) == kind


@pytest.mark.parametrize("name", ["fp32", "rest causal fp32", "attention fp32", "drawing", "read"])
def test_nothing_is_guessed_without_a_measured_part(name: str) -> None:
    assert expected(work(), in_proportion(name), 1) is None


@pytest.mark.parametrize("precision", ["none", "int4", "nf4"])
def test_more_work_never_takes_less(precision: str) -> None:
    def steps(config: ModelConfig, context: int) -> tuple[float, float]:
        mode = Mode.on_device(torch.device("cpu"), torch.bfloat16, PRECISIONS[precision])
        found = expected(pass_work(DiffusionGemma, config, mode, True), in_proportion(), 1, context)
        assert found is not None
        assert found.step_seconds is not None
        assert found.tokens_per_second is not None
        return found.step_seconds, 1 / found.tokens_per_second

    config = dataclasses.replace(CONFIG, **SHAPE)
    base = steps(config, 64)
    for more in (
        {"canvas_length": 20},
        {"intermediate_size": 128},
        {"vocab_size": 256},
        {"moe_intermediate_size": 128},
    ):
        step, token = steps(dataclasses.replace(config, **more), 64)
        assert step > base[0]
        assert token >= base[1]
    assert steps(config, 128) > base


def test_the_work_is_that_of_the_whole_network() -> None:
    """Every product of a network with all its layers, and none of its vision tower."""
    config = dataclasses.replace(CONFIG, num_experts=16)
    mode = Mode(torch.float32, Precision(), on_cpu=True, has_kernels=False)
    found = pass_work(DiffusionGemma, config, mode, True)
    network = DiffusionGemma(config)
    linears = {path: module for path, module in network.named_modules() if isinstance(module, torch.nn.Linear)}
    own = {path for path in linears if path.startswith("self_conditioning")}
    for parts, paths in ((found.products, linears.keys() - own), (found.fed_back, own)):
        assert sum(one.count * one.weights for one in parts) == sum(linears[path].weight.numel() for path in paths)
    assert found.experts == (ExpertLayers("fp32", 16, 2, 32, 16, 3),)
    assert {(one.width, one.window, one.count) for one in found.attention} == {(32, 8, 2), (64, None, 1)}
    assert found.head == MatrixProduct("fp32", 32, config.vocab_size)


def test_plans_on_a_processor_have_a_speed() -> None:
    planned = plan_model(SKILLS, device="cpu")
    found = speed_of(planned, in_proportion())
    assert found is not None
    assert found.context == min(CONTEXT, planned.context)
    assert found.step_seconds is not None
    assert speed_of(planned, None) is None
    assert speed_of(dataclasses.replace(planned, work=None), in_proportion()) is None
    assert speed_of(dataclasses.replace(planned, free_bytes=0), in_proportion()) is None


def test_families_say_how_they_write() -> None:
    found = {name: family.in_steps for name, family in FAMILIES.items()}
    assert (found["diffusion_gemma"], found["llama"], found["qwen3"]) == (True, False, False)


def test_what_a_speed_is_made_of_is_measured() -> None:
    names = {candidate.name for candidate in CANDIDATES}
    assert {name for line in SERVING.values() for name, _ in line} | SECONDS.keys() <= names
