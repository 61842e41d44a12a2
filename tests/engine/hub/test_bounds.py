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
from engine.errors import ClosedError
from engine.hub.client import Client
from engine.hub.download import download
from engine.hub.record import Record
from engine.hub_cache import repo_folder, snapshot_of
from tests.engine.hub.rude_server import Request, answering

REPO = "someone/a-model"
WEIGHTS = bytes(range(256)) * 8
HANGS = 20.0  # seconds; only a hanging test needs them


def large(digest: str) -> dict[str, Any]:
    return {"sha256": digest, "size": 1, "pointerSize": 134}


def sibling(name: str, content: bytes) -> dict[str, Any]:
    return {"rfilename": name, "size": len(content), "lfs": large(hashlib.sha256(content).hexdigest())}


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Names a proxy for everything."""

    def set_proxy(address: str) -> None:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("ALL_PROXY", address)

    return set_proxy


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little is waited for, and nothing is slept for."""
    monkeypatch.setattr(engine.hub_http, "SECONDS", 0.3)
    monkeypatch.setattr(engine.hub.client, "GIVE_UP", 1.0)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda _: None, time=time.time))


def listed(endpoint: str, token: str | None = None) -> Record:
    client = Client(REPO, endpoint, token, threading.Event())
    return client.wait_for(client.listing, lambda _: None)


def listing(*more: dict[str, Any]) -> dict[str, Any]:
    files = [sibling("config.json", b"{}"), sibling("model.safetensors", WEIGHTS)]
    return {"id": REPO, "sha": "0" * 40, "siblings": [*files, *more]}


def whole(request: Request) -> None:
    """As a hub should answer."""
    if request.path.startswith("/api/"):
        request.reply(json.dumps(listing()).encode())
    else:
        request.reply(WEIGHTS if request.path.endswith("model.safetensors") else b"{}")


def header_by_header(request: Request) -> None:
    request.send(b"HTTP/1.1 200 OK\r\n")
    while not request.wait(0.05):
        request.send(b"X-More: x\r\n")


def silent(request: Request) -> None:
    request.wait(HANGS)


def byte_by_byte(request: Request) -> None:
    request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not request.wait(0.02):
        request.send(b" ")


def interim(request: Request) -> None:
    while not request.wait(0.001):
        request.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")


SLOW = [header_by_header, silent, byte_by_byte, interim]


@pytest.mark.parametrize("answer", SLOW)
def test_a_flag_ends_any_wait(answer: Callable[[Request], None]) -> None:
    flag, ended = threading.Event(), []
    with answering(answer) as rude:
        thread = threading.Thread(target=lambda: ended.append(download(REPO, endpoint=rude.endpoint, stop=flag)))
        thread.start()
        while thread.is_alive() and not rude.requests:
            flag.wait(0.01)
        flag.set()
        thread.join(HANGS)
        assert ended == [False]
    assert not repo_folder(REPO).exists()


@pytest.mark.parametrize("answer", SLOW)
def test_an_answer_has_a_time_by_which_it_is_there(answer: Callable[[Request], None]) -> None:
    with answering(answer) as rude, pytest.raises(SafelightError, match=r"keeps breaking|there is no connection"):
        download(REPO, endpoint=rude.endpoint)


def test_an_endless_list_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def answer(request: Request) -> None:
        request.send(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            request.send(b" " * 10_000)
            sent.append(10_000)

    monkeypatch.setattr(engine.hub_http, "BODY_BYTES", 1_000_000)
    with answering(answer) as rude, pytest.raises(SafelightError, match="sends a list of over 1,000,000 bytes"):
        listed(rude.endpoint)
    assert sum(sent) < 20_000_000  # what sockets hold comes on top


@pytest.mark.parametrize("address", ["socks://127.0.0.1:9", "socks5://127.0.0.1:9", "::::"])
def test_a_proxy_that_cannot_be_used_is_named(proxy: Callable[[str], None], address: str) -> None:
    proxy(address)
    with pytest.raises(SafelightError, match=r"^the proxy of ALL_PROXY cannot be used; give one that begins with http"):
        listed("http://hub.invalid")


def test_a_packed_answer_is_not_unpacked() -> None:
    body = gzip.compress(json.dumps(listing()).encode())
    with answering(lambda request: request.reply(body, "Content-Encoding: gzip")) as rude:
        with pytest.raises(SafelightError, match="keeps breaking"):
            listed(rude.endpoint)
        assert rude.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("status", ["200 OK", "500 x", "404 x", "401 x"])
def test_a_flood_of_headers_is_refused(status: str) -> None:
    def answer(request: Request) -> None:
        request.reply(b"", *(f"X-{i}: {'x' * 100}" for i in range(5_000)), status=status)

    with answering(answer) as rude, pytest.raises(SafelightError, match="keeps breaking"):
        listed(rude.endpoint)


def test_the_body_of_a_refusal_is_not_read() -> None:
    def answer(request: Request) -> None:
        request.send(b"HTTP/1.1 403 No\r\nContent-Type: application/json\r\n\r\n")
        while True:
            request.send(b"x" * 10_000)

    with answering(answer) as rude, pytest.raises(ClosedError, match="accept its licence"):
        listed(rude.endpoint)


def is_refused(body: bytes) -> str:
    with answering(lambda request: request.reply(body)) as rude:
        with pytest.raises(SafelightError) as refused:
            listed(rude.endpoint)
        assert len(rude.requests) == 1
    return str(refused.value)


@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><title>Welcome to the hotel</title>",
        b'{"siblings": null}',
        b'{"siblings": ["config.json"]}',
        b"[" * 100_000,
    ],
)
def test_a_page_in_place_of_the_list(body: bytes) -> None:
    assert "If this network asks for a password" in is_refused(body)


@pytest.mark.parametrize(
    "entry",
    [
        {"size": 2**62},
        {"lfs": large("../../x")},
        {"lfs": None, "blobId": 5},
    ],
)
def test_sizes_and_hashes_of_a_list(entry: dict[str, Any]) -> None:
    given = listing(sibling("b.safetensors", b"x") | entry)
    assert "is listed without a size and a hash that" in is_refused(json.dumps(given).encode())


def test_a_commit_that_is_none() -> None:
    assert "which is not a commit" in is_refused(json.dumps(listing() | {"sha": "../../x"}).encode())


def test_names_that_are_not_bare_are_not_wanted() -> None:
    bad = ("C:evil", "../x", "/x", "a\\b", "x\x00", "")
    given = listing(*(sibling(f"{name}.safetensors", b"x") for name in bad))
    with answering(lambda request: request.reply(json.dumps(given).encode())) as rude:
        record = listed(rude.endpoint)
    assert {file.name for file in record.files} == {"config.json", "model.safetensors"}


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/x", "file:///etc/passwd", "", "http://[", "/again"])
def test_redirects_lead_somewhere(location: str) -> None:
    def answer(request: Request) -> None:
        request.reply(b"", f"Location: {location}", status="302 Found")

    with (
        answering(answer) as rude,
        pytest.raises(SafelightError, match=r"does not answer as a hub does|no connection"),
    ):
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
