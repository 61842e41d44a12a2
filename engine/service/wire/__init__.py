"""One Safelight to another: a run's request, its replies, the model and measurements as bytes, and back, bit for bit.

A server speaks it under ``/safelight/v1`` (``engine/server/dialect.py``), a remote backend reads it there. All of it is
pure data and comes from a stranger: every function that reads raises one ``SafelightError`` for whatever is not as
documented, before memory is taken for it. What goes in as JSON was parsed by ``engine.files.parse_json``.

A request is an object (``request``), and so are the model (``model``) and what is measured (``measurement``). Replies
are a stream of records, framed and checked as in a trace file (``stream``). A recorded run that is gone on from is sent
as its header and its committed canvases (``source``); whoever asks has the rest.
"""

from __future__ import annotations

from engine.service.wire.measurement import (
    influence_from_json,
    influence_request_from_json,
    influence_request_to_json,
    influence_to_json,
)
from engine.service.wire.model import DIALECT, model_from_json, model_to_json
from engine.service.wire.request import request_from_json, request_to_json
from engine.service.wire.source import source_from_json, source_to_json
from engine.service.wire.stream import CONTENT_TYPE, Ended, ReplyReader, ReplyWriter, decode_event, encode_event

__all__ = [
    "CONTENT_TYPE",
    "DIALECT",
    "Ended",
    "ReplyReader",
    "ReplyWriter",
    "decode_event",
    "encode_event",
    "influence_from_json",
    "influence_request_from_json",
    "influence_request_to_json",
    "influence_to_json",
    "model_from_json",
    "model_to_json",
    "request_from_json",
    "request_to_json",
    "source_from_json",
    "source_to_json",
]
