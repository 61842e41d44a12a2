"""One message of a conversation, in the form that chat templates take, and its images."""

from __future__ import annotations

import itertools
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from engine.errors import SafelightError
from engine.pictures import MOST_SIDE, Picture

Message = Mapping[str, Any]
"""``{"role": "system" | "user" | "assistant" | "tool", "content": text}``; both are always strings.

An assistant's may have "tool_calls", a list as OpenAI writes it with the arguments as an object, and
"reasoning_content"; a tool's has "name" and "tool_call_id". A user's may have "images", in the order in which they
stand in the content: ``{"digest", "width", "height", "at"}``, the picture's digest, its size in pixels, and the
character before which it stands.
"""

MOST_IMAGES = 64  # of a message

_DIGEST = re.compile(r"[0-9a-f]{64}")


def image_of(picture: Picture, at: int = 0) -> dict[str, Any]:
    """Returns an entry of a message's "images"."""
    return {"digest": picture.digest, "width": picture.width, "height": picture.height, "at": at}


def message_of(content: str, pictures: Sequence[Picture] = ()) -> Message:
    """Returns a user's message, with pictures before its text."""
    message: Message = {"role": "user", "content": content}
    return {**message, "images": tuple(map(image_of, pictures))} if pictures else message


def image_digests(messages: Iterable[Message]) -> tuple[str, ...]:
    """Returns the digests of the pictures in messages, each once, in order."""
    return tuple(dict.fromkeys(image["digest"] for message in messages for image in message.get("images", ())))


def with_images(message: Message, digests: Container[str]) -> Message:
    """Returns the message with only those images whose digests are given."""
    if "images" not in message:
        return message
    images = tuple(image for image in message["images"] if image["digest"] in digests)
    bare = {name: value for name, value in message.items() if name != "images"}
    return bare | {"images": images} if images else bare


def in_parts(message: Message) -> Message:
    """Returns a message as chat templates take it: with images, its content is a list of texts and images."""
    images, content = message.get("images") or (), message["content"]
    if not images:
        return message
    edges = [0, *(image["at"] for image in images), len(content)]
    texts = [content[start:end] for start, end in itertools.pairwise(edges)]
    parts: list[dict[str, str]] = []
    for place, text in enumerate(texts):
        parts += [{"type": "image"}] if place else []
        parts += [{"type": "text", "text": text}] if text else []
    return {**with_images(message, ()), "content": parts}


def read_images(raw: Any, content: str) -> tuple[dict[str, Any], ...]:
    """Reads a message's "images" from outside, checked.

    Raises:
        SafelightError: they are none, or out of bounds.
    """
    if not isinstance(raw, list | tuple) or len(raw) > MOST_IMAGES:
        raise SafelightError(f"a message's images must be a list of at most {MOST_IMAGES}")
    images = tuple(_read_image(image, len(content)) for image in raw)
    if any(before["at"] > after["at"] for before, after in itertools.pairwise(images)):
        raise SafelightError("a message's images must be in the order of their places")
    return images


def _read_image(raw: Any, length: int) -> dict[str, Any]:
    if not isinstance(raw, dict) or raw.keys() != {"digest", "width", "height", "at"}:
        raise SafelightError('an image of a message must have "digest", "width", "height" and "at"')
    if not isinstance(raw["digest"], str) or not _DIGEST.fullmatch(raw["digest"]):
        raise SafelightError("an image's digest must be 64 hexadecimal digits")
    for name, low, high in (("width", 1, MOST_SIDE), ("height", 1, MOST_SIDE), ("at", 0, length)):
        if type(raw[name]) is not int or not low <= raw[name] <= high:
            raise SafelightError(f"an image's {name} must be a whole number between {low} and {high}")
    return dict(raw)
