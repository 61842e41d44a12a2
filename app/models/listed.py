"""The model folders, GGUF files and remote servers that the user listed, kept in the settings. Knows no widgets."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, QSettings, Signal, Slot

from app.bridge.remote_access import RemoteAccess, remote_title
from app.models import tasks, words
from app.models.entries import ModelEntry, added_entry
from app.models.found_section import FoundSection
from app.models.jobs import JobEnded, Jobs, ModelJob
from app.models.memory import MemoryPlans
from app.system.i18n import tr
from engine import SafelightError
from engine.files import listed
from engine.found import FoundModel, Why
from engine.model_files import gguf_models, is_gguf, model_at
from engine.service import is_remote

FOLDERS, PLACES, SERVERS, KEYED = "models/folders", "models/places", "remote/servers", "remote/keyed"
MAX_SERVERS = 50  # on the list
LONGEST_MODEL_ADDRESS = 2600  # characters of an address with a model


class FoundModels(QObject):
    """Keeps what was found, and shows what of it the page does not list anyway."""

    failed = Signal(str)  # nothing was found in a folder that the user has just added

    def __init__(
        self,
        jobs: Jobs,
        plans: MemoryPlans,
        local: LocalFolders,
        section: FoundSection,
        holder: Callable[[], ModelEntry | None],
    ) -> None:
        super().__init__(section)
        self._jobs, self._plans, self._local, self._section, self._holder = jobs, plans, local, section, holder
        self._found: tuple[FoundModel, ...] = ()
        self._entries: dict[str, ModelEntry] = {}  # of rows, for their plans
        self._elsewhere: frozenset[Path] = frozenset()
        self._new: set[Path] = set()  # folders that were added since the last search
        section.turned.connect(self._count)
        section.dropped.connect(self.drop)

    def look(self) -> None:
        self._jobs.submit(ModelJob("", "find", tasks.find(self._local.places()), self._show_found))

    def add(self, place: Path) -> None:
        """Looks into a folder, from now on each time."""
        self._local.add_place(place)
        self._new.add(place)
        self.look()

    @Slot(str)
    def drop(self, place: str) -> None:
        """Looks into a folder no longer."""
        self._local.remove_place(Path(place))
        self.look()

    def leave_out(self, folders: Collection[Path]) -> None:
        """Takes what the page lists elsewhere."""
        if self._elsewhere != folders:
            self._elsewhere = frozenset(folders)
            for folder in folders:
                self._entries.pop(str(folder), None)  # counted again should it return
            self._show()

    def _show(self) -> None:
        shown = [each for each in self._found if each.path not in self._elsewhere]
        self._section.show_models(shown, [str(place) for place in self._local.places()])

    @Slot()
    def _count(self) -> None:
        """Counts the memory of models whose rows have just appeared."""
        for path in self._section.rows:
            if path not in self._entries:
                self._entries[path] = added_entry(Path(path))
                self._plans.count([self._entries[path]])
        self._say()

    def _say(self) -> None:
        shown = {path: self._entries[path] for path in self._section.rows}
        self._section.say({path: self._plans.words(entry, self._holder()) for path, entry in shown.items()})

    def _show_found(self, ended: JobEnded) -> None:
        self._found = ended.result if isinstance(ended.result, tuple) else ()
        for place in () if ended.failure else self._new:
            if not any(each.path.is_relative_to(place) for each in self._found):
                self._local.remove_place(place)
                self.failed.emit(tr("No model was found in {folder}.", folder=place))
        self._new.clear()
        self._entries.clear()  # to be counted with the memory that is free now
        self._show()

    def counted(self, path: str) -> None:
        """Shows whether a model fits, whose memory was counted; one that cannot run leaves the rows."""
        if path not in self._section.rows:
            return
        if (why := self._refusal(path)) is None:
            self._say()
            return
        self._found = tuple(
            dataclasses.replace(each, why=why[0], detail=why[1]) if str(each.path) == path else each
            for each in self._found
        )
        self._show()

    def _refusal(self, path: str) -> tuple[Why, str] | None:
        """Returns why a model whose memory was counted cannot run; None if it can."""
        plan = self._plans.plan(path)
        if plan is None:
            return "damaged", self._plans.words(self._entries[path], None)[0]
        is_too_large = plan.total_bytes > plan.device_bytes and plan.longest < words.LEAST_CONTEXT
        return ("size", words.amount(plan.total_bytes)) if is_too_large else None


def _texts(settings: QSettings, key: str) -> list[str]:
    raw = settings.value(key, [])
    texts = [raw] if isinstance(raw, str) else raw if isinstance(raw, list) else []  # a list of one is read as str
    return [str(each) for each in texts]


class LocalFolders:
    """The listed folders and files, in the order in which they were added."""

    def __init__(self, settings: QSettings) -> None:
        self._settings = settings

    def all(self) -> list[Path]:
        """Returns every folder and file on the list, including missing ones."""
        known = (Path(text) for text in _texts(self._settings, FOLDERS) if text)
        return list(dict.fromkeys(map(model_at, known)))

    def places(self) -> list[Path]:
        """Returns the folders that are looked into for models."""
        return [Path(text) for text in _texts(self._settings, PLACES) if text]

    def add_place(self, folder: Path) -> None:
        """Looks into a folder for models, and into those in it."""
        self._settings.setValue(PLACES, [str(path) for path in dict.fromkeys((*self.places(), folder))])

    def remove_place(self, folder: Path) -> None:
        """Looks into a folder no longer; its files stay on disk."""
        self._settings.setValue(PLACES, [str(path) for path in self.places() if path != folder])

    def add(self, folder: Path) -> None:
        """Puts a folder or a GGUF file on the list.

        Raises:
            SafelightError: the folder holds no model.
        """
        if not is_gguf(folder) and not (folder / "config.json").is_file():
            raise SafelightError(
                tr(
                    "{folder} is not a model folder: it has no config.json. Choose the folder with the weights.",
                    folder=folder,
                )
            )
        self._write([*(path for path in self.all() if path != folder), folder])

    def remove(self, folder: Path) -> None:
        """Takes a folder or a file off the list; the files stay on disk."""
        self._write([path for path in self.all() if path != folder])

    def _write(self, folders: list[Path]) -> None:
        self._settings.setValue(FOLDERS, [str(path) for path in folders])


def is_place(folder: Path) -> bool:
    """Returns True if a folder is no model, and may hold some."""
    names = listed(folder)
    return "config.json" not in names and (
        bool(gguf_models(folder)) or any(os.path.isdir(folder / name) for name in names)
    )


@dataclass(frozen=True)
class RemoteServer:
    """A server by its ``base``, as "http://host:port/v1", and the model last chosen on it, if any."""

    base: str
    model: str = ""

    @staticmethod
    def parse(text: str) -> RemoteServer:
        """Parses typed text; an address without a scheme becomes http.

        Raises:
            SafelightError: it is no address.
        """
        from engine.service.remote import RemoteAddress  # the HTTP client; the page starts without it

        address = RemoteAddress.parse(text if "://" in text else f"http://{text}")
        return RemoteServer(address.base, address.model)

    @property
    def path(self) -> str:
        """Returns the path that loads the chosen model."""
        return f"{self.base}#{self.model}"

    @property
    def origin(self) -> str:
        """Returns the scheme, host and port, for which the key is stored."""
        scheme, _, rest = self.base.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"

    @property
    def name(self) -> str:
        """Returns the host and port."""
        return self.origin.partition("://")[2]


class RemoteServers:
    """The listed servers ``by_base``, in the order in which they were added."""

    def __init__(self, settings: QSettings, access: RemoteAccess) -> None:
        self._settings, self._access = settings, access
        servers = (RemoteServer(*text.partition("#")[::2]) for text in self._list(SERVERS)[:MAX_SERVERS])
        self.by_base = {server.base: server for server in servers if is_remote(server.base)}
        access.keyed = frozenset(self._list(KEYED))

    def add(self, server: RemoteServer) -> None:
        """Puts a server on the list; a listed one keeps its model unless another is named.

        Raises:
            SafelightError: the list is full.
        """
        if server.base not in self.by_base and len(self.by_base) >= MAX_SERVERS:
            raise SafelightError(f"{MAX_SERVERS} servers are listed already; remove one first")
        if server.model or server.base not in self.by_base:
            self.by_base[server.base] = server
            self._write()

    def choose(self, base: str, model: str) -> None:
        self.by_base[base] = replace(self.by_base[base], model=model)
        self._write()

    def remove(self, base: str) -> None:
        """Takes a server off the list. The caller removes its key, since that may wait for the keyring."""
        self.by_base.pop(base, None)
        self._write()

    def note_keys(self) -> None:
        """Remembers which servers have a key, but not the key itself."""
        self._settings.setValue(KEYED, sorted(self._access.keyed))

    def offers(self) -> list[tuple[str, str]]:
        """Returns the models that can be loaded, with titles."""
        return [(server.path, remote_title(server.path)) for server in self.by_base.values() if server.model]

    def _list(self, key: str) -> list[str]:
        texts = _texts(self._settings, key)
        return [text for text in texts if text.isprintable() and 0 < len(text) <= LONGEST_MODEL_ADDRESS]

    def _write(self) -> None:
        listed = [server.path if server.model else server.base for server in self.by_base.values()]
        self._settings.setValue(SERVERS, listed)
