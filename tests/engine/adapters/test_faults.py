"""Faults of an adapter are reported in one line, and the model stays as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine import BASE, MINI, GenerationConfig, Model, SafelightError, load_adapter, load_model
from engine.adapters import peft_files
from engine.adapters.peft_files import save_adapter
from engine.fingerprint import fingerprint
from engine.layers.adapted import addition
from engine.models import adapting
from engine.models.diffusion_gemma.config import TARGETS
from tests.engine import tiny
from tests.engine.adapting import random_adapters
from tests.engine.small import write_checkpoint

NAME = "base_model.model.model.decoder.layers.0.self_attn.q_proj.lora_A.weight"
OTHER = NAME.replace("lora_A", "lora_B")


def set_config(folder: Path, **changes: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def set_tensors(folder: Path, changes: dict[str, Tensor | None], metadata: dict[str, str] | None = None) -> None:
    path = folder / "adapter_model.safetensors"
    tensors = {**load_file(path), **changes}
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, path, metadata)


def add(name: str) -> Callable[[Path], None]:
    """Adds a tensor."""
    return lambda folder: set_tensors(folder, {name: torch.zeros(4, 32)})


def config(**changes: Any) -> Callable[[Path], None]:
    """Changes the config."""
    return lambda folder: set_config(folder, **changes)


def pickled(folder: Path) -> None:
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")


def instead(path: Path, make: Callable[[Path], object]) -> None:
    """Something else in a file's place."""
    path.unlink()
    make(path)


MODULE = "base_model.model.model.decoder."
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "another kind": (config(peft_type="IA3"), "peft_type 'IA3' is not supported; train the adapter as LoRA"),
    "DoRA": (config(use_dora=True), "DoRA is not supported; train the adapter without use_dora"),
    "biases": (config(bias="lora_only"), "bias 'lora_only' is not supported; train the adapter with bias 'none'"),
    "whole modules": (config(modules_to_save=["norm"]), "whole modules .* train the adapter without modules_to_save"),
    "tokens": (config(trainable_token_indices=[1]), "trained tokens is not supported"),
    "a changed base": (config(init_lora_weights="pissa"), "path_initial_model_for_weight_conversion"),
    "no rank": (config(r=0), "the rank r must be a whole number from 1 to 65536, not 0"),
    "no alpha": (config(lora_alpha=None), "the alpha lora_alpha must be a number"),
    "an endless alpha": (config(lora_alpha=float("inf")), "Infinity is not a number"),
    "no pattern": (config(alpha_pattern={"(": 3}), "alpha_pattern has a key that is no pattern"),
    "a pipe": (lambda f: instead(f / "adapter_model.safetensors", os.mkfifo), "is missing$"),
    "another rank": (config(r=5), "has rank 4, adapter_config.json says 5; save the adapter again"),
    "no config": (lambda folder: (folder / "adapter_config.json").unlink(), "it has no adapter_config.json"),
    "a pickle": (pickled, "adapter_model.bin is a pickle, which is never opened; save the adapter as safetensors"),
    "nothing in it": (lambda f: save_file({}, f / "adapter_model.safetensors"), "contains no adapter"),
    "half a pair": (lambda f: set_tensors(f, {OTHER: None}), f"tensor {OTHER} is missing; save the adapter again"),
    "a wide one": (
        lambda f: set_tensors(f, {NAME: torch.zeros(4, 33)}),
        r"q_proj.lora_A.weight has shape \(4, 33\), this model's layer asks for \(4, 32\); load the model that",
    ),
    "not finite": (lambda f: set_tensors(f, {NAME: torch.full((4, 32), torch.nan)}), "lora_A.weight has values that"),
    "experts": (add(f"{MODULE}layers.0.experts.gate_up_proj.lora_A.weight"), "over experts, which is not supported"),
    "the router": (add(f"{MODULE}layers.0.router.proj.lora_A.weight"), "over the router, which is not supported"),
    "the token table": (add(f"{MODULE}embed_tokens.lora_embedding_A"), "over the token table, which is not"),
    "a magnitude": (add(f"{MODULE}layers.0.mlp.up_proj.lora_magnitude_vector"), "belongs to DoRA"),
    "another library": (add("transformer.layers.0.q_proj.lora_A.weight"), "is not known; use an adapter that"),
    "one layer more": (add(f"{MODULE}layers.3.mlp.up_proj.lora_A.weight"), "belongs to a layer that this model lacks"),
    "values of a full layer": (add(f"{MODULE}layers.2.self_attn.v_proj.lora_A.weight"), "this model lacks; load the"),
    "conditioning of text": (
        add("base_model.model.model.encoder.language_model.self_conditioning.up_proj.lora_A.weight"),
        "is not known",
    ),
    "another base by name": (
        config(base_model_name_or_path=f"C:\\models\\{MINI}"),
        f"was made for {MINI}, not for base; load that model first",
    ),
    "another base by its weights": (
        lambda f: set_tensors(f, {}, {"base_fingerprint": "0123456789"}),
        "was made for another model, not for base; load that model first",
    ),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.checkpoint(tmp_path_factory.mktemp("tiny") / "base")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound adapter; nothing in it says on which model it was trained."""
    folder = tmp_path_factory.mktemp("saved")
    save_adapter(folder, random_adapters(tiny.network(), causal=4, denoise=4), TARGETS, "", "")
    return folder


@pytest.fixture(scope="module")
def loaded(base: Path, saved: Path) -> Model:
    """A model that has an adapter."""
    model = load_model(base, dtype="float32")
    load_adapter(model, saved)
    return model


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_reported_and_changes_nothing(fault: str, saved: Path, loaded: Model, tmp_path: Path) -> None:
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    spoil, words = FAULTS[fault]
    spoil(tmp_path)
    before = loaded.adapter
    adapted = [module for module in loaded.network.modules() if addition(module) is not None]
    with pytest.raises(SafelightError, match=words) as error:
        load_adapter(loaded, tmp_path)
    assert str(tmp_path) in str(error.value)
    assert loaded.adapter is before
    assert adapted == [module for module in loaded.network.modules() if addition(module) is not None]
    assert len(adapted) == 23


def test_one_that_does_not_fit_is_reported_before_it_is_read(
    saved: Path, loaded: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapting, "free_bytes", lambda _: 1_000)
    monkeypatch.setattr(peft_files.Checkpoint, "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(SafelightError, match=r"takes 0.0 GB and cpu has 0.0 GB free; close other programs, or"):
        load_adapter(loaded, saved)


def test_another_version_of_the_base_is_reported(base: Path, loaded: Model, tmp_path: Path) -> None:
    name = base.name
    save_adapter(tmp_path, random_adapters(loaded.network), TARGETS, name, "ab" * 32)
    with pytest.raises(SafelightError, match=f"made for another {name} .*abababab, not {fingerprint(base)[:8]}"):
        load_adapter(loaded, tmp_path)
    save_adapter(tmp_path, random_adapters(loaded.network), TARGETS, name, "")  # left open
    assert load_adapter(loaded, tmp_path).rank == 5


def test_a_copy_of_the_base_is_the_base(tmp_path: Path) -> None:
    """The name does not matter where the fingerprint is right."""
    for name in ("one", "two"):
        write_checkpoint(tiny.network(), tmp_path / name, GenerationConfig())
    save_adapter(tmp_path / "lora", random_adapters(tiny.network()), TARGETS, BASE, fingerprint(tmp_path / "one"))
    load_adapter(load_model(tmp_path / "two"), tmp_path / "lora")


def test_a_place_without_an_adapter(loaded: Model, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place, words in (("nowhere", "there is no adapter at .*nowhere; .* one of: sudoku-lora"), ("file", "is a")):
        with pytest.raises(SafelightError, match=words):
            load_adapter(loaded, tmp_path / place)
