"""Preprocessing, tower, pooling and projector against transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import Gemma4ImageProcessorPil, Gemma4VisionConfig, Gemma4VisionModel
from transformers.models.gemma4.modeling_gemma4 import Gemma4MultimodalEmbedder

from engine.models.diffusion_gemma.config import read_vision, released_name
from engine.models.vision.reader import patches
from engine.models.vision.tower import VisionTower
from engine.pictures import ImageCost
from tests.engine.golden.reference import randomise_module

TOLERANCE = 2e-4  # largest absolute error in fp32
TEXT_SIZE = 20
BASE = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "head_dim": 8,
    "patch_size": 4,
    "position_embedding_size": 70 * 3,
    "standardize": True,
}


@dataclass(frozen=True)
class Case:
    sizes: tuple[tuple[int, int], ...]  # width, height of each image
    config: dict[str, Any]


CASES = {
    "as released: standardised, three by three": Case(((90, 61), (61, 90)), {}),
    "a strip, and one of a single row of tokens": Case(((400, 31), (900, 3)), {"num_hidden_layers": 1}),
    "not standardised, pooled by two, few keys": Case(
        ((33, 70),), {"standardize": False, "pooling_kernel_size": 2, "num_key_value_heads": 1}
    ),
    "one pixel, another rotation and eps": Case(
        ((1, 1),), {"rope_parameters": {"rope_type": "axial", "rope_theta": 7.0}, "rms_norm_eps": 1e-2, "head_dim": 12}
    ),
}


def picture(width: int, height: int) -> NDArray[np.uint8]:
    return np.random.default_rng(width * height).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("name", CASES)
def test_images_become_the_rows_that_transformers_makes_of_them(name: str) -> None:
    case = CASES[name]
    theirs = Gemma4VisionConfig(**{**BASE, **case.config})
    tower, embedder = Gemma4VisionModel(theirs).eval(), Gemma4MultimodalEmbedder(theirs, _Text()).eval()
    processor = Gemma4ImageProcessorPil(
        patch_size=theirs.patch_size, pooling_kernel_size=theirs.pooling_kernel_size, max_soft_tokens=70
    )
    for seed, module in enumerate((tower, embedder)):
        randomise_module(module, torch.Generator().manual_seed(seed))
    images = [picture(*size) for size in case.sizes]
    given = processor(images, return_tensors="pt", input_data_format="channels_last")

    config = read_vision({"vision_config": theirs.to_dict()}, vocab_size=262_144)
    assert config is not None
    ours = VisionTower(config, TEXT_SIZE).eval()
    weights = {f"vision_tower.{name}": tensor for name, tensor in tower.state_dict().items()}
    weights |= {f"embed_vision.{name}": tensor for name, tensor in embedder.state_dict().items()}
    names = {path: released_name(f"vision.{path}").removeprefix("model.encoder.") for path in ours.state_dict()}
    assert sorted(names.values()) == sorted(weights)
    ours.load_state_dict({path: weights[name] for path, name in names.items()})

    with torch.no_grad():
        expected = embedder(tower(given["pixel_values"], given["image_position_ids"]).last_hidden_state)
    found = []
    for number, image in enumerate(images):
        cut = patches(image, config, 70)
        count = cut.rows * cut.columns
        assert torch.equal(cut.values, given["pixel_values"][number, :count])
        assert not given["pixel_values"][number, count:].any()
        rows = ours(cut.values[None], cut.rows, cut.columns)[0]
        assert len(rows) == ImageCost(config.tile_size).soft_tokens(*case.sizes[number], 70)
        assert len(rows) == given["num_soft_tokens_per_image"][number]
        found.append(rows)
    assert expected.std() > 0.3  # an all-zero tower would agree with anything
    assert (torch.cat(found) - expected).abs().max() <= TOLERANCE


class _Text:
    hidden_size = TEXT_SIZE
