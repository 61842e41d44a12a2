"""A recorded run that is continued, as JSON: its header and the canvases it committed, without their steps.

    {"header": …, "committed": [{"tokens": [C], "text_length": …, "steps": …, "reason": one of ``COMMITTED``}, …]}

The header is that of the trace file (``engine.trace.header``), the list in order from block 0. The receiver makes a
recording in which each of these blocks is there at once, without its steps, which the sender has. The pictures of a
run are sent before it, each once as its file is, and named by their digests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from engine.errors import SafelightError
from engine.events import CanvasCommitted, CanvasStarted
from engine.pictures import Picture
from engine.service.wire.fields import fields, items, reading, tokens, whole
from engine.text.message import Message, image_of
from engine.trace.codec import COMMITTED
from engine.trace.format import MOST_ANSWER, MOST_BLOCKS, MOST_HEADER, MOST_POSITIONS, MOST_STEPS
from engine.trace.header import TraceHeader
from engine.trace.live import Trace
from engine.trace.recording import Recording

_FIELDS = ("tokens", "text_length", "steps", "reason")
MOST_DIGESTS = 4_096
_DIGEST = re.compile(r"[0-9a-f]{64}")

FindPicture = Callable[[str], Picture | None]
"""The picture of a digest that was sent before; None without one."""


def none_sent(_digest: str) -> None:
    """Refuses every picture."""


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


def source_to_json(source: Recording) -> dict[str, Any]:
    """Returns the part of a run that is needed to continue it, as JSON.

    Raises:
        SafelightError: its first blocks are not in the recording.
    """
    committed = source.committed
    if [event.block_index for event in committed] != list(range(len(committed))):
        raise SafelightError("this run was recorded without its first blocks, so no other machine can go on from it")
    blocks = [
        {"tokens": event.tokens.tolist(), **{name: getattr(event, name) for name in _FIELDS[1:]}} for event in committed
    ]
    return {"header": json.loads(source.header.to_json()), "committed": blocks}


def source_from_json(raw: Any, find: FindPicture = none_sent) -> Trace:
    """Returns a recording of the committed blocks.

    Raises:
        SafelightError: it is no recorded run, or shows a missing picture.
    """
    raw = fields(raw, "the source", ("header", "committed"), ("header", "committed"))
    header = _header(raw["header"])
    length, vocabulary = header.canvas_length, header.model.vocab_size
    blocks = [_committed(block, place) for place, block in enumerate(items(raw, "committed", MOST_BLOCKS))]
    if sum(len(event.tokens) for event in blocks) > MOST_ANSWER:
        raise SafelightError(f"the source has more than {MOST_ANSWER:,} tokens, the most that a run has")
    trace = Trace(header=header, pictures=shown_in(header.messages, find))
    for event in blocks:
        own = len(event.tokens)
        fits = own == length if header.config.has_equal_blocks else own <= length
        if not fits or not 0 <= event.text_length <= own:
            raise SafelightError(f"the source has a canvas that is not of {length} tokens, as its header says")
        if vocabulary and event.tokens.max(initial=0) >= vocabulary:
            raise SafelightError(f"the source has a token that is not in its vocabulary of {vocabulary}")
        trace.append(CanvasStarted(event.block_index, event.tokens, np.zeros(own, dtype=np.bool_)))
        trace.append(event)
    return trace


def _header(raw: Any) -> TraceHeader:
    payload = json.dumps(raw).encode()
    if len(payload) > MOST_HEADER:
        raise SafelightError(f"the source's header has more than {MOST_HEADER:,} bytes; shorten the conversation")
    with reading("the source's header"):
        header, unknown = TraceHeader.from_json(payload)
    if unknown:
        raise SafelightError(
            f"the source was made with settings that are not known ({', '.join(unknown)[:200]}); update Safelight"
        )
    return header


def _committed(raw: Any, place: int) -> CanvasCommitted:
    raw = fields(raw, "a committed canvas", _FIELDS, _FIELDS)
    if raw["reason"] not in COMMITTED:
        raise SafelightError(f"a committed canvas's reason must be one of: {', '.join(COMMITTED)}")
    return CanvasCommitted(
        place,
        np.array(tokens(raw, "tokens", MOST_POSITIONS), dtype=np.int32),
        whole(raw, "text_length", 0, MOST_POSITIONS),
        whole(raw, "steps", 0, MOST_STEPS),
        raw["reason"],
    )
