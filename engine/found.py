"""The models that are on this computer already: in the stores of other programs, and in folders that the user added.

Reads listings of folders, configs and the first bytes of GGUF files, so that hundreds of models take a fraction of a
second; the library of Hugging Face lists its own cache, too, and takes as long to import. Needs no torch.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from engine import windows
from engine.errors import SafelightError, quoted
from engine.files import listed, private_folder, read_json, write_text
from engine.hub_cache import REPOSITORY, cache_folder, lost, snapshot_in
from engine.model_files import (
    LOADABLE_GGUF,
    gguf_architecture,
    gguf_models,
    gguf_parts,
    is_gguf,
    model_title,
    ollama_models,
)

Store = Literal["Hugging Face", "LM Studio", "Ollama", "llama.cpp", "Jan", "added"]
Why = Literal["", "family", "form", "damaged", "none", "size"]  # a search leaves the last one to its caller
MAX_FOLDERS = 20_000  # that are listed in one search
MAX_MODELS = 2_000
DEEPEST = 4  # folders below a store
CONFIG_BYTES = 2**18
MAX_ADDED = 200  # folders of the user's
MAX_NAME_CHARACTERS = 120  # characters of a name out of a file
IMPORTED_GGUF = ("diffusion-gemma",)
"""The ``general.architecture`` of GGUF files that have to be imported."""
MODEL_TYPES = (
    *("diffusion_gemma", "qwen2", "qwen3", "llama", "smollm3", "mistral", "ministral", "ministral3", "mistral3"),
    *("gemma3_text", "gemma3", "wedlm", "sdar", "Fast_dLLM_Qwen", "llada2_moe", "nemotron_labs_diffusion", "llada"),
    *("lladamoe", "Dream", "rnd1", "a2d-qwen3", "a2d-qwen2", "a2d-llama"),
)
"""The ``model_type`` of families that run here."""
OLLAMA_SERVICE = Path("/usr/share/ollama/.ollama/models")  # of its service on Linux
FORMS = ("compressed-tensors", "fp8", "fbgemm_fp8", "modelopt", "auto-round", "gptq", "bitsandbytes")
"""The ``quant_method`` of folders whose weights can be read."""


@dataclass(frozen=True)
class FoundModel:
    """A model on the disk."""

    name: str  # by which ``find`` finds it
    path: Path  # its folder, or the first file of a GGUF model; links are not resolved
    store: Store
    bytes: int
    family: str  # its model_type, or the architecture of a GGUF file; empty if that is unknown
    why: Why = ""  # it does not run here: its family, the form of its weights, damage, or no language model in it
    detail: str = ""  # what of that: a family, a form, a sentence

    @property
    def runs(self) -> bool:
        return not self.why

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"path": str(self.path), "runs": self.runs}


def stores() -> Iterator[tuple[Store, Path]]:
    """Yields the folders in which programs keep models, whether or not they exist.

    Raises:
        RuntimeError: there is no home.
    """
    at, get = home(), os.environ.get
    cache = Path(get("XDG_CACHE_HOME") or at / ".cache")
    yield "Hugging Face", cache_folder()
    yield "LM Studio", at / ".lmstudio" / "models"
    yield "LM Studio", at / ".cache" / "lm-studio" / "models"
    ollama = get("OLLAMA_MODELS")
    yield from (("Ollama", Path(place)) for place in (ollama, at / ".ollama/models", OLLAMA_SERVICE) if place)
    caches = {"darwin": at / "Library" / "Caches", "win32": Path(get("LOCALAPPDATA") or at / "AppData" / "Local")}
    yield "llama.cpp", Path(get("LLAMA_CACHE") or caches.get(sys.platform, cache) / "llama.cpp")
    for models in ("llamacpp/models", "models"):
        yield "Jan", _jan(at) / models


def scan(added: Iterable[Path] = (), places: Iterable[tuple[Store, Path]] | None = None) -> tuple[FoundModel, ...]:
    """Returns the models of all stores and of ``added`` folders, by name, those that run here first.

    What cannot be used is listed with one reason. A name is unique: of two models that would have the same, the later
    one is named by its path.
    """
    search = _Search()
    try:
        for store, place in (*(stores() if places is None else places), *(("added", path) for path in added)):
            search.look(place, store, DEEPEST)
    except RuntimeError:  # there is no home
        pass
    named: dict[str, FoundModel] = {}
    for each in search.models:
        name = each.name if each.name.casefold() not in named else str(each.path)
        named.setdefault(name.casefold(), replace(each, name=name))
    return tuple(sorted(named.values(), key=lambda each: (not each.runs, each.name.casefold())))


def find(name: str) -> Path | None:
    """Returns the model of a name: the one that ``scan`` gives it, or the end of its path; None if there is none.

    Raises:
        SafelightError: several have the name, or it cannot be loaded.
    """
    wanted = name.strip("/").removesuffix(":latest").casefold()
    if not wanted:
        return None
    known = scan(kept())
    matching = [each for each in known if each.name.casefold() == wanted]
    matching = matching or [each for each in known if _ends(each.path, wanted)]
    if "/" in wanted:  # a repository
        matching = matching or [each for each in known if each.name.casefold().startswith(f"{wanted}/")]
    if len({each.path for each in matching}) > 1:
        names = ", ".join(each.name for each in matching[:5])
        raise SafelightError(f"{quoted(name)} is the name of several models; give one of them: {names}")
    if matching and matching[0].why in ("damaged", "none"):
        raise SafelightError(f"{matching[0].name} cannot be loaded: {matching[0].detail}")
    return matching[0].path if matching else None


def _ends(path: Path, wanted: str) -> bool:
    return any(f"/{each.as_posix()}".casefold().endswith(f"/{wanted}") for each in (path, path.parent))


def keep(added: Sequence[Path]) -> None:
    """Keeps the folders that the user added, so that commands find the same models as the window.

    Raises:
        SafelightError: the list cannot be written.
    """
    paths = [str(path) for path in added[:MAX_ADDED]]
    if paths == [str(path) for path in kept()]:
        return
    try:
        file = _list()
        private_folder(file.parent)
    except (OSError, RuntimeError) as error:
        raise SafelightError(f"the list of folders cannot be kept ({error}); allow writing to {_list()}") from None
    write_text(file, json.dumps({"folders": paths}), private=True)


def kept() -> tuple[Path, ...]:
    """Returns the folders that were kept; none if there are none, or the list is damaged."""
    try:
        listing = read_json(_list()).get("folders")
    except (SafelightError, RuntimeError):
        return ()
    return (
        tuple(Path(each) for each in listing[:MAX_ADDED] if isinstance(each, str)) if isinstance(listing, list) else ()
    )


class _Search:
    """Collects models, folder by folder; each folder once, whatever links lead to it."""

    def __init__(self) -> None:
        self.models: list[FoundModel] = []
        self._seen: set[tuple[int, int]] = set()

    def look(self, folder: Path, store: Store, deeper: int) -> None:
        """Adds the models in a folder, and in folders below it."""
        if len(self._seen) >= MAX_FOLDERS or len(self.models) >= MAX_MODELS:
            return
        if is_gguf(folder):  # one that the user added
            self._add_file(folder, store)
            return
        try:
            status = folder.stat()
        except (OSError, ValueError):
            return
        if (status.st_dev, status.st_ino) in self._seen:
            return
        self._seen.add((status.st_dev, status.st_ino))
        if folder.name.startswith(REPOSITORY):
            self._look_into_repository(folder, store)
            return
        names = listed(folder)
        if "manifests" in names and "blobs" in names:
            for name, blob in ollama_models(folder):
                if blob is None:
                    self._refuse(folder, store, "form", "in several files of Ollama's", name)
                else:
                    self._add_file(blob, store, name)
            return
        files = gguf_models(folder)
        for file in files:
            self._add_file(file, store)
        if "config.json" in names and not files:
            self._add_folder(folder, store, names)
            return
        for name in sorted(names) if deeper else ():
            if not name.startswith((".", "datasets--", "spaces--")) and os.path.isdir(folder / name):
                self.look(folder / name, store, deeper - 1)

    def _look_into_repository(self, repository: Path, store: Store) -> None:
        snapshot, before = snapshot_in(repository), len(self.models)
        if snapshot is None:
            self._refuse(repository, store, "damaged", "its download is not finished; download it again")
            return
        self.look(snapshot, store, 2)
        if len(self.models) == before:
            self._refuse(repository, store, "none", "it holds no language model")

    def _refuse(self, path: Path, store: Store, why: Why, detail: str, name: str = "") -> None:
        self.models.append(FoundModel(printable(name or model_title(path)), path, store, 0, "", why, detail))

    def _add_file(self, file: Path, store: Store, name: str = "") -> None:
        name, parts = name or model_title(file), gguf_parts(file)
        sizes = [_size(part) for part in parts]
        family = printable(gguf_architecture(file))
        if family == "clip":  # what a model sees with
            return
        why: Why = "" if family in (*LOADABLE_GGUF, *IMPORTED_GGUF) else "family"
        detail = family if why else ""
        if None in sizes:
            why, detail = "damaged", f"{parts[sizes.index(None)].name} is missing; download it again"
        elif not family:
            why, detail = "damaged", "its file is damaged, or not in the form GGUF; download it again"
        self.models.append(
            FoundModel(printable(name), file, store, sum(size or 0 for size in sizes), family, why, detail)
        )

    def _add_folder(self, folder: Path, store: Store, names: Sequence[str]) -> None:
        shards = [name for name in names if name.endswith(".safetensors")]
        if not shards and "adapter_config.json" in names:
            return
        why: Why = ""
        detail, family = "", ""
        sizes = {name: _size(folder / name) for name in names if not os.path.isdir(folder / name)}
        try:
            config = read_json(folder / "config.json", most=CONFIG_BYTES)
        except SafelightError as error:
            config, why, detail = {}, "damaged", str(error)
        else:
            family = printable(config.get("model_type"))
            form = form_of(config)
            if not family:
                why, detail = "none", "its config.json names no family"
            elif family not in MODEL_TYPES:
                why, detail = "family", family
            elif form and form not in FORMS:
                why, detail = "form", form
            elif not shards:
                why, detail = "form", "no safetensors"
            elif missing := lost(folder, names):
                why, detail = "damaged", f"{missing} is missing; download it again"
        size_on_disk = sum(size or 0 for size in sizes.values())
        self.models.append(FoundModel(printable(model_title(folder)), folder, store, size_on_disk, family, why, detail))


def form_of(config: dict[str, Any]) -> str:
    """Returns how a config says that the weights are packed; empty if they are plain."""
    declared = config.get("quantization_config")
    if isinstance(declared, dict):
        return printable(declared.get("quant_method") or "unknown")
    return "mlx" if isinstance(config.get("quantization"), dict) else ""  # as its converter writes


def printable(text: object) -> str:
    """Returns a name out of a file as one line of printable characters; empty if it is no text."""
    return (
        "".join(sign if sign.isprintable() else "?" for sign in text[:MAX_NAME_CHARACTERS])
        if isinstance(text, str)
        else ""
    )


def _size(file: Path) -> int | None:
    """Returns the size of a file; None if it is missing."""
    try:
        return file.stat().st_size
    except (OSError, ValueError):
        return None


def _jan(at: Path) -> Path:
    """Returns the data folder of Jan, which its settings may have elsewhere."""
    if folder := os.environ.get("JAN_DATA_FOLDER"):
        return Path(folder)
    roots = {"darwin": at / "Library" / "Application Support", "win32": Path(os.environ.get("APPDATA") or at)}
    root = roots.get(sys.platform, Path(os.environ.get("XDG_DATA_HOME") or at / ".local" / "share")) / "Jan"
    try:
        chosen = read_json(root / "settings.json", most=CONFIG_BYTES).get("data_folder")
    except SafelightError:
        chosen = None
    return Path(chosen) if isinstance(chosen, str) and chosen else root / "data"


def _list() -> Path:
    """Returns the file with the folders that the user added.

    Raises:
        RuntimeError: there is no home.
    """
    config = os.environ.get("LOCALAPPDATA" if windows.IS_WINDOWS else "XDG_CONFIG_HOME")
    return Path(config or home() / ".config") / "Safelight" / "models.json"


def home() -> Path:
    """Returns the user's folder.

    Raises:
        RuntimeError: there is none.
    """
    return Path.home()
