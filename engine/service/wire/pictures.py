"""The pictures of a run, which are sent before it, each once as its file is, and named by their digests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from engine.declared import many
from engine.errors import SafelightError
from engine.pictures import Picture
from engine.text.message import Digest, Message, image_of

MOST_DIGESTS = 4_096
Digests: Any = Annotated[tuple[Digest, ...], many(MOST_DIGESTS)]

FindPicture = Callable[[str], Picture | None]
"""The picture of a digest that was sent before; None without one."""


def sent_before(digests: Iterable[str], find: FindPicture) -> tuple[Picture, ...]:
    """Returns the pictures with these digests.

    Raises:
        SafelightError: one is missing.
    """
    found = tuple(map(find, dict.fromkeys(digests)))
    if None in found:
        raise SafelightError("a picture of this run is not on the server; send the run again")
    return tuple(picture for picture in found if picture is not None)


def shown_in(messages: Iterable[Message], find: FindPicture) -> tuple[Picture, ...]:
    """Returns the pictures of messages, each once.

    Raises:
        SafelightError: one is missing, or has another size than a message says.
    """
    images = [image for message in messages for image in message.get("images", ())]
    pictures = {picture.digest: picture for picture in sent_before((image["digest"] for image in images), find)}
    if any(image_of(pictures[image["digest"]], image["at"]) != image for image in images):
        raise SafelightError("an image of a message and its picture differ in size")
    return tuple(pictures.values())
