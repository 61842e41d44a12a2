"""How many tokens a conversation takes in a model's prompt, its pictures included. Knows no tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.text.message import Message, with_images


@dataclass(frozen=True)
class PromptCount:
    """Counts messages; equal where it counts alike.

    text: tokens of messages without images. image: of an image by width, height and budget; None where the model sees
    none. budget: tokens that an image may take.
    """

    text: Callable[[Sequence[Message]], int]
    image: Callable[[int, int, int], int] | None
    budget: int

    def __call__(self, messages: Sequence[Message]) -> int:
        images = (image for message in messages for image in message.get("images", ()))
        seen = sum(self.cost(image["width"], image["height"]) for image in images)
        return self.text([with_images(message, ()) for message in messages]) + seen

    def cost(self, width: int, height: int) -> int:
        """Tokens of an image."""
        return 0 if self.image is None else self.image(width, height, self.budget)
