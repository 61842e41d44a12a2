"""What strangers send to a server: good requests and bad ones, whole, slow, or left in the middle. From a seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

SECRET = "lantern"  # in each prompt; nothing that the server writes may hold it
PROMPTS = tuple(
    text.format(SECRET) for text in ("Reverse the word {}.", "Count the letters in {}.", "Spell the word {}.")
)
BUSY = 429
Leave = Literal["stays", "in_head", "in_body", "waiting", "in_stream"]


@dataclass(frozen=True)
class Visit:
    """One request, and how its client behaves.

    Args:
        name: as the outcome is counted.
        data: the whole request, as bytes.
        statuses: that may answer it.
        leave: when the client goes.
        pieces: in how many the request is sent, with a pause after each.
    """

    name: str
    data: bytes
    statuses: frozenset[int]
    leave: Leave = "stays"
    pieces: int = 1
    is_reset: bool = False


@dataclass(frozen=True)
class Mix:
    """Draws visits to a server."""

    port: int
    key: str
    paths: frozenset[str] = frozenset()  # of those that not every version has
    model: str = "safelight-skills"

    def draw(self, random: Random) -> Visit:
        """The next visit: two thirds are sound, and a third of those leave early."""
        kind = random.choices(tuple(KINDS), [weight for weight, _ in KINDS.values()])[0]
        visit = KINDS[kind][1](self, random)
        runs = 200 in visit.statuses and BUSY in visit.statuses
        if runs and random.random() < 0.35:
            leave: Leave = random.choice(("in_head", "in_body", "waiting", "waiting", "in_stream", "in_stream"))
            if leave == "in_stream" and b'"stream": true' not in visit.data:
                leave = "waiting"
            name, is_reset = f"left {leave}".replace("_", " "), random.random() < 0.5
            return replace(visit, name=name, leave=leave, is_reset=is_reset)
        if visit.data and visit.name != "too large" and random.random() < 0.1:
            return replace(visit, pieces=random.randrange(2, 8))
        return visit

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """A request as bytes; a header that is given as empty is left out."""
        fields = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.key}", "Connection": "close"}
        if body is not None:
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        fields |= headers or {}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items() if value)]
        return "\r\n".join((*lines, "", "")).encode() + (body or b"")

    def post(self, path: str, raw: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> bytes:
        """A request with a JSON body."""
        return self.request("POST", path, json.dumps(raw).encode(), headers)


def _chat_body(random: Random) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": random.choice(PROMPTS)}],
        "seed": random.randrange(100),
        "max_tokens": random.choice((4, 16, 64, 100)),
    }
    if random.random() < 0.2:
        body["stop"] = ["e", "ab"]
    if random.random() < 0.2:
        body |= {"logprobs": True, "top_logprobs": 3}
    return body


def _streamed(random: Random, body: dict[str, Any]) -> dict[str, Any]:
    return body | {"stream": True, "stream_options": {"include_usage": True}} | random.choice(({}, {"n": 1}))


RUNS = frozenset({200, BUSY})


def _chat(mix: Mix, random: Random) -> Visit:
    return Visit("chat", mix.post("/v1/chat/completions", _chat_body(random)), RUNS)


def _chat_stream(mix: Mix, random: Random) -> Visit:
    body = _streamed(random, _chat_body(random))
    if random.random() < 0.2:
        body |= {"diffusion_frames": True}
    return Visit("chat, streamed", mix.post("/v1/chat/completions", body), RUNS)


def _completion(mix: Mix, random: Random) -> Visit:
    body = {"prompt": random.choice(PROMPTS), "max_tokens": random.choice((8, 40)), "seed": random.randrange(100)}
    if random.random() < 0.3:
        body |= {"prompt": random.sample(PROMPTS, 2), "n": random.choice((1, 2)), "echo": random.random() < 0.5}
    if random.random() < 0.5:
        return Visit("completion, streamed", mix.post("/v1/completions", _streamed(random, body)), RUNS)
    return Visit("completion", mix.post("/v1/completions", body), RUNS)


def _response(mix: Mix, random: Random) -> Visit:
    if "/v1/responses" not in mix.paths:
        return _chat(mix, random)
    body = {"input": random.choice(PROMPTS), "max_output_tokens": random.choice((16, 64)), "store": False}
    if random.random() < 0.5:
        return Visit("response, streamed", mix.post("/v1/responses", body | {"stream": True}), RUNS)
    return Visit("response", mix.post("/v1/responses", body), RUNS)


def _count(mix: Mix, random: Random) -> Visit:
    body = {"model": mix.model, "messages": [{"role": "user", "content": random.choice(PROMPTS)}]}
    return Visit("count", mix.post("/v1/messages/count_tokens", body), frozenset({200}))


def _look(mix: Mix, random: Random) -> Visit:
    path = random.choice(("/v1/models", f"/v1/models/{mix.model}", "/health"))
    return Visit("models", mix.request("GET", path), frozenset({200}))


def _bad_body(mix: Mix, random: Random) -> Visit:
    good = json.dumps(_chat_body(random)).encode()
    body = random.choice(
        (
            good[: random.randrange(len(good))], b"[]", b"{}", b"\xff\xfe", good.replace(b'"seed": ', b'"seed": -9'),
            good.replace(b"user", b"nobody"), b"[" * 100_000, good.replace(b'"max_tokens": ', b'"max_tokens": -'),
            good[:-1] + b', "temperature": 3}', good[:-1] + b', "n": 99}', good[:-1] + b', "tool_choice": "required"}',
        )
    )  # fmt: skip
    return Visit("bad body", mix.request("POST", "/v1/chat/completions", body), frozenset({400}))


def _too_long(mix: Mix, random: Random) -> Visit:
    body = {"messages": [{"role": "user", "content": f"{SECRET} " * random.choice((400, 4_000))}]}
    return Visit("prompt too long", mix.post("/v1/chat/completions", body), frozenset({400}))


def _too_large(mix: Mix, random: Random) -> Visit:
    said = {"Content-Length": str(random.choice((2**26 + 1, 2**40)))}
    data = mix.request("POST", "/v1/chat/completions", b"{", said)
    return Visit("too large", data + b" " * random.choice((0, 2**16)), frozenset({413}))


def _wrong_key(mix: Mix, random: Random) -> Visit:
    headers = {
        "Authorization": random.choice(("", "Bearer ", "Bearer wrong", f"Basic {mix.key}", f"Bearer {mix.key}x"))
    }
    return Visit("wrong key", mix.post("/v1/chat/completions", _chat_body(random), headers), frozenset({401}))


def _foreign(mix: Mix, random: Random) -> Visit:
    headers = random.choice(
        ({"Host": "evil.example"}, {"Host": f"127.0.0.1.evil:{mix.port}"}, {"Origin": "https://evil.example"})
    )
    return Visit(
        "foreign host or origin", mix.post("/v1/chat/completions", _chat_body(random), headers), frozenset({403})
    )


def _wrong_path(mix: Mix, random: Random) -> Visit:
    path = random.choice(("/v1/nothing", "/../etc/passwd", "/v1/models/other"))
    return Visit("wrong path", mix.request("GET", path), frozenset({404}))


def _no_http(_mix: Mix, random: Random) -> Visit:
    data = random.choice(
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), b"hello\r\n\r\n", b"GET\x00/ HTTP/9.9\r\n\r\n")
    )
    return Visit("no HTTP", data, frozenset({400}))


def _silent(_mix: Mix, random: Random) -> Visit:
    return Visit("left without a word", b"", frozenset(), "in_head", is_reset=random.random() < 0.5)


KINDS: dict[str, tuple[int, Callable[[Mix, Random], Visit]]] = {
    "chat": (28, _chat), "chat_stream": (28, _chat_stream), "completion": (6, _completion), "response": (8, _response),
    "count": (6, _count), "look": (6, _look), "bad_body": (6, _bad_body), "too_long": (2, _too_long),
    "too_large": (1, _too_large), "wrong_key": (3, _wrong_key), "foreign": (2, _foreign),
    "wrong_path": (2, _wrong_path), "no_http": (1, _no_http), "silent": (1, _silent),
}  # fmt: skip
