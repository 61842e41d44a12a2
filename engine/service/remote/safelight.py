"""A model on another Safelight: its runs come with their steps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from engine.errors import SafelightError, Sentence
from engine.events import MAX_ANSWER, Event
from engine.pictures import Picture
from engine.service.remote import problems
from engine.service.remote.calls import Calls, Check, count_of, field_of, no_check
from engine.service.remote.problems import WIRE_ERRORS, RemoteError
from engine.service.requests import DecisionRun, RunRequest
from engine.service.wire import CONTENT_TYPE, Ended, ReplyReader, model_from_json, request_to_json
from engine.tasks.decisions.questions import Decision
from engine.text.message import Message, image_digests
from engine.text.reply import read_reply
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary_files import FILE_BYTES
from engine.trace.header import TraceHeader

PREFIX = "/safelight/v1"


class SafelightModel:
    """A ``Dialect`` whose runs are those of the server's own backend; what goes on from a run is done there."""

    def __init__(self, calls: Calls, title: str, tokenizers: dict[str, Tokenizer], check: Check) -> None:
        """Fetches the model's description, and its tokenizer, unless that was fetched before.

        Raises:
            RemoteError: the server does not answer.
            SafelightError: the answer is no such description.
        """
        self._calls = calls
        described = model_from_json(calls.json(self._url("model"), check=check), str(calls.address))
        tokenizer = tokenizers.get(described.fingerprint)
        if tokenizer is None:
            tokenizer = Tokenizer.from_bytes(
                calls.whole(self._url("tokenizer"), check=check, most=FILE_BYTES), "the server's tokenizer"
            )
            tokenizers.clear()  # one is enough, for returning to a model
            if described.fingerprint:
                tokenizers[described.fingerprint] = tokenizer
        self.loaded = dataclasses.replace(
            described,
            title=title or described.title,
            device_reason=Sentence("on the server {where}", where=calls.address.origin),
            piece=tokenizer.piece,
            is_special=tokenizer.is_special,
            decode=functools.partial(read_reply, tokenizer),
            write=functools.partial(tokenizer.decode, skip_special=False),
            encode=tokenizer.encode,
            count_tokens=self.count_tokens,
            prompt_ids=_no_prompt,
        )

    def _url(self, route: str) -> str:
        return f"{self._calls.address.root}{PREFIX}/{route}?model={quote(self._calls.address.model, safe='')}"

    def read(self, request: RunRequest, check: Check) -> Generator[TraceHeader | Event, None, None]:
        self._send(request.pictures, check)
        body = request_to_json(request)
        with self._calls.asking(self._url("run"), body, CONTENT_TYPE, check) as answer:
            if answer.headers.get("Content-Type", "").split(";")[0] != CONTENT_TYPE:
                raise problems.strange(self._calls.address)
            parts = self._parts(answer.pieces())
            header = next(parts, None)
            if not isinstance(header, TraceHeader):
                raise problems.broken_off()
            shown = {picture.digest for picture in request.pictures}
            decision = request.decision if isinstance(request, DecisionRun) else None
            if _options(header.decision) != _options(decision) or not shown.issuperset(image_digests(header.messages)):
                raise problems.strange(self._calls.address)
            ours = dataclasses.replace(header.model, path=str(self._calls.address))
            yield dataclasses.replace(header, model=ours, **TraceHeader.fresh())  # with an id of its own
            yield from (part for part in parts if not isinstance(part, TraceHeader))

    def _send(self, pictures: Sequence[Picture], check: Check = no_check) -> None:
        """Sends the pictures that the server lacks; it has most of them from the turn before."""
        if not pictures:
            return
        raw = self._calls.json(
            self._url("pictures/missing"), {"digests": [picture.digest for picture in pictures]}, check
        )
        missing = field_of(raw, "missing")
        if not isinstance(missing, list):
            raise problems.strange(self._calls.address)
        for picture in pictures:
            if picture.digest in missing:
                self._calls.json(self._url("pictures"), picture.data, check, self._calls.patience.answer)

    def _parts(self, pieces: Iterator[bytes]) -> Iterator[TraceHeader | Event]:
        """Yields the parts of the stream, until the run is over.

        Raises:
            SafelightError: the run failed, or the stream is none, or breaks off.
        """
        reader = ReplyReader()
        try:
            for piece in pieces:
                for part in reader.feed(piece):
                    if not isinstance(part, Ended):
                        yield part
                    elif part.message:
                        raise SafelightError(part.message)
                    else:
                        return
        except WIRE_ERRORS as error:
            raise problems.in_the_midst(error, self._calls.address) from error
        raise problems.broken_off()

    def count_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
        body: dict[str, Any] = {"messages": [dict(message) for message in messages]}
        if tools:  # which an older server does not know
            body["tools"] = [dict(tool) for tool in tools]
        count = count_of(self._calls.json(self._url("tokens/count"), body), "tokens", most=MAX_ANSWER)
        if count is None:
            raise problems.strange(self._calls.address)
        return count


def _options(decision: Decision | None) -> list[int]:
    """Returns how many options each question has; the reads of a run are checked against those of its header."""
    return [] if decision is None else [len(question.options) for question in decision.questions]


def _no_prompt(_request: RunRequest) -> list[int]:
    raise RemoteError("Only the server knows the prompt's tokens.")
