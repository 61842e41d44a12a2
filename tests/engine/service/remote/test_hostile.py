"""Servers that fail, lie or never end: what had come stays, the rest is a sentence, and no thread is left."""

from __future__ import annotations

import dataclasses
import random
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engine.service import LoadFailed, LoadProgress, LoadRequest, LoadStarted
from engine.service.backend import run_alone
from engine.service.remote import RemoteAddress, RemoteBackend, RemoteError, RemotePatience, chat, probe, problems
from engine.service.remote.calls import Calls, models_of
from tests.engine.hub.rude_server import Request
from tests.engine.service.remote.servers import (
    JSON,
    SSE,
    Ran,
    Route,
    ask,
    chunk,
    events,
    in_json,
    loaded,
    models,
    question,
    serving,
    streamed,
    words,
)

HALF = events(chunk({"content": "Half "}), chunk({"content": "of it"}), end=b"")


def raw(body: bytes, *headers: str, status: str = "200 OK", stays: bool = False) -> Route:
    """A body without its length, after which the connection ends or hangs."""

    def answer(request: Request) -> None:
        head = "\r\n".join((f"HTTP/1.1 {status}", *headers, "Connection: close", "", ""))
        request.send(head.encode() + body)
        if stays:
            request.wait(30.0)

    return answer


def cut(request: Request) -> None:
    """Less than was announced."""
    request.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5000\r\n\r\n" + HALF)


FAILURES: list[tuple[str, Route, str, str]] = [
    ("the key", in_json({"error": {"message": "no"}}, "401 Unauthorized"), "", "refuses the key"),
    ("forbidden", in_json({}, "403 Forbidden"), "", "refuses the key"),
    ("no model", in_json({"error": {"message": "no `m`"}}, "404 Not Found"), "", "has no model m: no `m`"),
    ("no route", raw(b"<html>nothing here</html>", status="404 Not Found"), "", "no OpenAI-compatible server"),
    ("busy", in_json({"detail": "slow down"}, "429 Too Many Requests"), "", "is busy"),
    ("loading", in_json({"error": {"code": 503, "message": "Loading model"}}, "503 Unavailable"), "", "Loading model"),
    ("bad", in_json({"detail": [{"msg": "top_k is odd"}]}, "422 Unprocessable"), "", "the request: top_k is odd"),
    ("fault", in_json({"error": "CUDA\nis gone \x1b[31m"}, "500 Error"), "", "failed: CUDA is gone"),
    ("large", in_json({}, "413 Too Large"), "", "too large"),
    ("page", raw(b"<html>Log in</html>", "Content-Type: text/html"), "", "no OpenAI-compatible server"),
    ("packed", raw(b"\x1f\x8b", *SSE, "Content-Encoding: gzip"), "", "no OpenAI-compatible server"),
    ("elsewhere", raw(b"", "Location: http://evil.example/v1", status="307 Temporary"), "", "is not followed"),
    ("closed", lambda _: None, "", "was lost before it answered"),
    ("no HTTP", lambda request: request.send(b"SSH-2.0-x\r\n\r\n"), "", "was lost before it answered"),
    ("empty", raw(b"", *SSE), "", "was lost during the answer"),
    ("dies", raw(HALF, *SSE), "Half of it", "was lost during the answer"),
    ("cut", cut, "Half of it", "was lost during the answer"),
    ("no JSON", raw(HALF + b"data: {oh\n\n", *SSE), "Half of it", "sends unreadable data"),
    ("deep", raw(HALF + b"data: " + b"[" * 9000 + b"\n\n", *SSE), "Half of it", "sends unreadable data"),
    ("error", raw(HALF + b'data: {"error": {"message": "out of memory"}}\n\n', *SSE), "Half of it", "out of memory"),
    ("plain error", raw(HALF + b'data: {"error": "gone"}\n\n', *SSE), "Half of it", "ended the answer: gone"),
    ("object", raw(HALF + events({"object": "error", "message": "gone"}), *SSE), "Half of it", "the answer: gone"),
    ("abort", raw(HALF + events(chunk({}, "abort")), *SSE), "Half of it", "was lost during the answer"),
    ("filter", raw(HALF + events(chunk({}, "content_filter")), *SSE), "Half of it", "filter ended the answer"),
    ("whole but none", raw(b'{"choices": 7}', *JSON), "", "was lost during the answer"),
]


@pytest.mark.parametrize(("answer", "text", "said"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_a_failure_is_a_sentence_and_what_had_come_stays(answer: Route, text: str, said: str) -> None:
    with serving(v1_models=models("m"), v1_chat_completions=answer) as server:
        ran = ask(loaded(server))
    assert said in ran.ended.message
    assert ran.ended.details == ""
    assert ran.ended.message.isprintable()
    assert ran.text == text
    assert ran.trace.text == text
    assert ran.trace.failure == ran.ended.message


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (events(*words(["Hi"])), "Hi"),
        (events(*words(["Hi"]), end=b""), "Hi"),  # without [DONE]
        (b'data: {"choices": [null, 3]}\n\ndata: {}\n\n: ping\n\n' + events(*words(["Hi"])), "Hi"),
        (events(*words(["\ud83d", "x"])), "\ufffdx"),  # half a character
        (events(*words(["Hi"]), chunk(usage={"prompt_tokens": -1, "completion_tokens": 10**30})), "Hi"),
        (events(chunk({"content": 5, "reasoning": None, "tool_calls": [1, {"function": 2}]}), *words(["Hi"])), "Hi"),
        (events(*words(["Hi"])) + b"data: {never read", "Hi"),
    ],
)
def test_what_is_only_odd_is_read(body: bytes, text: str) -> None:
    with serving(v1_models=models("m"), v1_chat_completions=raw(body, *SSE)) as server:
        ran = ask(loaded(server))
    assert ran.ended.message == ""
    assert ran.text == text


def test_an_answer_that_is_not_streamed_is_read_too() -> None:
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "Hm"}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    with serving(v1_models=models("m"), v1_chat_completions=in_json(whole)) as server:
        ran = ask(loaded(server))
    assert (ran.text, ran.thinking, ran.ended.message) == ("Hi", "Hm", "")


@pytest.mark.parametrize(
    ("answer", "patience", "said"),
    [
        (lambda request: request.wait(30.0), RemotePatience(answer=0.2), "does not answer in time"),
        (raw(HALF, *SSE, stays=True), RemotePatience(stall=0.2), "stopped sending"),
    ],
)
def test_what_hangs_is_given_up(answer: Callable[[Request], Any], patience: RemotePatience, said: str) -> None:
    with serving(v1_models=models("m"), v1_chat_completions=answer) as server:
        ran = ask(loaded(server, patience=patience))
    assert said in ran.ended.message


@pytest.mark.parametrize(
    ("name", "where"), [("LONGEST_LINE", chat), ("MAX_STREAM_BYTES", chat), ("MAX_ANSWER_CHARACTERS", chat)]
)
def test_what_never_ends_is_bounded(name: str, where: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, name, 10_000)

    def answer(request: Request) -> None:
        request.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        line = b"data: " if name == "LONGEST_LINE" else events(chunk({"content": "x" * 500}), end=b"")
        while not request.wait(0.0):
            request.send(line)

    with serving(v1_models=models("m"), v1_chat_completions=answer) as server:
        ran = ask(loaded(server))
    assert ran.ended.message != ""
    assert len(ran.text) <= 10_000


def test_a_stop_closes_the_connection() -> None:
    closed = threading.Event()

    def answer(request: Request) -> None:
        request.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + HALF)
        try:
            while not request.wait(0.01):
                request.send(b": ping\n\n")
        except OSError:
            closed.set()

    with serving(v1_models=models("m"), v1_chat_completions=answer) as server:
        backend, request, ran = loaded(server), question(), Ran()
        for reply in run_alone(backend, request):
            ran.replies.append(reply)
            if ran.text:
                request.cancel.set()
        assert closed.wait(10.0)
    assert (ran.ended.message, ran.finished.reason, ran.text) == ("", "cancelled", "Half of it")


@pytest.mark.parametrize(
    "answer",
    [
        raw(b"<html></html>", "Content-Type: text/html"),
        in_json([1]),
        in_json({"data": {"a": 1}}),
        in_json({"data": [{}] * 10_001}),
        raw(b"\xff\xfe", *JSON),
        raw(b"[" * 10_000, *JSON),
    ],
)
def test_a_list_that_is_none_is_no_server(answer: Route) -> None:
    with serving(v1_models=answer) as server:
        found = probe(RemoteAddress.parse(server.endpoint))
    assert not found.is_reachable
    assert "no OpenAI-compatible server" in found.words


def test_models_without_a_usable_name_are_passed_over() -> None:
    last = {"id": "c", "max_model_len": -4, "meta": {"n_ctx": 9}}
    listed = [{"id": "a"}, {"id": ""}, {"id": 5}, None, {"id": "b\n"}, last]
    with serving(v1_models=in_json({"data": listed})) as server:
        found = models_of(Calls(RemoteAddress.parse(server.endpoint)))
    assert [(model.id, model.context) for model in found] == [("a", 0), ("c", 9)]


def test_the_key_goes_to_its_server_and_nowhere_else() -> None:
    with (
        serving(v1_models=models("m")) as other,
        serving(
            v1_models=models("m"),
            v1_chat_completions=raw(b"", f"Location: {other.endpoint}/v1/chat", status="302 Found"),
        ) as server,
    ):
        asked: list[str] = []

        def key_of(origin: str) -> str:
            asked.append(origin)
            return "secret-1"

        ran = ask(loaded(server, key_of=key_of))
        assert asked == [server.endpoint]
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer secret-1"}
        assert other.requests == []
    assert "secret-1" not in ran.ended.message + ran.trace.header.to_bytes().decode()


def test_a_key_that_is_none_is_not_sent_and_a_refused_one_is_known_as_such() -> None:
    with serving(v1_models=in_json({"error": "no"}, "401 Unauthorized")) as server:
        found = probe(RemoteAddress.parse(server.endpoint), "a\r\nX-Evil: 1")
        assert server.requests == []
        assert found.wants_key
        assert "contains invalid characters" in found.words
        found = probe(RemoteAddress.parse(server.endpoint), "wrong")
    assert (found.is_reachable, found.wants_key) == (False, True)


def test_offline_reaches_this_machine_alone() -> None:
    is_offline = [True]

    def is_allowed(host: str) -> bool:
        return not is_offline[0] or host in ("127.0.0.1", "localhost")

    address = RemoteAddress.parse("http://box.example:8000#m")
    assert probe(address, is_allowed=is_allowed).words.startswith("Offline is on")
    replies: list[Any] = []
    RemoteBackend(is_allowed=is_allowed).load(LoadRequest(str(address), "M"), replies.append)
    assert isinstance(replies[-1], LoadFailed)
    assert "Offline is on" in replies[-1].message
    with serving(v1_models=models("m"), v1_chat_completions=streamed(*words(["Hi"]))) as server:
        shut: list[bool] = []
        backend = loaded(server, is_allowed=lambda host: is_allowed(host) and not shut)
        assert ask(backend).text == "Hi"
        shut.append(True)  # it is asked before every request
        assert "Offline is on" in ask(backend).ended.message


def test_proxies_of_the_environment_are_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    with serving(v1_models=models("m")) as server:
        assert probe(RemoteAddress.parse(server.endpoint)).is_reachable


def test_an_unsigned_certificate_is_reported() -> None:
    error = RuntimeError("x")
    error.__cause__ = ssl.SSLCertVerificationError(1, "self-signed")
    assert "certificate" in str(problems.of_wire(error, RemoteAddress.parse("https://h")))


def test_a_load_is_given_up_while_the_server_keeps_it_waiting() -> None:
    request, replies = LoadRequest("", "M"), list[Any]()

    def answer(asked: Request) -> None:
        request.cancel.set()
        asked.wait(30.0)

    with serving(v1_models=answer) as server:
        backend = RemoteBackend()
        backend.load(dataclasses.replace(request, path_or_id=f"{server.endpoint}#m"), replies.append)
    assert [type(reply) for reply in replies] == [LoadStarted, LoadProgress]


STREAM = (
    ': hello\n\ndata: {"a": 1}\n\nevent: x\r\ndata: eins\r\ndata:zwei\r\n\r\nid: 7\rdata: drei\r\rretry: 1\n\n'
    "data: Grüße\n\ndata: [DONE]"
).encode()


def test_events_are_the_same_in_whatever_pieces_they_come() -> None:
    draw = random.Random(0)
    for count in range(200):
        cuts = sorted(draw.sample(range(len(STREAM) + 1), min(count % 40, len(STREAM))))
        reader, found = chat.EventReader(), list[str]()
        for start, stop in zip([0, *cuts], [*cuts, len(STREAM)], strict=True):
            found += reader.feed(STREAM[start:stop])
        assert found + reader.finish() == ['{"a": 1}', "eins\nzwei", "drei", "Grüße", "[DONE]"], cuts


@pytest.mark.parametrize("line", [b"x" * 100, b"data: x\n" * 20])
def test_an_endless_line_is_refused(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "LONGEST_LINE", 150)
    reader = chat.EventReader()
    with pytest.raises(RemoteError, match="endless line"):
        list(map(reader.feed, [line] * 10))
