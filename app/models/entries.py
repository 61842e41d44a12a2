"""What is on the models page, found by looking at the disk. Knows neither Qt nor torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from app.language import tr
from engine import EMBEDDED, PUBLISHED, PublishedModel, downloads

Group = Literal["embedded", "published", "stored", "local"]
State = Literal["ready", "absent", "unfinished", "unpacked", "missing"]
RECORD = "safelight-download.json"
STORE, STORE_PARTIAL = "safelight-store.json", "safelight-store.partial.json"
PACKED = "-packed"  # ends the name of a folder that a conversion writes


@dataclass(frozen=True)
class Entry:
    """One model. ``unpacked`` is a conversion that was not finished; ``missing`` a folder that has gone."""

    key: str
    group: Group
    state: State
    title: str
    purpose: str
    folder: Path  # where it lies, or will lie
    load_id: str = ""  # what loads it
    repo: str = ""
    bytes_here: int = 0
    bytes_total: int = 0  # of a download; 0 where it is not known
    shape: str = ""  # to plan with while the weights are not here
    is_packed: bool = False  # already in 4 bits
    is_gated: bool = False
    can_verify: bool = False
    source: str = ""  # name of the folder that an unfinished conversion reads

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"


def entries(folder: Path, local: Iterable[Path], published: Sequence[PublishedModel] = PUBLISHED) -> tuple[Entry, ...]:
    """Everything there is, in the order of the page.

    Args:
        folder: the data folder of models; need not exist.
        local: folders that the user added.
    """
    partial = {part.repo: part for part in downloads.partials(folder)} if folder.is_dir() else {}
    found = [_embedded(model.id, model.title, tr(model.purpose), model.folder) for model in EMBEDDED]
    found += [_published(model, folder, partial.pop(model.repo, None)) for model in published]
    found += [_unfinished(part, folder) for part in partial.values()]
    taken = {entry.folder for entry in found}
    inside = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    for path in inside:
        if path not in taken and not path.name.endswith(downloads.UNFINISHED) and not path.name.startswith("."):
            found += _stored(path)
    return (*found, *(_local(path) for path in local))


def _embedded(key: str, title: str, purpose: str, folder: Path) -> Entry:
    return Entry(key, "embedded", "ready", title, purpose, folder, key, bytes_here=size(folder))


def _published(model: PublishedModel, folder: Path, partial: downloads.Partial | None) -> Entry:
    place = downloads.model_folder(model.repo, folder)
    whole = downloads.is_verified(place)
    return Entry(
        key=model.repo,
        group="published",
        state="ready" if whole else "unfinished" if partial is not None or place.exists() else "absent",
        title=model.title,
        purpose=tr(model.purpose),
        folder=place,
        load_id=str(place) if whole else "",
        repo=model.repo,
        bytes_here=size(place) if whole else partial.done_bytes if partial is not None else 0,
        bytes_total=(partial.total_bytes if partial is not None else 0) or model.download_bytes,
        shape=model.shape,
        is_packed=model.is_packed,
        is_gated=model.is_gated,
        can_verify=whole,
    )


def _unfinished(part: downloads.Partial, folder: Path) -> Entry:
    return Entry(
        key=part.repo,
        group="stored",
        state="unfinished",
        title=part.repo,
        purpose=tr("a download that is not finished"),
        folder=downloads.model_folder(part.repo, folder),
        repo=part.repo,
        bytes_here=part.done_bytes,
        bytes_total=part.total_bytes,
    )


def _stored(path: Path) -> list[Entry]:
    """A folder inside the data folder: a model, a conversion that was not finished, or nothing of ours."""
    key = str(path)
    if (path / STORE).exists():
        purpose = tr("packed into 4 bits by Safelight; loads at the speed of the disk")
        done = Entry(key, "stored", "ready", _title(path), purpose, path, key, is_packed=True, can_verify=True)
        return [_sized(done)]
    if (path / STORE_PARTIAL).exists():
        source = _json(path / STORE_PARTIAL).get("source")
        purpose = tr("a conversion to 4 bits that is not finished")
        return [_sized(Entry(key, "stored", "unpacked", _title(path), purpose, path, source=str(source or "")))]
    if downloads.is_verified(path):
        repo = path.name.replace("--", "/", 1)
        packed = "quantization_config" in _json(path / "config.json")
        ready = Entry(key, "stored", "ready", repo, tr("a downloaded model"), path, key, repo, is_packed=packed)
        return [_sized(ready, can_verify=True)]
    if (path / RECORD).exists():  # somebody removed a file of it
        part = downloads.partial_of(path)
        return [_unfinished(part, path.parent)]
    return [_folder_entry(path, "stored")] if (path / "config.json").is_file() else []


def _local(path: Path) -> Entry:
    if not (path / "config.json").is_file():
        return Entry(str(path), "local", "missing", path.name, str(path), path)
    return _folder_entry(path, "local")


def _folder_entry(path: Path, group: Group) -> Entry:
    """A model folder as somebody put it there."""
    packed = (path / STORE).exists() or "quantization_config" in _json(path / "config.json")
    verify = (path / STORE).exists()
    entry = Entry(str(path), group, "ready", path.name, str(path), path, str(path), is_packed=packed)
    return _sized(entry, can_verify=verify)


def _title(path: Path) -> str:
    name = path.name.removesuffix(PACKED)
    return tr("{model}, packed", model=name.split("--", 1)[-1])


def _sized(entry: Entry, *, can_verify: bool | None = None) -> Entry:
    return replace(
        entry,
        bytes_here=size(entry.folder),
        can_verify=entry.can_verify if can_verify is None else can_verify,
    )


def size(folder: Path) -> int:
    """Bytes of the files in a folder; 0 where it cannot be read."""
    try:
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError:
        return 0


def _json(path: Path) -> dict[str, object]:
    """A JSON object, empty where there is none; a damaged one is reported when the model is loaded."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return raw if isinstance(raw, dict) else {}
