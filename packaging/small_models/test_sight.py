"""Training on drawings: its passes equal the network's own, one question at a time; its rows; runs resume."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.vision.reader import patches
from engine.models.vision.tower import VisionTower
from engine.tasks.drawings import draw
from small_models import drawings, sight
from small_models.network import through_layer
from small_models.picture_rows import PATCHES, QUESTIONS, VALUES, PicturePool, cut, message_start
from small_models.picture_sources import DrawingSource
from small_models.recipes import SIGHT, Feed
from small_models.sight_trainer import SightTrainer
from small_models.trainer import initialise

assert SIGHT.vision is not None
CANVAS = 12
TINY = dataclasses.replace(
    SIGHT,
    hidden_size=16,
    layers=5,  # in four of which something is said of the ends
    steps=4,
    minutes=0.0,
    warmup_steps=2,
    canvas_length=CANVAS,
    mix=(Feed("drawings", 1, 2), Feed("short", 2, 2), Feed("cells", 2, 2), Feed("sudokus", 2, 1, 280)),
    vision=dataclasses.replace(SIGHT.vision, hidden_size=16, intermediate_size=16, num_hidden_layers=1, head_dim=4),
)


@pytest.fixture
def model() -> DiffusionGemma:
    found = DiffusionGemma(TINY.model_config())
    initialise(found, torch.Generator().manual_seed(0))
    return found


@pytest.fixture
def pool() -> PicturePool:
    """Returns questions about pictures of two proportions."""
    found = PicturePool(source().draw, 2, TINY.model_config().vocab_size, torch.Generator().manual_seed(0))
    assert found.size.tolist() == [[7, 9], [8, 8]]
    return found


def source(seed: int = 6) -> DrawingSource:
    assert TINY.vision is not None
    return DrawingSource(CANVAS, seed, TINY.vision, 70, "drawings")


@torch.no_grad()
def test_pictures_are_read_as_the_tower_reads_each_by_itself(model: DiffusionGemma) -> None:
    assert TINY.vision is not None
    assert isinstance(model.vision, VisionTower)
    examples = [drawings.sample(random.Random(0), "train", proportion=by) for by in (1.0, 2.6, 0.4)]
    pictures = [draw(example.scene, 100) for example in examples]
    whole = [patches(picture, TINY.vision, 70) for picture in pictures]
    size = [(one.rows // 2, one.columns // 2) for one in whole]
    rows = torch.zeros(3, 70, PATCHES * VALUES, dtype=torch.uint8)
    for row, picture, (high, wide) in zip(rows, pictures, size, strict=True):
        row[: high * wide] = torch.from_numpy(cut(picture, high, wide, TINY.vision))
    found = sight.soft_tokens(model.vision, rows.flatten(1), torch.tensor(size))
    for own, one in zip(found, whole, strict=True):
        wanted = model.vision(one.values[None], one.rows, one.columns)[0]
        assert (own[: len(wanted)] - wanted).abs().max() <= 1e-4


@torch.no_grad()
def test_a_batch_of_questions_equals_each_by_itself(model: DiffusionGemma, pool: PicturePool) -> None:
    vision = model.config.vision
    assert vision is not None
    assert isinstance(model.vision, VisionTower)
    pool.soft.uniform_(generator=torch.Generator().manual_seed(1)).div_(pool.soft.shape[-1])
    soft = sight.soft_tokens(model.vision, pool.pixels, pool.size)
    _, logits, _ = sight.sight_loss(model, sight.probe(model), soft, pool, through_layer)
    for row in range(len(logits)):
        start, question = [*message_start(), vision.begin_token_id], pool.ids[row][pool.present[row]]
        text = model.embed(torch.tensor([*start, vision.end_token_id]))
        image = soft[row // QUESTIONS, : pool.size[row // QUESTIONS].prod()]
        x = torch.cat([text[:-1], image, text[-1:], model.embed(question)])[None]
        place = torch.arange(x.shape[1])
        inside = (place >= len(start)) & (place < len(start) + len(image))
        mask = (place[None, :] <= place[:, None]) | (inside[None, :] & inside[:, None])
        kinds = {layer.kind for layer in model.config.layers}
        kept: list[tuple[Tensor, Tensor]] = []

        def keep(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            kept.append((keys, values))  # noqa: B023
            return keys, values

        model.run(x, place, dict.fromkeys(kinds, mask), [keep] * 5, len(place))
        canvas = model.self_conditioning(model.embed(pool.canvas[row]), model.soft_embedding(pool.soft[row]))[None]
        own = model.run(canvas, len(place) + torch.arange(CANVAS), {}, [_behind(*layer) for layer in kept])
        assert (model.head(own)[0] - logits[row]).abs().max() <= 1e-4, row


def _behind(keys: Tensor, values: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    return lambda more_keys, more_values: (torch.cat([keys, more_keys], 2), torch.cat([values, more_values], 2))


def test_the_questions_of_a_picture_stay_together(pool: PicturePool) -> None:
    size = SIGHT.model_config().vocab_size
    for _ in range(6):
        before = pool.pixels.clone(), pool.ids.clone()
        pool.advance(torch.randn(2 * QUESTIONS, CANVAS, size, generator=torch.Generator().manual_seed(2)), 0.5)
        changed = (pool.ids != before[1]).any(dim=1).view(2, QUESTIONS)
        for row, is_new in enumerate((pool.pixels != before[0]).any(dim=1).tolist()):
            assert bool(changed[row].any()) == is_new
    assert not torch.equal(pool.renewed, torch.zeros_like(pool.renewed))


def test_a_resumed_run_ends_in_the_same_bits(tmp_path: Path) -> None:
    ends = []
    for folder, parts in ((tmp_path / "whole", [2]), (tmp_path / "parts", [1, 2])):
        for steps in parts:
            runner = SightTrainer(TINY, folder, seed=3)
            start = {name: param.detach().clone() for name, param in runner.named.items()}
            while runner.step < steps:
                runner._take_step()
            runner.save()
        assert all(not torch.equal(start[name], param) for name, param in runner.named.items() if "vision" in name)
        ends.append(load_file(folder / "state.safetensors"))
    assert ends[0].keys() == ends[1].keys()
    for key, tensor in ends[0].items():
        assert torch.equal(tensor, ends[1][key]), key
