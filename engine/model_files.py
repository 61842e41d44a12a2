"""The files of a model and its name, by a path: GGUF files in parts, repositories of the Hugging Face cache. Knows no
tensors.

Links are followed and never resolved: the blob behind a link has neither a name nor its companions.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from engine.errors import SafelightError
from engine.files import MAX_NAMES, listed, open_regular, read_json, read_up_to
from engine.hub_cache import REPOSITORY, snapshot_in

MAX_PARTS = 1000  # files of a GGUF model
MANIFEST_BYTES = 2**16  # of a manifest of Ollama's
LOADABLE_GGUF = ("llama", "smollm3", "mistral3", "qwen2", "qwen3", "gemma3", "llada", "llada-moe", "dream")
"""The ``general.architecture`` of GGUF files that load without an import."""
_MAGIC = b"GGUF"
_PART = re.compile(r"(.+)-[0-9]{5}-of-([0-9]{5})(\.gguf)", re.IGNORECASE)
_FIRST_KEY = struct.Struct("<4sIQQQ20sIQ")  # magic, version, tensors, keys; a key's length, name, type, text length
_TEXT = 8  # a key's type
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def is_gguf(path: Path) -> bool:
    """Returns True if a path names a GGUF file, by its ending, or by its first bytes where it has none."""
    if path.suffix.lower() == ".gguf":
        return not os.path.isdir(path)  # False where ``Path.is_dir`` raises
    return not path.suffix and os.path.isfile(path) and _start(path, len(_MAGIC)) == _MAGIC


def gguf_architecture(path: Path) -> str:
    """Returns the architecture that a GGUF file names in its first key; empty if it is damaged or names none there.

    Writers put it first, as the format's specification asks; the header itself takes seconds to read.
    """
    start = _start(path, _FIRST_KEY.size + 64)
    if len(start) < _FIRST_KEY.size:
        return ""
    magic, *_, key, kind, length = _FIRST_KEY.unpack_from(start)
    if (magic, key, kind) != (_MAGIC, b"general.architecture", _TEXT):
        return ""
    return start[_FIRST_KEY.size : _FIRST_KEY.size + min(length, 64)].decode("ascii", "replace")


def loads_directly(path: Path) -> bool:
    """Returns True if a GGUF file loads without an import."""
    return gguf_architecture(path) in LOADABLE_GGUF


def gguf_parts(path: Path) -> list[Path]:
    """Returns the files of a GGUF model: as many as the name says (NAME-00001-of-00003.gguf), or this one."""
    match = _PART.fullmatch(path.name)
    if match is None or not 1 <= int(match[2]) <= MAX_PARTS:
        return [path]
    return [path.with_name(f"{match[1]}-{number:05}-of-{match[2]}{match[3]}") for number in range(1, int(match[2]) + 1)]


def gguf_of(path: Path) -> Path | None:
    """Returns the file of a GGUF model, the first if it is in parts, by any of its files or by the folder that holds it
    and no other model; else None."""
    if is_gguf(path):
        return gguf_parts(path)[0]
    files = gguf_models(path)
    return files[0] if len(files) == 1 else None


def gguf_models(folder: Path) -> list[Path]:
    """Returns the GGUF models in a folder without other weights, each by its first file; not the parts for pictures."""
    names = listed(folder)
    if any(name.endswith(".safetensors") for name in names):
        return []
    files = (folder / name for name in names if not name.startswith("mmproj") and name.lower().endswith(".gguf"))
    return sorted({gguf_parts(file)[0] for file in files if is_gguf(file)})


def model_at(path: Path) -> Path:
    """Returns the model that a path stands for: a folder, or the first file of a GGUF model.

    A repository of the Hugging Face cache stands for its snapshot, a folder for the one GGUF model in it, and the
    config or a shard of weights for their folder. Any other path is returned as it is.
    """
    if path.name.startswith(REPOSITORY):
        path = snapshot_in(path) or path
    is_of_folder = path.suffix == ".safetensors" or path.name in ("config.json", "model.safetensors.index.json")
    if is_of_folder and os.path.isfile(path) and os.path.isfile(path.parent / "config.json"):
        return path.parent
    return gguf_of(path) or path


def model_title(path: Path) -> str:
    """Returns the name of a model, by where it lies.

    A snapshot of the Hugging Face cache is named by its repository, a blob of Ollama by its manifest, a GGUF file by
    its name without the number of a part, all else by the folder.
    """
    place = next((i for i, part in enumerate(path.parts) if part.startswith(REPOSITORY)), None)
    is_file = is_gguf(path)
    stem = path.name
    if is_file and path.suffix:
        match = _PART.fullmatch(path.name)
        stem = path.stem if match is None else match[1]
    if place is not None and path.parts[place + 1 : place + 2] in ((), ("snapshots",), ("blobs",)):
        name = path.parts[place].removeprefix(REPOSITORY).replace("--", "/")
        inner = path.parts[place + 3 :]  # in the snapshot
        if is_file and path.suffix and (len(inner) > 1 or len(gguf_models(path.parent)) > 1):
            return f"{name}/{stem}"
        return name if is_file or len(inner) == 0 else "/".join((name, *inner))
    if is_file and not path.suffix:
        store = path.parent.parent
        return min((name for name, blob in ollama_models(store) if blob == path), key=len, default=stem)
    return path.parent.name if is_file and stem == "model" else stem  # as Jan names its files


def ollama_models(store: Path) -> Iterator[tuple[str, Path | None]]:
    """Yields the models of an Ollama store by their manifests: the name, as Ollama takes it, and the file of the
    weights; None of a model that is not one file, but of several, or of one and an adapter.
    """
    manifests = store / "manifests"
    for manifest in sorted(itertools.islice(manifests.glob("*/*/*/*"), MAX_NAMES)):
        host, space, name, tag = manifest.relative_to(manifests).parts
        where = [host, space] if host != "registry.ollama.ai" else [] if space == "library" else [space]
        try:
            layers = read_json(manifest, most=MANIFEST_BYTES).get("layers")
        except SafelightError:
            layers = None
        kinds: dict[str, list[str]] = {}
        for layer in layers if isinstance(layers, list) else ():
            if isinstance(layer, dict):
                kind = str(layer.get("mediaType")).rpartition(".")[2]
                kinds.setdefault(kind, []).append(str(layer.get("digest")))
        (digest, *others) = kinds.get("model", [""])
        is_whole = not others and "adapter" not in kinds and _DIGEST.fullmatch(digest) is not None
        blob = store / "blobs" / digest.replace(":", "-") if is_whole else None
        yield "/".join((*where, name)) + ("" if tag == "latest" else f":{tag}"), blob


def _start(path: Path, most: int) -> bytes:
    """Returns the first bytes of a regular file; none if it cannot be read."""
    try:
        with open_regular(path) as file:
            return read_up_to(file, most)
    except (OSError, SafelightError):
        return b""
