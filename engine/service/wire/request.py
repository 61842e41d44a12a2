"""A run's request as JSON: its class's fields by their names, without those that have their default, and its ``kind``.

A field that is not of its kind is refused. ``config`` has a ``GenerationConfig``'s fields; those left out have its
defaults. ``pictures`` of a decision, and the images of messages, are digests of pictures that were sent before. The
receiver chooses the run's id, and if its trace is kept. The end of the connection cancels the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING
from typing import Annotated, Any

from engine.declared import many, plain, read, read_fields
from engine.errors import SafelightError, quoted
from engine.pictures import Picture
from engine.service.requests import ChatRun, DecisionRun, PuzzleRun, RunRequest
from engine.text.message import Digest, Message, image_of
from engine.text.outline import Outline
from engine.trace.header import unknown_settings

MAX_MESSAGES = 4_096
MAX_CHARACTERS = 2**21  # characters of a message, which a tokenizer reads at once
MAX_DIGESTS = 4_096
Digests: Any = Annotated[tuple[Digest, ...], many(MAX_DIGESTS)]

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


KINDS: dict[str, type[RunRequest]] = {"chat": ChatRun, "puzzle": PuzzleRun, "decision": DecisionRun}


def request_to_json(request: RunRequest) -> dict[str, Any]:
    """Returns a request as JSON; ``request_from_json`` makes the same run of it, bit for bit.

    Raises:
        SafelightError: such a run is made where its model runs.
    """
    kind = next((name for name, one in KINDS.items() if one is type(request)), None)
    if kind is None:
        raise SafelightError("only the machine that runs the model goes on from a recorded run, or from a text")
    usual = {one.name: plain(one.default) for one in dataclasses.fields(request) if one.default is not MISSING}
    found = {name: value for name, value in plain(request).items() if value != usual.get(name, MISSING)}
    shown = {"pictures": [picture.digest for picture in request.pictures]} if isinstance(request, DecisionRun) else {}
    return {"kind": kind, **found, **shown}


def request_from_json(raw: Any, find: FindPicture) -> RunRequest:
    """Returns a request with its own id and cancel flag. It is not checked against the model.

    Raises:
        SafelightError: it is none, or shows a missing picture; the sentence names the field.
    """
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise SafelightError(f"a run's kind must be one of {', '.join(KINDS)}, not {quoted(kind)}")
    given = {name: value for name, value in raw.items() if name not in ("kind", "pictures")}
    found = read_fields(KINDS[kind], given, f"a run of kind {kind}", is_strict=True)
    if unknown := unknown_settings(raw["config"]):
        raise SafelightError(f"the settings {quoted(', '.join(unknown), 200)} are not known; leave them out")
    if kind == "decision":
        pictures = sent_before(read(Digests, raw.get("pictures", []), "pictures"), find)
    else:
        check_conversation(found["messages"], found.get("outline", ()))
        pictures = shown_in(found["messages"], find)
    return KINDS[kind](**found, pictures=pictures)


def check_conversation(messages: Sequence[Message], outline: Outline = ()) -> None:
    """Checks the size of a conversation.

    Raises:
        SafelightError: it has no message, too many, or a text that is too long.
    """
    many(MAX_MESSAGES, fewest=1)("messages", messages)
    texts = [text for message in messages for text in message.values() if isinstance(text, str)]
    texts.append("".join(part if isinstance(part, str) else part.like for part in outline))
    if any(len(text) > MAX_CHARACTERS for text in texts):
        raise SafelightError(f"a text has more than {MAX_CHARACTERS:,} characters; shorten it")
