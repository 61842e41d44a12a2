"""The entries of the models page, read from the disk, and their actions. Knows no Qt and no torch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from app.system.i18n import tr
from engine import PUBLISHED, EmbeddedModel, PublishedModel, SafelightError
from engine.catalog import ASSETS, AUTOREGRESSIVE, GEMMA_SHAPE, PARTS, SMALL, SMALL_TITLE, TALK, installed
from engine.files import read_json
from engine.hub.download import unfinished
from engine.hub.record import Record
from engine.hub_cache import repo_of, snapshot_of
from engine.model_files import gguf_parts, is_gguf, loads_directly, model_title
from engine.store_files import MANIFEST, PARTIAL

if TYPE_CHECKING:
    from app.models.jobs import JobKind, Phase

Group = Literal["embedded", "published", "stored", "local"]
Writes = Literal["", "diffusion", "word by word"]
State = Literal["ready", "absent", "unfinished", "unpacked", "missing", "gguf"]
Action = Literal["load", "unload", "download", "resume", "pause", "cancel", "convert", "delete", "remove"]
ACTIONS: tuple[Action, ...] = get_args(Action)
PACKED = "-packed"  # suffix of the folder that a conversion writes
QUANTIZED = "hf_quant_config.json"  # a file of NVIDIA's published 4-bit models

# The window waits for the listing: hence these bounds. ``os.path`` returns False where ``Path`` raises, as for an
# unreadable folder.
FOLDERS = 50  # entries of the data folder that are listed; a row of the page takes 7 ms
JSON_BYTES = 2**18  # bytes of a file that is parsed


@dataclass(frozen=True)
class ModelEntry:
    """One model.

    ``unpacked`` is an unfinished conversion;
    ``missing`` a folder or file that no longer exists; ``gguf`` a file that has to be imported. A file that loads as it
    is, is ``ready``.
    """

    key: str
    group: Group
    state: State
    title: str
    purpose: str
    folder: Path  # where the model is or will be
    load_id: str = ""  # the path or id that loads it
    repo: str = ""
    bytes_here: int = 0
    bytes_total: int = 0  # bytes of a download; 0 if unknown
    is_reckoned: bool = False  # ``bytes_total`` follows from the count of parameters
    listed: str = ""  # the day on which ``bytes_total`` was read
    shape: str = ""  # for a memory plan before the weights are downloaded
    quantization: str = "auto"  # for a memory plan before the weights are downloaded
    is_packed: bool = False  # the weights are already in 4 bits
    is_gated: bool = False
    source: str = ""  # name of the folder or file that an unfinished conversion reads
    writes: Writes = ""
    licence: str = ""
    date: str = ""  # of publication
    is_experimental: bool = False  # its published weights were never run by Safelight's makers

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"


def actions(
    entry: ModelEntry, job: tuple[JobKind, Phase] | None, *, loaded: bool, can_convert: bool
) -> tuple[Action, ...]:
    """Returns the actions of an entry, in the order of their buttons.

    Args:
        job: the heavy job on this model.
        can_convert: True if its packed form neither exists nor is being made.
    """
    if job is not None:
        if job[1] == "queued":
            return ("cancel",)
        return ("pause", "cancel") if job[1] == "running" else ()
    if entry.state == "absent":
        return ("download",) if entry.group == "published" else ("download", "remove")
    if entry.state in ("unfinished", "unpacked"):
        return ("resume", "cancel")
    if entry.state == "missing":
        return ("remove",)
    if entry.state == "gguf":
        return ("convert", "remove") if can_convert else ("remove",)
    offered: list[Action] = ["unload" if loaded else "load"]
    if entry.group != "embedded":
        if not entry.is_packed and can_convert:
            offered.append("convert")
        if entry.group == "local":
            offered.append("remove")
        if entry.group != "local" or repo_of(entry.folder) is not None:
            offered.append("delete")
    return tuple(offered)


def entries(
    folder: Path, local: Iterable[Path], published: Sequence[PublishedModel] = PUBLISHED
) -> tuple[ModelEntry, ...]:
    """Returns all entries in the order of the page, at most ``FOLDERS`` of them from the data folder.

    Args:
        folder: the data folder of models; may be missing.
        local: folders and files that the user added.
    """
    embedded = sorted(installed(), key=lambda model: model.id != TALK.id)
    listed = [_all_small(embedded), *(_embedded(model) for model in embedded)]
    to_download = [_published(model, folder) for model in published]
    listed += sorted(to_download, key=lambda entry: (entry.writes == "word by word", entry.bytes_total))
    known = {entry.key for entry in listed}
    listed += [_unfinished(each) for each in islice(unfinished(), FOLDERS) if each.repo not in known]
    places = {entry.key for entry in listed} | {entry.folder for entry in listed}
    stored: list[ModelEntry] = []
    for path in _inside(folder):
        entry = _stored(path)
        if entry is not None and not {entry.key, path} & places:
            places.add(entry.key)
            stored.append(entry)
        if len(stored) >= FOLDERS:
            break
    return (*listed, *stored, *(added_entry(path) for path in local))


Place = Literal["hero", "own", "small", "catalog", "experimental"]


def place_of(entry: ModelEntry, recommended: str) -> Place:
    """Returns the part of the page in which an entry stands; ``recommended`` is the key of the recommended one."""
    if entry.key == recommended:
        return "hero"
    if entry.group == "embedded":
        return "own" if entry.key == SMALL else "small"
    if entry.group != "published" or entry.state != "absent":
        return "own"
    return "experimental" if entry.is_experimental and entry.shape != GEMMA_SHAPE else "catalog"


def source_of(entry: ModelEntry, known: Iterable[ModelEntry]) -> ModelEntry | None:
    """Returns the source of an unfinished conversion, if it still exists."""
    sources = (each for each in known if each.state in ("ready", "gguf"))
    return next((each for each in sources if each.folder.name == entry.source), None)


def _inside(folder: Path) -> list[Path]:
    """Returns the folders in the data folder that have displayable names."""
    try:
        with os.scandir(folder) as entries:
            names = [each.name for each in entries if os.path.isdir(each.path)]
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return []
    return [folder / name for name in sorted(names) if name.isprintable() and not name.startswith(".")]


def _embedded(model: EmbeddedModel) -> ModelEntry:
    return ModelEntry(
        model.id, "embedded", "ready", model.title, tr(model.purpose), model.folder, model.id,
        bytes_here=_size(model.folder), writes="word by word" if model.id == TALK.id else "diffusion",
    )  # fmt: skip


def _all_small(models: Iterable[EmbeddedModel]) -> ModelEntry:
    here = sum(_size(model.folder) for model in models if model.id in PARTS)
    purpose = tr("each prompt goes to the one that was made for it")
    return ModelEntry(
        SMALL, "embedded", "ready", tr(SMALL_TITLE), purpose, ASSETS / "models" / SMALL, SMALL, bytes_here=here
    )


def _published(model: PublishedModel, folder: Path) -> ModelEntry:
    earlier = folder / model.repo.replace("/", "--")  # where earlier versions put it
    place = snapshot_of(model.repo) or (earlier if os.path.isfile(earlier / "config.json") else None)
    record = Record.read(model.repo)
    known = 0 if record is None else record.total_bytes
    whole = place is not None and record is None
    return ModelEntry(
        key=model.repo,
        group="published",
        state="ready" if whole else "absent" if record is None else "unfinished",
        title=model.title,
        purpose=tr(model.purpose),
        folder=place or earlier,
        load_id=str(place) if whole else "",
        repo=model.repo,
        bytes_here=record.done_bytes if record is not None else _size(place) if place is not None else 0,
        bytes_total=known or model.download_bytes,
        is_reckoned=not (known or model.listed),
        listed="" if known else model.listed,
        shape=model.shape,
        quantization=model.quantization,
        is_packed=model.quantization != "auto",
        is_gated=model.is_gated,
        writes=writes_of(model.model_type),
        licence=tr(model.licence),
        date=model.date,
        is_experimental=model.is_experimental,
    )


def _unfinished(record: Record) -> ModelEntry:
    return ModelEntry(
        key=record.repo,
        group="stored",
        state="unfinished",
        title=record.repo,
        purpose=tr("a download that is not finished"),
        folder=record.snapshot,
        repo=record.repo,
        bytes_here=record.done_bytes,
        bytes_total=record.total_bytes,
    )


def _stored(path: Path) -> ModelEntry | None:
    """Returns the entry of a folder in the data folder: a model or an unfinished conversion. None if it is neither."""
    key = str(path)
    if os.path.lexists(path / MANIFEST):
        purpose = tr("packed into 4 bits by Safelight; loads quickly")
        here = _size(path)
        return ModelEntry(
            key, "stored", "ready", _title(path), purpose, path, key,
            bytes_here=here, is_packed=True, writes=writes_of(_json(path / "config.json").get("model_type")),
        )  # fmt: skip
    if os.path.lexists(path / PARTIAL):
        source = _json(path / PARTIAL).get("source")
        return ModelEntry(
            key, "stored", "unpacked", _title(path), tr("a conversion to 4 bits that is not finished"), path,
            bytes_here=_size(path), source=source if isinstance(source, str) else "",
        )  # fmt: skip
    return _folder_entry(path, "stored") if os.path.isfile(path / "config.json") else None


def added_entry(path: Path) -> ModelEntry:
    """Returns the entry of a folder or a file of the user's."""
    if is_gguf(path):
        return _file_entry(path)
    if not os.path.isfile(path / "config.json"):
        return ModelEntry(str(path), "local", "missing", path.name, tr("a model folder of your own"), path)
    return _folder_entry(path, "local")


def _file_entry(path: Path) -> ModelEntry:
    if not os.path.isfile(path):
        return ModelEntry(str(path), "local", "missing", model_title(path), tr("a GGUF file of your own"), path)
    here = sum(os.path.getsize(part) for part in gguf_parts(path) if os.path.isfile(part))
    if loads_directly(path):
        purpose = tr("a GGUF file of your own; loads as it is")
        return ModelEntry(
            str(path),
            "local",
            "ready",
            model_title(path),
            purpose,
            path,
            str(path),
            bytes_here=here,
            writes="word by word",
        )
    purpose = tr("a GGUF file of your own; has to be imported before it can be loaded")
    return ModelEntry(str(path), "local", "gguf", model_title(path), purpose, path, bytes_here=here)


def _folder_entry(path: Path, group: Group) -> ModelEntry:
    """Returns the entry of a model folder that the user put there, or that is in the Hugging Face cache."""
    purpose = tr("a model folder of your own") if repo_of(path) is None else tr("from Hugging Face")
    config = _json(path / "config.json")
    is_packed = "quantization_config" in config or any(map(os.path.lexists, (path / MANIFEST, path / QUANTIZED)))
    return ModelEntry(
        str(path), group, "ready", model_title(path), purpose, path, str(path),
        bytes_here=_size(path), is_packed=is_packed, writes=writes_of(config.get("model_type")),
    )  # fmt: skip


def _title(path: Path) -> str:
    name = path.name.removesuffix(PACKED)
    return tr("{model}, packed", model=name.split("--", 1)[-1])


def _size(path: Path) -> int:
    """Returns the bytes of a file, or of the files in a model's folder; what cannot be read counts 0."""
    with contextlib.suppress(OSError):
        if path.is_file():
            return path.stat().st_size
        return sum(os.path.getsize(each.path) for each in os.scandir(path) if os.path.isfile(each.path))
    return 0


def writes_of(model_type: object) -> Writes:
    if not isinstance(model_type, str):
        return ""
    return "word by word" if model_type in AUTOREGRESSIVE else "diffusion"


def _json(path: Path) -> dict[str, Any]:
    """Reads a JSON object, empty if missing or damaged; loading the model reports the damage."""
    try:
        return read_json(path, most=JSON_BYTES)
    except SafelightError:
        return {}
