"""Models' weights: packed stores with their manifests, and checkpoints with index, headers and int4 declarations."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.hostile import mutate, tensors
from tests.hostile.kind import Attempt, Kind

MANIFEST, PARTIAL, INDEX = "safelight-store.json", "safelight-store.partial.json", "model.safetensors.index.json"
MINE = b"the user's own"
Files = dict[str, bytes]


@cache
def _models() -> dict[str, Files]:
    """A tiny model as released, in the published int4 layout, as a packed store, and half converted."""
    import threading

    import torch

    from engine import SafelightError
    from engine.models.folder import quantize
    from tests.engine.packing import published, released

    cancel, cpu = threading.Event(), torch.device("cpu")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source = released(folder / "source")
        published(source, folder / "int4")
        quantize(source, folder / "store", "nf4", cpu)
        with contextlib.suppress(SafelightError):
            quantize(source, folder / "half", "nf4", cpu, lambda _: cancel.set(), cancel)
        return {
            name: {path.name: path.read_bytes() for path in (folder / name).iterdir()}
            for name in ("source", "int4", "store", "half")
        }


def _write(folder: Path, files: Files) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def _plant(random: Random, folder: Path, names: list[str]) -> None:
    """Something other than a file in a file's place."""
    path = folder / random.choice(names)
    if path.is_dir():  # something else was planted there before
        return
    path.unlink(missing_ok=True)
    match random.randrange(4):
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case _:
            path.symlink_to(random.choice(("/dev/zero", "../mine", path.name, "missing", "config.json")))


def _use(random: Random, folder: Path) -> Attempt:
    """The ways that a folder of a model is taken: its headers alone, a plan, or a whole load."""
    import torch

    from engine import load_model
    from engine.models.folder import ModelFolder, plan, quantize

    way = random.randrange(6)

    def attempt() -> None:
        if way < 3:
            ModelFolder.open(folder).weights("auto", torch.device("meta"), None)
        elif way == 3:
            plan(folder, 100, device="cpu")
        elif way == 4:
            load_model(folder, device="cpu", dtype="float32")
        else:
            quantize(folder, folder.parent / "packed", "auto", torch.device("cpu"))

    return attempt


# --- packed stores -----------------------------------------------------------------------------------------------


def _manifest(random: Random, raw: dict[str, Any]) -> bytes:
    files = raw["files"]
    name = random.choice(list(files))
    match random.randrange(7):
        case 0:
            return mutate.dumped(random, mutate.tree(random, raw))
        case 1:
            files[random.choice(mutate.NAMES)] = files.pop(name)
        case 2:
            files[name][random.choice(("bytes", "sha256"))] = mutate.value(random)
        case 3:
            raw["precision"][random.choice(("experts", "attention", "x"))] = mutate.value(random)
        case 4:
            raw[random.choice(list(raw))] = mutate.value(random)
        case 5:
            files |= {f"layer-{n}.safetensors": files[name] for n in range(random.choice((3, 900, 20_000)))}
        case _:
            pass
    return json.dumps(raw).encode()


def _make_store(random: Random, folder: Path) -> Attempt:
    if random.random() < 0.3:
        return _make_half(random, folder)
    files = dict(_models()["store"])
    raw = json.loads(files[MANIFEST])
    if random.random() < 0.5:  # a shard with what the manifest says of it
        shard = random.choice(list(raw["files"]))
        files[shard] = tensors.hostile(random, files[shard])
        raw["files"][shard] = {"bytes": len(files[shard]), "sha256": hashlib.sha256(files[shard]).hexdigest()}
        files[MANIFEST] = json.dumps(raw).encode()
    else:
        files[MANIFEST] = _manifest(random, raw)
    model = _write(folder / "model", files)
    (folder / "mine").write_bytes(MINE)
    if random.random() < 0.1:
        _plant(random, model, [MANIFEST, *json.loads(_models()["store"][MANIFEST])["files"]])
    return _use(random, model)


def _make_half(random: Random, folder: Path) -> Attempt:
    """A conversion into a folder that a stranger prepared."""
    import torch

    from engine.models.folder import quantize

    source = _write(folder / "source", _models()["source"])
    files = dict(_models()["half"])
    shards = [name for name in files if name.endswith(".safetensors")]
    if random.random() < 0.6:
        files[PARTIAL] = _manifest(random, json.loads(files[PARTIAL]))
    if random.random() < 0.3:
        name = random.choice(list(files))
        files[name] = mutate.damaged(random, files[name])
    store = _write(folder / "store", files | {"letter.tmp": MINE})
    (folder / "mine").write_bytes(MINE)
    for _ in range(random.randrange(3)):
        _plant(random, store, [*shards, "layer-01.safetensors", "rest.safetensors", "config.json", PARTIAL + ".tmp"])

    def attempt() -> None:
        try:
            quantize(source, store, "nf4", torch.device("cpu"))
        finally:
            assert (folder / "mine").read_bytes() == MINE, "it wrote through a link"
            assert (store / "letter.tmp").read_bytes() == MINE, "it removed what is not its own"
            assert {path.name for path in folder.iterdir()} == {"source", "store", "mine"}

    return attempt


# --- checkpoints -------------------------------------------------------------------------------------------------


def _index(random: Random, files: Files) -> None:
    """Several files with an index that is not quite right."""
    weights = {"weight_map": {f"tensor.{n}": "model.safetensors" for n in range(random.choice((1, 50)))}}
    match random.randrange(4):
        case 0:
            weights["weight_map"]["x"] = random.choice(mutate.NAMES)
        case 1:
            weights["weight_map"] |= {f"x{n}": f"model-{n}.safetensors" for n in range(random.choice((2, 3_000)))}
        case 2:
            files[INDEX] = mutate.dumped(random, mutate.tree(random, weights))
            return
        case _:
            pass
    files[INDEX] = json.dumps(weights).encode("utf-8", "surrogatepass")


def _declaration(random: Random, files: Files) -> None:
    """``quantization_config`` in words of its own."""
    raw = json.loads(files["config.json"])
    told = raw.get("quantization_config") or {"quant_method": "compressed-tensors", "format": "pack-quantized"}
    raw["quantization_config"] = mutate.tree(random, told) if random.random() < 0.8 else mutate.value(random)
    files["config.json"] = json.dumps(raw).encode()


def _make_checkpoint(random: Random, folder: Path) -> Attempt:
    files = dict(_models()[random.choice(("source", "int4"))])
    match random.randrange(5):
        case 0:
            _index(random, files)
        case 1:
            _declaration(random, files)
        case 2 | 3:
            files["model.safetensors"] = tensors.hostile(random, files["model.safetensors"])
        case _:
            _index(random, files)
            files["model.safetensors"] = tensors.hostile(random, files["model.safetensors"])
    model = _write(folder / "model", files)
    (folder / "mine").write_bytes(MINE)
    if random.random() < 0.05:
        _plant(random, model, ["model.safetensors", INDEX, "more.safetensors"])
    return _use(random, model)


def _prepare() -> None:
    from engine import load_model  # noqa: F401 - what it imports is not a case's time

    _models()


KINDS = (
    Kind("stores", _make_store, prepare=_prepare),
    Kind("checkpoints", _make_checkpoint, prepare=_prepare),
)
