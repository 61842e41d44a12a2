"""Published models with masks, in sparse files of full size: every tensor is accounted for."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from engine.files import write_json
from engine.models.folder import ModelFolder
from tests.engine.golden.test_published_shapes import sparse
from tests.engine.published import PUBLISHED, Shapes

META = torch.device("meta")


def opened(folder: Path, name: str, tensors: Shapes) -> ModelFolder:
    """The folder of a model in files of at most a tenth of its tensors, or in one if they are few."""
    write_json(folder / "config.json", PUBLISHED[name].raw)
    names, count = [*tensors], 10 if len(tensors) > 10_000 else 1
    for part in range(count):
        sparse(folder, {one: tensors[one] for one in names[part::count]}, f"model-{part}.safetensors")
    return ModelFolder.open(folder)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_tensor_is_accounted_for(name: str, tmp_path: Path) -> None:
    """It has its name and shape, and its numbers in the plan."""
    tensors, numbers = PUBLISHED[name].tensors, PUBLISHED[name].numbers
    assert sum(map(math.prod, tensors.values())) == pytest.approx(numbers, rel=1e-3)
    found = opened(tmp_path, name, tensors)
    assert set(found.weights("none", META, None).layout) == set(tensors)
    parts = found.plan(quantization="none", device="cpu", dtype="bfloat16").parts
    weights = sum(parts[part] for part in ("experts", "attention", "dense", "embedding", "other"))
    assert weights == pytest.approx(2 * sum(map(math.prod, tensors.values())), rel=1e-4)
