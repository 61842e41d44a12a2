"""A server over a made-up model, in this process, and how it is asked."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

import tests.hasty_servers  # noqa: F401
from engine.config import GenerationConfig
from engine.events import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationFinished,
    PrefillFinished,
    StepFinished,
)
from engine.server import RunningServer, ServerOptions
from engine.service import Backend, LoadFailed, LoadRequest, ModelLoaded, Scheduler
from engine.text.tags import TAGS
from tests.fake_engine import FakeEngine

KEY = "the-key"
CANVAS = 32
PAD, END, FIRST_TAG, FIRST_CHARACTER = 0, 1, 3, 100
CHAT = "/v1/chat/completions"
PIECES = re.compile("|".join((*map(re.escape, TAGS), ".")), re.DOTALL)
NO_IMAGES: Any = None  # for messages that have none
VERIFIED = httpx2.create_ssl_context()  # else each client reads all certificates of the system


class LetterTokenizer:
    """A token a character, and a token a tag."""

    def piece(self, token: int) -> str:
        if token >= FIRST_CHARACTER:
            return chr(token - FIRST_CHARACTER)
        return {PAD: "<pad>", END: "<eos>", 2: "<bos>"}.get(token) or TAGS[token - FIRST_TAG]

    def is_special(self, token: int) -> bool:
        return token < FIRST_CHARACTER

    def token_id(self, token: str) -> int | None:
        return FIRST_TAG + TAGS.index(token) if token in TAGS else None

    def encode(self, text: str) -> list[int]:
        return [
            FIRST_CHARACTER + ord(piece) if len(piece) == 1 else FIRST_TAG + TAGS.index(piece)
            for piece in PIECES.findall(text)
        ]

    def encode_prompt(self, text: str) -> list[int]:
        return [2, *self.encode(text)]

    encode_rendered = encode_inert = encode

    def inert(self, text: str) -> str:
        return text

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        return "".join(self.piece(i) for i in map(int, ids) if not (skip_special and self.is_special(i)))


class ScriptedEngine(FakeEngine):
    """Writes ``says`` whatever it is asked; a block takes ``steps`` steps, which wait for ``gate`` under ``hold``."""

    def __init__(self, traces: Path | None = None) -> None:
        super().__init__(traces)
        self.says = "Hello there."
        self.context = 2_000
        self.defaults = GenerationConfig(max_new_tokens=4 * CANVAS, eos_token_ids=(END,))
        self.name = "scripted"
        self.knows_thinking = True

    def load_model(self, path: str, progress: Callable[[float], None] | None = None, threads: int = 0) -> Any:
        model = super().load_model(path, progress, threads)
        model.tokenizer = LetterTokenizer()
        model.config.canvas_length, model.config.vocab_size, model.config.bos_token_id = CANVAS, 2_000_000, 2
        model.chat_template.render = self.render
        return model

    def chat_ids(self, messages: Any, tools: Any = (), **options: Any) -> list[int]:
        self.prompts.append([dict(message) for message in messages])
        self.options.append({"tools": list(tools), **options})
        return LetterTokenizer().encode(self.render(messages, tools, **options))

    def render(self, messages: Any, tools: Any = (), **options: Any) -> str:
        text = "".join(message["content"] for message in messages)
        if tools:
            text += json.dumps(list(tools))
        return text + "!" * (options.get("enable_thinking", False) and self.knows_thinking)

    def generate(
        self,
        _model: Any,
        ids: list[int],
        config: GenerationConfig,
        seed: int,
        cancel: threading.Event,
        cache: object = None,
    ) -> Iterator[Event]:
        self.caches.append(cache)
        self.seeds.append(seed)
        self.configs.append(config)
        yield PrefillFinished(len(ids), len(ids) // 2, 0.01)
        said = LetterTokenizer().encode(self.says)
        room, done, steps = -(-config.max_new_tokens // CANVAS), 0, 0
        for block in range(room):
            part = said[done : done + CANVAS]
            row = np.array([*part, END, *[PAD] * CANVAS][:CANVAS], dtype=np.int32)
            yield CanvasStarted(block, row, np.zeros(CANVAS, dtype=np.bool_))
            for step in range(self.steps):
                if self.hold:
                    self.gate.acquire()
                if cancel.is_set():
                    yield GenerationFinished("cancelled", np.array(said[:done], dtype=np.int32), block, steps, 0.1)
                    return
                if step == self.fail_at:
                    raise self.failure
                self.steps_run += 1
                steps += 1
                sure = np.ones(CANVAS, dtype=np.bool_)
                top = np.stack([row, np.full(CANVAS, FIRST_CHARACTER + ord("?"), dtype=np.int32)], axis=1)
                shares = np.tile(np.array([0.75, 0.25], dtype=np.float32), (CANVAS, 1))
                entropy = np.full(CANVAS, 0.1, dtype=np.float32)
                yield StepFinished(block, step, 0.7, row, row, entropy, sure, row, 0.01, top, shares)
            done += len(part)
            yield CanvasCommitted(block, row, len(part), self.steps, "converged")
            if len(part) < CANVAS:
                break
        reason = "eos" if done >= len(said) and len(said) % CANVAS else "length"
        yield GenerationFinished(reason, np.array(said[:done], dtype=np.int32), block + 1, steps, 0.5)  # type: ignore[arg-type]


class Arrivals:
    """An outlet whose replies can be waited for."""

    is_full = False

    def __init__(self) -> None:
        self.replies: list[Any] = []
        self._news = threading.Condition()

    def put(self, reply: Any) -> None:
        with self._news:
            self.replies.append(reply)
            self._news.notify_all()

    def wait_for(self, *kinds: type) -> Any:
        with self._news:
            assert self._news.wait_for(lambda: any(isinstance(reply, kinds) for reply in self.replies), 60)
        return next(reply for reply in self.replies if isinstance(reply, kinds))


@dataclass
class Served:
    """A running server and what is behind it."""

    server: RunningServer
    scheduler: Scheduler
    engine: Any
    http: httpx2.Client

    def chat(self, text: str = "Hi", **fields: Any) -> httpx2.Response:
        return self.http.post(CHAT, json={"messages": [{"role": "user", "content": text}], **fields})

    def refusal(self, text: str = "Hi", **fields: Any) -> tuple[int, str | None, str]:
        """Status, field and sentence of a chat that is refused."""
        return refused(self.chat(text, **fields))


def refused(response: httpx2.Response) -> tuple[int, str | None, str]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["code"], str | None)
    return response.status_code, error["param"], error["message"]


def within(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Wait for something that another thread brings about; False where it does not."""
    ends = time.monotonic() + seconds
    while not condition() and time.monotonic() < ends:
        time.sleep(0.001)
    return condition()


@contextmanager
def serving(backend: Backend, model: str = "scripted", **options: Any) -> Iterator[Served]:
    scheduler, arrivals = Scheduler(backend), Arrivals()
    server = RunningServer(scheduler, ServerOptions(api_key=KEY, **options))
    try:
        if model:
            scheduler.load(LoadRequest(model, model), arrivals)
            assert isinstance(arrivals.wait_for(ModelLoaded, LoadFailed), ModelLoaded)
        server.start()
        with httpx2.Client(
            base_url=server.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=30, verify=VERIFIED
        ) as http:
            yield Served(server, scheduler, backend, http)
    finally:
        if isinstance(backend, FakeEngine):
            backend.hold = False
            for _ in range(100):
                backend.gate.release()
        server.stop()
        assert not server.is_running
        assert scheduler.close()


def events(response: httpx2.Response) -> list[Any]:
    """Returns the data of a stream; its comments are left out."""
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]
