"""Loads an adapter onto a loaded model and removes it; the base model does not change."""

from __future__ import annotations

import hashlib
from pathlib import Path, PureWindowsPath

from engine import catalog, store_files
from engine.adapters.config import CONFIG, TENSORS
from engine.adapters.lora import Adapter, Adapters
from engine.adapters.peft_files import AdapterFiles
from engine.errors import SafelightError
from engine.fingerprint import fingerprint
from engine.memory.plan import free_bytes
from engine.models.model import Model
from engine.weights import packed_store


def load_adapter(model: Model, path_or_id: str | Path) -> Adapter:
    """Loads an adapter onto a model, replacing the current one; not while the model runs.

    The content of existing ``KVCache`` objects is stale: begin with a new one.

    Args:
        path_or_id: a folder with adapter_config.json and adapter_model.safetensors as of PEFT, or an embedded one's id.

    Raises:
        SafelightError: it is damaged, or not for this model; the current adapter stays.
    """
    folder = catalog.resolve_adapter(path_or_id)
    try:
        files = AdapterFiles.open(folder)
        _check_base(model, folder, files)
        free = free_bytes(model.device)
        layers = files.read(model.network, model.family.targets, model.device, model.dtype, free)
        adapter = _describe(folder, layers)
    except OSError as error:
        raise SafelightError(f"{folder} cannot be read: {error.strerror or error}") from error
    model.derived.clear()
    model.adapter_slot.put(model.network, adapter, layers)
    return adapter


def unload_adapter(model: Model) -> None:
    """Removes the adapter, if there is one, so that the model is unchanged to the bit. ``KVCache`` as above."""
    model.derived.clear()
    model.adapter_slot.clear()


def _describe(folder: Path, layers: Adapters) -> Adapter:
    name = folder.resolve().name  # "." has none
    known = {embedded.folder: embedded for embedded in catalog.ADAPTERS}.get(folder)
    parameters = [parameter for layer in layers.values() for parameter in layer.parameters()]
    parts = [part for layer in layers.values() for part in (layer.causal, layer.denoise) if part is not None]
    digests = "".join(packed_store.digest(folder / name) for name in (CONFIG, TENSORS))
    return Adapter(
        name=name,
        title=name if known is None else known.title,
        folder=folder,
        fingerprint=hashlib.sha256(digests.encode()).hexdigest(),
        rank=max(part.down.shape[0] for part in parts),
        parameter_count=sum(parameter.numel() for parameter in parameters),
    )


def _check_base(model: Model, folder: Path, files: AdapterFiles) -> None:
    """Checks that the adapter is for this model, as far as its files show.

    A fingerprint is certain. A packed store has its own fingerprint, and the name of its source. PEFT's config has only
    a name, which is conclusive if it is that of an embedded model.
    """
    packed = packed_store.is_store(model.folder)
    loaded = packed_store.Manifest.read(model.folder / store_files.MANIFEST).source if packed else model.name
    loaded = loaded.rpartition("/")[2]  # of a repository
    wanted = PureWindowsPath(files.config.base).name  # takes both kinds of slash
    if files.base_fingerprint:
        own = fingerprint(model.folder)
        if files.base_fingerprint == own or (packed and wanted == loaded):
            return
        if wanted == loaded:
            raise SafelightError(
                f"{folder} was made for another {loaded} (of fingerprint {files.base_fingerprint[:8]}, not "
                f"{own[:8]}); load that one, or train the adapter again"
            )
    elif wanted == loaded or not catalog.is_embedded(wanted):
        return
    raise SafelightError(f"{folder} was made for {wanted or 'another model'}, not for {loaded}; load that model first")
