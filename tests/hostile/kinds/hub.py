"""Downloads from a hub that answers anything."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from engine import SafelightError
from engine.hub import download
from engine.hub_cache import snapshot_of
from tests.engine.hub.rude_server import Request, answering
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

REPO = "someone/a-model"
CONTENT = {"config.json": b'{"a": 1}', "tokenizer.json": b"{}" * 40, "model.safetensors": bytes(range(256)) * 16}
BOMB = gzip.compress(b" " * 10**7)


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# --- a hub as it should be -----------------------------------------------------------------------------------------


def _listing() -> dict[str, Any]:
    files = [
        {
            "rfilename": name,
            "size": len(content),
            "lfs": {"sha256": _sha(content), "size": len(content), "pointerSize": 134},
        }
        for name, content in CONTENT.items()
    ]
    return {
        "id": REPO,
        "sha": "0" * 40,
        "siblings": [*files, {"rfilename": "README.md", "size": 3, "blobId": "0" * 40}],
    }


def _file(request: Request) -> None:
    """A file, from the byte that was asked for."""
    content = CONTENT.get(request.path.rsplit("/", 1)[-1], b"")
    start = int(request.headers.get("range", "bytes=0-")[6:-1])
    if start:
        whole = f"Content-Range: bytes {start}-{len(content) - 1}/{len(content)}"
        request.reply(content[start:], whole, status="206 Partial Content")
    else:
        request.reply(content)


def _good(request: Request) -> None:
    if request.path.startswith("/api/"):
        request.reply(json.dumps(_listing()).encode())
    else:
        _file(request)


# --- a hub that answers anything -----------------------------------------------------------------------------------


def _endless(request: Request, head: bytes, piece: bytes, pause: float = 0) -> None:
    request.send(head)
    while not request.wait(pause):
        request.send(piece)


OK = b"HTTP/1.1 200 OK\r\n"


def rude_answer(random: Random) -> Callable[[Request], None]:
    """An answer to anything."""
    status = random.choice(
        ("200 OK", "206 x", "301 x", "404 x", "401 x", "416 x", "429 x", "500 x", "999 x", "100 x", "204 x")
    )
    code = random.choice(("GatedRepo", "RepoNotFound", "EntryNotFound", "RevisionNotFound", "\x00", "x" * 500))
    body = random.randbytes(random.choice((0, 10, 5_000)))
    match random.randrange(24):
        case 0 | 1:
            return lambda request: request.reply(body, f"X-Error-Code: {code}", status=status)
        case 2 | 3:
            where = random.choice(
                (*mutate.NAMES, "http://127.0.0.1:1/", "//", "http://[::1", "file:///etc/passwd", "/x", "http://é/")
            )
            return lambda request: request.reply(b"", f"Location: {where.encode().decode('latin-1')}", status="302 x")
        case 4:
            return lambda request: request.reply(BOMB, "Content-Encoding: gzip")
        case 5:
            return lambda request: request.reply(body, *(f"X-{i}: {'y' * 50}" for i in range(3_000)), status=status)
        case 6:
            cookies = [f"Set-Cookie: {'a' * 40}{i}=b; expires={'1' * 40}; path=/" for i in range(500)]
            return lambda request: request.reply(body, *cookies, status=status)
        case 7:
            return lambda request: _endless(request, OK + b"\r\n", b" " * 60_000)
        case 8:
            return lambda request: _endless(request, OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 1_000)
        case 9:
            return lambda request: _endless(request, b"", b"HTTP/1.1 103 x\r\n\r\n" * 100)
        case 10 if random.random() < 0.2:
            return lambda request: _endless(request, OK, b"X-A: b\r\n", 0.02)
        case 11 if random.random() < 0.2:
            return lambda request: _endless(request, OK + b"Content-Length: 99\r\n\r\n", b"{", 0.02)
        case 12 if random.random() < 0.2:
            return lambda request: request.wait(1.0) and None
        case 13:
            length = random.choice((-1, 0, 1, 10**6, 2**63, 10**400 if random.random() < 0.5 else "x", "5, 6"))
            return lambda request: request.send(OK + f"Content-Length: {length}\r\n\r\n".encode() + body)
        case 14:
            chunk = random.choice((b"FFFFFFFFFFFFFFFF", b"-1", b"g", b"5;" + b"x" * 50_000, b"0" * 50_000))
            return lambda request: request.send(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"\r\n" + body)
        case 15 | 16:
            good = OK + b"Content-Type: text/plain\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabcde"
            damaged = mutate.damaged(random, good)
            return lambda request: request.send(damaged)
        case 17:
            return lambda _request: None
        case 18:
            return lambda request: request.reply(b"<!DOCTYPE html><title>Sign in</title>" + body)
        case _:
            return lambda request: request.reply(body)


def _rude_listing(random: Random) -> Callable[[Request], None]:
    raw = _listing()
    match random.randrange(8):
        case 0 | 1:
            raw["siblings"].append(raw["siblings"][0] | {"rfilename": f"{random.choice(mutate.NAMES)}.safetensors"})
        case 2:
            file = random.choice(raw["siblings"])
            file[random.choice(tuple(file))] = mutate.value(random)
        case 3:
            raw["siblings"][0]["lfs"] = mutate.value(random)
        case 4:
            raw["siblings"] *= random.choice((2, 200))
        case 5:
            raw["sha"] = random.choice((*mutate.NAMES, *mutate.TEXTS))
        case _:
            pass
    data = mutate.dumped(random, mutate.tree(random, raw) if random.random() < 0.3 else raw)
    return lambda request: request.reply(data)


def _rude_file(random: Random) -> Callable[[Request], None]:
    """A file that is not as it should be; ranges above all."""
    start, more = random.choice((0, 1, 7, 2**63, -1)), random.randbytes(random.choice((0, 1, 9_000)))

    def answer(request: Request) -> None:
        content = CONTENT.get(request.path.rsplit("/", 1)[-1], b"")
        match pick:
            case 0:
                request.reply(
                    content, f"Content-Range: bytes {start}-{len(content) - 1}/{len(content)}", status="206 x"
                )
            case 1:
                request.reply(content + more)
            case 2:
                request.reply(content[: max(0, start)], status="206 x" if "range" in request.headers else "200 OK")
            case 3:
                request.reply(content[::-1])
            case 4:
                request.send(OK + f"Content-Length: {len(content)}\r\n\r\n".encode() + content[:cut])
            case _:
                request.reply(b"", status="416 x")

    pick, cut = random.randrange(6), random.randrange(4_000)
    return answer


def _make_answers(random: Random, folder: Path) -> Attempt:
    seed, bad_listing = random.randrange(2**32), random.random() < 0.4
    lasting = random.random() < 0.5  # else a file is bad for a few requests only

    def attempt() -> None:
        draw = Random(seed)
        left = [1_000 if lasting else draw.randrange(1, 5)]

        def answer(request: Request) -> None:
            if request.path.startswith("/api/"):
                (draw.choice((rude_answer, _rude_listing, _rude_listing))(draw) if bad_listing else _good)(request)
            elif left[0] > 0 and draw.random() < 0.6:
                left[0] -= 1
                draw.choice((rude_answer, _rude_file, _rude_file))(draw)(request)
            else:
                _file(request)

        os.environ["HF_HUB_CACHE"] = str(folder / "cache")
        failure = None
        with answering(answer) as rude:
            for _ in range(3):
                try:
                    download.download(REPO, endpoint=rude.endpoint, token="hf_x")
                    failure = None
                    break
                except SafelightError as error:
                    failure = error
        if failure is not None and bad_listing:
            raise failure
        if failure is not None:  # the hub has recovered
            with answering(_good) as good:
                download.download(REPO, endpoint=good.endpoint)
        place = snapshot_of(REPO)
        assert place is not None
        for name, content in CONTENT.items():
            assert bad_listing or (place / name).read_bytes() == content

    return attempt


def _hurry() -> None:
    """Little is waited for: the library sleeps a second before it tries again."""
    import huggingface_hub.file_download
    from huggingface_hub import constants

    from engine import hub_http
    from engine.hub import client

    hub_http.SECONDS, client.GIVE_UP = 0.2, 0.5
    constants.HF_HUB_DOWNLOAD_TIMEOUT = 1
    huggingface_hub.file_download.time = SimpleNamespace(sleep=lambda _: None)  # type: ignore[assignment]


KINDS = (Kind("hub-answers", _make_answers, prepare=_hurry),)
