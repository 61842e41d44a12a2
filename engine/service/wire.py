"""The protocol between two Safelights: requests, replies and the model as bytes and back, bit for bit.

All payloads are pure data from a stranger. Every function that reads them raises one ``SafelightError`` for anything
that is not as documented, before it takes memory for it. JSON payloads were parsed by ``engine.files.parse_json``.
A server has these paths (``engine/server/dialect.py``):

    GET   /safelight/v1/model          the loaded model: its plain facts by their names, and the dialect's number
    GET   /safelight/v1/tokenizer      its tokenizer.json as it is, from which the reader of the facts sets those
                                       functions of the model that need it
    POST  /safelight/v1/tokens/count   {"messages": …} to {"tokens": …}
    POST  /safelight/v1/pictures       a picture's file as it is, to {"digest": …}; before a run shows it
    POST  /safelight/v1/pictures/missing   {"digests": …} to {"missing": …}, the pictures to send
    POST  /safelight/v1/run            a request to a stream of replies, framed and checked as in a trace file; closing
                                       the connection cancels the run within a step

A request that is refused before it begins gets an error object as in OpenAI's API, with a status of its own.

A run's request is its class's fields by their names, without those that have their default, and its ``kind``. A field
that is not of its kind is refused. ``config`` has a ``GenerationConfig``'s fields; those left out have its defaults.
``pictures`` of a decision, and the images of messages, are digests of pictures that were sent before. The receiver
chooses the run's id, and if its trace is kept.

The replies of a run are records as in a trace file (``engine.trace.format``), one after another:

    HEAD   the run began; its header, JSON (``engine.trace.header``); first
    PREF, CANV, STEP, PINS, VRFY, SLOT, COMM, PART, DONE   the run's events (``engine.trace.codec``), in order
    IDLE   no event: the run waits, or a step takes long
    ENDS   the run is over, JSON: {"message": why it failed, or ""}; last, also of a run that never began

A stream without ENDS was broken off. A record of an unknown kind is skipped.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from typing import Annotated, Any, NoReturn

from engine.config import MAX_TILE
from engine.declared import many, plain, read, read_fields, whole
from engine.errors import SafelightError, quoted
from engine.events import Event
from engine.pictures import ImageCost, Picture
from engine.service.replies import Capabilities, LoadedModel, RunAdvanced, RunEnded, RunReply, RunStarted
from engine.service.requests import ChatRun, DecisionRun, PuzzleRun, RunRequest
from engine.text.message import Digest, Message, image_of
from engine.text.outline import Outline
from engine.text.reply import Reply
from engine.trace.codec import LAYOUTS, Codec
from engine.trace.format import HEAD, MAX_HEADER, MAX_WHY, Head, PayloadError, RecordBudget, frame, read_head, unpack
from engine.trace.header import TraceHeader, read_object, unknown_settings
from engine.trace.index import SLACK, Order
from engine.trace.writer import by_number, is_never_special

DIALECT = 1  # raised by changes that an older reader must not ignore
Tile: Any = Annotated[int, whole(1, MAX_TILE)]


def model_to_json(model: LoadedModel) -> dict[str, Any]:
    """Returns the facts, without the place of the model's files."""
    tile = None if model.image_cost is None else model.image_cost.tile
    return {"dialect": DIALECT, **plain(model), "image_tile": tile}


def model_from_json(raw: Any, path_or_id: str) -> LoadedModel:
    """Returns a model without a tokenizer: tokens are numbers, and encoding and counting are refused.

    Unknown fields are ignored: a newer server says more of its model.

    Raises:
        SafelightError: it is none, or of a newer dialect.
    """
    raw = read(dict[str, Any], raw, "the model")
    if raw.get("dialect") != DIALECT:
        raise SafelightError("the server is another version of Safelight; update both")
    facts, tile = read_fields(LoadedModel, raw, "the model"), raw.get("image_tile")
    able: Capabilities = facts["capabilities"]  # of older servers, which take no pictures, without a cost
    facts["capabilities"] = dataclasses.replace(able, images=able.images and tile is not None)
    return LoadedModel(
        path_or_id=path_or_id,
        image_cost=ImageCost(read(Tile, tile, "image_tile")) if facts["capabilities"].images else None,
        **facts,
        piece=by_number,
        is_special=is_never_special,
        decode=lambda ids: Reply(_written(ids)),
        write=_written,
        encode=_refuse,
        count_tokens=_refuse,
        prompt_ids=_refuse,
    )


def _written(ids: Iterable[int]) -> str:
    return "".join(by_number(int(token)) for token in ids)


def _refuse(_given: object) -> NoReturn:
    raise SafelightError("the model's tokenizer has not been fetched from the server; connect again")


MAX_MESSAGES = 4_096
MAX_TEXT_CHARACTERS = 2**21  # characters of a message, which a tokenizer reads at once
MAX_DIGESTS = 4_096
Digests: Any = Annotated[tuple[Digest, ...], many(MAX_DIGESTS)]

FindPicture = Callable[[str], Picture | None]
"""The picture of a digest that was sent before; None without one."""


def sent_before(digests: Iterable[str], find: FindPicture) -> tuple[Picture, ...]:
    """Returns the pictures with these digests.

    Raises:
        SafelightError: one is missing.
    """
    pictures = tuple(map(find, dict.fromkeys(digests)))
    if None in pictures:
        raise SafelightError("a picture of this run is not on the server; send the run again")
    return tuple(picture for picture in pictures if picture is not None)


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
    changed = {name: value for name, value in plain(request).items() if value != usual.get(name, MISSING)}
    shown = {"pictures": [picture.digest for picture in request.pictures]} if isinstance(request, DecisionRun) else {}
    return {"kind": kind, **changed, **shown}


def request_from_json(raw: Any, find: FindPicture) -> RunRequest:
    """Returns a request with its own id and cancel flag. It is not checked against the model.

    Raises:
        SafelightError: it is none, or shows a missing picture; the sentence names the field.
    """
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise SafelightError(f"a run's kind must be one of {', '.join(KINDS)}, not {quoted(kind)}")
    sent = {name: value for name, value in raw.items() if name not in ("kind", "pictures")}
    fields = read_fields(KINDS[kind], sent, f"a run of kind {kind}", is_strict=True)
    if unknown := unknown_settings(raw["config"]):
        raise SafelightError(f"the settings {quoted(', '.join(unknown), 200)} are not known; leave them out")
    if kind == "decision":
        pictures = sent_before(read(Digests, raw.get("pictures", []), "pictures"), find)
    else:
        check_conversation(fields["messages"], fields.get("outline", ()))
        pictures = shown_in(fields["messages"], find)
    return KINDS[kind](**fields, pictures=pictures)


def check_conversation(messages: Sequence[Message], outline: Outline = ()) -> None:
    """Checks the size of a conversation.

    Raises:
        SafelightError: it has no message, too many, or a text that is too long.
    """
    many(MAX_MESSAGES, fewest=1)("messages", messages)
    texts = [text for message in messages for text in message.values() if isinstance(text, str)]
    texts.append("".join(part if isinstance(part, str) else part.like for part in outline))
    if any(len(text) > MAX_TEXT_CHARACTERS for text in texts):
        raise SafelightError(f"a text has more than {MAX_TEXT_CHARACTERS:,} characters; shorten it")


CONTENT_TYPE = "application/vnd.safelight.run"
IDLE = frame(b"IDLE", b"")
MAX_MESSAGE = 2_000  # characters of a failure's message
MAX_UNKNOWN = 2**20  # bytes of a record of an unknown kind
_BEGIN, _END = b"HEAD", b"ENDS"


@dataclass(frozen=True)
class Ended:
    """The last reply of a run; ``message`` says why it failed, empty if it did not."""

    message: str = ""


class ReplyWriter:
    """Turns replies of one run into bytes; ``b""`` for replies that concern the machine and not the run."""

    def __init__(self) -> None:
        self._codec: Codec | None = None

    def write(self, reply: RunReply) -> bytes:
        """Returns the record of a reply, without the place of the model's files."""
        match reply:
            case RunStarted():
                header = reply.trace.header
                header = dataclasses.replace(header, model=dataclasses.replace(header.model, path=""))
                self._codec = Codec.for_header(header)
                return frame(_BEGIN, header.to_bytes())
            case RunAdvanced() if self._codec is not None:
                return frame(*self._codec.encode(reply.event))
            case RunEnded():
                return frame(_END, json.dumps({"message": str(reply.message)[:MAX_MESSAGE]}).encode())
        return b""


class ReplyReader:
    """Reads replies of one run from bytes in pieces of any size."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._budget = RecordBudget()
        self._order = Order(is_fork=False)
        self._codec: Codec | None = None
        self.is_over = False

    def feed(self, data: bytes) -> list[TraceHeader | Event | Ended]:
        """Returns the parts that are complete now, in order: the header first, ``Ended`` last.

        Raises:
            SafelightError: this is not the stream of a run.
        """
        self._bytes += data
        parts: list[TraceHeader | Event | Ended] = []
        place = 0
        try:
            while len(self._bytes) - place >= HEAD.size:
                head = read_head(bytes(self._bytes[place : place + HEAD.size]), place + HEAD.size)
                if head is None:
                    raise PayloadError("its checksum is wrong")
                self._check(head)
                if len(self._bytes) < head.end:
                    break
                part = self._part(head, bytes(self._bytes[head.start : head.end]))
                parts += [] if part is None else [part]
                place = head.end
            if self.is_over and len(self._bytes) > place:
                raise PayloadError("it continues after its end")
        except PayloadError as error:
            raise SafelightError(f"the server's answer cannot be read: {error}; try again") from None
        del self._bytes[:place]
        return parts

    def _most(self, kind: bytes) -> int:
        fixed = {_BEGIN: MAX_HEADER, _END: MAX_WHY}
        return fixed.get(kind) or (self._codec.most.get(kind, MAX_UNKNOWN) if self._codec is not None else MAX_UNKNOWN)

    def _check(self, head: Head) -> None:
        """Checks a record's header before its payload is read."""
        most = self._most(head.kind)
        if self.is_over or max(head.size, head.stored - SLACK) > most:
            raise PayloadError("a record is too large, or after the end")

    def _part(self, head: Head, stored: bytes) -> TraceHeader | Event | Ended | None:
        if not self._budget.allows(head.kind, head.size, head.block, head.step):
            raise PayloadError("it is longer than a run can be")
        payload = unpack(head, stored, self._most(head.kind))
        if head.kind == _BEGIN:
            if self._codec is not None:
                raise PayloadError("the run begins twice")
            header, _ = TraceHeader.from_bytes(payload)
            self._codec = Codec.for_header(header)
            return header
        if head.kind == _END:
            self.is_over = True
            return Ended(read_object(payload, dict[str, str]).get("message", "")[:MAX_MESSAGE])
        if head.kind not in LAYOUTS:
            return None
        if self._codec is None or self._order.is_over or not self._order.allows(head.kind, head.block, head.step):
            raise PayloadError("an event is out of its order")
        return self._codec.decode(head.kind, payload, head.block, head.step)
