"""Pictures to the rows that stand for them in a prompt. Each is read once for a budget; the last few are kept."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor
from torch.func import functional_call

from engine.config import VisionConfig
from engine.memory.footprint import image_pass
from engine.memory.plan import spare_bytes
from engine.models.vision.preprocess import patches
from engine.models.vision.tower import VisionTower
from engine.pictures import ImageCost, Picture, pixels

MOST_KEPT = 32  # pictures; one of 1120 tokens has 6 MB at the 26B


class ImageReader:
    """A network's tower, with what it made of pictures.

    On a card the tower's weights are in the computer's memory, and lent to the card while a picture is read; where
    there is too little room for that, the processor reads it.
    """

    def __init__(self, tower: VisionTower, device: torch.device) -> None:
        self._tower, self._device = tower, device
        self._kept = OrderedDict[str, Tensor]()

    @property
    def config(self) -> VisionConfig:
        return self._tower.config

    @property
    def cost(self) -> ImageCost:
        """The tokens that an image takes."""
        return ImageCost(self.config.tile_size)

    @staticmethod
    def key(picture: Picture, image_tokens: int) -> str:
        """What its rows are known by."""
        return f"{picture.digest}/{image_tokens}"

    @torch.inference_mode()
    def rows(self, picture: Picture, image_tokens: int) -> Tensor:
        """The rows (n, H) of a picture on the CPU, n at most ``image_tokens``.

        Raises:
            SafelightError: it is damaged, or longer than the positions that the model knows.
        """
        key = self.key(picture, image_tokens)
        if key not in self._kept:
            cut = patches(pixels(picture), self.config, image_tokens)
            device = self._place(image_tokens)
            weights = {name: tensor.to(device) for name, tensor in self._tower.state_dict().items()}
            given = cut.values[None].to(device), cut.rows, cut.columns
            found: Tensor = functional_call(self._tower, weights, given)
            self._kept[key] = found[0].cpu()
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def _place(self, image_tokens: int) -> torch.device:
        """Where an image of this budget is read."""
        weights = self._tower.state_dict().values()
        held = sum(tensor.nbytes for tensor in weights) + image_pass(self.config, 4, image_tokens)
        has_room = self._device.type == "cpu" or spare_bytes(self._device) > held
        return self._device if has_room else torch.device("cpu")
