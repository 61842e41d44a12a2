"""Images in a ``config.json``, and values that nobody should build a tower of."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from engine import SafelightError, catalog
from engine.models.diffusion_gemma.config import read_vision
from engine.models.folder import ModelFolder
from engine.pictures import ImageCost
from tests.engine.tiny import CONFIG, VISION

YARN = {"rope_type": "yarn"}
PUBLISHED: dict[str, Any] = {
    "model_type": "gemma4_vision",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 72,
    "standardize": True,
}


def test_the_published_one() -> None:
    found = read_vision({"vision_config": PUBLISHED}, 262_144)
    assert found is not None
    assert (found.patch_size, found.pooling_kernel_size, found.tile_size, found.position_embedding_size) == (
        16, 3, 48, 10_240
    )  # fmt: skip
    assert (found.begin_token_id, found.image_token_id, found.end_token_id) == (255_999, 258_880, 258_882)
    assert (found.rope_theta, found.rms_norm_eps, found.standardize) == (100.0, 1e-6, True)

    assert ModelFolder.open(catalog.shape("26b-a4b").folder).config.vision == found
    cost = ImageCost(found.tile_size)
    assert cost.tiles(4000, 3000, 280) == (14, 19)
    assert [cost.soft_tokens(width, height, 280) for width, height in ((1, 1), (20_000, 1), (1, 32_767))] == [
        16 * 16, 280, 280
    ]  # fmt: skip


def test_unknown_kinds_and_those_without_tokens_are_left_out() -> None:
    for changes in ({"model_type": "siglip_vision_model"}, {"use_clipped_linears": True}, {"rope_parameters": YARN}):
        assert read_vision({"vision_config": {**PUBLISHED, **changes}}, 262_144) is None
    assert read_vision({"vision_config": PUBLISHED}, 258_882) is None
    assert read_vision({}, 262_144) is None
    assert read_vision({"vision_config": None}, 262_144) is None


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"vision_config": {**PUBLISHED, "hidden_size": None}}, "vision_config.hidden_size is missing"),
        ({"vision_config": {**PUBLISHED, "patch_size": 100, "pooling_kernel_size": 100}}, "pixels along a side"),
        ({"vision_config": {**PUBLISHED, "head_dim": 70}}, "head_dim 70 is not a multiple of 4"),
        ({"vision_config": {**PUBLISHED, "num_key_value_heads": 5}}, "5 key-value heads, which do not divide 16"),
        ({"vision_config": {**PUBLISHED, "standardize": "yes"}}, "standardize must be true or false, not 'yes'"),
        ({"vision_config": {**PUBLISHED, "rms_norm_eps": float("nan")}}, "rms_norm_eps must be a finite number"),
        ({"vision_config": PUBLISHED, "image_token_id": -1}, "image_token_id must be a whole number"),
    ],
)
def test_hostile_values_are_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(SafelightError, match=message) as error:
        read_vision(raw, 262_144)
    assert "\n" not in str(error.value)


def test_the_tokens_of_images_differ() -> None:
    same = dataclasses.replace(VISION, begin_token_id=VISION.end_token_id)
    with pytest.raises(SafelightError, match="must differ"):
        dataclasses.replace(CONFIG, vision=same)
