"""Rows of drawings: a picture, what its cells hold, and several questions about it with their answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from engine.config import VisionConfig
from engine.pictures import ImageCost
from engine.tasks import drawings, sudoku, sudoku_pictures
from engine.tasks.sudoku_pictures.photograph import photograph
from engine.training.data.corpus import AFTER_MESSAGE, BEFORE_MESSAGE, EOS, PAD, RowStream, build_tokenizer
from engine.training.data.rollout import Pool, TrainingBatch, placed

QUESTIONS = 4  # of a picture
LENGTH = drawings.MAX_QUESTION + 4  # of a question with the turn marks behind it
# Of a cell: thing, colour, whether its middle; and on a Sudoku row and column, from 1.
LABELS = (1 + len(drawings.CELL_KINDS), 1 + len(drawings.COLOURS), 2, 10, 10)
ANY = 255  # a label that is not asked for
ENDS, ROW_ENDS = 5, 9  # the last tokens of a prompt that tell an answer's first characters, and all of a Sudoku's row
PATCHES = 4  # of a soft token
VALUES = 192  # of a patch
SQUARES = 0.4  # share of the drawings
FINER = (1.0, 1.3, 1.7)  # a drawing's side, by the one that it is read at
WHOLE, PART, PARTS = 280, 8, 4  # the budget of a Sudoku; cells of a side of a part; how many parts of one
SUDOKUS = 0.85  # share of the pictures of a feed of them; the others are drawings


def message_start() -> list[int]:
    """The tokens of a prompt before an image that its message begins with."""
    return build_tokenizer().encode(BEFORE_MESSAGE).ids


@dataclass(frozen=True)
class PictureRows:
    """Pictures, what their cells hold, and their questions. A cell is what a soft token stands for.

    pixels: (B, cells * PATCHES * VALUES) of 0 to 255, cell by cell, in each patch by patch. Pictures have fewer cells
    than the rows are wide; behind their own there are zeros.
    size: (B, 2), rows and columns of a picture's cells.
    cells: (B, cells * len(LABELS)).
    looks: what decides each question, (B * QUESTIONS, cells + LENGTH), cells of the picture and tokens of the question,
    as bits of ``drawings.deciding_cells``.
    ends: (B * QUESTIONS, 1), how many of the last tokens of a question are to tell a character of the answer each.

    Questions are what follows the image: ids and presence (B * QUESTIONS, LENGTH), padded on the right, those of a
    picture one after the other; so are the target canvases (B * QUESTIONS, C).
    """

    pixels: Tensor
    size: Tensor
    cells: Tensor
    looks: Tensor
    ends: Tensor
    batch: TrainingBatch

    def packed(self) -> Tensor:
        """Bytes (B, N)."""
        looks, batch = self.looks.contiguous().view(torch.uint8), self.batch
        asked = torch.cat([looks, self.ends, batch.ids, batch.present, batch.target], dim=1).to(torch.uint8)
        pictures = torch.cat([self.size.to(torch.uint8), self.cells, self.pixels], dim=1)
        return torch.cat([pictures, asked.view(len(self.pixels), -1)], dim=1)

    @staticmethod
    def unpacked(rows: Tensor, budget: int) -> PictureRows:
        """What was ``packed``, of pictures of at most ``budget`` cells."""
        count = QUESTIONS * len(rows)
        labels, values = budget * len(LABELS), budget * PATCHES * VALUES
        size, cells, pixels, asked = rows.tensor_split([2, 2 + labels, 2 + labels + values], dim=1)
        looked = 2 * (budget + LENGTH)
        edges = [looked, looked + 1, looked + 1 + LENGTH, looked + 1 + 2 * LENGTH]
        looks, ends, ids, present, target = asked.reshape(count, -1).tensor_split(edges, dim=1)
        batch = TrainingBatch(ids.long(), present.bool(), target.long())
        return PictureRows(pixels, size.long(), cells, looks.contiguous().view(torch.int16), ends.long(), batch)


class DrawingSource(RowStream):
    """Drawings of all proportions, with questions of the training split.

    Args:
        budget: most cells of a picture.
    """

    prompt_length = LENGTH

    def __init__(self, canvas_length: int, seed: int, config: VisionConfig, budget: int, name: str) -> None:
        super().__init__(seed, f"{name}-{budget}")
        self.canvas_length, self.config, self.budget = canvas_length, config, budget
        self.tokenizer = build_tokenizer()

    def draw(self, count: int) -> PictureRows:
        """So many pictures."""
        size = np.zeros((count, 2), dtype=np.int64)
        pixels = np.zeros((count, self.budget, PATCHES * VALUES), dtype=np.uint8)
        cells = np.zeros((count, self.budget, len(LABELS)), dtype=np.uint8)
        looks = np.zeros((count * QUESTIONS, self.budget + LENGTH), dtype=np.int16)
        ends = np.zeros((count * QUESTIONS, 1), dtype=np.int64)
        ids = np.full((count * QUESTIONS, LENGTH), PAD)
        target = np.full((count * QUESTIONS, self.canvas_length), EOS)
        row = 0
        for place in range(count):
            picture = self._picture()
            high, wide = size[place] = picture.size
            own = high * wide
            pixels[place, :own] = cut(picture.pixels, high, wide, self.config)
            cells[place, :own] = picture.cells
            for one in picture.asked:
                looks[row, :own] = one.looks
                looks[row, self.budget + one.first] = drawings.FIRST * (one.first > 0)
                ends[row] = one.ends
                tokens = self.tokenizer.encode(one.question + AFTER_MESSAGE).ids
                ids[row, : len(tokens)] = tokens
                written = self.tokenizer.encode(one.answer).ids
                target[row, : len(written)] = written
                row += 1
        batch = TrainingBatch(torch.from_numpy(ids), torch.from_numpy(ids != PAD), torch.from_numpy(target))
        pictures = torch.from_numpy(pixels).flatten(1), torch.from_numpy(size), torch.from_numpy(cells).flatten(1)
        return PictureRows(*pictures, torch.from_numpy(looks), torch.from_numpy(ends), batch)

    def _picture(self) -> AskedPicture:
        proportion = 1.0 if self.rng.random() < SQUARES else drawings.random_proportion(self.rng)
        example = drawings.sample(self.rng, "train", QUESTIONS, proportion=proportion)
        pixels = drawings.draw(example.scene, self._side(self.budget))
        rows, columns = size = self._size(pixels, self.budget)
        cells = np.zeros((rows * columns, len(LABELS)), dtype=np.uint8)
        cells[:, :3] = drawings.cells(example.scene, rows, columns)
        asked = [
            Asked(question, answer, drawings.deciding_cells(example.scene, question, rows, columns))
            for question, answer in example.asked
        ]
        return AskedPicture(pixels, size, cells, asked)

    def _side(self, budget: int) -> int:
        return round(math.sqrt(budget) * self.config.tile_size * self.rng.choice(FINER))

    def _size(self, pixels: NDArray[np.uint8], budget: int) -> tuple[int, int]:
        return ImageCost(self.config.tile_size).tiles(pixels.shape[1], pixels.shape[0], budget)


class SudokuPictureSource(DrawingSource):
    """Photographed Sudokus, asked for some of their rows; and a few drawings, as large."""

    def _picture(self) -> AskedPicture:
        return self._sudoku(self.budget) if self.rng.random() < SUDOKUS else super()._picture()

    def _sudoku(self, budget: int) -> AskedPicture:
        picture = photograph(self.rng, sudoku_pictures.random_board(self.rng), self._side(budget))
        rows, columns = size = self._size(picture.pixels, budget)
        labels = picture.labels(rows, columns)
        things = np.array([0, *(1 + drawings.CELL_KINDS.index(digit) for digit in sudoku.DIGITS)], dtype=np.uint8)
        digit, row, column, middle = labels.T
        cells = np.stack([things[digit], np.full_like(digit, ANY), middle, row, column], axis=1)
        middles, asked = picture.middles(rows, columns), list[Asked]()
        for number in self.rng.sample(range(9), QUESTIONS):
            looks = np.zeros(size, dtype=np.int16)
            for place, middle in enumerate(middles[9 * number : 9 * number + 9]):
                looks[middle] |= 1 << place
            question = sudoku_pictures.ROW_QUESTIONS[number]
            first = question.index(str(number + 1))
            answer = sudoku_pictures.answer(picture.board, number)
            asked.append(Asked(question, answer, looks.flatten(), first, ROW_ENDS))
        return AskedPicture(picture.pixels, size, cells, asked)


class SudokuPartSource(SudokuPictureSource):
    """Parts of photographed Sudokus, as large as in a whole one: most of what there is to see, at a third of the cost.

    Nothing is asked about them; rows and columns cannot be told.
    """

    def draw(self, count: int) -> PictureRows:
        self.parts = list[AskedPicture]()
        return super().draw(count)

    def _picture(self) -> AskedPicture:
        if not self.parts:
            whole = self._sudoku(WHOLE)
            self.parts = [self._part(whole) for _ in range(PARTS)]
        return self.parts.pop()

    def _part(self, whole: AskedPicture) -> AskedPicture:
        high, wide = (min(PART, count) for count in whole.size)
        top, left = self.rng.randint(0, whole.size[0] - high), self.rng.randint(0, whole.size[1] - wide)
        tile, (rows, columns) = self.config.tile_size, whole.size
        picture = resized(whole.pixels, rows, columns, self.config)
        pixels = picture[top * tile : (top + high) * tile, left * tile : (left + wide) * tile]
        cells = whole.cells.reshape(rows, columns, -1)[top : top + high, left : left + wide].copy()
        cells[..., 3:] = ANY
        return AskedPicture(pixels, (high, wide), cells.reshape(high * wide, -1), [])


@dataclass(frozen=True)
class Asked:
    """A question, its answer, and what decides it: cells, and the character that is to be found first, if any."""

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
    asked: list[Asked]


def cut(picture: NDArray[np.uint8], rows: int, columns: int, config: VisionConfig) -> NDArray[np.uint8]:
    """A picture (H, W, 3) as so many cells, each by its patches: (cells, PATCHES * VALUES).

    In another order what ``preprocess.patches`` cuts.
    """
    patch, side = config.patch_size, config.pooling_kernel_size
    tiled = resized(picture, rows, columns, config).reshape(rows, side, patch, columns, side, patch, 3)
    return tiled.transpose(0, 3, 1, 4, 2, 5, 6).reshape(rows * columns, -1)


def resized(picture: NDArray[np.uint8], rows: int, columns: int, config: VisionConfig) -> NDArray[np.uint8]:
    """A picture (H, W, 3) in the size at which it has so many cells."""
    wanted = columns * config.tile_size, rows * config.tile_size
    if wanted == (picture.shape[1], picture.shape[0]):
        return picture
    return np.asarray(Image.fromarray(picture).resize(wanted, Image.Resampling.BICUBIC))


class PictureReads:
    """``count`` pictures alone; every step takes others. Stands where canvases have a ``Pool``."""

    NAMES = ("pixels", "size", "cells")

    def __init__(self, draw: Callable[[int], PictureRows], count: int) -> None:
        self.draw, self.count = draw, count
        self._renew()

    def _renew(self) -> None:
        rows = self.draw(self.count)
        self.pixels, self.size, self.cells = rows.pixels, rows.size, rows.cells

    @torch.no_grad()
    def advance(self, scores: Tensor, retire: float) -> Tensor:  # noqa: ARG002
        """New pictures in place of those that a probe's scores are about.

        Returns:
            As ``told_right``.
        """
        right = told_right(scores, self.cells)
        self._renew()
        return right


def told_right(scores: Tensor, cells: Tensor) -> Tensor:
    """The share of things of which a probe's scores (B, cells, sum(LABELS)) tell all at their middle."""
    labels = cells.view(len(cells), -1, len(LABELS))
    told = torch.stack([part.argmax(dim=-1) for part in torch.split(scores, list(LABELS), dim=-1)], dim=-1)
    middles = labels[..., 2] == 1
    return (((told == labels) | (labels == ANY)).all(dim=-1) & middles).sum() / middles.sum()


class PicturePool(Pool):
    """Canvases about pictures on their way from noise to the answer; those of a picture are renewed together."""

    NAMES = (*Pool.NAMES, "pixels", "size", "cells", "looked", "ends")

    def __init__(
        self,
        draw: Callable[[int], PictureRows],
        size: int,
        vocab_size: int,
        generator: torch.Generator,
        ahead: bool = False,
    ) -> None:
        def questions(count: int) -> TrainingBatch:
            self.fresh = draw(count // QUESTIONS)
            return self.fresh.batch

        super().__init__(questions, QUESTIONS * size, vocab_size, generator, ahead)
        self.pixels, self.size = self.fresh.pixels, self.fresh.size
        self.cells, self.looked, self.ends = self.fresh.cells, self.fresh.looks, self.fresh.ends

    def _renew(self, finished: Tensor, retire: float) -> None:
        pictures = finished.view(-1, QUESTIONS).all(dim=1)
        pictures |= self._random(len(pictures)) < retire
        super()._renew(pictures.repeat_interleave(QUESTIONS), retire)
        if self.ahead or bool(pictures.any()):
            self.pixels = placed(self.pixels, pictures, self.fresh.pixels)
            self.size = placed(self.size, pictures, self.fresh.size)
            self.cells = placed(self.cells, pictures, self.fresh.cells)
            self.looked = placed(self.looked, self.renewed, self.fresh.looks)
            self.ends = placed(self.ends, self.renewed, self.fresh.ends)
