"""Rows of drawings: a picture, what its cells hold, and several questions about it with their answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.tasks import drawings
from engine.training.data.corpus import AFTER_MESSAGE, BEFORE_MESSAGE, EOS, PAD, RowStream, build_tokenizer
from engine.training.data.rollout import Pool, TrainingBatch, placed

QUESTIONS = 4  # of a picture
CELLS = 8  # a side; one is what a soft token stands for
LENGTH = drawings.MAX_QUESTION + 4  # of a question with the turn marks behind it
LABELS = (1 + len(drawings.CELL_KINDS), 1 + len(drawings.COLOURS), 2)  # of a cell: thing, colour, whether its middle
_PIXELS, _LABELS = 3 * drawings.SIDE**2, 3 * CELLS**2


def message_start() -> list[int]:
    """The tokens of a prompt before an image that its message begins with."""
    return build_tokenizer().encode(BEFORE_MESSAGE).ids


@dataclass(frozen=True)
class PictureRows:
    """Pictures (B, pixels) of 0 to 255, what their cells hold (B, 3 * cells), and their questions.

    looks: which cells decide each question, (B * QUESTIONS, cells), as bits of ``drawings.deciding_cells``.

    Questions are what follows the image: ids and presence (B * QUESTIONS, LENGTH), padded on the right, those of a
    picture one after the other; so are the target canvases (B * QUESTIONS, C).
    """

    pixels: Tensor
    cells: Tensor
    looks: Tensor
    batch: TrainingBatch

    def packed(self) -> Tensor:
        """Bytes (B, N)."""
        questions = torch.cat([self.looks, self.batch.ids, self.batch.present, self.batch.target], dim=1)
        return torch.cat([self.pixels, self.cells, questions.to(torch.uint8).view(len(self.pixels), -1)], dim=1)

    @staticmethod
    def unpacked(rows: Tensor) -> PictureRows:
        """What was ``packed``."""
        count = QUESTIONS * len(rows)
        pixels, cells, questions = rows.tensor_split([_PIXELS, _PIXELS + _LABELS], dim=1)
        edges = [CELLS**2, CELLS**2 + LENGTH, CELLS**2 + 2 * LENGTH]
        looks, ids, present, target = questions.reshape(count, -1).tensor_split(edges, dim=1)
        return PictureRows(pixels, cells, looks, TrainingBatch(ids.long(), present.bool(), target.long()))


class DrawingSource(RowStream):
    """Drawings with questions of the training split."""

    prompt_length = LENGTH

    def __init__(self, canvas_length: int, seed: int, name: str = "drawings") -> None:
        super().__init__(seed, name)
        self.canvas_length = canvas_length
        self.tokenizer = build_tokenizer()

    def draw(self, count: int) -> PictureRows:
        """So many pictures."""
        examples = [drawings.sample(self.rng, "train", QUESTIONS) for _ in range(count)]
        pixels = np.stack([drawings.draw(example.scene).reshape(-1) for example in examples])
        cells = np.stack([drawings.cells(example.scene, CELLS).reshape(-1) for example in examples])
        asked = [one for example in examples for one in example.asked]
        looks = np.stack(
            [drawings.deciding_cells(example.scene, one, CELLS) for example in examples for one, _ in example.asked]
        )
        ids = np.full((len(asked), LENGTH), PAD)
        target = np.full((len(asked), self.canvas_length), EOS)
        for row, (question, answer) in enumerate(asked):
            tokens = self.tokenizer.encode(question + AFTER_MESSAGE).ids
            ids[row, : len(tokens)] = tokens
            written = self.tokenizer.encode(answer).ids
            target[row, : len(written)] = written
        batch = TrainingBatch(torch.from_numpy(ids), torch.from_numpy(ids != PAD), torch.from_numpy(target))
        return PictureRows(torch.from_numpy(pixels), torch.from_numpy(cells), torch.from_numpy(looks), batch)


class PictureReads:
    """``size`` pictures alone; every step takes others. Stands where canvases have a ``Pool``."""

    NAMES = ("pixels", "cells")

    def __init__(self, draw: Callable[[int], PictureRows], size: int) -> None:
        self.draw, self.size = draw, size
        self._renew()

    def _renew(self) -> None:
        rows = self.draw(self.size)
        self.pixels, self.cells = rows.pixels, rows.cells

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
    labels = cells.view(len(cells), CELLS**2, len(LABELS))
    told = torch.stack([part.argmax(dim=-1) for part in torch.split(scores, list(LABELS), dim=-1)], dim=-1)
    middles = labels[..., -1] == 1
    return ((told == labels).all(dim=-1) & middles).sum() / middles.sum()


class PicturePool(Pool):
    """Canvases about pictures on their way from noise to the answer; those of a picture are renewed together."""

    NAMES = (*Pool.NAMES, "pixels", "cells", "looked")

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
        self.pixels, self.cells, self.looked = self.fresh.pixels, self.fresh.cells, self.fresh.looks

    def _renew(self, finished: Tensor, retire: float) -> None:
        pictures = finished.view(-1, QUESTIONS).all(dim=1)
        pictures |= self._random(len(pictures)) < retire
        super()._renew(pictures.repeat_interleave(QUESTIONS), retire)
        if self.ahead or bool(pictures.any()):
            self.pixels = placed(self.pixels, pictures, self.fresh.pixels)
            self.cells = placed(self.cells, pictures, self.fresh.cells)
            self.looked = placed(self.looked, self.renewed, self.fresh.looks)
