"""A hub that is silent, slow, endless or somebody else: nothing is waited for or kept without bound."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import engine.hub.client
import engine.hub_http
from engine import SafelightError
from engine.hub.client import Client
from engine.hub.download import download
from engine.hub.record import Record
from engine.hub_cache import repo_folder, snapshot_of
from tests.engine.hub.rude_server import Request, answering

REPO = "someone/a-model"
WEIGHTS = bytes(range(256)) * 8
HANGS = 20.0  # seconds; only a hanging test needs them
Answer = Callable[[Request], None]


def sibling(name: str, content: bytes) -> dict[str, Any]:
    lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": 1, "pointerSize": 134}
    return {"rfilename": name, "size": len(content), "lfs": lfs}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is waited for, and nothing is slept for."""
    monkeypatch.setattr(engine.hub_http, "SECONDS", 0.3)
    monkeypatch.setattr(engine.hub.client, "GIVE_UP", 0.5)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda _: None, time=time.time))


def listed(endpoint: str, token: str | None = None) -> Record:
    client = Client(REPO, endpoint, token, threading.Event())
    return client.wait_for(client.listing, lambda _: None)


def listing(*more: dict[str, Any], sha: str = "0" * 40) -> bytes:
    files = [sibling("config.json", b"{}"), sibling("model.safetensors", WEIGHTS)]
    return json.dumps({"id": REPO, "sha": sha, "siblings": [*files, *more]}).encode()


def whole(request: Request) -> None:
    """Answers as a hub should."""
    if request.path.startswith("/api/"):
        request.reply(listing())
    else:
        request.reply(WEIGHTS if request.path.endswith("model.safetensors") else b"{}")


def silent(request: Request) -> None:
    request.wait(HANGS)


def endlessly(piece: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n", pause: float = 0.02) -> Answer:
    def answer(request: Request) -> None:
        request.send(head)
        while not request.wait(pause):
            request.send(piece)

    return answer


SLOW = {
    "header by header": endlessly(b"X-More: x\r\n"),
    "silent": silent,
    "byte by byte": endlessly(b" ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"),
    "interim": endlessly(b"HTTP/1.1 103 Early Hints\r\n\r\n", b"", 0.001),
}


@pytest.mark.parametrize("kind", SLOW)
def test_a_flag_ends_any_wait(kind: str) -> None:
    flag, ended = threading.Event(), []
    with answering(SLOW[kind]) as rude:
        thread = threading.Thread(target=lambda: ended.append(download(REPO, endpoint=rude.endpoint, stop=flag)))
        thread.start()
        while thread.is_alive() and not rude.requests:
            flag.wait(0.01)
        flag.set()
        thread.join(HANGS)
        assert ended == [False]
    assert not repo_folder(REPO).exists()


@pytest.mark.parametrize("kind", SLOW)
def test_an_answer_has_a_time_by_which_it_is_there(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.hub_http, "SECONDS", 0.1)
    monkeypatch.setattr(engine.hub.client, "GIVE_UP", 0.15)
    with answering(SLOW[kind]) as rude, pytest.raises(SafelightError, match=r"keeps breaking|there is no connection"):
        download(REPO, endpoint=rude.endpoint)


@pytest.mark.parametrize("address", ["socks://127.0.0.1:9", "socks5://127.0.0.1:9", "::::"])
def test_a_proxy_that_cannot_be_used_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", address)
    with pytest.raises(SafelightError, match=r"^the proxy of ALL_PROXY cannot be used; give one that begins with http"):
        listed("http://hub.invalid")


def replying(body: bytes = b"", *headers: str, status: str = "200 OK") -> Answer:
    return lambda request: request.reply(body, *headers, status=status)


def entry(**facts: Any) -> Answer:
    return replying(listing(sibling("b.safetensors", b"x") | facts))


FLOOD = [f"X-{number}: {'x' * 100}" for number in range(5_000)]
PORTAL, ENTRY = "If this network asks for a password", "is listed without a size and a hash that"
LIES: dict[str, tuple[Answer, str]] = {
    "an endless list": (
        endlessly(b" " * 10_000, b"HTTP/1.1 200 OK\r\n\r\n[", 0),
        "sends a list of over 1,000,000 bytes",
    ),
    "an endless refusal": (endlessly(b"x" * 10_000, b"HTTP/1.1 403 No\r\n\r\n", 0), "accept its licence"),
    "a packed list": (replying(gzip.compress(listing()), "Content-Encoding: gzip"), "keeps breaking"),
    "a flood of headers": (replying(b"", *FLOOD), "keeps breaking"),
    "a refusal in a flood of headers": (replying(b"", *FLOOD, status="404 x"), "keeps breaking"),
    "a page": (replying(b"<!DOCTYPE html><title>Welcome to the hotel</title>"), PORTAL),
    "no files": (replying(b'{"siblings": null}'), PORTAL),
    "files without facts": (replying(b'{"siblings": ["config.json"]}'), PORTAL),
    "a list too deep": (replying(b"[" * 100_000), PORTAL),
    "a size without end": (entry(size=2**62), ENTRY),
    "a hash that is a path": (entry(lfs={"sha256": "../../x", "size": 1, "pointerSize": 134}), ENTRY),
    "a hash that is a number": (entry(lfs=None, blobId=5), ENTRY),
    "a commit that is a path": (replying(listing(sha="../../x")), "which is not a commit"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_list_that_lies_is_refused(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.hub_http, "BODY_BYTES", 1_000_000)
    answer, message = LIES[lie]
    with answering(answer) as rude, pytest.raises(SafelightError, match=message):
        listed(rude.endpoint)
    assert {request.headers["accept-encoding"] for request in rude.requests} == {"identity"}
    assert len(rude.requests) == 1 or message == "keeps breaking"


def test_names_that_are_not_bare_are_not_wanted() -> None:
    bad = ("C:evil", "../x", "/x", "a\\b", "x\x00", "")
    with answering(replying(listing(*(sibling(f"{name}.safetensors", b"x") for name in bad)))) as rude:
        record = listed(rude.endpoint)
    assert {file.name for file in record.files} == {"config.json", "model.safetensors"}


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/x", "file:///etc/passwd", "", "http://[", "/again"])
def test_redirects_lead_somewhere(location: str) -> None:
    answer, message = replying(b"", f"Location: {location}", status="302 Found"), "not answer as a hub|no connection"
    with answering(answer) as rude, pytest.raises(SafelightError, match=message):
        listed(rude.endpoint)
    assert len(rude.requests) == (21 if location in ("/again", "") else 1)


def test_the_token_goes_to_the_hub_alone() -> None:
    with answering(whole) as other:

        def answer(request: Request) -> None:
            where = "/api/renamed" if "renamed" not in request.path else f"{other.endpoint}/api/models/x"
            request.reply(b"", f"Location: {where}", status="307 x")

        with answering(answer) as rude:
            listed(rude.endpoint, "hf_secret")
        assert [request.headers.get("authorization") for request in rude.requests] == ["Bearer hf_secret"] * 2
        assert [request.headers.get("authorization") for request in other.requests] == [None]


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.1 206 x\r\nContent-Range: bytes 7-2047/2048\r\n",
        "HTTP/1.1 206 x\r\n",
        "HTTP/1.1 206 x\r\nContent-Range: bytes 5-2047/2048\r\nContent-Encoding: gzip\r\n",
    ],
)
def test_another_range_than_asked_for_is_never_a_model(head: str) -> None:
    def answer(request: Request) -> None:
        if request.path.endswith("model.safetensors"):
            assert request.headers["range"] == "bytes=5-"
            request.send(head.encode() + b"Connection: close\r\n\r\n" + WEIGHTS)
        else:
            whole(request)

    with answering(answer) as rude:
        part = listed(rude.endpoint).part(next(f for f in listed(rude.endpoint).files if f.is_weights))
        part.parent.mkdir(parents=True)
        part.write_bytes(WEIGHTS[:5])
        with pytest.raises(SafelightError, match=r"keeps breaking|damaged twice|no connection"):
            download(REPO, endpoint=rude.endpoint)
    assert snapshot_of(REPO) is None


def test_more_bytes_than_were_listed_are_not_written() -> None:
    def answer(request: Request) -> None:
        if request.path.endswith("model.safetensors"):
            request.send(b"HTTP/1.1 200 OK\r\n\r\n" + WEIGHTS)
            while not request.wait(0.001):
                request.send(b"more" * 1000)
        else:
            whole(request)

    with answering(answer) as rude, pytest.raises(SafelightError, match="keeps breaking"):
        download(REPO, endpoint=rude.endpoint)
    assert max(path.stat().st_size for path in repo_folder(REPO).glob("blobs/*")) <= len(WEIGHTS)
