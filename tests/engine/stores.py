"""Stores of models as other programs keep them, made by hand of a file or a folder that is there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

COMMIT = "0123abcd" * 5


def hugging_face(cache: Path, repo: str, files: Iterable[Path], commit: str = COMMIT, *, ref: str = "main") -> Path:
    """A repository in the Hugging Face cache: blobs by their hashes, a snapshot of links. Returns the snapshot."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    for made in (folder / "blobs", folder / "refs", snapshot):
        made.mkdir(parents=True, exist_ok=True)
    (folder / "refs" / ref).write_text(commit)
    for file in files:
        blob = folder / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        if not blob.exists():
            os.link(file, blob)
        (snapshot / file.name).symlink_to(Path("../../blobs") / blob.name)
    return snapshot


def lm_studio(models: Path, publisher: str, repo: str, file: Path) -> Path:
    """A file in a folder of LM Studio's. Returns it."""
    place = models / publisher / repo / file.name
    place.parent.mkdir(parents=True, exist_ok=True)
    os.link(file, place)
    return place


def ollama(store: Path, name: str, file: Path, *, host: str = "registry.ollama.ai", space: str = "library") -> Path:
    """A model of Ollama's: a manifest that names its blob. Returns the blob."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    blob = store / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    if not blob.exists():
        os.link(file, blob)
    model, _, tag = name.partition(":")
    manifest = store / "manifests" / host / space / model / (tag or "latest")
    manifest.parent.mkdir(parents=True, exist_ok=True)
    kind = "application/vnd.ollama.image"
    layers = [
        {"mediaType": f"{kind}.model", "digest": f"sha256:{digest}", "size": file.stat().st_size},
        {"mediaType": f"{kind}.template", "digest": "sha256:" + "0" * 64, "size": 1},
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return blob
