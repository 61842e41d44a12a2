"""Packed models: three layouts, one arithmetic. And the store: exact, resumable, and nobody's fool."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine import GenerationConfig, SafelightError, load_model, store_files
from engine.models.folder import quantize
from engine.quant import PRECISIONS
from engine.weights import safetensors
from tests.engine.packing import (
    GROUP,
    SCHEME,
    SHAPE,
    logits,
    meaning,
    oracle,
    packable,
    published,
    relative,
    set_quantization,
)
from tests.engine.small import write_checkpoint
from tests.engine.tiny import change_weights, network

CPU = torch.device("cpu")
QUICK = ("int4", "int8")
LAYER = "layer-00.safetensors"


@pytest.fixture(scope="module")
def int4(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Tensor]]:
    """A checkpoint in the published layout, and the weights that its packed tensors stand for."""
    folder = tmp_path_factory.mktemp("published") / "tiny"
    return folder, published(source, folder)


@pytest.fixture(scope="module")
def packed_store(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store") / "tiny"
    quantize(source, folder, "nf4", CPU)
    return folder


def refuses(message: str) -> Any:
    return pytest.raises(SafelightError, match=message)


@pytest.mark.parametrize(
    "precision", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in {*PRECISIONS} - {"none", *QUICK})]
)
def test_packed_logits_equal_the_oracle_on_unpacked_weights(source: Path, precision: str, tmp_path: Path) -> None:
    expected = oracle(source, meaning(source, precision))
    direct = load_model(source, device="cpu", dtype="float32", quantization=precision)
    assert relative(logits(direct), expected) <= 1e-3
    plain = load_model(source, device="cpu", dtype="float32")
    assert relative(logits(plain), expected) > 1e-2  # packing does change something
    quantize(source, tmp_path / "store", precision, CPU)
    stored = load_model(tmp_path / "store", device="cpu", dtype="float32")
    assert torch.equal(logits(stored), logits(direct))
    assert stored.precision == direct.precision == PRECISIONS[precision]
    assert stored.parameter_count == sum(p.numel() for p in packable().parameters())


def test_published_int4_loads_as_it_is(source: Path, int4: tuple[Path, dict[str, Tensor]], tmp_path: Path) -> None:
    folder, meant = int4
    model = load_model(folder, device="cpu", dtype="float32")
    # What the checkpoint leaves in bf16, we pack to eight bits.
    expected = oracle(source, {**meaning(source, "int4"), **meant})
    assert relative(logits(model), expected) <= 1e-3
    assert (str(model.precision.experts), str(model.precision.attention)) == (f"int4-g{GROUP}",) * 2
    quantize(folder, tmp_path / "store", "auto", CPU)
    assert torch.equal(logits(load_model(tmp_path / "store", device="cpu", dtype="float32")), logits(model))


def test_progress_reaches_the_end(source: Path, packed_store: Path, tmp_path: Path) -> None:
    seen: list[float] = []
    load_model(packed_store, device="cpu", dtype="float32", progress=seen.append)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)
    seen.clear()
    quantize(source, tmp_path / "store", "int4", CPU, seen.append)
    assert seen == [1 / 3, 2 / 3, 1.0]


def test_loading_can_be_cancelled(source: Path) -> None:
    cancel = threading.Event()

    def stop(share: float) -> None:
        if share > 0.3:
            cancel.set()

    with refuses("loading was cancelled"):
        load_model(source, device="cpu", dtype="float32", quantization="int4", progress=stop, cancel=cancel)


# --- published int4: bad input ------------------------------------------------------------------------------------

EXPERT = "model.decoder.layers.1.experts.3.up_proj"


def changed(**change: Tensor | None) -> Callable[[Path], None]:
    return lambda folder: change_weights(folder, {f"{EXPERT}.{name}": tensor for name, tensor in change.items()})


def declared(*weights: dict[str, object], **changes: object) -> Callable[[Path], None]:
    groups = {str(place): {"weights": one} for place, one in enumerate(weights)}
    return lambda folder: set_quantization(folder, groups, **changes)


def rewritten(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def breaks(folder: Path) -> None:
        raw = json.loads((folder / name).read_text())
        change(raw)
        (folder / name).write_text(json.dumps(raw))

    return breaks


BAD_INT4 = {
    "missing scale": (changed(weight_scale=None), f"tensor {EXPERT}.weight_scale is missing"),
    "scales of other groups": (changed(weight_scale=torch.ones(64, 2)), f"{EXPERT}.weight_scale has shape (64, 2)"),
    "another shape": (changed(weight_shape=torch.tensor([64, 64])), f"{EXPERT}.weight_shape says [64, 64]"),
    "surplus": (changed(weight_zero_point=torch.ones(1)), f"{EXPERT}.weight_zero_point is not part of this model"),
    "another method": (declared(quant_method="gptq"), "'gptq' weights of None bits"),
    "another format": (declared(format="marlin-24"), "('marlin-24') cannot be read"),
    "two bits": (declared({**SCHEME, "num_bits": 2}), "2-bit int weights"),
    "asymmetric": (declared({**SCHEME, "symmetric": False}), "symmetric False"),
    "group of 128, scales of 32": (declared({**SCHEME, "group_size": 128}), "config.json asks for (128, 0)"),
    "mixed": (declared(SCHEME, {**SCHEME, "group_size": 64}), "mixes several kinds of weights"),
    "nothing declared": (declared(), "mixes several kinds of weights"),
    "no object": (
        rewritten("config.json", lambda raw: raw.update(quantization_config=[1])),
        "quantised as None (None) cannot be",
    ),
}


@pytest.mark.parametrize("fault", BAD_INT4)
def test_bad_int4_is_refused(fault: str, int4: tuple[Path, dict[str, Tensor]], tmp_path: Path) -> None:
    breaks, message = BAD_INT4[fault]
    folder = Path(shutil.copytree(int4[0], tmp_path / "tiny"))
    breaks(folder)
    with refuses(re.escape(message)):
        load_model(folder, device="cpu")


def test_packed_weights_are_not_packed_again(int4: tuple[Path, dict[str, Tensor]], packed_store: Path) -> None:
    for folder, wish in ((int4[0], "nf4"), (packed_store, "int4"), (packed_store, "none")):
        with refuses("holds weights packed as"):
            load_model(folder, device="cpu", quantization=wish)


# --- the store ----------------------------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def flipped(name: str, place: float) -> Callable[[Path], object]:
    def breaks(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[int(place * len(data))] ^= 1
        (folder / name).write_bytes(data)

    return breaks


def of_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return rewritten(store_files.MANIFEST, change)


def piped(folder: Path) -> None:
    (folder / LAYER).unlink()
    os.mkfifo(folder / LAYER)


BAD_STORE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped byte of a layer": (flipped("layer-01.safetensors", 0.3), "layer-01.safetensors is damaged"),
    "a flipped byte of the rest": (flipped("rest.safetensors", 0.6), "rest.safetensors is damaged"),
    "a flipped last byte": (flipped("rest.safetensors", 0.999), "rest.safetensors is damaged"),
    "missing file": (lambda folder: (folder / LAYER).unlink(), f"{LAYER} is missing"),
    "cut file": (lambda folder: os.truncate(folder / LAYER, 1000), f"{LAYER} has "),
    "newer": (of_manifest(lambda raw: raw.update(version=2)), "format version 2; this Safelight reads 1. Update it"),
    "foreign": (of_manifest(lambda raw: raw.update(format="zip")), "is not the manifest of a Safelight store"),
    "odd precision": (of_manifest(lambda raw: raw.update(precision={"experts": "q2"})), "'experts' as 'q2'"),
    "no JSON": (lambda folder: (folder / store_files.MANIFEST).write_text("{"), "cannot be read as JSON"),
    "a file elsewhere": (
        of_manifest(lambda raw: raw["files"].update({f"../{LAYER}": raw["files"].pop(LAYER)})),
        "is not a file in its folder",
    ),
    "a pipe": (piped, f"{LAYER} is missing"),
    "a size in words": (of_manifest(lambda raw: raw["files"][LAYER].update(bytes="many")), "is damaged ("),
    "a file left out": (of_manifest(lambda raw: raw["files"].pop("rest.safetensors")), "is missing"),
}


@pytest.mark.parametrize("fault", BAD_STORE)
def test_a_bad_store_is_refused(fault: str, packed_store: Path, tmp_path: Path) -> None:
    breaks, message = BAD_STORE[fault]
    folder = Path(shutil.copytree(packed_store, tmp_path / "store"))
    breaks(folder)
    with refuses(re.escape(message)):
        load_model(folder, device="cpu")


def begin(source: Path, folder: Path, precision: str = "nf4", pieces: int = 1) -> None:
    """A conversion that is cancelled after its first piece, or before it."""
    cancel = threading.Event()
    if not pieces:
        cancel.set()
    with refuses("cancelled; run it again to continue from layer file layer-0"):
        quantize(source, folder, precision, CPU, lambda _: cancel.set(), cancel)


def test_a_cancelled_conversion_goes_on_where_it_stood(source: Path, packed_store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    begin(source, folder)
    with refuses("is an unfinished conversion; run safelight quantize again"):
        load_model(folder, device="cpu")
    kept = (folder / LAYER).stat().st_mtime_ns
    quantize(source, folder, "nf4", CPU)
    assert (folder / LAYER).stat().st_mtime_ns == kept
    assert files(folder) == files(packed_store)


def test_a_killed_conversion_is_made_again_from_its_last_whole_piece(
    source: Path, packed_store: Path, tmp_path: Path
) -> None:
    damaged, early = tmp_path / "damaged", tmp_path / "early"
    begin(source, damaged)
    (damaged / LAYER).write_bytes(b"rubbish")
    (damaged / ".layer-01.safetensors.0a1b2c3d.part").write_bytes(b"half a file")
    (damaged / ".tmpN8djV0").write_bytes(b"")  # the shards' library leaves it when it is killed
    early.mkdir()
    (early / f".{store_files.PARTIAL}.0a1b2c3d.part").write_text("{")
    for folder in (damaged, early):
        quantize(source, folder, "nf4", CPU)
        assert files(folder) == files(packed_store)


def test_the_destination_is_respected(source: Path, packed_store: Path, tmp_path: Path) -> None:
    before = files(packed_store)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    begin(source, tmp_path / "begun", "int4", pieces=0)
    for model, folder, wish, message in (
        (source, packed_store, "int4", "already holds a packed model"),
        (source, tmp_path / "full", "int4", "is not empty"),
        (source, tmp_path / "full" / "letter.txt", "int4", "is a file; give a new folder"),
        (source, tmp_path / "begun", "nf4", "unfinished conversion of tiny with other settings"),
        (packed_store, tmp_path / "again", "auto", "is packed already"),
        (source, tmp_path / "none", "none", "needs a quantization"),
        *(
            (source, Path(place), "int4", "cannot be written: ")
            for place in ("/dev/null/x", "/proc/x", "/" + "x" * 300)
        ),
    ):
        with refuses(message):
            quantize(model, folder, wish, CPU)
    assert files(packed_store) == before


def test_an_unfinished_folder_cannot_lead_a_conversion_elsewhere(
    source: Path, packed_store: Path, tmp_path: Path
) -> None:
    """Whatever a stranger laid into it: files elsewhere stay, and so do the user's own."""
    folder, outside = tmp_path / "store", tmp_path / "outside"
    begin(source, folder)
    outside.write_text("mine")
    for name in (LAYER, "layer-01.safetensors", "config.json", f"{store_files.PARTIAL}.tmp"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(outside)
    (folder / ".tmpLetters").write_text("mine")
    (folder / "notes.tmp").write_text("mine")
    quantize(source, folder, "nf4", CPU)
    assert outside.read_text() == "mine"
    assert (folder / ".tmpLetters").read_text() == (folder / "notes.tmp").read_text() == "mine"
    for name, data in files(packed_store).items():
        assert not (folder / name).is_symlink()
        assert (folder / name).read_bytes() == data


def test_weights_that_change_are_not_mixed(source: Path, tmp_path: Path) -> None:
    """Neither those of another checkpoint of the same shape, nor those that change before a conversion ends."""
    copy, begun = tmp_path / "tiny", tmp_path / "begun"
    shutil.copytree(source, copy)
    begin(copy, begun, "int4")
    weights = copy / "model.safetensors"
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-1_000] + bytes(1_000))
    with refuses("with other settings or weights"):
        quantize(copy, begun, "int4", CPU)
    with refuses(r"tiny changed while it was read; delete .*other"):
        quantize(copy, tmp_path / "other", "int4", CPU, lambda _: weights.write_bytes(sound) and None)
    assert not (tmp_path / "other" / store_files.MANIFEST).exists()
    quantize(copy, begun, "int4", CPU)


def test_nothing_goes_from_a_folder_of_another_conversion(source: Path, tmp_path: Path) -> None:
    begin(source, tmp_path, "int4", pieces=0)
    half = tmp_path / ".layer-00.safetensors.0a1b2c3d.part"
    half.write_bytes(b"half")
    with refuses("with other settings"):
        quantize(source, tmp_path, "nf4", CPU)
    elsewhere = {"../x": {"bytes": 1, "sha256": "00" * 32}}
    rewritten(store_files.PARTIAL, lambda raw: raw.update(files=elsewhere))(tmp_path)
    with refuses("is not a file in its folder"):
        quantize(source, tmp_path, "int4", CPU)
    assert half.exists()


def test_a_disk_without_room_is_refused_before(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with refuses(r"GB free and the packed model needs .* GB"):
        quantize(source, tmp_path / "store", "int4", CPU)


def test_a_disk_that_fills_up_loses_nothing(
    source: Path, packed_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = safetensors.save_file, []

    def filling(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None) -> None:
        calls.append(path)
        if len(calls) == 2:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        real(tensors, path, metadata)

    monkeypatch.setattr(safetensors, "save_file", filling)
    with refuses(r"disk is full, so .*layer-01.safetensors was not written.* it continues"):
        quantize(source, tmp_path / "store", "nf4", CPU)
    assert not calls[1].exists()
    quantize(source, tmp_path / "store", "nf4", CPU)
    assert files(tmp_path / "store") == files(packed_store)


MEMORY = """
import resource, sys, torch
from pathlib import Path
from engine.models.folder import quantize
torch.set_num_threads(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
quantize(Path(sys.argv[1]), Path(sys.argv[2]), "int4", torch.device("cpu"))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from the Linux kernel")
def test_conversion_holds_one_shard_in_memory(tmp_path: Path) -> None:
    """Six shards of one layer each; peak memory may grow by one of them and a bounded rest."""
    folder, layers = tmp_path / "large", SHAPE["layers"][:1] * 5 + SHAPE["layers"][1:]
    wide = {"hidden_size": 384, "moe_intermediate_size": 384, "num_experts": 12}
    write_checkpoint(network(**{**SHAPE, **wide, "layers": layers}), folder, GenerationConfig())
    weights = load_file(folder / "model.safetensors")
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in weights.items():
        found = [piece for piece in name.split(".") if piece.isdigit()]
        parts.setdefault(f"model-{found[0] if found else 'rest'}.safetensors", {})[name] = tensor
    for file, part in parts.items():
        save_file(part, folder / file)
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    command = [sys.executable, "-c", MEMORY, str(folder), str(tmp_path / "store")]
    grown = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    pieces = 6 * 384 * 384 * 4  # fp32 copies of one expert's matrix, in hand at a time
    assert grown < max(sizes) * 1.5 + 4 * pieces, (grown, max(sizes))
    assert grown < sum(sizes) / 2  # the bound means something
