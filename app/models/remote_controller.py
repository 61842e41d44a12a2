"""Adds, tests, loads and removes remote servers, and keeps their keys. Asks the network in jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, Signal, Slot

from app.context import AppContext
from app.models import words
from app.models.jobs import Control, JobEnded, Jobs, ModelJob
from app.models.listed import RemoteServer, RemoteServers
from app.models.remote_section import RemoteRow, RemoteSection
from app.system.i18n import tr
from engine import SafelightError

if TYPE_CHECKING:
    from engine.service.remote import Reachability

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 8.0  # for a test


class RemoteController(QObject):
    """Has jobs of its own, so that a server that does not answer blocks no job on a model."""

    changed = Signal()  # the models that can be loaded

    def __init__(self, context: AppContext, section: RemoteSection) -> None:
        super().__init__(section)
        self._context, self._section, self._access = context, section, context.remote
        self.servers = RemoteServers(context.settings, context.remote)
        self.jobs = Jobs(self)
        self._reachability: dict[str, Reachability] = {}
        self._unkept: set[str] = set()  # servers whose key is lost when the app ends
        self._saves = 0  # number of key changes
        context.at_end(self.jobs.shutdown)
        section.add_asked.connect(self._add)
        self.jobs.ended.connect(self._ended)
        self.jobs.changed.connect(self._show)
        context.slot.changed.connect(self._show_all)
        context.offline_changed.connect(self._show_all)
        self._arrange()

    def _arrange(self) -> None:
        listed = list(self.servers.by_base)
        for base in self._section.rows.keys() - set(listed):
            self._section.remove_row(base)
            self._reachability.pop(base, None)
        for base in listed:
            if base not in self._section.rows:
                self._section.add_row(base, self._row(base))
        self._section.chain()
        self._show_all()

    def _row(self, base: str) -> RemoteRow:
        row = RemoteRow(base)
        row.load_asked.connect(partial(self._load, base))
        row.unload.clicked.connect(self._context.slot.unload)
        row.test.clicked.connect(partial(self.test, base))
        row.remove.clicked.connect(partial(self._remove, base))
        row.model_chosen.connect(partial(self._choose, base))
        row.key_given.connect(lambda key: self._keep_key(self.servers.by_base[base], key))
        return row

    @Slot()
    def _show_all(self) -> None:
        for base in self._section.rows:
            self._show(base)

    @Slot(str)
    def _show(self, base: str) -> None:
        if base not in self._section.rows or base not in self.servers.by_base:
            return
        server, reachability = self.servers.by_base[base], self._reachability.get(base)
        models = (self._context.model, self._context.loading)
        is_loaded, is_loading = (each is not None and each.path_or_id.partition("#")[0] == base for each in models)
        is_trying = self.jobs.phase(base, "probe") is not None
        offline = tr(
            "Offline is on, and {host} is not this computer. Turn it off in the settings first.", host=server.name
        )
        self._section.rows[base].show_state(
            status=words.server_status(reachability, is_trying=is_trying, is_loaded=is_loaded, is_loading=is_loading),
            purpose=words.server_purpose(reachability),
            detail="" if is_trying else words.server_detail(reachability, is_key_kept=base not in self._unkept),
            models=[model.id for model in reachability.models] if reachability is not None else (),
            model=server.model,
            is_loaded=is_loaded,
            is_loading=is_loading,
            is_trying=is_trying,
            has_key=server.origin in self._access.keyed,
            wants_key=reachability is not None and reachability.wants_key,
            blocked="" if self._access.reaches(base) else offline,
        )

    @Slot(str, str)
    def _add(self, address: str, key: str) -> None:
        try:
            server = RemoteServer.parse(address)
            self.servers.add(server)
        except SafelightError as error:
            self._section.notice.show_message(words.sentence(str(error)))
            return
        self._section.clear()
        self._arrange()
        if key:
            self._keep_key(server, key)  # a test follows
        else:
            self.test(server.base)

    def test(self, base: str, _checked: bool = False) -> None:
        """Tests whether a server answers, and asks for its models."""
        server, access = self.servers.by_base[base], self._access

        def work(_control: Control) -> object:
            from engine.service.remote import RemoteAddress, RemotePatience, probe  # imports the HTTP client

            patience = RemotePatience(connect=CONNECT_SECONDS, short=ANSWER_SECONDS)
            key = access.key_of(server.origin)
            return probe(RemoteAddress.parse(base), key, is_allowed=access.is_allowed, patience=patience)

        self._section.rows[base].notice.hide()
        self.jobs.submit(ModelJob(base, "probe", work))

    def _load(self, base: str, model: str) -> None:
        self._choose(base, model)
        self._context.load(self.servers.by_base[base].path)

    def _choose(self, base: str, model: str) -> None:
        self.servers.choose(base, model)
        self._show(base)
        self.changed.emit()

    def _remove(self, base: str, _checked: bool = False) -> None:
        server = self.servers.by_base[base]
        self.servers.remove(base)
        if server.origin in self._access.keyed and server.origin not in {
            one.origin for one in self.servers.by_base.values()
        }:
            self._keep_key(server, "")
        self._arrange()
        self.changed.emit()

    def _keep_key(self, server: RemoteServer, key: str) -> None:
        origin, access = server.origin, self._access

        def work(_control: Control) -> object:
            if not (key.isascii() and key.isprintable() and " " not in key):
                raise SafelightError(tr("This key has invalid characters. Enter it again."))
            return access.keep(origin, key)

        self._saves += 1  # each job has its own key, so that all run, in order
        self.jobs.submit(ModelJob(f"{server.base} {self._saves}", "token", work))

    @Slot(object)
    def _ended(self, ended: JobEnded) -> None:
        base = ended.key.partition(" ")[0]
        row = self._section.rows.get(base)
        if ended.failure is not None:
            problem = words.sentence(str(ended.failure))
            (row or self._section).notice.show_message(problem, ended.details)
        elif ended.kind == "token":
            self.servers.note_keys()
            (self._unkept.add if ended.result == "session" else self._unkept.discard)(base)
            if row is not None:
                self.test(base)
        elif row is not None:
            self._note(base, cast("Reachability", ended.result))
        self._show(base)

    def _note(self, base: str, reachability: Reachability) -> None:
        """Handles a server's answer or failure; if no model was chosen yet, its first model is chosen."""
        self._reachability[base] = reachability
        names, model = [model.id for model in reachability.models], self._context.model
        is_loaded = model is not None and model.path_or_id == self.servers.by_base[base].path
        if names and self.servers.by_base[base].model not in names and not is_loaded:
            self._choose(base, names[0])
