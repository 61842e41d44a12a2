"""A model's folder is read once."""

from __future__ import annotations

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
def headers(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose headers were read, in order."""
    found: list[Path] = []
    read = safetensors.Checkpoint.__init__

    def init(self: safetensors.Checkpoint, folder: Path, *arguments: Any) -> None:
        found.append(folder)
        read(self, folder, *arguments)

    monkeypatch.setattr(safetensors.Checkpoint, "__init__", init)
    return found


def test_loading_reads_the_headers_once(tmp_path: Path, headers: list[Path]) -> None:
    """A folder's that is packed as it loads, and a store's."""
    load_model(packing.released(tmp_path / "base"), device="cpu", quantization="int4")
    assert headers == [tmp_path / "base"]
    quantize(tmp_path / "base", tmp_path / "small", "nf4", torch.device("cpu"))
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
