"""Pictures to train vision on: drawings, and photographed Sudokus, whole and in parts."""

from __future__ import annotations

import numpy as np

from engine.tasks import sudoku, sudoku_pictures
from engine.tasks.drawings import draw
from small_models import drawings
from small_models.drawing_cells import CELL_KINDS, deciding_cells
from small_models.drawing_cells import cells as cells_of
from small_models.picture_rows import (
    ANY,
    LABELS,
    QUESTIONS,
    ROW_ENDS,
    AskedPicture,
    AskedRow,
    PictureRows,
    PictureRowSource,
    resized,
)
from small_models.sudoku_pictures import answer, photograph, random_board

SQUARES = 0.4  # share of square drawings
WHOLE, PART, PARTS = 280, 8, 4  # soft tokens of a Sudoku; cells along a part's side; parts taken from one Sudoku
SUDOKUS = 0.85  # share of Sudokus in a feed of them; the others are drawings


class DrawingSource(PictureRowSource):
    """Draws drawings of all proportions, with questions of the training split."""

    def picture(self) -> AskedPicture:
        proportion = 1.0 if self.rng.random() < SQUARES else drawings.random_proportion(self.rng)
        example = drawings.sample(self.rng, "train", QUESTIONS, proportion=proportion)
        pixels = draw(example.scene, self.side(self.budget))
        rows, columns = size = self.size(pixels, self.budget)
        cells = np.zeros((rows * columns, len(LABELS)), dtype=np.uint8)
        cells[:, :3] = cells_of(example.scene, rows, columns)
        asked = [
            AskedRow(question, answer, deciding_cells(example.scene, question, rows, columns))
            for question, answer in example.asked
        ]
        return AskedPicture(pixels, size, cells, asked)


class SudokuPictureSource(DrawingSource):
    """Draws photographed Sudokus with questions about some of their rows, and a few drawings of the same size."""

    def picture(self) -> AskedPicture:
        return self._sudoku(self.budget) if self.rng.random() < SUDOKUS else super().picture()

    def _sudoku(self, budget: int) -> AskedPicture:
        picture = photograph(self.rng, random_board(self.rng), self.side(budget))
        rows, columns = size = self.size(picture.pixels, budget)
        labels = picture.labels(rows, columns)
        things = np.array([0, *(1 + CELL_KINDS.index(digit) for digit in sudoku.DIGITS)], dtype=np.uint8)
        digit, row, column, middle = labels.T
        cells = np.stack([things[digit], np.full_like(digit, ANY), middle, row, column], axis=1)
        middles, asked = picture.middles(rows, columns), list[AskedRow]()
        for number in self.rng.sample(range(9), QUESTIONS):
            looks = np.zeros(size, dtype=np.int16)
            for place, middle in enumerate(middles[9 * number : 9 * number + 9]):
                looks[middle] |= 1 << place
            question = sudoku_pictures.ROW_QUESTIONS[number]
            first = question.index(str(number + 1))
            row = answer(picture.board, number)
            asked.append(AskedRow(question, row, looks.flatten(), first, ROW_ENDS))
        return AskedPicture(picture.pixels, size, cells, asked)


class SudokuPartSource(SudokuPictureSource):
    """Draws parts of photographed Sudokus, at the scale of a whole one: most of the content at a third of the cost.

    They have no questions; rows and columns cannot be recognised in a part.
    """

    def draw(self, count: int) -> PictureRows:
        self.parts = list[AskedPicture]()
        return super().draw(count)

    def picture(self) -> AskedPicture:
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
