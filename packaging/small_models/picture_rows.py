"""Rows of pictures: the content of their cells, and several questions about each with their answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from engine.config import VisionConfig
from engine.pictures import ImageCost
from engine.tasks.drawings import COLOURS
from engine.training.puzzles import TrainingBatch
from small_models.drawing_cells import CELL_KINDS, FIRST
from small_models.drawings import MAX_QUESTION
from small_models.rollout import Pool, placed
from small_models.rows import AFTER_MESSAGE, BEFORE_MESSAGE, RowStream
from small_models.tokenizer import EOS, PAD, build_tokenizer

QUESTIONS = 4  # questions about a picture
LENGTH = MAX_QUESTION + 4  # tokens of a question with the turn marks after it
# sizes of a cell's labels: thing, colour, middle or not; and on a Sudoku row and column, from 1
LABELS = (1 + len(CELL_KINDS), 1 + len(COLOURS), 2, 10, 10)
ANY = 255  # a label that is ignored
# tokens at a prompt's end that predict the first characters of an answer, and all of a Sudoku's row
ENDS, ROW_ENDS = 5, 9
PATCHES = 4  # of a soft token
VALUES = 192  # of a patch
FINER = (1.0, 1.3, 1.7)  # sides of a source picture, relative to the size at which it is read


def message_start() -> list[int]:
    """Returns the tokens of a prompt before an image that its message begins with."""
    return build_tokenizer().encode(BEFORE_MESSAGE).ids


@dataclass(frozen=True)
class PictureRows:
    """Pictures, the content of their cells, and their questions. A cell is the area of one soft token.

    pixels: (B, cells * PATCHES * VALUES) of 0 to 255, cell by cell, in each patch by patch. Pictures have fewer cells
    than the rows are wide; the rest is zeros.
    size: (B, 2), rows and columns of a picture's cells.
    cells: (B, cells * len(LABELS)).
    looks: what decides each question, (B * QUESTIONS, cells + LENGTH), cells of the picture and tokens of the question,
    as bits of ``drawing_cells.deciding_cells``.
    ends: (B * QUESTIONS, 1), the number of last tokens of a question that each predict a character of the answer.

    Questions are what follows the image: ids and presence (B * QUESTIONS, LENGTH), padded on the right, those of a
    picture one after the other; so are the target canvases (B * QUESTIONS, C).
    """

    pixels: Tensor
    size: Tensor
    cells: Tensor
    looks: Tensor
    ends: Tensor
    batch: TrainingBatch


@dataclass(frozen=True)
class AskedRow:
    """A question, its answer, and what decides it: cells, and the index of the token to be found first, or 0."""

    question: str
    answer: str
    looks: NDArray[np.int16]
    first: int = 0
    ends: int = ENDS


@dataclass(frozen=True)
class AskedPicture:
    """A picture (H, W, 3), rows and columns of its cells, their labels (cells, labels), and its questions."""

    pixels: NDArray[np.uint8]
    size: tuple[int, int]
    cells: NDArray[np.uint8]
    asked: list[AskedRow]


class PictureRowSource(RowStream, ABC):
    """Draws pictures of one kind, with questions.

    Args:
        budget: maximum number of cells of a picture.
    """

    prompt_length = LENGTH

    def __init__(self, canvas_length: int, seed: int, config: VisionConfig, budget: int, name: str) -> None:
        super().__init__(seed, f"{name}-{budget}")
        self.canvas_length, self.config, self.budget = canvas_length, config, budget
        self.tokenizer = build_tokenizer()

    def draw(self, count: int) -> PictureRows:
        """Draws ``count`` pictures with their questions."""
        size = np.zeros((count, 2), dtype=np.int64)
        pixels = np.zeros((count, self.budget, PATCHES * VALUES), dtype=np.uint8)
        cells = np.zeros((count, self.budget, len(LABELS)), dtype=np.uint8)
        looks = np.zeros((count * QUESTIONS, self.budget + LENGTH), dtype=np.int16)
        ends = np.zeros((count * QUESTIONS, 1), dtype=np.int64)
        ids = np.full((count * QUESTIONS, LENGTH), PAD)
        target = np.full((count * QUESTIONS, self.canvas_length), EOS)
        row = 0
        for place in range(count):
            picture = self.picture()
            high, wide = size[place] = picture.size
            own = high * wide
            pixels[place, :own] = cut(picture.pixels, high, wide, self.config)
            cells[place, :own] = picture.cells
            for one in picture.asked:
                looks[row, :own] = one.looks
                looks[row, self.budget + one.first] = FIRST * (one.first > 0)
                ends[row] = one.ends
                tokens = self.tokenizer.encode(one.question + AFTER_MESSAGE).ids
                ids[row, : len(tokens)] = tokens
                written = self.tokenizer.encode(one.answer).ids
                target[row, : len(written)] = written
                row += 1
        batch = TrainingBatch(torch.from_numpy(ids), torch.from_numpy(ids != PAD), torch.from_numpy(target))
        pictures = torch.from_numpy(pixels).flatten(1), torch.from_numpy(size), torch.from_numpy(cells).flatten(1)
        return PictureRows(*pictures, torch.from_numpy(looks), torch.from_numpy(ends), batch)

    @abstractmethod
    def picture(self) -> AskedPicture:
        """Draws the next picture."""

    def side(self, budget: int) -> int:
        """Draws the side in pixels of a square with the next picture's area: the size that is read, or larger."""
        return round(math.sqrt(budget) * self.config.tile_size * self.rng.choice(FINER))

    def size(self, pixels: NDArray[np.uint8], budget: int) -> tuple[int, int]:
        """Returns rows and columns of a picture's cells."""
        return ImageCost(self.config.tile_size).tiles(pixels.shape[1], pixels.shape[0], budget)


def cut(picture: NDArray[np.uint8], rows: int, columns: int, config: VisionConfig) -> NDArray[np.uint8]:
    """Cuts a picture (H, W, 3) into rows by columns cells, each by its patches: (cells, PATCHES * VALUES).

    The patches are those of ``preprocess.patches`` in another order.
    """
    patch, side = config.patch_size, config.pooling_kernel_size
    tiled = resized(picture, rows, columns, config).reshape(rows, side, patch, columns, side, patch, 3)
    return tiled.transpose(0, 3, 1, 4, 2, 5, 6).reshape(rows * columns, -1)


def resized(picture: NDArray[np.uint8], rows: int, columns: int, config: VisionConfig) -> NDArray[np.uint8]:
    """Resizes a picture (H, W, 3) to this number of cells."""
    wanted = columns * config.tile_size, rows * config.tile_size
    if wanted == (picture.shape[1], picture.shape[0]):
        return picture
    return np.asarray(Image.fromarray(picture).resize(wanted, Image.Resampling.BICUBIC))


class PictureReads:
    """Holds ``count`` pictures without questions, new ones in every step, in place of a ``Pool`` with canvases."""

    NAMES = ("pixels", "size", "cells")

    def __init__(self, draw: Callable[[int], PictureRows], count: int) -> None:
        self.draw, self.count = draw, count
        self._renew()

    def _renew(self) -> None:
        rows = self.draw(self.count)
        self.pixels, self.size, self.cells = rows.pixels, rows.size, rows.cells

    @torch.no_grad()
    def advance(self, scores: Tensor, retire: float) -> Tensor:  # noqa: ARG002
        """Replaces the pictures that a probe's scores are about by new ones.

        Returns:
            The result of ``cell_accuracy``.
        """
        right = cell_accuracy(scores, self.cells)
        self._renew()
        return right


def cell_accuracy(scores: Tensor, cells: Tensor) -> Tensor:
    """Returns the share of things whose labels a probe's scores (B, cells, sum(LABELS)) all predict at their middle."""
    labels = cells.view(len(cells), -1, len(LABELS))
    predicted = torch.stack([part.argmax(dim=-1) for part in torch.split(scores, list(LABELS), dim=-1)], dim=-1)
    middles = labels[..., 2] == 1
    return (((predicted == labels) | (labels == ANY)).all(dim=-1) & middles).sum() / middles.sum()


class PicturePool(Pool):
    """Holds canvases about pictures during denoising; those of a picture are renewed together."""

    NAMES = (*Pool.NAMES, "pixels", "size", "cells", "looked", "ends")

    def __init__(
        self,
        draw: Callable[[int], PictureRows],
        size: int,
        vocab_size: int,
        generator: torch.Generator,
    ) -> None:
        def questions(count: int) -> TrainingBatch:
            self.fresh = draw(count // QUESTIONS)
            return self.fresh.batch

        super().__init__(questions, QUESTIONS * size, vocab_size, generator)
        self.pixels, self.size = self.fresh.pixels, self.fresh.size
        self.cells, self.looked, self.ends = self.fresh.cells, self.fresh.looks, self.fresh.ends

    def _renew(self, finished: Tensor, retire: float) -> None:
        pictures = finished.view(-1, QUESTIONS).all(dim=1)
        pictures |= self._random(len(pictures)) < retire
        super()._renew(pictures.repeat_interleave(QUESTIONS), retire)
        if bool(pictures.any()):
            self.pixels = placed(self.pixels, pictures, self.fresh.pixels)
            self.size = placed(self.size, pictures, self.fresh.size)
            self.cells = placed(self.cells, pictures, self.fresh.cells)
            self.looked = placed(self.looked, self.renewed, self.fresh.looks)
            self.ends = placed(self.ends, self.renewed, self.fresh.ends)
