"""Searches a hub by words for models that load here, and asks it closer about one of them.

Only the words and a name are sent: no token. ``HfApi.list_models`` has no time limit, tries six times, follows every
next page that a hub names, and shares its session with a download.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from engine.errors import SafelightError
from engine.exchange import Exchange
from engine.files import parse_json
from engine.found import CONFIG_BYTES, FORMS, MODEL_TYPES, Why, form_of, printable
from engine.hub.record import FILE_BYTES, is_wanted
from engine.hub_cache import is_repo
from engine.hub_http import BODY_BYTES, SECONDS, explained
from engine.types import Cancel

MAX_HITS, ASKED = 30, 100  # models of an answer that load here; that the hub is asked for
ALL_SECONDS = 30.0  # for an answer
_NOBODY = (
    *(httpx2.ConnectError, httpx2.TimeoutException, httpx2.ProxyError),
    *(httpx2.TooManyRedirects, httpx2.UnsupportedProtocol, httpx2.InvalidURL),
)
FIELDS = ("config", "downloads", "gated", "pipeline_tag", "siblings", "tags")
WRITES = ("", "text-generation", "image-text-to-text", "any-to-any", "text2text-generation", "fill-mask")
"""The ``pipeline_tag`` of models that write; others of the same families rank, embed and classify."""
UNREAD = ("mlx", "awq", "exl2", "exl3", "hqq", "aqlm")  # tags of forms that a hub's copy of a config may leave out
_LICENCE = re.compile(r"license:([A-Za-z0-9][A-Za-z0-9._-]{0,39})")


@dataclass(frozen=True)
class Hit:
    """A model on a hub. What the hub does not say is None or empty."""

    repo: str
    family: str  # its model_type
    form: str  # how its weights are packed; empty if they are plain
    downloads: int | None  # of the last 30 days
    licence: str
    is_gated: bool  # its licence has to be accepted first
    why: Why  # it does not load here: its family, its form, or it does not write
    detail: str  # what of that


def search(words: str, hub: str, cancel: Cancel | None = None) -> tuple[tuple[Hit, ...], bool]:
    """Returns models with these words in their names, the most downloaded first; True if there may be more.

    At most ``MAX_HITS`` of them load here; the others say why they do not.

    Raises:
        SafelightError: no network, the hub refuses or sends something else, or ``cancel`` was set.
    """
    asked = {"search": words[:100], "filter": "safetensors", "sort": "downloads", "limit": ASKED, "expand": FIELDS}
    answer = _parsed(_answer(hub, "/api/models", cancel, BODY_BYTES, asked), list, hub)
    hits = {hit.repo: hit for item in answer[:ASKED] if (hit := _hit(item)) is not None}
    loadable = [hit for hit in hits.values() if not hit.why]
    others = [hit for hit in hits.values() if hit.why]
    return (*loadable[:MAX_HITS], *others), len(loadable) > MAX_HITS or len(answer) >= ASKED


def look_closer(repo: str, folder: Path, hub: str, cancel: Cancel | None = None) -> int:
    """Puts a model's config into a folder, unless it is closed, and returns the bytes that its download would fetch.

    0 if the hub does not say them. Raises as ``search``.
    """
    files = _files(_parsed(_answer(hub, f"/api/models/{repo}", cancel, BODY_BYTES, {"blobs": True}), dict, hub))
    sizes = [size for name, size in files.items() if is_wanted(name)]
    with suppress(SafelightError):
        (folder / "config.json").write_bytes(_answer(hub, f"/{repo}/resolve/main/config.json", cancel, CONFIG_BYTES))
    return sum(sizes) if all(type(size) is int and 0 <= size <= FILE_BYTES for size in sizes) else 0


def _hit(item: Any) -> Hit | None:
    """Returns one of the models of an answer; None if it has no name that a hub may give."""
    if not isinstance(item, dict) or not is_repo(item.get("id")):
        return None
    config = item["config"] if isinstance(item.get("config"), dict) else {}
    tags = [tag for tag in item["tags"] if isinstance(tag, str)] if isinstance(item.get("tags"), list) else []
    family, writes, files = printable(config.get("model_type")), printable(item.get("pipeline_tag")), _files(item)
    form = form_of(config) or next((tag for tag in UNREAD if tag in tags), "")
    why: Why = ""
    detail = ""
    if family not in MODEL_TYPES:
        why, detail = "family" if family else "none", family
    elif writes not in WRITES:
        why, detail = "none", writes
    elif form and form not in FORMS:
        why, detail = "form", form
    elif "config.json" not in files or not any(is_wanted(name) and name.endswith(".safetensors") for name in files):
        why, detail = "form", "no safetensors"
    licence = next((match[1] for tag in tags if (match := _LICENCE.fullmatch(tag))), "")
    count = item.get("downloads")
    downloads = count if type(count) is int and 0 <= count < 10**12 else None
    return Hit(item["id"], family, form, downloads, licence, item.get("gated") in ("auto", "manual"), why, detail)


def _files(info: dict[str, Any]) -> dict[str, Any]:
    """Returns the names of a repository's files, each with the size that the hub says."""
    listed = info["siblings"] if isinstance(info.get("siblings"), list) else []
    named = (each for each in listed if isinstance(each, dict) and isinstance(each.get("rfilename"), str))
    return {each["rfilename"]: each.get("size") for each in named}


def _parsed(answer: bytes, kind: type, hub: str) -> Any:
    with suppress(SafelightError):
        if isinstance(value := parse_json(answer.decode("utf-8", "replace"), hub, surrogates=True), kind):
            return value
    sign_in = "If this network asks for a password, open a web page first, then try again"
    raise SafelightError(f"{hub} does not send a list of models. {sign_in}")


def _answer(hub: str, path: str, cancel: Cancel | None, most: int, asked: dict[str, Any] | None = None) -> bytes:
    """Returns what a hub answers."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE"):
            raise SafelightError(f"{name} forbids it; unset this variable and start again")

    def check() -> None:
        if cancel is not None and cancel.is_set():
            raise SafelightError("it was stopped")

    ends, headers = time.monotonic() + ALL_SECONDS, {"User-Agent": "safelight", "Accept-Encoding": "identity"}
    try:
        url = str(httpx2.URL(hub + path, params=asked))
        with Exchange(url, headers, check, seconds=ALL_SECONDS, stall=SECONDS, redirects=5) as got:
            if got.status != 200:
                raise SafelightError(f"{hub} refuses with error {got.status}; try again later")
            body = got.whole(most, ends - time.monotonic())
    except _NOBODY as error:
        raise explained(error, "", hub, with_token=False) from error
    except httpx2.HTTPError as error:
        raise SafelightError(f"the connection to {hub} broke; try again") from error
    if body is None:
        raise SafelightError(f"{hub} sends over {most:,} bytes; check the address of the hub")
    return body
