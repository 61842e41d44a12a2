"""A model says by what its passes are computed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from engine import Model, ModelConfig, kernels, load_model
from engine.memory.device import Placement
from engine.models.folder import quantize
from tests.engine import packing, tiny

CARD = torch.device("meta")  # passes for one


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load_model(tiny.checkpoint(tmp_path_factory.mktemp("plain")), device="cpu")


def on_card(model: Model, dtype: torch.dtype) -> Model:
    return dataclasses.replace(model, placement=Placement(CARD, dtype, "asked for"))


def kernels_run(monkeypatch: pytest.MonkeyPatch, why_not: str | None) -> None:
    monkeypatch.setattr(kernels, "why_plain", lambda _: why_not)


def test_plain_weights_on_a_processor_are_multiplied_by_torch(plain: Model) -> None:
    assert plain.compute_path == "plain torch: the weights are not packed"
    assert plain.placement.reason == "asked for"


def test_packed_weights_on_a_processor_have_kernels(tmp_path: Path) -> None:
    quantize(packing.released(tmp_path / "source"), tmp_path / "packed", "int4", torch.device("cpu"))
    assert load_model(tmp_path / "packed", device="cpu").compute_path == "packed CPU kernels"


def test_a_card_that_runs_kernels_takes_a_step_as_a_graph(plain: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels_run(monkeypatch, None)
    model = on_card(plain, torch.bfloat16)
    assert model.has_step_program
    assert model.compute_path == "Triton kernels, CUDA graph"
    monkeypatch.setattr(ModelConfig, "runs_all_experts", False)
    assert not model.has_step_program
    assert model.compute_path.startswith("Triton kernels for the prompt, plain torch for the steps")


def test_a_card_that_runs_none_says_why(plain: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels_run(monkeypatch, "Triton is not installed")
    assert on_card(plain, torch.bfloat16).compute_path == "plain torch: Triton is not installed"
    kernels_run(monkeypatch, None)
    assert on_card(plain, torch.float32).compute_path == "plain torch: the kernels compute in bfloat16"
