"""Our packed store: a folder of safetensors shards, one a layer, and a manifest that verifies them.

``safelight-store.json`` holds the format's version, the source and packing of the weights, and each shard's size and
SHA-256. It is written last: a folder without it is no store. Until then ``safelight-store.partial.json`` records the
finished shards, so that a conversion killed at any point can be resumed. Every file is written under a temporary name,
flushed to the disk and renamed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch

from engine.errors import SafelightError, quoted
from engine.files import (
    explained,
    is_bare_name,
    is_plain_file,
    open_regular,
    read_bytes,
    read_json,
    read_up_to,
    replacing,
    write_json,
)
from engine.quant import Precision
from engine.store_files import COMPANIONS, DRAFT_FILES, DRAFT_FOLDER, MANIFEST, PARTIAL, UNFINISHED
from engine.types import Cancel, Progress
from engine.weights.layout import Expected, Layout, State, TensorSource, fill
from engine.weights.safetensors import FLOATING, Checkpoint, save_whole

FORMAT, VERSION = "safelight-store", 1
TYPES = {  # of packed tensors, as safetensors' headers name them
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int32: "I32",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
}
HASHING_THREADS = 4
SAMPLES, SAMPLE_BYTES = 64, 4096  # of a file of a checkpoint
COMPANION_BYTES = 256 * 2**20  # of each; tokenizers have up to 35 MB


@dataclass(frozen=True)
class Shard:
    """The manifest's entry of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The store's table of contents."""

    source: str  # name of the checkpoint that was converted
    revision: str  # SHA-256 over its files: tensor names, places, sizes, and samples of the bytes
    precision: Precision
    files: dict[str, Shard] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        raw = {"format": FORMAT, "version": VERSION, "source": self.source, "revision": self.revision}
        raw |= {"precision": self.precision.as_dict(), "files": {name: asdict(s) for name, s in self.files.items()}}
        write_json(path, raw)

    @staticmethod
    def read(path: Path) -> Manifest:
        """Reads a manifest.

        Raises:
            SafelightError: the file is damaged, foreign, or of a newer version.
        """
        raw = read_json(path)
        if raw.get("format") != FORMAT:
            raise SafelightError(f"{path} is not the manifest of a Safelight store")
        if raw.get("version") != VERSION:
            raise SafelightError(
                f"{path} has format version {quoted(raw.get('version'))}; this Safelight reads {VERSION}. Update it"
            )
        try:
            shards = {name: _shard(name, **facts) for name, facts in raw["files"].items()}
            return Manifest(str(raw["source"]), str(raw["revision"]), Precision.from_dict(raw["precision"]), shards)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SafelightError(f"{path} is damaged ({quoted(str(error))}); convert the model again") from error


def _shard(name: str, bytes: int, sha256: str, **_: object) -> Shard:
    """Reads an entry of a manifest's files; earlier versions wrote more in it."""
    if not is_bare_name(name):
        raise ValueError(f"{quoted(name)} is not a file in its folder")
    return Shard(int(bytes), sha256)


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_store(folder: Path) -> bool:
    return (folder / MANIFEST).exists()


def stored(state: State) -> Layout:
    """Returns the store's layout: the network's own names; a packed weight as its scheme's tensors."""
    layout: Layout = {}
    for path, parameter in state.plain.items():
        put = partial(state.keep, path)
        layout[path] = Expected(tuple(parameter.shape), FLOATING, path, put)
    for path, module in state.packed.items():
        for part, spec in module.scheme.tensors(module.shape, module.matrices).items():
            key = f"{path}.{part}"
            layout[key] = Expected(spec.shape, (TYPES[spec.dtype],), path, partial(state.keep, key))
    return layout


def open_store(folder: Path, manifest: Manifest) -> Checkpoint:
    """Opens the store and reads its headers; every file must be there with its full size.

    Raises:
        SafelightError: a file is missing, or shorter or longer than the manifest says.
    """
    for name, shard in manifest.files.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else None  # a link is accepted: the hub's cache consists of them
        if size != shard.bytes:
            fault = "is missing" if size is None else f"has {size} bytes instead of {shard.bytes}"
            raise SafelightError(f"{path} {fault}; convert the model again")
    return Checkpoint(folder, [folder / name for name in manifest.files])


def fill_verified(
    checkpoint: TensorSource,
    layout: Layout,
    manifest: Manifest,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> None:
    """Does the same as ``layout.fill``, but verifies each file's hash before a tensor of it is used.

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
                    f"{checkpoint.folder / name} is damaged: its content has changed; convert the model again"
                )
            inside = {n: layout[n] for n, h in checkpoint.headers.items() if h.file.name == name and n in layout}
            fill(checkpoint, inside, cancel=cancel)
            done += shard.bytes
            if progress is not None:
                progress(done / total)
    finally:
        pool.shutdown(cancel_futures=True)


def shard_of(part: str) -> str:
    """Returns the name of the file that stores a weight of the network."""
    pieces = part.split(".")
    return f"layer-{int(pieces[1]):02}.safetensors" if pieces[0] == "layers" else "rest.safetensors"


def revision(checkpoint: TensorSource) -> str:
    """Returns the SHA-256 over a checkpoint's tensor names, shapes and types, file sizes, and samples of the bytes.

    Raises:
        SafelightError: a file cannot be read.
    """
    files = {file: _sampled(file) for file in {header.file for header in checkpoint.headers.values()}}
    facts = [(n, h.file.name, files[h.file], h.shape, h.dtype) for n, h in checkpoint.headers.items()]
    return hashlib.sha256(repr(sorted(facts)).encode()).hexdigest()


def _sampled(file: Path) -> tuple[int, str]:
    """Returns the size of a file, and the SHA-256 of samples: other weights of the same shape differ there."""
    try:
        with open_regular(file) as opened:
            size, digest = os.fstat(opened.fileno()).st_size, hashlib.sha256()
            for place in range(0, size, max(SAMPLE_BYTES, size // SAMPLES)):
                opened.seek(place)
                digest.update(read_up_to(opened, SAMPLE_BYTES))
    except OSError as error:
        raise SafelightError(f"{file} cannot be read: {error.strerror or error}") from error
    return size, digest.hexdigest()


def companions_of(folder: Path) -> dict[str, bytes]:
    """Returns the small files of a model folder that a store also has.

    Raises:
        SafelightError: one cannot be read, or is out of all proportion.
    """
    return {name: _read(folder / name) for name in COMPANIONS if (folder / name).is_file()}


def write_store(
    checkpoint: TensorSource,
    layout: Layout,
    state: State,
    precision: Precision,
    companions: Mapping[str, bytes],
    destination: Path,
    progress: Progress | None = None,
    cancel: Cancel | None = None,
) -> Manifest:
    """Packs a checked checkpoint into ``destination``, layer by layer; resumes a stopped conversion.

    Args:
        checkpoint, layout, state: from ``loader.Weights``, with ``state.dtype`` None.
        companions: files that are written next to the weights, by their names.
        progress: called with the share of the layers written, 0 to 1.
        cancel: checked between layers; finished layers stay and are reused by the next run.

    Raises:
        SafelightError: the destination holds something else, the disk is full, ``cancel`` was set, or the checkpoint
            changed meanwhile.
    """
    fresh = Manifest(checkpoint.folder.name, revision(checkpoint), precision)
    try:
        manifest = _claim(destination, fresh)
    except FileExistsError:
        raise SafelightError(f"{destination} is a file; give a new folder for the packed model") from None
    except OSError as error:
        raise SafelightError(f"{destination} cannot be written: {error.strerror or error}") from error
    groups: dict[str, Layout] = {}
    for name in checkpoint.headers:
        if name in layout:
            groups.setdefault(shard_of(layout[name].part), {})[name] = layout[name]
    sizes = {
        file: sum(state.final_bytes(part) for part in {e.part for e in group.values()})
        for file, group in groups.items()
    }
    _require_disk(destination, sum(size for file, size in sizes.items() if file not in manifest.files))
    for name, data in companions.items():
        _write(destination / name, data)
    for done, (file, group) in enumerate(sorted(groups.items()), 1):
        if file not in manifest.files:
            if cancel is not None and cancel.is_set():
                raise SafelightError(f"the conversion was cancelled; run it again to continue from layer file {file}")
            fill(checkpoint, group)
            manifest.files[file] = _save_shard(destination / file, state)
            manifest.write(destination / PARTIAL)
        if progress is not None:
            progress(done / len(groups))
    _copy_draft(checkpoint.folder / DRAFT_FOLDER, destination / DRAFT_FOLDER)  # last: discarding keeps folders
    if revision(checkpoint) != manifest.revision:
        raise SafelightError(
            f"{checkpoint.folder} changed while it was read; delete {destination}, and convert it again"
        )
    manifest.write(destination / MANIFEST)
    (destination / PARTIAL).unlink(missing_ok=True)
    return manifest


def _claim(destination: Path, fresh: Manifest) -> Manifest:
    """Returns the manifest to resume: an unfinished one of the same conversion, or a new one in an empty folder."""
    if is_store(destination):
        raise SafelightError(f"{destination} already holds a packed model; delete it or choose another folder")
    if (destination / PARTIAL).exists():
        begun = Manifest.read(destination / PARTIAL)
        if (begun.revision, begun.precision.as_dict()) != (fresh.revision, fresh.precision.as_dict()):
            raise SafelightError(
                f"{destination} holds an unfinished conversion of {begun.source} with other settings or weights; "
                "finish that one, delete the folder, or choose another"
            )
        _sweep(destination)
        whole = {n: s for n, s in begun.files.items() if _is_whole(destination / n, s)}
        return Manifest(begun.source, begun.revision, begun.precision, whole)
    destination.mkdir(parents=True, exist_ok=True)
    if any(not UNFINISHED.fullmatch(path.name) for path in destination.iterdir()):
        raise SafelightError(f"{destination} is not empty; give a new folder for the packed model")
    _sweep(destination)
    fresh.write(destination / PARTIAL)
    return fresh


def _sweep(destination: Path) -> None:
    """Removes half-written files of a killed run, and nothing else."""
    for path in destination.iterdir():
        if UNFINISHED.fullmatch(path.name) and is_plain_file(path):
            path.unlink()


def _is_whole(path: Path, shard: Shard) -> bool:
    """Returns True if a file is complete as an unfinished conversion wrote it; a link is not."""
    return is_plain_file(path) and path.stat().st_size == shard.bytes and digest(path) == shard.sha256


def _copy_draft(source: Path, destination: Path) -> None:
    if destination.is_symlink():  # a stranger's link would redirect the files
        raise SafelightError(f"{destination} is a link; remove it")
    for name in DRAFT_FILES:
        if (source / name).is_file():
            try:
                destination.mkdir(exist_ok=True)
            except OSError as error:
                raise explained(error, destination) from error
            _write(destination / name, _read(source / name))


def _read(source: Path) -> bytes:
    try:
        return read_bytes(source, COMPANION_BYTES)
    except OSError as error:
        raise SafelightError(f"{source} cannot be read: {error.strerror or error}") from error


def _write(destination: Path, data: bytes) -> None:
    with replacing(destination) as temporary:
        temporary.write_bytes(data)


def _require_disk(destination: Path, needed: int) -> None:
    free = shutil.disk_usage(destination).free
    if needed > free:
        raise SafelightError(
            f"{destination} has {free / 1e9:.1f} GB free and the packed model needs {needed / 1e9:.1f} GB; free "
            f"{(needed - free) / 1e9:.1f} GB or choose another disk"
        )


def _save_shard(path: Path, state: State) -> Shard:
    """Writes the tensors collected so far, and drops them."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in state.tensors.items()}
    try:
        save_whole(path, tensors)
    except SafelightError as error:
        raise SafelightError(f"{error}. Run the conversion again: it continues from here") from error
    state.tensors.clear()
    return Shard(path.stat().st_size, digest(path))
