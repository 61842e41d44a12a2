"""A server that says that it is a Safelight and is none, or dies: sentences, and what had come stays."""

from __future__ import annotations

from typing import Any

import pytest

from engine import catalog
from engine.config import GenerationConfig
from engine.service import ChatRun, LoadedModel, LoadFailed, LoadRequest, LocalBackend, ModelLoaded
from engine.service.backend import run_alone
from engine.service.remote import RemoteBackend
from engine.service.wire import CONTENT_TYPE, ReplyWriter, model_to_json
from tests.engine.hub.rude_server import Request
from tests.engine.service.remote.servers import JSON, SHORT, Ran, Route, in_json, models, serving

RUN = ChatRun(GenerationConfig(max_new_tokens=8), 1, ({"role": "user", "content": "Reverse the word stone."},))


@pytest.fixture(scope="module")
def known() -> tuple[LoadedModel, bytes]:
    """A model, and a run of it as its server would send it."""
    local, replies = LocalBackend(), list[Any]()
    local.load(LoadRequest(catalog.MINI, "Skills"), replies.append)
    [loaded] = [reply.model for reply in replies if isinstance(reply, ModelLoaded)]
    writer = ReplyWriter()
    request = ChatRun(loaded.defaults.replace(max_denoising_steps=4), 1, RUN.messages)
    return loaded, b"".join(writer.write(reply) for reply in run_alone(local, request))


def routes(known: tuple[LoadedModel, bytes], **changed: Route) -> dict[str, Route]:
    tokenizer = (catalog.resolve(catalog.MINI) / "tokenizer.json").read_bytes()
    return {
        "v1_models": models("m", owner="safelight"),
        "safelight_v1_model": in_json(model_to_json(known[0])),
        "safelight_v1_tokenizer": lambda request: request.reply(tokenizer, *JSON),
        "safelight_v1_run": stream(known[1]),
        **changed,
    }


def stream(body: bytes, kind: str = CONTENT_TYPE) -> Route:
    def answer(request: Request) -> None:
        request.send(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode() + body)

    return answer


def load(endpoint: str) -> tuple[RemoteBackend, Any]:
    backend, replies = RemoteBackend(patience=SHORT), list[Any]()
    backend.load(LoadRequest(f"{endpoint}#m", "M"), replies.append)
    return backend, replies[-1]


def run(known: tuple[LoadedModel, bytes], answer: Route) -> Ran:
    with serving(**routes(known, safelight_v1_run=answer)) as server:
        backend, last = load(server.endpoint)
        assert isinstance(last, ModelLoaded)
        return Ran(list(run_alone(backend, RUN)))


@pytest.mark.parametrize("route", ["safelight_v1_model", "safelight_v1_tokenizer"])
@pytest.mark.parametrize(
    "answer",
    [
        in_json({"detail": "none"}, "404 Not Found"),
        in_json([1, 2]),
        in_json({"dialect": 99}),
        in_json({"dialect": 1, "vocab_size": 10**12}),
        lambda request: request.reply(b"<html></html>", "Content-Type: text/html"),
        lambda request: request.reply(b'{"model": {"type": "BPE", "vocab": 5}}', *JSON),
        lambda request: request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"),
    ],
)
def test_a_model_that_is_none_is_not_loaded(known: tuple[LoadedModel, bytes], route: str, answer: Route) -> None:
    with serving(**routes(known, **{route: answer})) as server:
        _, last = load(server.endpoint)
    assert isinstance(last, LoadFailed)
    assert last.message != ""
    assert (last.details, last.kept) == ("", False)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (in_json({"error": {"message": "Loading model"}}, "503 Unavailable"), "Loading model"),
        (in_json({"error": {"message": "Bad seed."}}, "400 Bad Request"), "Bad seed."),
        (stream(b"<html></html>", "text/html"), "no OpenAI-compatible server"),
        (stream(b""), "was lost"),
        (stream(b"x" * 500), "cannot be read"),
        (stream(b"\0" * 500), "cannot be read"),
    ],
)
def test_a_run_that_is_none_is_a_sentence(known: tuple[LoadedModel, bytes], answer: Route, said: str) -> None:
    ran = run(known, answer)
    assert said in ran.ended.message
    assert (ran.ended.details, ran.events) == ("", [])


def test_a_run_that_dies_keeps_its_steps(known: tuple[LoadedModel, bytes]) -> None:
    whole = run(known, stream(known[1]))
    assert whole.ended.message == ""
    half = run(known, stream(known[1][: 2 * len(known[1]) // 3]))
    assert "was lost" in half.ended.message
    assert 0 < len(half.events) < len(whole.events)
    assert half.trace.failure == half.ended.message
