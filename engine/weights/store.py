"""Our packed store: a folder of safetensors shards, one a layer, and a manifest that vouches for them.

``safelight-store.json`` holds the format's version, where the weights came from, how they are packed, and each shard's
size and SHA-256. It is written last: a folder without it is no store. Until then ``safelight-store.partial.json``
records the shards that are finished, so that a conversion killed at any point goes on where it stood. Every file is
written beside its place, flushed to the disk and moved.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file

from engine.decoders.base import Cancel
from engine.errors import SafelightError
from engine.files import read_json
from engine.weights.checkpoint import FLOATING, Checkpoint, Expected, Layout, Progress, State, fill
from engine.weights.quantize import Precision

MANIFEST = "safelight-store.json"
PARTIAL = "safelight-store.partial.json"
FORMAT, VERSION = "safelight-store", 1
CODE_TYPES, SCALE_TYPES = {4: "U8", 8: "I8"}, {4: "BF16", 8: "F32"}  # by a code's bits
UNFINISHED = ("*.tmp", ".tmp*")  # ours, and those of the library that writes the shards
HASHING_THREADS = 4
COMPANIONS = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "chat_template.jinja",
)  # fmt: skip


@dataclass(frozen=True)
class Shard:
    """What the manifest knows of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The store's table of contents."""

    source: str  # name of the checkpoint that was converted
    revision: str  # SHA-256 over the headers of its files: which tensors, where, how large
    precision: Precision
    files: dict[str, Shard] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        raw = {"format": FORMAT, "version": VERSION, "source": self.source, "revision": self.revision}
        raw |= {"precision": self.precision.as_dict(), "files": {name: asdict(s) for name, s in self.files.items()}}
        write_whole(path, json.dumps(raw, indent=2) + "\n")

    @staticmethod
    def read(path: Path) -> Manifest:
        """
        Raises:
            SafelightError: the file is damaged, foreign, or of a newer version.
        """
        raw = read_json(path)
        if raw.get("format") != FORMAT:
            raise SafelightError(f"{path} is not the manifest of a Safelight store")
        if raw.get("version") != VERSION:
            raise SafelightError(
                f"{path} has format version {raw.get('version')}; this Safelight reads {VERSION}. Update it"
            )
        try:
            files = {str(name): Shard(int(f["bytes"]), str(f["sha256"])) for name, f in raw["files"].items()}
            return Manifest(str(raw["source"]), str(raw["revision"]), Precision.from_dict(raw["precision"]), files)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SafelightError(f"{path} is damaged ({error!r}); convert the model again") from error


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    beside = path.with_name(path.name + ".tmp")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_store(folder: Path) -> bool:
    """Whether a folder is a finished store."""
    return (folder / MANIFEST).exists()


# --- reading -----------------------------------------------------------------------------------------------------


def stored(state: State) -> Layout:
    """The store's layout: the network's own names; a packed weight as its codes and its scales."""
    layout: Layout = {}
    for path, parameter in state.plain.items():
        put = partial(state.keep, path)
        layout[path] = Expected(tuple(parameter.shape), FLOATING, path, put)
    for path, module in state.packed.items():
        for part, kind in (("codes", CODE_TYPES[module.scheme.bits]), ("scales", SCALE_TYPES[module.scheme.bits])):
            key = f"{path}.{part}"
            layout[key] = Expected(tuple(getattr(module, part).shape), (kind,), path, partial(state.keep, key))
    return layout


def open_store(folder: Path, manifest: Manifest) -> Checkpoint:
    """The store's headers; every file must be there with its full size.

    Raises:
        SafelightError: a file is missing, or shorter or longer than the manifest says.
    """
    for name, shard in manifest.files.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size != shard.bytes:
            found = "is missing" if size is None else f"has {size} bytes instead of {shard.bytes}"
            raise SafelightError(f"{path} {found}; convert the model again")
    return Checkpoint(folder, [folder / name for name in manifest.files])


def fill_verified(
    checkpoint: Checkpoint,
    layout: Layout,
    manifest: Manifest,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> None:
    """As ``checkpoint.fill``, and no tensor is used before its file's hash was found right.

    Files are hashed a few at a time in threads, ahead of the reading, which then finds them in memory.

    Raises:
        SafelightError: a file does not have its hash, or ``cancel`` was set.
    """
    done, total = 0, sum(shard.bytes for shard in manifest.files.values())
    pool = ThreadPoolExecutor(HASHING_THREADS, thread_name_prefix="safelight-hash")
    try:
        hashes = {name: pool.submit(digest, checkpoint.folder / name) for name in manifest.files}
        for name, shard in manifest.files.items():
            if hashes[name].result() != shard.sha256:
                raise SafelightError(
                    f"{checkpoint.folder / name} is damaged: it is not what was written; convert the model again"
                )
            inside = {n: layout[n] for n, h in checkpoint.headers.items() if h.file.name == name}
            fill(checkpoint, inside, cancel=cancel)
            done += shard.bytes
            if progress is not None:
                progress(done / total)
    finally:
        pool.shutdown(cancel_futures=True)


# --- writing -----------------------------------------------------------------------------------------------------


def shard_of(part: str) -> str:
    """The file that a weight of the network is stored in."""
    pieces = part.split(".")
    return f"layer-{int(pieces[1]):02}.safetensors" if pieces[0] == "layers" else "rest.safetensors"


def revision(checkpoint: Checkpoint) -> str:
    """SHA-256 over a checkpoint's headers: names, shapes, types and the files' sizes."""
    facts = [(n, h.file.name, h.file.stat().st_size, h.shape, h.dtype) for n, h in checkpoint.headers.items()]
    return hashlib.sha256(repr(sorted(facts)).encode()).hexdigest()


def write_store(
    checkpoint: Checkpoint,
    layout: Layout,
    state: State,
    precision: Precision,
    destination: Path,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Manifest:
    """Pack a checked checkpoint into ``destination``, layer by layer; goes on where an earlier run was stopped.

    Args:
        checkpoint, layout, state: from ``loader.open_weights``, with ``state.dtype`` None.
        progress: called with the share of the layers written, 0 to 1.
        cancel: looked at between layers; what is finished stays and is taken up by the next run.

    Raises:
        SafelightError: the destination holds something else, the disk is full, or ``cancel`` was set.
    """
    manifest = _claim(destination, Manifest(checkpoint.folder.name, revision(checkpoint), precision))
    groups: dict[str, Layout] = {}
    for name in checkpoint.headers:
        if name in layout:
            groups.setdefault(shard_of(layout[name].part), {})[name] = layout[name]
    sizes = {
        file: sum(state.final_bytes(part) for part in {e.part for e in group.values()})
        for file, group in groups.items()
    }
    _require_disk(destination, sum(size for file, size in sizes.items() if file not in manifest.files))
    for name in COMPANIONS:
        if (checkpoint.folder / name).is_file():
            shutil.copyfile(checkpoint.folder / name, destination / name)
    for done, (file, group) in enumerate(sorted(groups.items()), 1):
        if file not in manifest.files:
            if cancel is not None and cancel.is_set():
                raise SafelightError(f"the conversion was cancelled; run it again to go on from layer file {file}")
            fill(checkpoint, group)
            manifest.files[file] = _save_shard(destination / file, state)
            manifest.write(destination / PARTIAL)
        if progress is not None:
            progress(done / len(groups))
    manifest.write(destination / MANIFEST)
    (destination / PARTIAL).unlink(missing_ok=True)
    return manifest


def _claim(destination: Path, fresh: Manifest) -> Manifest:
    """The manifest to go on with: an unfinished one of the same conversion, or a new one in an empty folder."""
    if is_store(destination):
        raise SafelightError(f"{destination} already holds a packed model; delete it or choose another folder")
    if (destination / PARTIAL).exists():
        for pattern in UNFINISHED:  # what a killed run left half-written
            for path in destination.glob(pattern):
                path.unlink()
        begun = Manifest.read(destination / PARTIAL)
        if (begun.revision, begun.precision) != (fresh.revision, fresh.precision):
            raise SafelightError(
                f"{destination} holds an unfinished conversion of {begun.source} with other settings; finish that one, "
                "delete the folder, or choose another"
            )
        whole = {
            n: s for n, s in begun.files.items() if (destination / n).is_file() and digest(destination / n) == s.sha256
        }
        return Manifest(begun.source, begun.revision, begun.precision, whole)
    if destination.is_file() or (
        destination.is_dir() and {path.name for path in destination.iterdir()} - {PARTIAL + ".tmp"}
    ):
        raise SafelightError(f"{destination} is not empty; give a new folder for the packed model")
    try:
        destination.mkdir(parents=True, exist_ok=True)
        fresh.write(destination / PARTIAL)
    except OSError as error:
        raise SafelightError(f"{destination} cannot be written: {error.strerror or error}") from error
    return fresh


def _require_disk(destination: Path, needed: int) -> None:
    free = shutil.disk_usage(destination).free
    if needed > free:
        raise SafelightError(
            f"{destination} has {free / 1e9:.1f} GB free and the packed model needs {needed / 1e9:.1f} GB; free "
            f"{(needed - free) / 1e9:.1f} GB or choose another disk"
        )


def _save_shard(path: Path, state: State) -> Shard:
    """Write the tensors that have come in, and forget them."""
    beside = path.with_name(path.name + ".tmp")
    try:
        save_file({name: tensor.cpu().contiguous() for name, tensor in state.tensors.items()}, beside)
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.chmod(0o644)  # the library writes for the owner alone
        shard = Shard(beside.stat().st_size, digest(beside))
        os.replace(beside, path)
    except (OSError, SafetensorError) as error:
        beside.unlink(missing_ok=True)
        full = "No space left" in str(error) or "os error 28" in str(error)
        what = "the disk is full" if full else f"it cannot be written ({error})"
        raise SafelightError(f"{path}: {what}; make room and run the conversion again, it goes on from here") from error
    state.tensors.clear()
    return shard
