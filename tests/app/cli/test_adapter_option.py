"""``--adapter`` as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import engine
from engine import SafelightError
from engine.adapters.peft_files import save_adapter
from engine.models.diffusion_gemma.config import TARGETS
from tests.app.cli.calling import Capture, refused, run
from tests.engine import tiny
from tests.engine.adapting import random_adapters

Patch = pytest.MonkeyPatch


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A model and an adapter on it."""
    save_adapter(tmp_path / "tuned", random_adapters(tiny.network()), TARGETS, "tiny", "")
    return tiny.checkpoint(tmp_path / "tiny"), tmp_path / "tuned"


def test_generate_with_and_without(places: tuple[Path, Path], capsys: Capture) -> None:
    model, adapter = places
    ask = ("generate", "Spell cat.", "--model", model, "--device", "cpu", "--json")
    plain = json.loads(run(capsys, *ask)[1])
    code, out, err = run(capsys, *ask, "--adapter", adapter)
    tuned = json.loads(out)
    assert (code, err) == (0, "")
    assert (tuned["model"], tuned["adapter"]) == ("tiny", "tuned")
    assert "adapter" not in plain
    assert tuned["text"] != plain["text"]
    benched = run(capsys, "bench", "--runs", 1, "--json", *ask[2:-1], "--adapter", adapter, "--max-new-tokens", 1)[1]
    assert json.loads(benched)["adapter"] == "tuned"


def test_an_embedded_adapter_brings_its_model(capsys: Capture, monkeypatch: Patch) -> None:
    asked: list[str] = []

    def load(name: str, **_: Any) -> None:
        asked.append(name)
        raise SafelightError("enough")

    monkeypatch.setattr(engine, "load_model", load)
    adapter = engine.ADAPTERS[0]
    assert run(capsys, "sudoku", "." * 81, "--adapter", adapter.id)[0] == 2
    assert run(capsys, "sudoku", "." * 81, "--adapter", adapter.id, "--model", "elsewhere")[0] == 2
    assert asked == [adapter.base, "elsewhere"]


def test_a_mistyped_adapter_is_reported_before_a_model_is_loaded(capsys: Capture, monkeypatch: Patch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(engine, "load_model", never)
    for command in (("generate", "Hi."), ("bench",), ("sudoku", "." * 81)):
        said = "there is no adapter at sudoku-lara; give an adapter's folder or one of: sudoku-lora"
        refused(capsys, said, *command, "--adapter", "sudoku-lara")


def test_an_adapter_for_another_model_is_reported(places: tuple[Path, Path], capsys: Capture) -> None:
    model, adapter = places
    other = tiny.checkpoint(model.parent / "other", hidden_size=64)
    refused(capsys, "this model's layer asks for", "generate", "Hi.", "--model", other, "--adapter", adapter)
    refused(capsys, "leave out --shape", "bench", "--shape", "26b-a4b", "--random-weights", "--adapter", adapter)
