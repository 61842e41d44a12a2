"""The pictures of a run, which are sent before it, each once as its file is, and named by their digests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from engine.errors import SafelightError
from engine.pictures import Picture
from engine.service.wire.fields import items
from engine.text.message import Message, image_of

MOST_DIGESTS = 4_096
_DIGEST = re.compile(r"[0-9a-f]{64}")

FindPicture = Callable[[str], Picture | None]
"""The picture of a digest that was sent before; None without one."""


def digests_from_json(raw: Any, name: str) -> tuple[str, ...]:
    """Returns the list of digests under a name of an object; empty if there is none.

    Raises:
        SafelightError: it is no list of digests.
    """
    found = items(raw, name, MOST_DIGESTS)
    if not all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in found):
        raise SafelightError(f"{name} must be digests, 64 hexadecimal digits each")
    return tuple(dict.fromkeys(found))


def sent_before(digests: Iterable[str], find: FindPicture) -> tuple[Picture, ...]:
    """Returns the pictures with these digests.

    Raises:
        SafelightError: one is missing.
    """
    found = tuple(map(find, digests))
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
