"""A hub that is silent, slow, endless or somebody else: nothing is waited for or kept without bound."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import engine.hub.client
from engine import SafelightError
from engine.hub.client import Hub, Patience
from engine.hub.download import download
from engine.hub.progress import ByteCounter, StoppedError
from engine.hub.record import FILES, ClosedError
from tests.engine.hub.rude_server import Request, answering

REPO = "someone/a-model"
WEIGHTS = bytes(range(256)) * 8
HASTY = Patience(tries=1, first_wait=0.001, answer=0.3, stall=0.2)
PATIENT = Patience(tries=1, answer=600.0, stall=600.0)  # so that only a flag can end a wait
HANGS = 20.0  # seconds; only a hanging test needs them


def sibling(name: str, content: bytes) -> dict[str, Any]:
    return {"rfilename": name, "size": len(content), "lfs": {"sha256": hashlib.sha256(content).hexdigest()}}


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Names a proxy for everything."""

    def set_proxy(address: str) -> None:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("ALL_PROXY", address)

    return set_proxy


def listing(*more: dict[str, Any]) -> dict[str, Any]:
    files = [sibling("config.json", b"{}"), sibling("model.safetensors", WEIGHTS)]
    return {"sha": "0" * 40, "siblings": [*files, *more]}


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


def half_a_list(request: Request) -> None:
    request.send(b'HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{"siblings": [')
    request.wait(HANGS)


def byte_by_byte(request: Request) -> None:
    request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not request.wait(0.02):
        request.send(b" ")


def interim(request: Request) -> None:
    while not request.wait(0.001):
        request.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")


SLOW = [header_by_header, silent, half_a_list, byte_by_byte, interim]


@pytest.mark.parametrize("answer", SLOW)
@pytest.mark.parametrize("which", ["pause", "cancel"])
def test_a_flag_ends_any_wait(answer: Callable[[Request], None], which: str, tmp_path: Path) -> None:
    flag, ended = threading.Event(), []
    with answering(answer) as rude:
        given: dict[str, Any] = {which: flag, "endpoint": rude.endpoint, "patience": PATIENT}
        thread = threading.Thread(target=lambda: ended.append(download(REPO, tmp_path / "models", **given)))
        thread.start()
        while not rude.requests:
            flag.wait(0.01)
        flag.set()
        thread.join(HANGS)
        assert ended == ["paused" if which == "pause" else "cancelled"]
    assert list(tmp_path.iterdir()) == []


def test_a_flag_ends_the_wait_for_a_file(tmp_path: Path) -> None:
    def answer(request: Request) -> None:
        if request.path.endswith("model.safetensors"):
            request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2048\r\n\r\nabc")
            request.wait(HANGS)
        else:
            whole(request)

    flag, ended, part = threading.Event(), [], tmp_path / "someone--a-model.partial" / "model.safetensors.part"
    with answering(answer) as rude:
        given: dict[str, Any] = {"pause": flag, "endpoint": rude.endpoint, "patience": PATIENT}
        thread = threading.Thread(target=lambda: ended.append(download(REPO, tmp_path, **given)))
        thread.start()
        while not (part.exists() and part.stat().st_size == 3):
            flag.wait(0.01)
        flag.set()
        thread.join(HANGS)
        assert ended == ["paused"]


@pytest.mark.parametrize("answer", SLOW)
def test_an_answer_has_a_time_by_which_it_is_there(answer: Callable[[Request], None], tmp_path: Path) -> None:
    with answering(answer) as rude, pytest.raises(SafelightError, match=r"keeps breaking|there is no connection"):
        download(REPO, tmp_path, endpoint=rude.endpoint, patience=HASTY)


def test_an_endless_list_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def answer(request: Request) -> None:
        request.send(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            request.send(b" " * 10_000)
            sent.append(10_000)

    monkeypatch.setattr(engine.hub.client, "JSON_BYTES", 1_000_000)
    with answering(answer) as rude, pytest.raises(SafelightError, match="sends a list of over 1,000,000 bytes"):
        Hub(REPO, rude.endpoint, None, HASTY).listing(ByteCounter(0, 0))
    assert sum(sent) < 20_000_000  # what sockets hold comes on top


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "socks://127.0.0.1:9"])
def test_a_hub_on_this_machine_is_asked_without_a_proxy(proxy: Callable[[str], None], address: str) -> None:
    proxy(address)
    with answering(whole) as rude:
        assert Hub(REPO, rude.endpoint, None, HASTY).listing(ByteCounter(0, 0))


@pytest.mark.parametrize("address", ["socks://127.0.0.1:9", "socks5://127.0.0.1:9", "::::"])
def test_a_proxy_that_cannot_be_used_is_named(proxy: Callable[[str], None], address: str) -> None:
    proxy(address)
    with pytest.raises(SafelightError, match=r"^the proxy of ALL_PROXY cannot be used; give one that begins with http"):
        Hub(REPO, "http://hub.invalid", None, HASTY).listing(ByteCounter(0, 0))


def test_a_packed_answer_is_not_unpacked() -> None:
    body = gzip.compress(json.dumps(listing()).encode())
    with answering(lambda request: request.reply(body, "Content-Encoding: gzip")) as rude:
        with pytest.raises(SafelightError, match="keeps breaking"):
            Hub(REPO, rude.endpoint, None, HASTY).listing(ByteCounter(0, 0))
        assert rude.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("status", ["200 OK", "500 x", "404 x", "401 x"])
def test_a_flood_of_headers_is_refused(status: str) -> None:
    def answer(request: Request) -> None:
        request.reply(b"", *(f"X-{i}: {'x' * 100}" for i in range(5_000)), status=status)

    with answering(answer) as rude, pytest.raises(SafelightError, match="keeps breaking"):
        Hub(REPO, rude.endpoint, None, HASTY).listing(ByteCounter(0, 0))


def test_the_body_of_a_refusal_is_not_read() -> None:
    def answer(request: Request) -> None:
        request.send(b"HTTP/1.1 403 No\r\nContent-Type: application/json\r\n\r\n")
        while True:
            request.send(b"x" * 10_000)

    with answering(answer) as rude, pytest.raises(ClosedError, match="accept its licence"):
        Hub(REPO, rude.endpoint, None, HASTY).listing(ByteCounter(0, 0))


def is_refused(body: bytes) -> str:
    with answering(lambda request: request.reply(body)) as rude:
        with pytest.raises(SafelightError) as refused:
            Hub(REPO, rude.endpoint, None, HASTY).listing(ByteCounter(0, 0))
        assert len(rude.requests) == 1
    return str(refused.value)


@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><title>Welcome to the hotel</title>",
        b"",
        b"[]",
        b'{"siblings": null}',
        b'{"siblings": ["config.json"]}',
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps(listing()).replace("2048", "1e999").encode(),
    ],
)
def test_a_page_in_place_of_the_list(body: bytes) -> None:
    assert "this network asks for a password" in is_refused(body)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"size": 2**62}, "is listed with a size of 4611686018427387904 bytes"),
        ({"size": -1}, "with a size of -1"),
        ({"size": None}, "with a size of None"),
        ({"size": "7"}, "with a size of '7'"),
        ({"lfs": {"sha256": "../../x"}}, "without a hash"),
        ({"lfs": None}, "without a hash"),
        ({"lfs": None, "blobId": 5}, "without a hash"),
        ({"rfilename": "MODEL.safetensors"}, "is listed twice"),
    ],
)
def test_sizes_and_hashes_of_a_list(entry: dict[str, Any], why: str) -> None:
    more = sibling("model.safetensors" if "rfilename" in entry else "b.safetensors", b"x")
    given = listing(more | entry)
    if "rfilename" in entry:
        given["siblings"][1]["rfilename"] = "model.safetensors"
    assert why in is_refused(json.dumps(given).encode())


def test_a_list_of_more_files_than_a_model_has() -> None:
    given = listing(*(sibling(f"{i}.safetensors", b"") for i in range(FILES)))
    assert f"more than {FILES} files" in is_refused(json.dumps(given).encode())
    assert "which is not a commit" in is_refused(json.dumps(listing() | {"sha": "../../x"}).encode())


def test_names_that_are_not_bare_are_not_wanted() -> None:
    bad = ("C:evil", "../x", "/x", "a\\b", "x\x00", "")
    given = listing(*(sibling(f"{name}.safetensors", b"x") for name in bad))
    with answering(lambda request: request.reply(json.dumps(given).encode())) as rude:
        record = Hub(REPO, rude.endpoint, None, HASTY).listing(ByteCounter(0, 0))
    assert {file.name for file in record.files} == {"config.json", "model.safetensors"}


@pytest.mark.parametrize(
    "location", ["ftp://127.0.0.1/x", "file:///etc/passwd", "", "http://[", "http://u:p@127.0.0.1/", "/again"]
)
def test_redirects_lead_somewhere(location: str) -> None:
    def answer(request: Request) -> None:
        request.reply(b"", f"Location: {location}", status="302 Found")

    with answering(answer) as rude, pytest.raises(SafelightError, match="redirects to an address without files"):
        Hub(REPO, rude.endpoint, None, HASTY).listing(ByteCounter(0, 0))
    assert len(rude.requests) == (engine.hub.client.HOPS if location == "/again" else 1)


def test_the_token_goes_to_the_hub_alone() -> None:
    with answering(whole) as other:

        def answer(request: Request) -> None:
            where = "/api/renamed" if "renamed" not in request.path else f"{other.endpoint}/api/models/x"
            request.reply(b"", f"Location: {where}", status="307 x")

        with answering(answer) as rude:
            Hub(REPO, rude.endpoint, "hf_secret", HASTY).listing(ByteCounter(0, 0))
        assert [request.headers.get("authorization") for request in rude.requests] == ["Bearer hf_secret"] * 2
        assert [request.headers.get("authorization") for request in other.requests] == [None]


@pytest.mark.parametrize("token", ["hf_ü", "hf_a\nX-Evil: 1", "hf a", "x" * 1000, "\x00"])
def test_a_token_that_is_none(token: str, tmp_path: Path) -> None:
    with pytest.raises(ClosedError, match="contains invalid characters; enter it again"):
        download(REPO, tmp_path / "models", token=token)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.1 206 x\r\nContent-Range: bytes 7-2047/2048\r\n",
        "HTTP/1.1 206 x\r\n",
        "HTTP/1.1 206 x\r\nContent-Range: bytes 5-2047/2048\r\nContent-Encoding: gzip\r\n",
    ],
)
def test_another_range_than_asked_for_costs_nothing(head: str, tmp_path: Path) -> None:
    part = tmp_path / "model.safetensors.part"
    part.write_bytes(WEIGHTS[:5])

    def answer(request: Request) -> None:
        assert request.headers["range"] == "bytes=5-"
        request.send(head.encode() + b"Connection: close\r\n\r\n" + WEIGHTS)

    with answering(answer) as rude:
        hub = Hub(REPO, rude.endpoint, None, HASTY)
        (file,) = (file for file in _record().files if file.name == "model.safetensors")
        with pytest.raises(SafelightError, match="keeps breaking"):
            hub.fetch(file, "main", part, ByteCounter(0, 0))
    assert part.read_bytes() == WEIGHTS[:5]


def _record() -> Any:
    with answering(whole) as rude:
        return Hub(REPO, rude.endpoint, None, HASTY).listing(ByteCounter(0, 0))


def test_more_bytes_than_were_listed_are_not_written(tmp_path: Path) -> None:
    def answer(request: Request) -> None:
        if request.path.endswith("model.safetensors"):
            request.send(b"HTTP/1.1 200 OK\r\n\r\n" + WEIGHTS)
            while not request.wait(0.001):
                request.send(b"more" * 1000)
        else:
            whole(request)

    with answering(answer) as rude:
        assert download(REPO, tmp_path, endpoint=rude.endpoint, patience=HASTY) == "ready"
    assert (tmp_path / "someone--a-model" / "model.safetensors").read_bytes() == WEIGHTS


def test_a_thread_that_cannot_be_ended_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is looked up for minutes, say."""
    begun, gate, flag = threading.Event(), threading.Event(), threading.Event()

    def hang(*_args: object) -> bool:
        begun.set()
        gate.wait(HANGS)
        return False

    monkeypatch.setattr(engine.hub.wire.Exchange, "_put", hang)
    with answering(whole) as rude:
        hub = Hub(REPO, rude.endpoint, None, PATIENT)
        threading.Thread(target=lambda: (begun.wait(HANGS), flag.set())).start()
        with pytest.raises(StoppedError):
            hub.listing(ByteCounter(0, 0, None, (flag,)))
        left = [thread for thread in threading.enumerate() if thread.name == "safelight-hub"]
        assert [thread.daemon for thread in left] == [True]
        gate.set()


def test_the_environment_names_the_hub_and_forbids_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert Hub(REPO).address == "https://huggingface.co"
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example/")
    assert Hub(REPO).address == "http://mirror.example"
    assert Hub(REPO, "http://other.example").address == "http://other.example"
    monkeypatch.setenv("HF_HUB_OFFLINE", "yes")
    with pytest.raises(SafelightError, match="HF_HUB_OFFLINE forbids downloads"):
        Hub(REPO)
