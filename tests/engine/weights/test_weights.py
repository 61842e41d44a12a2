"""Packed models: three layouts, one arithmetic. And the store: exact, resumable, and nobody's fool."""

from __future__ import annotations

import json
import os
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

from engine import SafelightError, load_model, store_files
from engine.models.folder import quantize
from engine.quant import PRECISIONS
from engine.weights import packed_store as stores
from engine.weights import safetensors
from tests.engine.packing import (
    GROUP,
    SCHEME,
    logits,
    meaning,
    oracle,
    packable,
    published,
    relative,
    released,
    set_quantization,
)
from tests.engine.tiny import change_weights, tokens

CPU = torch.device("cpu")
PACKED = [name for name in PRECISIONS if name != "none"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released(tmp_path_factory.mktemp("released") / "tiny")


@pytest.fixture(scope="module")
def int4(source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Tensor]]:
    """The same checkpoint in the published layout, and what its packed tensors mean."""
    folder = tmp_path_factory.mktemp("published") / "tiny"
    return folder, published(source, folder)


@pytest.fixture(scope="module")
def packed_store(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store") / "tiny"
    quantize(source, folder, "nf4", CPU)
    return folder


@pytest.mark.parametrize(
    "precision",
    ["int4", "int8", *(pytest.param(n, marks=pytest.mark.slow) for n in PACKED if n not in ("int4", "int8"))],
)
def test_packed_logits_equal_the_oracle_on_unpacked_weights(source: Path, precision: str, tmp_path: Path) -> None:
    expected = oracle(source, meaning(source, precision))
    direct = load_model(source, device="cpu", dtype="float32", quantization=precision)
    assert relative(logits(direct), expected) <= 1e-3
    assert (
        relative(logits(load_model(source, device="cpu", dtype="float32")), expected) > 1e-2
    )  # packing does change something
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


def test_bf16_keeps_its_type_around_packed_weights(packed_store: Path) -> None:
    model = load_model(packed_store, device="cpu", dtype="bfloat16")
    cache = model.new_cache()
    assert model.prefill(tokens(5), cache).dtype == torch.bfloat16
    assert torch.isfinite(model.denoise(tokens(10), cache)).all()


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

    with pytest.raises(SafelightError, match="loading was cancelled"):
        load_model(source, device="cpu", dtype="float32", quantization="int4", progress=stop, cancel=cancel)


# --- published int4: bad input ------------------------------------------------------------------------------------

EXPERT = "model.decoder.layers.1.experts.3.up_proj"


def changed(**change: Tensor | None) -> Callable[[Path], None]:
    def breaks(folder: Path) -> None:
        change_weights(folder, {f"{EXPERT}.{name}": tensor for name, tensor in change.items()})

    return breaks


def set_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def declared(groups: dict[str, object], **changes: object) -> Callable[[Path], None]:
    return lambda folder: set_quantization(folder, groups, **changes)


BAD_INT4 = {
    "missing scale": (changed(weight_scale=None), f"tensor {EXPERT}.weight_scale is missing"),
    "scales of other groups": (changed(weight_scale=torch.ones(64, 2)), f"{EXPERT}.weight_scale has shape (64, 2)"),
    "another shape": (changed(weight_shape=torch.tensor([64, 64])), f"{EXPERT}.weight_shape says [64, 64]"),
    "surplus": (changed(weight_zero_point=torch.ones(1)), f"{EXPERT}.weight_zero_point is not part of this model"),
    "another method": (declared({}, quant_method="gptq"), "'gptq' weights of None bits"),
    "another format": (declared({}, format="marlin-24"), "('marlin-24') cannot be read"),
    "two bits": (declared({"a": {"weights": {**SCHEME, "num_bits": 2}}}), "2-bit int weights"),
    "asymmetric": (declared({"a": {"weights": {**SCHEME, "symmetric": False}}}), "symmetric False"),
    "group of 128, scales of 32": (
        declared({"a": {"weights": {**SCHEME, "group_size": 128}}}),
        "config.json asks for (128, 0)",
    ),
    "mixed": (
        declared({"a": {"weights": SCHEME}, "b": {"weights": {**SCHEME, "group_size": 64}}}),
        "mixes several kinds of weights",
    ),
    "nothing declared": (declared({}), "mixes several kinds of weights"),
    "no object": (lambda folder: set_config(folder, quantization_config=[1]), "quantised as None (None) cannot be"),
}


@pytest.mark.parametrize(("breaks", "message"), BAD_INT4.values(), ids=BAD_INT4)
def test_bad_int4(
    breaks: Callable[[Path], None], message: str, int4: tuple[Path, dict[str, Tensor]], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(int4[0], tmp_path / "tiny"))
    breaks(folder)
    with pytest.raises(SafelightError) as error:
        load_model(folder, device="cpu")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_packed_weights_are_not_packed_again(int4: tuple[Path, dict[str, Tensor]], packed_store: Path) -> None:
    for folder, wish in ((int4[0], "nf4"), (packed_store, "int4"), (packed_store, "none")):
        with pytest.raises(SafelightError, match="holds weights packed as"):
            load_model(folder, device="cpu", quantization=wish)


# --- the store ----------------------------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("place", [0.3, 0.6, 0.999])
@pytest.mark.parametrize("name", ["layer-01.safetensors", "rest.safetensors"])
def test_a_flipped_byte_is_caught_and_named(name: str, place: float, packed_store: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(packed_store, tmp_path / "store"))
    data = bytearray((folder / name).read_bytes())
    data[int(place * len(data))] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(SafelightError, match=f"{name} is damaged"):
        load_model(folder, device="cpu")


def rewritten(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def breaks(folder: Path) -> None:
        raw = json.loads((folder / store_files.MANIFEST).read_text())
        change(raw)
        (folder / store_files.MANIFEST).write_text(json.dumps(raw))

    return breaks


def renamed(name: str) -> Callable[[Path], None]:
    def change(raw: dict[str, Any]) -> None:
        raw["files"][name] = raw["files"].pop("layer-00.safetensors")

    return rewritten(change)


def sized(text: str) -> Callable[[Path], None]:
    """A manifest with this for a file's size."""

    def breaks(folder: Path) -> None:
        path = folder / store_files.MANIFEST
        size = (folder / "rest.safetensors").stat().st_size
        path.write_text(path.read_text().replace(f'"bytes": {size}', f'"bytes": {text}'))

    return breaks


def piped(folder: Path) -> None:
    (folder / "layer-00.safetensors").unlink()
    os.mkfifo(folder / "layer-00.safetensors")


def cut(folder: Path) -> None:
    path = folder / "layer-00.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


BAD_STORE = {
    "missing file": (lambda folder: (folder / "layer-00.safetensors").unlink(), "layer-00.safetensors is missing"),
    "cut file": (cut, "layer-00.safetensors has "),
    "newer": (rewritten(lambda raw: raw.update(version=2)), "format version 2; this Safelight reads 1. Update it"),
    "foreign": (rewritten(lambda raw: raw.update(format="zip")), "is not the manifest of a Safelight store"),
    "odd precision": (rewritten(lambda raw: raw.update(precision={"experts": "q2"})), "'experts' as 'q2'"),
    "no JSON": (lambda folder: (folder / store_files.MANIFEST).write_text("{"), "cannot be read as JSON"),
    "a file elsewhere": (renamed("../layer-00.safetensors"), "is not a file in its folder"),
    "a pipe": (piped, "layer-00.safetensors is missing"),
    "a size in words": (sized('"many"'), "is damaged ("),
    "a file left out": (
        rewritten(lambda raw: raw["files"].pop("rest.safetensors")),  # type: ignore[attr-defined]
        "is missing",
    ),
}


@pytest.mark.parametrize(("breaks", "message"), BAD_STORE.values(), ids=BAD_STORE)
def test_bad_store(breaks: Callable[[Path], None], message: str, packed_store: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(packed_store, tmp_path / "store"))
    breaks(folder)
    with pytest.raises(SafelightError) as error:
        load_model(folder, device="cpu")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_vision_tensors_in_a_store_are_skipped(packed_store: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(packed_store, tmp_path / "store"))
    path = folder / "rest.safetensors"
    save_file({**load_file(path), "model.encoder.vision_tower.a": torch.ones(1)}, path)
    raw = json.loads((folder / store_files.MANIFEST).read_text())
    raw["files"][path.name] = {"bytes": path.stat().st_size, "sha256": stores.digest(path)}
    (folder / store_files.MANIFEST).write_text(json.dumps(raw))
    assert load_model(folder, device="cpu").skipped_vision_tensors == 1


def test_a_cancelled_conversion_goes_on_where_it_stood(source: Path, packed_store: Path, tmp_path: Path) -> None:
    folder, cancel = tmp_path / "store", threading.Event()
    with pytest.raises(SafelightError, match=r"cancelled; run it again to continue from layer file layer-01"):
        quantize(source, folder, "nf4", CPU, lambda _: cancel.set(), cancel)
    with pytest.raises(SafelightError, match="is an unfinished conversion; run safelight quantize again"):
        load_model(folder, device="cpu")
    kept = (folder / "layer-00.safetensors").stat().st_mtime_ns
    quantize(source, folder, "nf4", CPU)
    assert (folder / "layer-00.safetensors").stat().st_mtime_ns == kept
    assert files(folder) == files(packed_store)


def test_a_damaged_piece_of_an_unfinished_conversion_is_made_again(
    source: Path, packed_store: Path, tmp_path: Path
) -> None:
    folder, cancel = tmp_path / "store", threading.Event()
    with pytest.raises(SafelightError, match="cancelled"):
        quantize(source, folder, "nf4", CPU, lambda _: cancel.set(), cancel)
    (folder / "layer-00.safetensors").write_bytes(b"rubbish")
    (folder / ".layer-01.safetensors.0a1b2c3d.part").write_bytes(b"half a file")
    (folder / ".tmpN8djV0").write_bytes(b"")  # what the shards' library leaves when it is killed
    quantize(source, folder, "nf4", CPU)
    assert files(folder) == files(packed_store)


def test_a_conversion_killed_before_its_first_record_starts_afresh(
    source: Path, packed_store: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / f".{store_files.PARTIAL}.0a1b2c3d.part").write_text("{")
    quantize(source, folder, "nf4", CPU)
    assert files(folder) == files(packed_store)


def test_the_destination_is_respected(source: Path, packed_store: Path, tmp_path: Path) -> None:
    before = files(packed_store)
    with pytest.raises(SafelightError, match="already holds a packed model"):
        quantize(source, packed_store, "int4", CPU)
    assert files(packed_store) == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(SafelightError, match="is not empty"):
        quantize(source, tmp_path / "full", "int4", CPU)
    with pytest.raises(SafelightError, match="is a file; give a new folder"):
        quantize(source, tmp_path / "full" / "letter.txt", "int4", CPU)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(SafelightError, match="cancelled"):
        quantize(source, tmp_path / "begun", "int4", CPU, cancel=cancel)
    with pytest.raises(SafelightError, match="unfinished conversion of tiny with other settings"):
        quantize(source, tmp_path / "begun", "nf4", CPU)
    with pytest.raises(SafelightError, match="is packed already"):
        quantize(packed_store, tmp_path / "again", "auto", CPU)
    with pytest.raises(SafelightError, match="needs a quantization"):
        quantize(source, tmp_path / "none", "none", CPU)


def test_an_unfinished_folder_cannot_lead_a_conversion_elsewhere(
    source: Path, packed_store: Path, tmp_path: Path
) -> None:
    """Whatever a stranger laid into it: files elsewhere stay, and so do the user's own beside."""
    folder, outside, cancel = tmp_path / "store", tmp_path / "outside", threading.Event()
    with pytest.raises(SafelightError, match="cancelled"):
        quantize(source, folder, "nf4", CPU, lambda _: cancel.set(), cancel)
    outside.write_text("mine")
    planted = (
        "layer-00.safetensors",
        "layer-01.safetensors",
        "config.json",
        store_files.MANIFEST,
        f"{store_files.PARTIAL}.tmp",
    )
    for name in planted:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(outside)
    (folder / ".tmpLetters").write_text("mine")
    (folder / "notes.tmp").write_text("mine")
    (folder / store_files.MANIFEST).unlink()
    quantize(source, folder, "nf4", CPU)
    assert outside.read_text() == "mine"
    assert (folder / ".tmpLetters").read_text() == (folder / "notes.tmp").read_text() == "mine"
    for name, data in files(packed_store).items():
        assert not (folder / name).is_symlink()
        assert (folder / name).read_bytes() == data


def test_weights_that_change_are_not_mixed(source: Path, tmp_path: Path) -> None:
    """Whether the checkpoint is another one of the same shape as the conversion goes on, or changes before its end."""
    shutil.copytree(source, copy := tmp_path / "tiny")
    cancel, weights = threading.Event(), copy / "model.safetensors"
    with pytest.raises(SafelightError, match="cancelled"):
        quantize(copy, tmp_path / "begun", "int4", CPU, lambda _: cancel.set(), cancel)
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-1_000] + bytes(1_000))
    with pytest.raises(SafelightError, match="with other settings or weights"):
        quantize(copy, tmp_path / "begun", "int4", CPU)
    with pytest.raises(SafelightError, match=r"tiny changed while it was read; delete .*other"):
        quantize(copy, tmp_path / "other", "int4", CPU, lambda _: weights.write_bytes(sound) and None)
    assert not (tmp_path / "other" / store_files.MANIFEST).exists()
    quantize(copy, tmp_path / "begun", "int4", CPU)


def test_nothing_goes_from_a_folder_of_another_conversion(source: Path, tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(SafelightError, match="cancelled"):
        quantize(source, tmp_path, "int4", CPU, cancel=cancel)
    half = tmp_path / ".layer-00.safetensors.0a1b2c3d.part"
    half.write_bytes(b"half")
    with pytest.raises(SafelightError, match="with other settings"):
        quantize(source, tmp_path, "nf4", CPU)
    raw = json.loads((tmp_path / store_files.PARTIAL).read_text())
    (tmp_path / store_files.PARTIAL).write_text(
        json.dumps(raw | {"files": {"../x": {"bytes": 1, "sha256": "00" * 32}}})
    )
    with pytest.raises(SafelightError, match="is not a file in its folder"):
        quantize(source, tmp_path, "int4", CPU)
    assert half.exists()


def test_a_place_that_cannot_be_a_folder(source: Path) -> None:
    for place in ("/dev/null/store", "/proc/store", f"/tmp/{'x' * 300}"):
        with pytest.raises(SafelightError, match="cannot be written: "):
            quantize(source, Path(place), "int4", CPU)


def test_a_disk_without_room_is_refused_before(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(stores.shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(SafelightError, match=r"GB free and the packed model needs .* GB"):
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
    with pytest.raises(SafelightError, match=r"disk is full, so .*layer-01.safetensors was not written.* it continues"):
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
    from engine import GenerationConfig
    from tests.engine.packing import SHAPE
    from tests.engine.small import write_checkpoint
    from tests.engine.tiny import network

    folder = tmp_path / "large"
    layers = SHAPE["layers"][:1] * 5 + SHAPE["layers"][1:]
    write_checkpoint(
        network(**{**SHAPE, "layers": layers, "hidden_size": 384, "moe_intermediate_size": 384, "num_experts": 12}),
        folder,
        GenerationConfig(),
    )
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
    del weights, parts
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(folder), str(tmp_path / "store")], capture_output=True, text=True, check=True
    )
    grown = int(done.stdout)
    pieces = 6 * 384 * 384 * 4  # fp32 copies of one expert's matrix, in hand at a time
    assert grown < max(sizes) * 1.5 + 4 * pieces, (grown, max(sizes))
    assert grown < sum(sizes) / 2  # the bound means something
