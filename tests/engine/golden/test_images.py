"""Whole prompts with images against transformers: hidden states, what denoising makes of them, and generations."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import Model, load_model
from engine.layers.images import ImageRows
from engine.models.prompt import Prompt
from engine.models.vision.reader import Patches, patches
from tests.engine.golden import recorder
from tests.engine.golden.reference import IMAGE_IDS, Reference, Shape, build, image_inputs, save
from tests.engine.golden.test_generation import BASE, assert_same, play
from tests.engine.golden.test_modes import TOLERANCE, tokens

BEGIN, SOFT, END = (IMAGE_IDS[name] for name in ("boi_token_id", "image_token_id", "eoi_token_id"))


@dataclass(frozen=True)
class Case:
    shape: Shape
    text: tuple[int, ...]  # tokens of text before each image, and behind the last
    sizes: tuple[tuple[int, int], ...]  # width, height
    budget: int = 8


CASES = {
    "one longer than the window": Case(Shape({"sliding_window": 6}), (11, 5), ((41, 40),), 30),
    "several of odd shapes, one behind the other": Case(Shape(), (5, 0, 2, 30), ((90, 7), (3, 80), (23, 24))),
    "at the very beginning; more layers and experts": Case(
        Shape({"num_hidden_layers": 6, "layer_types": None, "num_experts": 16, "top_k_experts": 3}),
        (0, 1),
        ((17, 55),),
        12,
    ),
    "behind more text than the window": Case(Shape({"sliding_window": 8}), (40, 0, 12), ((60, 20), (20, 60)), 20),
}


def made(case: Case, model: Model) -> tuple[Prompt, list[Patches]]:
    """A prompt of random tokens and images."""
    config, network = model.config.vision, model.network
    assert config is not None
    ids, images, cuts = list[int](), list[ImageRows](), list[Patches]()
    for number, count in enumerate(case.text):
        ids += (tokens(count, number) % BEGIN).tolist()
        if number == len(case.sizes):
            break
        width, height = case.sizes[number]
        pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
        cuts.append(patches(pixels, config, case.budget))
        rows = network.get_submodule("vision")(cuts[-1].values[None], cuts[-1].rows, cuts[-1].columns)[0]
        images.append(ImageRows(len(ids) + 1, rows, str(number)))
        ids += [BEGIN, *[SOFT] * len(rows), END]
    return Prompt(tuple(ids), tuple(images)), cuts


@pytest.mark.parametrize("name", CASES)
def test_prompts_with_images_agree(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    theirs = build(case.shape, seed=len(name))
    model = load_model(save(theirs, tmp_path), device="cpu", dtype="float32")
    prompt, cuts = made(case, model)
    ids, reference, cache = torch.tensor(prompt.ids), Reference(theirs), model.new_cache()
    cache.images = prompt.images
    if "longer" in name:
        assert len(prompt.images[0].rows) > model.config.sliding_window + 10

    def error(expected: Tensor, found: Tensor) -> float:
        assert expected.std() > 0.3
        return float((expected - found).abs().max())

    expected = reference.prefill_images(ids, image_inputs(ids, cuts))
    assert error(expected, model.prefill(ids, cache)) <= TOLERANCE
    canvas = tokens(case.shape.canvas_length, 7)
    assert error(reference.denoise(canvas), model.denoise(canvas, cache)) <= TOLERANCE
    assert error(reference.prefill(canvas), model.prefill(canvas, cache)) <= TOLERANCE
    again = canvas.flip(0)
    assert error(reference.denoise(again), model.denoise(again, cache)) <= TOLERANCE


def test_generations_behind_images_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["several of odd shapes, one behind the other"]
    theirs = build(dataclasses.replace(case.shape, conditioning=0.1), seed=2)
    model = load_model(save(theirs, tmp_path), device="cpu", dtype="float32")
    prompt, cuts = made(case, model)
    config, ids = BASE.replace(max_new_tokens=12), torch.tensor(prompt.ids)
    expected = recorder.run(theirs, ids, config, 1, monkeypatch, **image_inputs(ids, cuts))
    assert_same(expected, play(model, prompt, config, 1), len(prompt))
