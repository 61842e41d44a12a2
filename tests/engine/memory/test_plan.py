"""Plans against arithmetic written out here, a checkpoint's headers, a real cache and measured peaks."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.profiler import ProfilerActivity, profile

from engine import GenerationConfig, SafelightError, catalog, kernels, load_model
from engine.config import LayerConfig, ModelConfig
from engine.decoding.generate import generate
from engine.decoding.protocols import LaunchStep
from engine.decoding.sampler import Sampler
from engine.decoding.step_batch import launch_together
from engine.decoding.step_program import StepProgram
from engine.decoding.steppers import ProgramCache
from engine.files import read_json
from engine.kernels import cpu_int4
from engine.layers.kv_cache import cache_bytes
from engine.layers.packed_linear import install
from engine.memory import footprint
from engine.memory import plan as planning
from engine.memory.device import choose
from engine.memory.machine import card_of
from engine.memory.plan import require_room
from engine.memory.several import further_run, joint_workspace, program_bytes
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.folder import ModelFolder, quantize
from engine.models.opening import plan_model
from engine.quant import INT4, INT8, PRECISIONS, Precision
from tests.engine import packing
from tests.engine.tiny import CONFIG, FULL, SLIDING, ByProgram, checkpoint, network, tokens

REAL, GB = "26b-a4b", 10**9
WEIGHTS = ("experts", "attention", "dense", "embedding", "other", "vision")
ROOMY = 200 * GB


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how much memory is free."""

    def set_free(count: float) -> None:
        monkeypatch.setattr(planning, "free_bytes", lambda _: int(count))
        monkeypatch.setattr(planning, "total_bytes", lambda _: 24 * 2**30)

    set_free(ROOMY)
    return set_free


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profiler sees no other."""
    monkeypatch.setattr(footprint, "available_threads", lambda: 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


# --- the real shape ----------------------------------------------------------------------------------------------


def independent_count(context: int) -> dict[str, float]:
    """Bytes of the real shape by its published numbers: int4 with a bf16 scale for 32, int8, bf16 elsewhere.

    Sliding layers hold the window and the largest image.
    """
    hidden, layers, full = 2816, 30, 5
    experts = layers * 128 * (2 * 704 * hidden + hidden * 704)
    sliding_attention = (16 * 256 * 2 + 8 * 256 * 2) * hidden  # q and o; k and v
    full_attention = (16 * 512 * 2 + 2 * 512) * hidden  # q and o; k alone
    attention = (layers - full) * sliding_attention + full * full_attention
    dense = (layers + 1) * 3 * hidden * 2112  # and self-conditioning
    per_token = full * 2 * 2 * 512 * 2  # keys and values of two heads, bf16
    sliding_cache = (layers - full) * 2 * 8 * 256 * 2 * (1023 + 1120)
    return {
        "experts": experts * (4 / 8 + 2 / 32),
        "attention": attention,
        "dense": dense,
        "embedding": 262_144 * hidden,
        "other": layers * 128 * hidden * 2,  # the routers
        "kv_cache": per_token * (context + 256) + sliding_cache,
    }


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize("on_card", [False, True])
@pytest.mark.parametrize("context", [4096, 32_768])
def test_an_independent_count_agrees_within_two_percent(
    monkeypatch: pytest.MonkeyPatch, context: int, on_card: bool
) -> None:
    if on_card:
        pretend_cuda(monkeypatch)
    found = plan_model(REAL, context, "int4")
    expected = independent_count(context)
    assert found.precision == PRECISIONS["int4"]
    for part, count in expected.items():
        tolerance = 0.02 if part != "other" else 0.08  # norms are left out of the count
        assert found.parts[part] == pytest.approx(count, rel=tolerance), part
    counted = sum(found.parts[part] for part in expected)
    assert counted == pytest.approx(sum(expected.values()), rel=0.02)
    assert found.total_bytes == sum(found.parts.values())
    apart = ("process", "cuda_context", "reserve")
    assert set(found.parts) == {*WEIGHTS, "kv_cache", "activations", "workspace", *apart}
    assert (found.parts["cuda_context"] > 0.5e9) == on_card
    assert found.parts["reserve"] > 0.3e9
    assert (found.parts["process"] > 0) == (not on_card)
    assert found.parts["vision"] == (0 if on_card else pytest.approx(573e6, rel=0.06))  # parked on the host
    assert any("the vision tower, 0.6 GB, stays in" in note for note in found.notes) == on_card


def test_the_real_shape_takes_eighteen_gb_at_most_on_a_card_with_kernels(
    free: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    free(24 * GB)
    pretend_cuda(monkeypatch)
    found = plan_model(REAL, 32_768)
    assert (found.device, found.dtype, found.quantization) == ("cuda:0", "bfloat16", "int4")
    assert found.fits
    assert 15 * GB < found.total_bytes <= 18.0 * GB
    longest = plan_model(REAL, 262_144)
    assert found.parts["activations"] == longest.parts["activations"]  # nothing grows with the context
    for name in ("nf4", "nvfp4"):
        assert plan_model(REAL, 32_768, name).total_bytes < 18.0 * GB
    plain = plan_model(REAL, 32_768, "none")
    assert plain.parts["experts"] == 30 * 128 * 3 * 704 * 2816 * 2
    assert plain.parts["workspace"] > found.parts["workspace"]  # with (C, V) buffers


def test_what_a_context_has_taken_already_counts_as_free(
    free: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking a card how much is free makes the context, of which the plan counts the whole."""
    free(24 * GB)
    assert plan_model(REAL, 4096).free_bytes == 24 * GB
    pretend_cuda(monkeypatch)
    found = plan_model(REAL, 4096)
    assert found.free_bytes == 24 * GB + footprint.LEAST_CUDA_CONTEXT < 24 * GB + found.parts["cuda_context"]
    assert found.released_bytes == found.total_bytes - found.parts["cuda_context"] - found.parts["process"]


def pretend_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    place = choose("cpu", "bfloat16")
    there = dataclasses.replace(place, device=torch.device("cuda", 0))
    monkeypatch.setattr("engine.models.folder.choose", lambda *_: there)
    monkeypatch.setattr(kernels, "why_plain", lambda _: None)


def test_the_shape_is_the_published_one() -> None:
    config = ModelFolder.open(catalog.shape(REAL).folder).config
    assert [index for index, layer in enumerate(config.layers) if not layer.is_sliding] == [5, 11, 17, 23, 29]
    assert (config.layers[0].head_dim, config.layers[5].head_dim) == (256, 512)
    assert (config.layers[0].num_key_value_heads, config.layers[5].num_key_value_heads) == (8, 2)
    counted = sum(footprint.weights(DiffusionGemma, config, Precision(), torch.bfloat16).values()) / 2
    assert counted == pytest.approx(25.82e9, rel=0.001)
    with pytest.raises(SafelightError, match="there is no shape '9b'; choose one of: 26b-a4b"):
        catalog.shape("9b")
    with pytest.raises(SafelightError, match="26b-a4b is a shape without weights"):
        catalog.resolve(REAL)


# --- real files and buffers --------------------------------------------------------------------------------------


def header_bytes(folder: Path) -> dict[str, int]:
    found = dict.fromkeys(WEIGHTS, 0)
    for name, tensor in load_file(folder / "model.safetensors").items():
        if ".experts." in name:
            part = "experts"
        elif "self_attn" in name and "proj" in name:
            part = "attention"
        elif ("mlp" in name or "self_conditioning" in name) and "proj" in name:
            part = "dense"
        else:
            part = "embedding" if "embed_tokens" in name else "other"
        found[part] += tensor.nbytes
    return found


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(("dtype", "factor"), [("bfloat16", 1), ("float32", 2)])
def test_unpacked_weights_are_the_checkpoints_to_the_byte(tmp_path: Path, dtype: str, factor: int) -> None:
    folder = checkpoint(tmp_path)  # in bf16
    found = plan_model(folder, 100, dtype=dtype)
    assert {part: found.parts[part] for part in WEIGHTS} == {p: factor * n for p, n in header_bytes(folder).items()}
    assert found.quantization == "none"
    (folder / "model.safetensors").unlink()
    alone = plan_model(folder, 100, dtype=dtype)
    assert alone.parts == found.parts
    assert alone.notes == ("counted from config.json; the weights are not here yet",)


@pytest.mark.parametrize("name", PRECISIONS)
def test_packed_weights_are_the_networks_to_the_byte(name: str) -> None:
    config = packing.packable().config
    made = DiffusionGemma(config).to(torch.bfloat16)
    if PRECISIONS[name].is_packed:
        install(made, PRECISIONS[name], torch.bfloat16)
    real = sum(t.nbytes for t in (*made.parameters(), *made.buffers()))
    assert sum(footprint.weights(DiffusionGemma, config, PRECISIONS[name], torch.bfloat16).values()) == real


def tensors_in(*files: Path) -> list[torch.Tensor]:
    return [tensor for file in files for tensor in load_file(file).values()]


def test_the_adapter_that_a_model_drafts_with_is_counted(tmp_path: Path) -> None:
    whole, bare = catalog.resolve(catalog.MASKED), tmp_path / "bare"
    shutil.copytree(whole, bare, ignore=shutil.ignore_patterns("linear_spec_lora"))
    numbers = sum(one.numel() for one in tensors_in(whole / "linear_spec_lora" / "adapter_model.safetensors"))
    plans = [plan_model(str(folder), None, "none", "cpu", "float32") for folder in (whole, bare)]
    found, without = (plan.parts["other"] for plan in plans)
    assert found == without + 4 * numbers


def test_a_store_is_counted_as_it_is_stored(tmp_path: Path, free: Callable[[float], None]) -> None:
    source, folder = packing.released(tmp_path / "source"), tmp_path / "store"
    quantize(source, folder, "nf4", torch.device("cpu"))
    for room in (ROOMY, 1):
        free(room)
        found = plan_model(folder, 50)
        assert (found.quantization, found.precision, found.dtype) == ("as stored", PRECISIONS["nf4"], "bfloat16")
        assert sum(found.parts[part] for part in WEIGHTS) == sum(
            one.nbytes for one in tensors_in(*folder.glob("*.safetensors"))
        )
    assert "use quantization" not in found.advice
    with pytest.raises(SafelightError, match="use quantization auto"):
        plan_model(folder, 50, "int4")
    same = plan_model(source, 50, "nf4")
    assert same.parts == found.parts


@pytest.mark.usefixtures("free")
def test_a_published_int4_checkpoint_is_counted_as_it_is_loaded(tmp_path: Path) -> None:
    packing.published(packing.released(tmp_path / "source"), tmp_path / "int4")
    found = plan_model(tmp_path / "int4", 50)
    assert found.precision == Precision(INT4, INT4, INT8, INT8, INT8)
    config = packing.packable().config
    stored = footprint.weights(DiffusionGemma, config, found.precision, torch.bfloat16)
    assert all(found.parts[part] == stored[part] for part in WEIGHTS if part != "attention")
    network = load_model(tmp_path / "int4", device="cpu").network
    storages = [tensor.untyped_storage() for tensor in (*network.parameters(), *network.buffers())]
    kept = {storage.data_ptr(): storage.nbytes() for storage in storages}
    assert sum(found.parts[part] for part in WEIGHTS) == sum(kept.values())
    (tmp_path / "int4" / "model.safetensors").unlink()
    assert plan_model(tmp_path / "int4", 50).parts == found.parts


@pytest.mark.parametrize("context", [1, 30, 700, 3000])
@pytest.mark.parametrize("layers", [(SLIDING, FULL), (SLIDING, SLIDING), (FULL,)])
def test_the_caches_bytes_are_a_real_caches(context: int, layers: tuple[LayerConfig, ...]) -> None:
    model = network(layers=layers)
    cache = model.new_cache()
    config = GenerationConfig(max_new_tokens=1, max_denoising_steps=1)
    for _ in generate(model, tokens(context), config, cache=cache):
        pass
    expected = cache_bytes(model.config, context + model.config.canvas_length, 4)
    assert cache.nbytes == expected
    whole = -(-(context + 10) // 512) * 512
    kept = [min(whole, 7 + 512 + 10) if layer.is_sliding else whole for layer in layers]
    sizes = [2 * 4 * layer.num_key_value_heads * layer.head_dim for layer in layers]
    assert expected == sum(size * count for size, count in zip(sizes, kept, strict=True))


# --- what a run holds besides --------------------------------------------------------------------------------------

WIDE_SLIDING = LayerConfig("sliding_attention", 64, 2, 1e4, 1.0)
WIDE_FULL = LayerConfig("full_attention", 128, 1, 1e6, 0.25)
MIDDLE = dataclasses.replace(
    CONFIG,
    vocab_size=4096,
    hidden_size=256,
    intermediate_size=384,
    num_attention_heads=8,
    layers=(WIDE_SLIDING, WIDE_FULL),
    sliding_window=256,
    num_experts=16,
    moe_intermediate_size=128,
    canvas_length=64,
)


def measured_peak(config: ModelConfig, precision: Precision, dtype: torch.dtype, prompt: Any) -> int:
    """Returns the most bytes that a run holds at once besides weights and cache."""
    made = zeroed(DiffusionGemma, config, precision, dtype)
    cache = made.new_cache()
    cache.reserve(len(prompt) + 2 * config.canvas_length)
    settings = GenerationConfig(max_new_tokens=config.canvas_length + 1, max_denoising_steps=2, confidence_threshold=0)
    model: Any = ByProgram(made) if precision.is_packed and dtype == torch.bfloat16 else made
    return peak_of(lambda: generate(model, prompt, settings, cache=cache))


def zeroed(build: Callable[[Any], Any], config: ModelConfig, precision: Precision, dtype: torch.dtype) -> Any:
    """A network of equal numbers, so that all tokens choose the same experts."""
    with torch.device("meta"):
        made = build(config)
        if precision.is_packed:
            install(made, precision, dtype)
    made = made.to_empty(device="cpu").requires_grad_(False)
    for parameter in made.parameters():
        parameter.data = torch.full_like(parameter, 0.01, dtype=dtype)
    for buffer in made.buffers():
        buffer.fill_(0 if buffer.is_floating_point() else 1)
    return made


def peak_of(work: Callable[[], Iterable[object]]) -> int:
    """Returns the most bytes that some work holds at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        for _ in work():
            pass
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]  # type: ignore[union-attr]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("precision", ["none", "int4"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("changes", "context"),
    [
        ({"vocab_size": 16_384}, 150),
        pytest.param({}, 1300, marks=pytest.mark.slow),
        pytest.param({}, 100, marks=pytest.mark.slow),
        pytest.param({"num_experts": 4}, 500, marks=pytest.mark.slow),
        pytest.param({"num_attention_heads": 16}, 700, marks=pytest.mark.slow),
    ],
)
def test_activations_and_workspace_cover_what_a_run_holds(
    precision: str, dtype: torch.dtype, changes: dict[str, int], context: int
) -> None:
    """No less is planned than is measured, and at most 1.4 times as much."""
    config = dataclasses.replace(MIDDLE, **changes)
    mode = footprint.Mode(dtype, PRECISIONS[precision], on_cpu=True, has_kernels=False)
    parts = footprint.parts(DiffusionGemma, config, mode, context)
    peak = measured_peak(config, PRECISIONS[precision], dtype, torch.zeros(context, dtype=torch.long))
    assert 0.99 * peak <= parts["activations"] + parts["workspace"] <= 1.4 * peak


@pytest.mark.usefixtures("one_thread")
@torch.inference_mode()
def test_a_further_run_takes_its_cache_its_program_and_its_share_of_a_pass() -> None:
    """A pass of three runs that commit, against what is said of it."""
    mode, context, canvas = footprint.Mode(torch.bfloat16, PRECISIONS["int4"], True, False), 500, MIDDLE.canvas_length
    made = zeroed(DiffusionGemma, MIDDLE, PRECISIONS["int4"], torch.bfloat16)
    caches = [made.new_cache() for _ in range(3)]
    programs = []
    for cache in caches:
        cache.reserve(context + canvas)
        made.prefill(torch.zeros(context - canvas, dtype=torch.long), cache)
        programs.append(StepProgram(made, cache, canvas))
        ids = torch.zeros(canvas, dtype=torch.long)
        programs[-1].begin(ids, None, GenerationConfig(), ids)
    peak = peak_of(lambda: launch_together([LaunchStep(program, 0) for program in programs]) or ())
    assert 0.99 * peak <= joint_workspace(MIDDLE, mode, context, 3) <= 1.5 * peak
    assert held_by(programs[0]) == program_bytes(MIDDLE, mode)
    held = footprint.PROGRAM_CANVASES * program_bytes(MIDDLE, mode)
    assert [joint_workspace(MIDDLE, mode, context, runs) for runs in (0, 1)] == [0, 0]
    further = [further_run(MIDDLE, mode, context, running) for running in (1, 2)]
    two, three = (joint_workspace(MIDDLE, mode, context, runs) for runs in (2, 3))
    assert further[1] == caches[0].nbytes + held + three - two
    assert caches[0].nbytes + held <= further[0] <= further[1]


def held_by(program: StepProgram) -> int:
    own = [part for part in vars(program).values() if isinstance(part, torch.Tensor)]
    held = sum(part.nbytes for part in [*own, *program.spans.values()])
    return held + (0 if program.hidden is not None else program.soft.nbytes)  # what a step predicted from


@pytest.mark.parametrize("lengths", [[256, 128, 64, 32, 16], [16, 200, 256, 31, 32, 64, 128], [300, 256, 100, 90]])
def test_the_programs_of_all_lengths_that_are_kept_take_what_the_plan_says(lengths: list[int]) -> None:
    config = dataclasses.replace(MIDDLE, canvas_length=256)
    mode = footprint.Mode(torch.bfloat16, PRECISIONS["int4"], True, False)
    made, kept = zeroed(DiffusionGemma, config, PRECISIONS["int4"], torch.bfloat16), ProgramCache()
    cache, settings = made.new_cache(), GenerationConfig()
    for length in lengths:
        kept.get(made, cache, Sampler.from_settings(config, settings.replace(canvas_length=length), made.device, 0))
    programs = [program for program, _ in kept._kept.values()]
    counted = footprint.PROGRAM_CANVASES * program_bytes(config, mode)
    assert [program.length for program in programs] == lengths[-len(programs) :]
    held = sum(map(held_by, programs))
    assert held <= counted
    assert held >= 0.95 * counted or sum(lengths) != 496


@pytest.mark.parametrize(
    ("stored", "asked", "has_units", "is_large", "expected"),
    [
        ("bfloat16", "auto", True, True, "bfloat16"),
        ("bfloat16", "auto", False, True, "float32"),
        ("bfloat16", "auto", True, False, "float32"),
        ("float32", "auto", True, True, "float32"),
        ("float16", "auto", True, True, "float32"),  # which bf16 would round
        ("bfloat16", "float32", True, True, "float32"),
    ],
)
def test_the_number_type_of_unpacked_weights_on_a_cpu(
    stored: str, asked: str, has_units: bool, is_large: bool, expected: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """Planned by their headers, or by their config where they are not here; and as they are then loaded."""
    monkeypatch.setattr(planning, "has_bf16_units", lambda: has_units)
    monkeypatch.setattr(planning, "LEAST_IN_BF16", 1000 if is_large else 10**9)
    folder = packing.released(tmp_path)
    weights = load_file(folder / "model.safetensors")
    save_file({name: one.to(getattr(torch, stored)) for name, one in weights.items()}, folder / "model.safetensors")
    assert plan_model(folder, 50, "none", "cpu", asked).dtype == expected
    loaded = load_model(folder, device="cpu", dtype=asked)
    assert (str(loaded.dtype), loaded.network.dtype) == (f"torch.{expected}", getattr(torch, expected))
    config = read_json(folder / "config.json") | {"dtype": stored}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").unlink()
    assert plan_model(folder, 50, "none", "cpu", asked).dtype == expected


# --- choosing and advising -----------------------------------------------------------------------------------------


def test_auto_packs_only_what_would_not_fit_otherwise(
    free: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plan_model(REAL, 4096).quantization == "none"
    free(60 * GB)
    monkeypatch.setattr(planning, "has_bf16_units", lambda: True)
    assert (plan_model(REAL, 4096).quantization, plan_model(REAL, 4096).dtype) == ("none", "bfloat16")
    monkeypatch.setattr(planning, "has_bf16_units", lambda: False)  # unpacked is fp32
    found = plan_model(REAL, 4096)
    assert (found.quantization, found.fits, found.dtype) == ("int4", True, "bfloat16")
    assert plan_model(REAL, 4096, "none", dtype="bfloat16").fits
    free(1 * GB)
    assert plan_model(REAL, 4096).quantization == "int4"


def test_an_embedded_model_fits_and_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "has_bf16_units", lambda: True)
    found = plan_model("safelight-sudoku")
    assert found.fits
    assert (found.quantization, found.dtype, found.context) == ("none", "float32", 512)
    assert 0 < found.free_bytes < 10**14
    assert found.advice.startswith("It fits, with ")
    assert "up to 512 tokens of context" in found.advice
    require_room(found)


def test_advice_where_both_must_change_and_where_nothing_helps(free: Callable[[float], None]) -> None:
    free(18 * GB)
    found = plan_model(REAL, 262_144, "none")
    assert "use quantization int4" in found.advice
    assert " and reduce the context to " in found.advice
    longest = int(found.advice.split("reduce the context to ")[1].split()[0])
    name = found.advice.split("use quantization ")[1].split()[0]
    assert plan_model(REAL, longest, name).fits
    assert not plan_model(REAL, longest + 600, name).fits  # buffers grow in steps of 512
    free(2 * GB)
    found = plan_model(REAL, 32_768)
    missing = float(found.advice.split("close other programs to free ")[1].split()[0])
    least = min(plan_model(REAL, 256, name).total_bytes for name in ("nf4", "int4", "int4-g64"))
    assert missing == pytest.approx((least - 2 * GB) / GB, abs=0.06)
    with pytest.raises(SafelightError, match=r"26b-a4b needs \d+\.\d GB .*cpu has 2\.0 GB free\. .* are missing"):
        require_room(found)


@pytest.mark.usefixtures("free")
def test_a_config_of_a_packed_checkpoint_alone(tmp_path: Path) -> None:
    shutil.copy(catalog.shape(REAL).folder / "config.json", tmp_path)
    packing.set_quantization(tmp_path, {"group_0": {"weights": packing.SCHEME}})
    found = plan_model(tmp_path, 4096)
    assert found.quantization == "as stored"
    assert found.precision.experts == found.precision.attention == INT4
    assert found.parts["attention"] == pytest.approx(1.11e9 * (0.625 if cpu_int4.block() else 0.5625), rel=0.01)
    with pytest.raises(SafelightError, match="is packed as int4-g32; use quantization auto"):
        plan_model(tmp_path, 4096, "nf4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((REAL, 0), "the context must be from 1 to 262144 tokens"),
        ((REAL, 10, "int5"), "unknown quantization 'int5'; use auto, none, nf4, int4, int4-g64"),
        (("nowhere",), "there is no model at nowhere; give a model folder, .*26b-a4b"),
    ],
)
def test_bad_arguments(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SafelightError, match=message):
        plan_model(*arguments)


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match=r"it has no config\.json"):
        plan_model(tmp_path)
    folder = checkpoint(tmp_path / "tiny")
    with pytest.raises(SafelightError, match="cannot pack"):  # 32 inputs are no tile
        plan_model(folder, 10, "int4")
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"\x10" * 40)
    with pytest.raises(SafelightError, match="damaged or truncated"):
        plan_model(broken, 10)
    assert plan_model(folder, 10).fits


@pytest.mark.parametrize("quantization", ["auto", "nf4"])
def test_an_absent_card_is_planned_for_by_its_memory(quantization: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "why_plain", lambda _: None)
    absent = plan_model(REAL, 32_768, quantization, card_of("24GB"))
    assert (absent.device, absent.dtype, absent.free_bytes) == ("a card of 24 GB", "bfloat16", 24 * GB)
    assert (absent.device_bytes, absent.fits, absent.parts["process"]) == (24 * GB, True, 0)
    pretend_cuda(monkeypatch)
    monkeypatch.setattr(planning, "free_bytes", lambda _: 24 * GB)
    monkeypatch.setattr(planning, "total_bytes", lambda _: 24 * GB)
    assert absent.parts == plan_model(REAL, 32_768, quantization).parts


def test_cards_are_known_by_name_or_by_size() -> None:
    assert 25.3e9 < card_of("RTX-4090").total_bytes < 25.4e9
    assert card_of("16 gb").total_bytes == 16 * GB
    for text in ("", "24", "0GB", "99999GB", "rtx", "24GB\n;"):
        with pytest.raises(SafelightError, match="is not a known card; give rtx-3090"):
            card_of(text)
