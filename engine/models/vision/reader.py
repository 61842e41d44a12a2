"""Converts pictures to their rows in a prompt. Each is read once for a budget; the last few are kept.

The tower reads patches with values from 0 to 1: an image is resized to a budget, and cut. Its size keeps the image's
proportions, and is the largest whose *tiles* (``ImageCost``; ``pooling_kernel_size`` patches a side) are whole and
within the budget. Values equal those of transformers' image processor.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.func import functional_call

from engine.config import VisionConfig
from engine.memory.footprint import image_pass, lent_bytes
from engine.memory.plan import spare_bytes
from engine.models.vision.tower import VisionTower
from engine.pictures import ImageCost, Picture, pixels

T = TypeVar("T")

MAX_KEPT = 32  # pictures; one of 1120 tokens has 6 MB at the 26B


class ImageReader:
    """A network's tower, with the rows of recent pictures.

    On a card the tower's weights are in the computer's memory, and lent to the card layer by layer while a picture is
    read; if there is too little room for that, the processor reads it.
    """

    def __init__(self, tower: VisionTower, device: torch.device) -> None:
        self._tower, self._device = tower, device
        self._kept = OrderedDict[str, Tensor]()

    @property
    def config(self) -> VisionConfig:
        return self._tower.config

    @property
    def cost(self) -> ImageCost:
        """The token counts of images."""
        return ImageCost(self.config.tile_size)

    @staticmethod
    def key(picture: Picture, image_tokens: int) -> str:
        """Returns the key of a picture's rows."""
        return f"{picture.digest}/{image_tokens}"

    @torch.inference_mode()
    def reading(self, picture: Picture, image_tokens: int) -> Generator[None, None, Tensor]:
        """Returns the rows (n, H) of a picture on the CPU, n at most ``image_tokens``; pauses before each layer.

        Raises:
            SafelightError: it is damaged, or longer than the positions that the model knows.
        """
        key = self.key(picture, image_tokens)
        if key not in self._kept:
            cut = patches(pixels(picture), self.config, image_tokens)
            tower, device = self._tower, self._place(image_tokens)

            def lent(module: nn.Module, *given: Any) -> Tensor:
                weights = {name: tensor.to(device) for name, tensor in module.state_dict().items()}
                return functional_call(module, weights, given)

            x, rope = tower.embedded(cut.values[None].to(device), cut.rows, cut.columns, lent)
            for block in tower.layers:
                yield
                x = lent(block, x, rope)
            self._kept[key] = tower.projected(x, cut.rows, cut.columns, lent)[0].cpu()
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _place(self, image_tokens: int) -> torch.device:
        """Returns the device on which an image of this budget is read."""
        weights = sum(tensor.nbytes for tensor in self._tower.state_dict().values())
        held = lent_bytes(self.config, weights, 4) + image_pass(self.config, 4, image_tokens)
        has_room = self._device.type == "cpu" or spare_bytes(self._device) > held
        return self._device if has_room else torch.device("cpu")


def drained(reading: Generator[None, None, T]) -> T:
    """Runs a generator to its end, and returns its result."""
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value


@dataclass(frozen=True, eq=False)
class Patches:
    """An image's patches, row by row.

    values: (rows * columns, 3 * patch_size ** 2) fp32 from 0 to 1; within a patch by y, x and channel.
    rows, columns: multiples of ``pooling_kernel_size``.
    """

    values: Tensor
    rows: int
    columns: int


def patches(pixels: NDArray[np.uint8], config: VisionConfig, image_tokens: int) -> Patches:
    """Converts an image (H, W, 3), RGB, to the tower's input.

    Args:
        image_tokens: the budget, most soft tokens that it may take.
    """
    height, width = pixels.shape[:2]
    tiles = ImageCost(config.tile_size).tiles(width, height, image_tokens)
    rows, columns = (count * config.pooling_kernel_size for count in tiles)
    patch = config.patch_size
    wanted = columns * patch, rows * patch
    if wanted != (width, height):
        pixels = np.asarray(Image.fromarray(pixels).resize(wanted, Image.Resampling.BICUBIC))
    scaled = (pixels.astype(np.float64) * (1 / 255)).astype(np.float32)  # as the reference rounds
    cut = scaled.reshape(rows, patch, columns, patch, 3).swapaxes(1, 2)
    return Patches(torch.from_numpy(cut.reshape(rows * columns, -1).copy()), rows, columns)
