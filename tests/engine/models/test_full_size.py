"""Published models with masks, in sparse files of full size: every tensor is accounted for, any other refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from engine import SafelightError
from engine.files import write_json
from engine.models.folder import ModelFolder
from tests.engine.golden.test_published_shapes import sparse
from tests.engine.published import PUBLISHED, Shapes

META = torch.device("meta")
LAST = {  # a matrix of the last layer
    "LLaDA-8B": "model.transformer.blocks.31.ff_out.weight",
    "LLaDA-MoE-7B-A1B": "model.layers.15.mlp.experts.63.down_proj.weight",
    "Dream-7B": "model.layers.27.mlp.down_proj.weight",
    "Fast-dLLM v2 1.5B": "model.layers.27.mlp.down_proj.weight",
    "Fast-dLLM v2 7B": "model.layers.27.self_attn.q_proj.bias",
    "dllm Qwen3-0.6B": "model.layers.27.self_attn.k_norm.weight",
    "SDAR-8B": "model.layers.35.mlp.up_proj.weight",
    "RND1": "model.layers.47.mlp.experts.127.down_proj.weight",
}


def opened(folder: Path, name: str, tensors: Shapes) -> ModelFolder:
    """The folder of a model in files of at most a tenth of its tensors, or in one if they are few."""
    write_json(folder / "config.json", PUBLISHED[name].raw)
    names, count = [*tensors], 10 if len(tensors) > 10_000 else 1
    for part in range(count):
        sparse(folder, {one: tensors[one] for one in names[part::count]}, f"model-{part}.safetensors")
    return ModelFolder.open(folder)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_tensor_is_accounted_for(name: str, tmp_path: Path) -> None:
    """By name and shape, and its numbers in the plan."""
    tensors, numbers = PUBLISHED[name].tensors, PUBLISHED[name].numbers
    assert sum(map(math.prod, tensors.values())) == pytest.approx(numbers, rel=1e-3)
    found = opened(tmp_path, name, tensors)
    assert set(found.weights("none", META, None).layout) == set(tensors)
    parts = found.plan(quantization="none", device="cpu", dtype="bfloat16").parts
    weights = sum(parts[part] for part in ("experts", "attention", "dense", "embedding", "other"))
    assert weights == pytest.approx(2 * sum(map(math.prod, tensors.values())), rel=1e-4)


@pytest.mark.parametrize("name", PUBLISHED)
def test_one_missing_or_surplus_or_of_another_shape_is_refused_in_a_line(name: str, tmp_path: Path) -> None:
    tensors, last = PUBLISHED[name].tensors, LAST[name]
    size = tensors[last]
    following = (
        last.replace("27.", "28.")
        .replace("31.", "32.")
        .replace("15.", "16.")
        .replace("s.35.", "s.36.")
        .replace("s.47.", "s.48.")
    )
    wrong: dict[str, Shapes] = {
        "is missing": {one: own for one, own in tensors.items() if one != last},
        f"{following} is not part of this model": tensors | {following: size},
        f"asks for {tuple(size)}": tensors | {last: [size[0] + 8, *size[1:]]},
    }
    for message, changed in wrong.items():
        with pytest.raises(SafelightError) as error:
            opened(tmp_path, name, changed).weights("none", META, None)
        assert message in str(error.value)
        assert "\n" not in str(error.value)
