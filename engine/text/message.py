"""One message of a conversation, in the form that chat templates take, and its images."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated, Any

from engine.declared import many, plain, read, text, whole
from engine.errors import SafelightError
from engine.pictures import MAX_SIDE, Picture

Message = Mapping[str, Any]
"""``{"role": "system" | "user" | "assistant" | "tool", "content": text}``; both are always strings.

An assistant's may have "tool_calls", a list as OpenAI writes it with the arguments as an object, and
"reasoning_content"; a tool's has "name" and "tool_call_id". A user's may have "images", in the order in which they
stand in the content: ``{"digest", "width", "height", "at"}``, the picture's digest, its size in pixels, and the
character before which it stands.
"""

MAX_IMAGES = 64  # of a message
MAX_CALLS = 256  # of tools, in a message
MAX_MESSAGE_CHARACTERS = 2**23  # of a message's text

Digest = Annotated[str, text(64, "[0-9a-f]{64}")]
Side = Annotated[int, whole(1, MAX_SIDE)]  # of a picture, in pixels


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
    for place, said in enumerate(texts):
        parts += [{"type": "image"}] if place else []
        parts += [{"type": "text", "text": said}] if said else []
    return {**with_images(message, ()), "content": parts}


@dataclasses.dataclass(frozen=True)
class _Image:
    digest: Digest
    width: Side
    height: Side
    at: Annotated[int, whole(0, MAX_MESSAGE_CHARACTERS)]


@dataclasses.dataclass(frozen=True)
class _Message:
    role: str
    content: str
    images: Annotated[tuple[_Image, ...], many(MAX_IMAGES)] = ()
    tool_calls: Annotated[tuple[dict[str, Any], ...], many(MAX_CALLS)] = ()
    reasoning_content: str = ""
    name: str = ""
    tool_call_id: str = ""


def read_message(raw: Any) -> Message:
    """Reads a message from outside; fields that messages do not have are left out.

    Raises:
        SafelightError: it is none, or an image of it is out of bounds.
    """
    message = read(_Message, raw, "a message")
    edges = [0, *(image.at for image in message.images), len(message.content)]
    if edges != sorted(edges):
        raise SafelightError("a message's images must be in the order of their places in its text")
    images, calls = tuple(plain(image) for image in message.images), list(message.tool_calls)
    fields = vars(message) | {"images": images, "tool_calls": calls}
    return {name: fields[name] for name in fields if name in raw}
