"""Bad model folders: each is refused with one line that says what is wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from engine import SafelightError, load_model
from engine.files import read_json, write_json
from engine.weights import safetensors
from tests.engine.tiny import CONFIG, change_weights, checkpoint, network

Q_PROJ = "model.decoder.layers.1.self_attn.q_proj.weight"
SCALAR = "model.encoder.language_model.layers.2.layer_scalar"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("sound") / "tiny")


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "tiny"))


Breaks = Callable[[Path], object]


def shard(folder: Path) -> list[str]:
    """Split the weights into two files with an index."""
    weights = load_file(folder / "model.safetensors")
    names, files = sorted(weights), ["model-1.safetensors", "model-2.safetensors"]
    parts = {files[0]: names[::2], files[1]: names[1::2]}
    for file, part in parts.items():
        save_file({name: weights[name] for name in part}, folder / file)
    index = {"weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    return files


def set_config(**changes: object) -> Breaks:
    return lambda folder: write_json(folder / "config.json", read_json(folder / "config.json") | changes)


def double(folder: Path) -> None:
    save_file({Q_PROJ: load_file(folder / "model.safetensors")[Q_PROJ]}, folder / "more.safetensors")


def only_pickle(folder: Path) -> None:
    """A pickle that would leave a file behind if it were ever opened."""
    (folder / "model.safetensors").unlink()
    target = str(folder / "opened").encode()
    (folder / "pytorch_model.bin").write_bytes(b"cposix\nsystem\n(S'touch " + target + b"'\ntR.")


def unshard(index: str) -> Breaks:
    def breaks(folder: Path) -> None:
        shard(folder)
        (folder / "model.safetensors.index.json").write_text(index)

    return breaks


def written(name: str, content: str | bytes) -> Breaks:
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def removed(name: str) -> Breaks:
    return lambda folder: (folder / name).unlink()


def weights(**change: torch.Tensor | None) -> Breaks:
    names = {"q_proj": Q_PROJ, "scalar": SCALAR, "surplus": "model.decoder.layers.9.extra"}
    return lambda folder: change_weights(folder, {names[name]: tensor for name, tensor in change.items()})


def instead(make: Breaks) -> Breaks:
    """Something else in the weights' place."""

    def breaks(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        make(folder / "model.safetensors")

    return breaks


ENDLESS = json.dumps({Q_PROJ: {"dtype": "BF16", "shape": [2**31, 2**31], "data_offsets": [0, 0]}}).encode()
FAULTS: dict[str, tuple[Breaks, str]] = {
    "no config": (removed("config.json"), "has no config.json"),
    "config is not JSON": (written("config.json", "{"), "config.json cannot be read as JSON"),
    "other model": (set_config(model_type="gpt2"), "model_type is 'gpt2'"),
    "config of another shape": (set_config(text_config={"vocab_size": 3}), "is missing"),
    "generation config": (written("generation_config.json", '{"t_max": -1}'), "t_max must be above 0"),
    "missing tensor": (weights(q_proj=None), f"{Q_PROJ} is missing"),
    "missing tensors": (weights(q_proj=None, scalar=None), f"{Q_PROJ} is missing and 1 more"),
    "surplus tensor": (weights(surplus=torch.ones(2)), "model.decoder.layers.9.extra is not part of this model"),
    "doubled tensor": (double, f"{Q_PROJ} is stored twice"),
    "wrong shape": (weights(q_proj=torch.ones(32, 31)), f"{Q_PROJ} has shape (32, 31); config.json asks for (32, 32)"),
    "integers": (
        weights(q_proj=torch.ones(32, 32, dtype=torch.int8)),
        f"{Q_PROJ} has the type I8; expected floating point",
    ),
    "truncated weights": (
        lambda folder: os.truncate(folder / "model.safetensors", 9_000),
        "model.safetensors is damaged or truncated",
    ),
    "no weights": (removed("model.safetensors"), "has no .safetensors weights"),
    "only a pickle": (only_pickle, "pytorch_model.bin is a pickle, which is never opened"),
    "missing shard": (lambda folder: (folder / shard(folder)[1]).unlink(), "model-2.safetensors is missing"),
    "index without files": (unshard('{"weight_map": {}}'), "has no weight_map"),
    "index of a file elsewhere": (
        unshard('{"weight_map": {"a": "../x.safetensors"}}'),
        "has no weight_map of files in its folder",
    ),
    "index is a list": (unshard("[]"), "does not hold a JSON object"),
    "weights are a folder": (instead(os.mkdir), "model.safetensors is damaged or truncated"),
    "weights are elsewhere": (instead(lambda path: path.symlink_to("gone")), "model.safetensors is missing"),
    "a shape near 2^62": (
        written("model.safetensors", len(ENDLESS).to_bytes(8, "little") + ENDLESS),
        "is damaged or truncated",
    ),
    "corrupt tokenizer": (written("tokenizer.json", '{"model":\n {}}'), "tokenizer.json is damaged"),
    "corrupt chat template": (written("chat_template.jinja", "{% for\n m in"), "chat template is damaged"),
    "settings are no JSON": (written("tokenizer_config.json", "nope"), "tokenizer_config.json cannot be read"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_folder_is_refused(fault: str, folder: Path) -> None:
    breaks, message = FAULTS[fault]
    breaks(folder)
    with pytest.raises(SafelightError, match=re.escape(message)):
        load_model(folder, device="cpu")
    assert not (folder / "opened").exists()


@pytest.mark.parametrize(
    ("name", "message"), [("gone", "there is no model at"), ("file", "is a file"), (".", "not a model folder")]
)
def test_a_place_without_a_folder_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SafelightError, match=message):
        load_model(tmp_path / name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu9"}, "unknown device 'tpu9'"),
        ({"device": "meta"}, "device 'meta' is not supported"),
        ({"dtype": "float16"}, "unknown number type 'float16'"),
        ({"quantization": "q3"}, "unknown quantization 'q3'"),
    ],
)
def test_unknown_options_are_named(options: dict[str, str], message: str, sound: Path) -> None:
    with pytest.raises(SafelightError, match=message):
        load_model(sound, **options)


def test_a_tokenizer_larger_than_the_model_is_refused(folder: Path) -> None:
    checkpoint(folder, vocab_size=100)
    with pytest.raises(SafelightError, match=r"tokenizer.json has 128 tokens, config.json only 100"):
        load_model(folder)


def test_a_sound_folder_is_the_network(sound: Path) -> None:
    shares: list[float] = []
    model = load_model(sound, device="cpu", dtype="float32", progress=shares.append)
    assert model.config == CONFIG
    assert (model.name, model.skipped_vision_tensors) == ("tiny", 0)
    assert model.placement.reason == "asked for"
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    expected = dict(network().named_parameters())
    assert model.parameter_count == sum(parameter.numel() for parameter in expected.values())
    for name, parameter in model.network.named_parameters():
        assert not parameter.requires_grad
        assert torch.equal(parameter, expected[name].bfloat16().float()), name  # files hold bf16


def test_shards_are_one_model_and_vision_tensors_are_skipped(folder: Path) -> None:
    names = ("vision_tower.x.weight", "embed_vision.y", "vision_tower.z")
    change_weights(folder, {f"model.encoder.{name}": torch.ones(3, dtype=torch.int8) for name in names})
    shard(folder)
    assert load_model(folder).skipped_vision_tensors == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_are_read_from_any_float_type(dtype: torch.dtype, folder: Path) -> None:
    change_weights(folder, {Q_PROJ: torch.full((32, 32), 0.25, dtype=dtype)})
    found = load_model(folder, dtype="bfloat16").network.get_parameter("layers.1.self_attn.q_proj.weight")
    assert found.dtype == torch.bfloat16
    assert (found == 0.25).all()


@pytest.mark.skipif(sys.platform != "linux", reason="which pages of a mapped file are in memory is asked of Linux")
def test_a_file_that_was_copied_does_not_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safetensors, "MAPPED", 4 * 2**20)
    path = tmp_path / "model.safetensors"
    save_file({f"part{index}": torch.full((2**18,), float(index)) for index in range(40)}, path)  # 1 MB each

    def held() -> int:
        maps = psutil.Process().memory_maps(grouped=True)  # type: ignore[no-untyped-call, unused-ignore]
        return sum(one.rss for one in maps if one.path == str(path))

    read, most, copies = safetensors.Checkpoint(tmp_path), 0, dict[str, torch.Tensor]()
    for place, name in enumerate(read.headers):
        copies[name] = read.read(name).clone()
        if place % 10 == 9:  # looking takes long
            most = max(most, held())
    assert 0 < most <= 6 * 2**20
    assert all(bool((copies[f"part{index}"] == index).all()) for index in range(40))
