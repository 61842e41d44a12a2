"""The protocol between two Safelights: requests, replies, the model and measurements as bytes and back, bit for bit.

All payloads are pure data from a stranger. Every function that reads them raises one ``SafelightError`` for anything
that is not as documented, before it takes memory for it. JSON payloads were parsed by ``engine.files.parse_json``.
A server has these paths (``engine/server/dialect.py``):

    GET   /safelight/v1/model          the loaded model (``model``)
    GET   /safelight/v1/tokenizer      its tokenizer.json as it is, compressed if gzip is accepted; the ETag is the
                                       model's fingerprint. ``Tokenizer.from_folder`` reads it, within its bounds
    POST  /safelight/v1/tokens/count   {"messages": …} to {"tokens": …}
    POST  /safelight/v1/pictures       a picture's file as it is, to {"digest": …}; before a run shows it
    POST  /safelight/v1/pictures/missing   {"digests": …} to {"missing": …}, the pictures to send
    POST  /safelight/v1/run            a request (``request``) to a stream of replies, framed and checked as in a trace
                                       file (``stream``); closing the connection cancels the run within a step
    POST  /safelight/v1/measure        influence (``measurement``)

A recorded run that is continued is sent as its header and its committed canvases (``source``); the client has the rest.
A request that is refused before it begins gets an error object as in OpenAI's API, with a status of its own.
"""

from __future__ import annotations

from engine.service.wire.measurement import (
    influence_from_json,
    influence_request_from_json,
    influence_request_to_json,
    influence_to_json,
)
from engine.service.wire.model import DIALECT, model_from_json, model_to_json
from engine.service.wire.request import messages_from_json, request_from_json, request_to_json
from engine.service.wire.source import digests_from_json, source_from_json, source_to_json
from engine.service.wire.stream import CONTENT_TYPE, Ended, ReplyReader, ReplyWriter, decode_event, encode_event

__all__ = [
    "CONTENT_TYPE",
    "DIALECT",
    "Ended",
    "ReplyReader",
    "ReplyWriter",
    "decode_event",
    "digests_from_json",
    "encode_event",
    "influence_from_json",
    "influence_request_from_json",
    "influence_request_to_json",
    "influence_to_json",
    "messages_from_json",
    "model_from_json",
    "model_to_json",
    "request_from_json",
    "request_to_json",
    "source_from_json",
    "source_to_json",
]
