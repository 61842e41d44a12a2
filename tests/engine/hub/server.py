"""A hub on the loopback interface that can be as bad as a real connection to one: drops, lies, refuses, stalls."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

REVISION = "0123456789abcdef0123456789abcdef01234567"
LFS_FROM = 10_000  # bytes; smaller files are stored in git itself
PIECE = 16_384
JSON = {"Content-Type": "application/json"}


@dataclass
class Sent:
    """A GET of a file: the byte it began with and how many were sent so far."""

    file: str
    start: int
    authorization: str
    count: int = 0


@dataclass
class Hub:
    """Files, and how they are served. ``drops`` ends the next answers for large files after so many bytes."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    models: list[dict[str, Any]] = field(default_factory=list)  # that a search finds
    asked: list[str] = field(default_factory=list)  # paths and queries
    drops: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # of the next answers, instead of what was asked for
    flips: Counter[str] = field(default_factory=Counter)  # how often a file is yet to be sent with a wrong byte
    token: str = ""  # asked for, where one is set
    ranges: bool = True
    redirects: bool = False  # large files, to another host name
    stall_after: int = 0  # bytes of a large file after which ``gate`` is waited for; 0: never
    gate: threading.Event = field(default_factory=threading.Event)
    listed: int = 0
    requests: int = 0
    sent: list[Sent] = field(default_factory=list)
    port: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def sent_of(self, file: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.file == file]

    def found(self, asked: dict[str, list[str]]) -> list[dict[str, Any]]:
        """Returns the models of a search, as the real hub does: two fields, and those that were asked for."""
        fields = {"_id", "id", *asked["expand"]}
        found = [model for model in self.models if asked["search"][0].lower() in str(model["id"]).lower()]
        found = [model for model in found if asked["filter"][0] in model["tags"]]
        found.sort(key=lambda model: -model[asked["sort"][0]])
        return [{key: model[key] for key in model.keys() & fields} for model in found[: int(asked["limit"][0])]]

    def listing(self, repo: str) -> dict[str, object]:
        siblings = []
        for name, content in self.files[repo].items():
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            entry: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": blob}
            if len(content) >= LFS_FROM:
                sha = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"size": len(content), "sha256": sha, "pointerSize": 134}
            siblings.append(entry)
        return {"id": repo, "modelId": repo, "sha": REVISION, "siblings": siblings, "private": False, "tags": []}


def model(repo: str, kind: str = "qwen2", *tags: str, downloads: object = 1, **more: Any) -> dict[str, Any]:
    """One that a search finds, in the shape of the real hub."""
    config: dict[str, Any] = {"architectures": ["Qwen2ForCausalLM"], "model_type": kind}
    if method := more.pop("quant_method", ""):
        config["quantization_config"] = {"quant_method": method}
    siblings = [{"rfilename": name} for name in (".gitattributes", "README.md", "config.json", "model.safetensors")]
    found: dict[str, Any] = {
        "_id": "621ffdc036468d709f17434d", "id": repo, "modelId": repo, "author": repo.split("/")[0], "sha": REVISION,
        "downloads": downloads, "likes": 1, "library_name": "transformers", "pipeline_tag": "text-generation",
        "tags": ["transformers", "safetensors", kind, "text-generation", *tags], "config": config, "private": False,
        "safetensors": {"parameters": {"BF16": 1}, "total": 1}, "gated": False, "siblings": siblings,
    }  # fmt: skip
    return found | more


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        with suppress(ConnectionError):
            self._answer()
        self.close_connection = True

    def _answer(self) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        hub.requests += 1
        hub.asked.append(self.path)
        if hub.statuses and (status := hub.statuses.pop(0)):
            return self._refuse(status)
        if path.startswith("/cdn/"):
            return self._send_file(*path.removeprefix("/cdn/").split("|"))
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self._refuse(401 if "Authorization" not in self.headers else 403, "GatedRepo")
        if path == "/api/models":
            return self._send(json.dumps(hub.found(parse_qs(urlsplit(self.path).query))).encode(), JSON)
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/[^/]+)?", path):
            if found[1] not in hub.files:
                return self._refuse(404, "RepoNotFound")
            hub.listed += 1
            return self._send(json.dumps(hub.listing(found[1])).encode(), JSON)
        found = re.fullmatch(rf"/([^/]+/[^/]+)/resolve/(?:main|{REVISION})/(.+)", path)
        if found is None or found[2] not in hub.files.get(found[1], {}):
            return self._refuse(404, "EntryNotFound")
        if hub.redirects and len(hub.files[found[1]][found[2]]) >= LFS_FROM:
            where = f"http://localhost:{hub.port}/cdn/{found[1]}|{found[2]}"
            return self._send(b"", {"Location": where}, 302)
        return self._send_file(found[1], found[2])

    def _send_file(self, repo: str, name: str) -> None:
        hub, content = self.hub, self.hub.files[repo][name]
        sha = hashlib.sha256(content).hexdigest()
        headers = {"ETag": f'"{sha}"', "X-Linked-ETag": f'"{sha}"', "X-Linked-Size": str(len(content))}
        headers["X-Repo-Commit"] = REVISION
        start, status = 0, 200
        if hub.ranges and (asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))):
            start, status = int(asked[1]), 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if start >= len(content) > 0:
            return self._refuse(416)
        if self.command == "GET" and hub.flips[name] > 0:
            hub.flips[name] -= 1
            content = content[:-1] + bytes([content[-1] ^ 1])
        self._send(content[start:], headers, status, name, start)
        return None

    def _send(self, body: bytes, headers: dict[str, str], status: int = 200, name: str = "", start: int = 0) -> None:
        hub = self.hub
        self.send_response(status)
        for key, value in ({"Content-Length": str(len(body)), "Connection": "close"} | headers).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        big = name != "" and start + len(body) >= LFS_FROM
        end = hub.drops.pop(0) if big and hub.drops else len(body)
        sent = Sent(name, start, self.headers.get("Authorization", ""))
        if name:
            hub.sent.append(sent)
        while sent.count < min(end, len(body)):
            at = start + sent.count
            if big and hub.stall_after and at >= hub.stall_after:
                hub.gate.wait(30)
            piece = body[sent.count : min(sent.count + PIECE, end)]
            if big and hub.stall_after > at:
                piece = piece[: hub.stall_after - at]
            sent.count += len(piece)
            self.wfile.write(piece)

    def _refuse(self, status: int, code: str = "") -> None:
        self._send(b"{}", {"X-Error-Code": code} if code else {}, status)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Serve on a free port; nothing is left when this ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = False  # so that closing waits for them
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="hub")
    thread.start()
    try:
        yield hub
    finally:
        hub.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()
