"""Servers on the loopback interface that speak as others were seen to, or as none should."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from engine.config import GenerationConfig
from engine.events import GenerationFinished, PrefillFinished, TextArrived
from engine.service import ChatRun, LoadRequest, ModelLoaded, RunAdvanced, RunEnded, RunReply, RunRequest, RunStarted
from engine.service.backend import run_alone
from engine.service.remote import RemoteBackend, RemotePatience
from engine.trace.recording import Recording
from tests.engine.hub.rude_server import Request, Rude, answering

SHORT = RemotePatience(connect=5.0, short=5.0, answer=5.0, stall=5.0)
SSE = ("Content-Type: text/event-stream",)
JSON = ("Content-Type: application/json",)

Route = Callable[[Request], None]


def models(*names: str, owner: str = "somebody", **more: Any) -> Route:
    """Answers with a list of models."""
    listed = [{"id": name, "object": "model", "created": 1, "owned_by": owner, **more} for name in names]
    return in_json({"object": "list", "data": listed})


def in_json(value: Any, status: str = "200 OK") -> Route:
    return lambda request: request.reply(json.dumps(value).encode(), *JSON, status=status)


def events(*chunks: Any, end: bytes = b"data: [DONE]\n\n") -> bytes:
    """Chunks as server-sent events."""
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + end


def streamed(*chunks: Any, end: bytes = b"data: [DONE]\n\n") -> Route:
    return lambda request: request.reply(events(*chunks, end=end), *SSE)


def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One of OpenAI's chunks."""
    choices = [] if delta is None else [{"index": 0, "delta": dict(delta), "finish_reason": finish}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}


@contextmanager
def serving(**routes: Route) -> Iterator[Rude]:
    """A server with a route for each path, in which ``_`` stands for a slash; 404 elsewhere."""

    def answer(request: Request) -> None:
        name = request.path.partition("?")[0].strip("/").replace("/", "_").replace("-", "_")
        found = routes.get(name) or in_json({"detail": "Not Found"}, "404 Not Found")
        found(request)

    with answering(answer) as server:
        yield server


@dataclass
class Ran:
    """A run and its replies."""

    replies: list[RunReply] = field(default_factory=list)

    @property
    def events(self) -> list[Any]:
        return [reply.event for reply in self.replies if isinstance(reply, RunAdvanced)]

    @property
    def trace(self) -> Recording:
        return next(reply.trace for reply in self.replies if isinstance(reply, RunStarted))

    @property
    def ended(self) -> RunEnded:
        last = self.replies[-1]
        assert isinstance(last, RunEnded)
        return last

    @property
    def text(self) -> str:
        return self._joined(False)

    @property
    def thinking(self) -> str:
        return self._joined(True)

    @property
    def prefill(self) -> PrefillFinished | None:
        return next((event for event in self.events if isinstance(event, PrefillFinished)), None)

    @property
    def finished(self) -> GenerationFinished:
        last = self.events[-1]
        assert isinstance(last, GenerationFinished)
        return last

    def _joined(self, is_thought: bool) -> str:
        texts = [event for event in self.events if isinstance(event, TextArrived)]
        return "".join(event.text for event in texts if event.is_thought == is_thought)


def loaded(server: Rude, model: str = "m", **how: Any) -> RemoteBackend:
    """A backend with a model of the server."""
    backend = RemoteBackend(patience=how.pop("patience", SHORT), **how)
    replies: list[Any] = []
    backend.load(LoadRequest(f"{server.endpoint}/v1#{model}", "A model"), replies.append)
    assert isinstance(replies[-1], ModelLoaded), replies[-1]
    return backend


def question(text: str = "Hello", **how: Any) -> RunRequest:
    config = how.pop("config", GenerationConfig(max_new_tokens=64))
    return ChatRun(config, how.pop("seed", 7), ({"role": "user", "content": text},), **how)


def ask(backend: RemoteBackend, request: RunRequest | None = None) -> Ran:
    """A run to its end."""
    return Ran(list(run_alone(backend, request or question())))


def bodies(server: Rude, path: str = "/v1/chat/completions") -> list[dict[str, Any]]:
    """Everything posted there."""
    return [json.loads(request.body) for request in server.requests if request.path == path]


def words(chunks: Iterable[str]) -> list[dict[str, Any]]:
    """Chunks with these texts, and an end."""
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": text}) for text in chunks),
        chunk({}, "stop"),
    ]
