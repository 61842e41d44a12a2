"""Converts an image's pixels to the patches that the tower reads: resized to a budget, cut, with values from 0 to 1.

The size keeps the image's proportions, and is the largest whose *tiles* (``ImageCost``; ``pooling_kernel_size`` patches
a side) are whole and within the budget. Values equal those of transformers' image processor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from engine.config import VisionConfig
from engine.pictures import ImageCost


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
