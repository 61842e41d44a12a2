"""Counts the tokens of a conversation in a model's prompt, including its pictures. Knows no tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.text.message import Message, with_images


@dataclass(frozen=True)
class PromptCount:
    """Counts the tokens of messages. Two are equal if they count alike.

    Args:
        text: returns the tokens of messages without images.
        image: returns the tokens of an image from its width, height and budget; None if the model sees no images.
        budget: most tokens of an image.
    """

    text: Callable[[Sequence[Message]], int]
    image: Callable[[int, int, int], int] | None
    budget: int

    def __call__(self, messages: Sequence[Message]) -> int:
        images = (image for message in messages for image in message.get("images", ()))
        seen = sum(self.cost(image["width"], image["height"]) for image in images)
        return self.text([with_images(message, ()) for message in messages]) + seen

    def cost(self, width: int, height: int) -> int:
        """Returns the tokens of an image of that size in pixels."""
        return 0 if self.image is None else self.image(width, height, self.budget)
