"""A model's folder is read once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import load_model
from engine.models.folder import ModelFolder, quantize
from engine.models.opening import plan_model
from engine.weights import safetensors
from tests.engine import packing


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file was opened."""
    found: Counter[str] = Counter()
    read = safetensors.safe_open

    def count(file: Path, **options: str) -> Any:
        found[file.name] += 1
        return read(file, **options)

    monkeypatch.setattr(safetensors, "safe_open", count)
    return found


@pytest.fixture
def headers(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose headers were read, in order."""
    found: list[Path] = []
    read = safetensors.Checkpoint.__init__

    def init(self: safetensors.Checkpoint, folder: Path, *arguments: Any) -> None:
        found.append(folder)
        read(self, folder, *arguments)

    monkeypatch.setattr(safetensors.Checkpoint, "__init__", init)
    return found


@pytest.mark.parametrize("quantization", ["none", "int4"])
def test_loading_reads_the_headers_once(
    quantization: str, tmp_path: Path, headers: list[Path], opened: Counter[str]
) -> None:
    load_model(packing.released(tmp_path), device="cpu", quantization=quantization)
    assert headers == [tmp_path]
    assert opened == {"model.safetensors": 1}  # one file stays open: its tensors are read from there


def test_loading_a_store_reads_its_headers_once(tmp_path: Path, headers: list[Path]) -> None:
    quantize(packing.released(tmp_path / "base"), tmp_path / "small", "nf4", torch.device("cpu"))
    assert headers == [tmp_path / "base"]
    headers.clear()
    load_model(tmp_path / "small", device="cpu")
    assert headers == [tmp_path / "small"]


def test_planning_reads_headers_and_no_tensor(
    tmp_path: Path, headers: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors.Checkpoint, "read", lambda *_: pytest.fail("a tensor was read"))
    folder = ModelFolder.open(packing.released(tmp_path))
    assert headers == []  # the config alone
    assert folder.plan(50).parts == plan_model(tmp_path, 50).parts
    folder.plan(60)
    assert headers == [tmp_path, tmp_path]  # each opening once
