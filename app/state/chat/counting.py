"""Counts the tokens of a conversation in a model's prompt, and says if it does not fit. Knows no tokenizer, no Qt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.system.i18n import tr, trn
from engine.text.context_window import Fit
from engine.text.message import Message, with_images


@dataclass(frozen=True)
class PromptCount:
    """Counts the tokens of messages. Two are equal if they count alike.

    Args:
        text: returns the tokens of messages without images, and of tools if there are any.
        image: returns the tokens of an image from its width, height and budget; None if the model sees no images.
        budget: most tokens of an image.
        tools: that the model is offered, as chat templates take them.
    """

    text: Callable[..., int]
    image: Callable[[int, int, int], int] | None
    budget: int
    tools: tuple[Mapping[str, Any], ...] = ()

    def __call__(self, messages: Sequence[Message]) -> int:
        images = (image for message in messages for image in message.get("images", ()))
        seen = sum(self.cost(image["width"], image["height"]) for image in images)
        bare = [with_images(message, ()) for message in messages]
        return (self.text(bare, self.tools) if self.tools else self.text(bare)) + seen

    def cost(self, width: int, height: int) -> int:
        """Returns the tokens of an image of that size in pixels."""
        return 0 if self.image is None else self.image(width, height, self.budget)


def remark(found: Fit | None) -> str:
    """Returns a remark to show before sending; empty if everything fits or nothing is known yet."""
    if found is None or not found.dropped_turns:
        return problem(found)
    return problem(found) or trn(
        "The oldest turn no longer fits and will be left out.",
        "The oldest {count} turns no longer fit and will be left out.",
        found.dropped_turns,
    )


def problem(found: Fit | None) -> str:
    """Returns the reason why the prompt cannot be sent, in a sentence; empty if it can."""
    return tr(found.problem) if found is not None and found.problem else ""
