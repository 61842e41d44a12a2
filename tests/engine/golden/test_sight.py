"""The embedded model that sees: transformers reads its folder as it is, and sees the same in a drawing."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from transformers import DiffusionGemmaForBlockDiffusion, Gemma4ImageProcessorPil

from engine import SIGHT, Model, catalog, load_model
from engine.models.prompt import Prompt
from engine.pictures import open_picture
from engine.tasks import drawings
from engine.text.message import image_of
from tests.engine.golden.reference import Reference

TOLERANCE = 2e-4
SCENE = drawings.Scene(
    (250, 250, 250),
    (
        drawings.DrawnShape("star", "red", drawings.COLOURS["red"], 0.3, 0.3, 0.13, 0.0),
        drawings.DrawnShape("circle", "blue", drawings.COLOURS["blue"], 0.7, 0.65, 0.12, 0.0),
    ),
)
DRAWING = drawings.draw(SCENE, 3 * drawings.SIDE)
SHOWN = {"square": DRAWING, "an upright part of it": DRAWING[:, 40:200]}


@pytest.fixture(scope="module")
def ours() -> Model:
    return load_model(SIGHT, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def theirs() -> DiffusionGemmaForBlockDiffusion:
    model, found = DiffusionGemmaForBlockDiffusion.from_pretrained(
        catalog.resolve(SIGHT), dtype=torch.float32, output_loading_info=True
    )
    assert not any(found.values()), found  # no tensor is missing, left over or of another shape
    return model.eval()


@pytest.mark.parametrize("name", SHOWN)
def test_transformers_sees_the_same(name: str, ours: Model, theirs: DiffusionGemmaForBlockDiffusion) -> None:
    prompt = asked(ours, SHOWN[name])
    vision, budget = ours.config.vision, ours.generation_defaults.image_tokens
    assert vision is not None
    processor = Gemma4ImageProcessorPil(
        patch_size=vision.patch_size, pooling_kernel_size=vision.pooling_kernel_size, max_soft_tokens=budget
    )
    given = dict(processor([SHOWN[name]], return_tensors="pt", input_data_format="channels_last"))
    ids = torch.tensor(prompt.ids)
    given["mm_token_type_ids"] = (ids == vision.image_token_id).long()[None]

    encoder, reference, cache = theirs.model.encoder, Reference(theirs), ours.new_cache()
    with torch.no_grad():
        seen = encoder.vision_tower(given["pixel_values"], given["image_position_ids"]).last_hidden_state
        soft_tokens = encoder.embed_vision(seen)
    assert error(soft_tokens, prompt.images[0].rows) <= TOLERANCE
    cache.images = prompt.images
    assert error(reference.prefill_images(ids, given), ours.prefill(ids, cache)) <= TOLERANCE
    draws = torch.Generator().manual_seed(0)
    canvas = torch.randint(ours.config.vocab_size, (ours.config.canvas_length,), generator=draws)
    logits = ours.denoise(canvas, cache)
    assert error(reference.denoise(canvas), logits) <= TOLERANCE
    assert error(reference.denoise(canvas, logits), ours.denoise(canvas, cache, logits)) <= TOLERANCE

    blank = asked(ours, np.full_like(SHOWN[name], 250))
    other = ours.new_cache()
    other.images = blank.images
    ours.prefill(torch.tensor(blank.ids), other)
    assert error(logits, ours.denoise(canvas, other)) > 1  # what is seen decides


def asked(model: Model, shown: NDArray[np.uint8]) -> Prompt:
    """A question about a picture."""
    file = io.BytesIO()
    Image.fromarray(shown).save(file, "PNG")
    picture, budget = open_picture(file.getvalue()), model.generation_defaults.image_tokens
    message = {"role": "user", "content": "What colour is the star?", "images": [image_of(picture)]}
    prompt = model.with_images(model.chat_ids([message], image_tokens=budget), [message], [picture], budget)
    assert isinstance(prompt, Prompt)
    return prompt


def error(expected: Tensor, found: Tensor) -> float:
    assert expected.std() > 0.1  # nothing agrees with everything
    return float((expected - found).abs().max())
