"""Training on drawings: its passes equal the network's own, one question at a time; its rows; runs taken up again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.vision.preprocess import patches
from engine.tasks import drawings
from engine.training import sight
from engine.training.data.drawings import QUESTIONS, DrawingSource, PicturePool, PictureRows, message_start
from engine.training.network import through_layer
from engine.training.recipes.embedded import SIGHT, Recipe
from engine.training.recipes.recipe import Feed
from engine.training.sight_trainer import SightTrainer
from engine.training.trainer import initialise

assert SIGHT.vision is not None
TINY = dataclasses.replace(
    SIGHT,
    hidden_size=16,
    layers=5,  # in four of which something is said of the ends
    steps=4,
    minutes=0.0,
    warmup_steps=2,
    canvas_length=8,
    mix=(Feed("drawings", 1, 2), Feed("short", 2, 2), Feed("cells", 2, 2)),
    vision=dataclasses.replace(SIGHT.vision, hidden_size=16, intermediate_size=16, num_hidden_layers=1, head_dim=4),
)


@pytest.fixture
def model() -> DiffusionGemma:
    found = DiffusionGemma(TINY.model_config())
    initialise(found, torch.Generator().manual_seed(0))
    return found


@pytest.fixture
def pool() -> PicturePool:
    return PicturePool(DrawingSource(8, 0).draw, 2, TINY.model_config().vocab_size, torch.Generator().manual_seed(0))


def test_pictures_are_cut_as_the_model_cuts_them(pool: PicturePool) -> None:
    assert TINY.vision is not None
    for row, pixels in enumerate(pool.pixels):
        picture = pixels.view(drawings.SIDE, drawings.SIDE, 3).numpy()
        assert torch.equal(sight.cut(pool.pixels, TINY.vision)[row], patches(picture, TINY.vision, 70).values)


@torch.no_grad()
def test_a_batch_of_questions_equals_each_by_itself(model: DiffusionGemma, pool: PicturePool) -> None:
    vision = model.config.vision
    assert vision is not None
    assert model.vision is not None
    pool.soft.uniform_(generator=torch.Generator().manual_seed(1)).div_(pool.soft.shape[-1])
    soft = model.vision(sight.cut(pool.pixels, vision), 16, 16)
    _, logits, _ = sight.sight_loss(model, sight.probe(model), soft, pool, through_layer)
    for row in range(len(logits)):
        start, question = [*message_start(), vision.begin_token_id], pool.ids[row][pool.present[row]]
        text = model.embed(torch.tensor([*start, vision.end_token_id]))
        x = torch.cat([text[:-1], soft[row // QUESTIONS], text[-1:], model.embed(question)])[None]
        place = torch.arange(x.shape[1])
        inside = (place >= len(start)) & (place < len(start) + soft.shape[1])
        mask = (place[None, :] <= place[:, None]) | (inside[None, :] & inside[:, None])
        kinds = {layer.kind for layer in model.config.layers}
        kept: list[tuple[Tensor, Tensor]] = []

        def keep(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            kept.append((keys, values))  # noqa: B023
            return keys, values

        model.run(x, place, dict.fromkeys(kinds, mask), [keep] * 5, len(place))
        canvas = model.self_conditioning(model.embed(pool.canvas[row]), model.soft_embedding(pool.soft[row]))[None]
        own = model.run(canvas, len(place) + torch.arange(8), {}, [_behind(*layer) for layer in kept])
        assert (model.head(own)[0] - logits[row]).abs().max() <= 1e-4, row


def _behind(keys: Tensor, values: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    return lambda more_keys, more_values: (torch.cat([keys, more_keys], 2), torch.cat([values, more_values], 2))


def test_rows_survive_being_packed() -> None:
    rows = DrawingSource(8, 1).draw(3)
    again = PictureRows.unpacked(rows.packed())
    for name in ("pixels", "cells"):
        assert torch.equal(getattr(rows, name), getattr(again, name))
    for name in ("ids", "present", "target"):
        assert torch.equal(getattr(rows.batch, name), getattr(again.batch, name))


def test_the_questions_of_a_picture_stay_together(pool: PicturePool) -> None:
    size = SIGHT.model_config().vocab_size
    for _ in range(6):
        before = pool.pixels.clone(), pool.ids.clone()
        pool.advance(torch.randn(2 * QUESTIONS, 8, size, generator=torch.Generator().manual_seed(2)), 0.5)
        changed = (pool.ids != before[1]).any(dim=1).view(2, QUESTIONS)
        for row, is_new in enumerate((pool.pixels != before[0]).any(dim=1).tolist()):
            assert bool(changed[row].any()) == is_new
    assert not torch.equal(pool.renewed, torch.zeros_like(pool.renewed))


class StopError(Exception):
    pass


class Interrupted(SightTrainer):
    """A run that is stopped behind its second step's checkpoint."""

    def save(self) -> None:
        super().save()
        if self.step == 2:
            raise StopError


def test_a_run_taken_up_again_ends_in_the_same_bits(tmp_path: Path) -> None:
    recipe: Recipe = TINY
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    SightTrainer(recipe, whole, seed=3).run()
    with pytest.raises(StopError):
        Interrupted(recipe, parts, seed=3).run(report_every=1, save_every=0.0)
    runner = SightTrainer(recipe, parts, seed=3)
    start = {name: param.detach().clone() for name, param in runner.named.items()}
    runner.run()
    assert all(not torch.equal(start[name], param) for name, param in runner.named.items() if "vision" in name)
    ends = [load_file(folder / "state.safetensors") for folder in (whole, parts)]
    assert ends[0].keys() == ends[1].keys()
    for key, tensor in ends[0].items():
        assert torch.equal(tensor, ends[1][key]), key
