"""Servers that a remote model's runs come from: they answer anything, at any time, in the midst of anything."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from engine.service.backend import required
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind
from tests.hostile.kinds.hub import rude_answer

if TYPE_CHECKING:
    from engine.service import LoadedModel
    from engine.service.remote import RemoteBackend
    from tests.engine.hub.rude_server import Request

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nConnection: close\r\n\r\n"
SSE = "text/event-stream"
SECONDS = 5.0  # in which the threads of a run must have ended
CALL = {"index": 0, "id": "c", "function": {"name": "look", "arguments": '{"a": 1}'}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1}}


# --- what a sound server says ---------------------------------------------------------------------------------------


def _chunks() -> list[dict[str, Any]]:
    from tests.engine.service.remote.servers import chunk

    return [
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning": "Hm", "reasoning_content": "Hm"}, usage=None),
        chunk({"content": "Grüße"}, logprobs=None, timings={"predicted_n": 3}),
        chunk({"tool_calls": [CALL]}),
        chunk({"content": " und mehr"}),
        chunk({}, "stop"),
        chunk(usage=USAGE),
    ]


@cache
def _safelight() -> tuple[LoadedModel, bytes, bytes]:
    """A model, its tokenizer's file, and a run of it as its server would send it."""
    from engine import catalog
    from engine.service import LoadRequest, ModelLoaded
    from engine.service.backend import run_alone
    from engine.service.wire import ReplyWriter
    from tests.engine.server.served import ScriptedEngine
    from tests.engine.service.remote.servers import question

    local, replies = ScriptedEngine(), list[Any]()
    local.load(LoadRequest("scripted", "Scripted"), replies.append)
    [loaded] = [reply.model for reply in replies if isinstance(reply, ModelLoaded)]
    writer = ReplyWriter()
    body = b"".join(writer.write(reply) for reply in run_alone(local, question()))
    return loaded, (catalog.resolve(catalog.MINI) / "tokenizer.json").read_bytes(), body


def _listing(owner: str) -> dict[str, Any]:
    able = {"capabilities": {"vision": True}, "architecture": {"input_modalities": ["text", "image"]}}
    entry = {"id": "m", "object": "model", "created": 1, "owned_by": owner, "max_model_len": 4096, **able}
    more = [{"name": "m", "capabilities": ["completion"]}]
    return {"object": "list", "data": [entry, {**entry, "id": "other"}], "models": more}


# --- what this one says ---------------------------------------------------------------------------------------------


def _cut(random: Random, body: bytes, kind: str) -> Callable[[Request], None]:
    """A body in pieces, which may end anywhere."""
    ends = random.choice((None, None, None, random.randrange(len(body) + 1)))
    size = random.choice((3, 100, 10**6)) if len(body) < 20_000 else 10**6
    data = body[:ends]

    def answer(request: Request) -> None:
        request.send(HEAD.format(kind).encode())
        for start in range(0, len(data), size):
            request.send(data[start : start + size])

    return answer


def _json(random: Random, raw: Any) -> Callable[[Request], None]:
    return _cut(random, mutate.dumped(random, mutate.tree(random, raw)), "application/json")


def _stream(random: Random) -> Callable[[Request], None]:
    """A chat's stream with damage in a chunk, between chunks, or in all of it."""
    chunks = [json.dumps(chunk, ensure_ascii=False).encode() for chunk in _chunks()]
    for _ in range(1 + random.randrange(2)):
        at = random.randrange(len(chunks))
        match random.randrange(4):
            case 0:
                chunks.insert(at, mutate.dumped(random, mutate.value(random)))
            case 1:
                chunks[at : at + 1] = [chunks[at]] * random.choice((2, 500))
            case 2:
                error = {"error": random.choice((mutate.value(random), {"message": random.choice(mutate.TEXTS)}))}
                chunks.insert(at, mutate.dumped(random, error))
            case _:
                chunks[at] = mutate.dumped(random, mutate.tree(random, _chunks()[min(at, 6)]))
    joint = random.choice((b"\n\n", b"\n\n", b"\r\n\r\n", b"\n: x\n\n", b"\n"))
    body = b"".join(b"data: " + chunk + joint for chunk in chunks) + random.choice((b"data: [DONE]\n\n", b""))
    if random.random() < 0.3:
        body = mutate.damaged(random, body)
    return _cut(random, body, random.choice((SSE, SSE, SSE, "application/json", "text/html", "")))


def _run(random: Random) -> Callable[[Request], None]:
    """A run of another Safelight: records that are sound by their checksums and hold what they should not."""
    from engine.service.wire import CONTENT_TYPE
    from engine.trace.format import OPENING, opening
    from tests.hostile.kinds.traces import changed, records_of

    body = _safelight()[2]
    match random.randrange(10):
        case 0:
            pass
        case 1:
            body = mutate.damaged(random, body)
        case _:
            body = changed(random, records_of(opening() + body))[OPENING.size :]
    return _cut(random, body, CONTENT_TYPE)


def _route(random: Random, usual: Callable[[Random], Callable[[Request], None]]) -> Callable[[Request], None]:
    return rude_answer(random) if random.random() < 0.04 else usual(random)


def _sound(raw: Any) -> Callable[[Random], Callable[[Request], None]]:
    """An answer that is damaged now and then."""
    data = json.dumps(raw).encode()
    return lambda random: (
        _json(random, raw)
        if random.random() < 0.06
        else lambda request: request.reply(data, "Content-Type: application/json")
    )


def _answers(random: Random, *, safelight: bool) -> dict[str, Callable[[Request], None]]:
    from engine.service.wire import model_to_json

    found = {
        "/v1/models": _sound(_listing("safelight" if safelight else random.choice(("vllm", "somebody", "me")))),
        "/v1/chat/completions": _stream,
    }
    if safelight:
        loaded, tokenizer, _ = _safelight()
        found |= {
            "/safelight/v1/model": _sound(model_to_json(loaded)),
            "/safelight/v1/tokenizer": lambda random: (
                _cut(random, mutate.damaged(random, tokenizer), "application/json")
                if random.random() < 0.04
                else lambda request: request.reply(tokenizer, "Content-Type: application/json")
            ),
            "/safelight/v1/tokens/count": _sound({"tokens": 3}),
            "/safelight/v1/run": _run,
        }
    return {path: _route(random, usual) for path, usual in found.items()}


# --- an attempt -----------------------------------------------------------------------------------------------------


def _attempt(seed: int, *, safelight: bool) -> None:
    from engine import SafelightError
    from engine.service import LoadFailed, LoadRequest, ModelLoaded
    from engine.service.remote import RemoteBackend, RemotePatience
    from tests.engine.hub.rude_server import answering

    answers = _answers(Random(seed), safelight=safelight)
    nothing = answers.get("", lambda request: request.reply(b"{}", status="404 x"))
    threads = set(threading.enumerate())
    patience = RemotePatience(connect=1.0, short=0.5, answer=0.5, stall=0.2)
    with answering(lambda request: answers.get(request.path.partition("?")[0], nothing)(request)) as server:
        backend, replies = RemoteBackend(patience=patience), list[Any]()
        backend.load(LoadRequest(f"{server.endpoint}/v1#m", "M"), replies.append)
        last = replies[-1]
        assert isinstance(last, ModelLoaded | LoadFailed), last
        if isinstance(last, LoadFailed):
            _check_sentence(last.message, last.details)
            raise SafelightError(last.message)
        failure = _check_run(backend)
    ends = time.monotonic() + SECONDS
    while set(threading.enumerate()) - threads and time.monotonic() < ends:
        time.sleep(0.005)
    left = {thread.name for thread in set(threading.enumerate()) - threads}
    assert not left, f"threads are left: {left}"
    if failure:
        raise SafelightError(failure)


def _check_run(backend: RemoteBackend) -> str:
    """Check the replies of a run and of the other questions; returns the run's failure."""
    from engine import SafelightError
    from engine.service import RunEnded, RunStarted
    from engine.service.backend import run_alone
    from tests.engine.service.remote.servers import question

    replies = list(run_alone(backend, question("Hello 𝒳", reserve=64)))
    ends = [reply for reply in replies if isinstance(reply, RunEnded)]
    assert len(ends) == 1
    assert replies[-1] is ends[0]
    _check_sentence(ends[0].message, ends[0].details)
    for trace in (reply.trace for reply in replies if isinstance(reply, RunStarted)):
        for event in trace.events:
            assert event is not None
    try:
        assert required(backend._model).loaded.count_tokens(question().messages) >= 0
    except SafelightError as error:
        _check_sentence(str(error), "")
    return ends[0].message


def _check_sentence(message: str, details: str) -> None:
    assert not details, details[-1_000:]
    assert "\n" not in message, message
    assert len(message) < 2_000, message


def _make(random: Random, _folder: Path) -> Attempt:
    seed, safelight = random.randrange(2**32), random.random() < 0.5
    return lambda: _attempt(seed, safelight=safelight)


def _prepare() -> None:
    import engine.service.remote  # noqa: F401 - it takes its time

    _safelight()


KINDS = (Kind("remote-answers", _make, prepare=_prepare),)
