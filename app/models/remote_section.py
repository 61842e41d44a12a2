"""The models page's part on remote servers: a field to add one, and their rows. Asks the network in jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QSettings, Signal, Slot
from PySide6.QtWidgets import QLineEdit, QWidget

from app.bridge.remote_access import RemoteAccess
from app.design.controls import button, chain_tabs, flow_of, label
from app.design.layouts import column_of
from app.design.notice import Notice
from app.models import remote_words
from app.models.guide import VLLM_GUIDE, GuideDialog
from app.models.jobs import Control, JobEnded, Jobs, ModelJob
from app.models.remote_row import FIELD_WIDTH, LONGEST_KEY, RemoteRow, RemoteState
from app.models.remote_servers import RemoteServer, RemoteServers
from app.models.words import sentence
from app.system.i18n import tr
from engine import SafelightError

if TYPE_CHECKING:
    from engine.service.remote import Reachability

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 8.0  # for a test
LONGEST_ADDRESS = 2048


class RemoteSection(QWidget):
    """Lists remote servers. It has jobs of its own, so that a server that does not answer blocks no other job."""

    load_asked = Signal(str)  # an address with a model
    unload_asked = Signal()
    changed = Signal()  # the models that can be loaded

    def __init__(self, settings: QSettings, access: RemoteAccess) -> None:
        super().__init__()
        self._access = access
        self.servers = RemoteServers(settings, access)
        self.jobs = Jobs(self)
        self.rows: dict[str, RemoteRow] = {}
        self._found: dict[str, Reachability] = {}
        self._unkept: set[str] = set()  # servers whose key is lost when the app ends
        self._loaded: str | None = None
        self._loading: str | None = None
        self._saves = self._saved = 0  # number of key changes: requested, and finished
        self.address = QLineEdit()
        self.address.setMaxLength(LONGEST_ADDRESS)
        self.address.setMinimumWidth(FIELD_WIDTH)
        self.address.setPlaceholderText("http://127.0.0.1:8000")
        self.address.setAccessibleName(tr("Address of a server"))
        self.key = QLineEdit()
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.key.setMaxLength(LONGEST_KEY)
        self.key.setPlaceholderText(tr("Key, if it wants one"))
        self.key.setAccessibleName(tr("Key of the server, if it wants one"))
        self.key.setFixedWidth(FIELD_WIDTH)
        self.add_button = button(tr("Add and test"), role="plain", tip=tr("Asks the server which models it has"))
        self.help = button(tr("How to run DiffusionGemma on vLLM"))
        if not VLLM_GUIDE.is_file():  # shown with its parent: shown before it has one, it would be a window
            self.help.hide()
        self.notice = Notice()
        self._lay_out()
        self.add_button.clicked.connect(self._add)
        self.address.returnPressed.connect(self._add)
        self.key.returnPressed.connect(self._add)
        self.address.textChanged.connect(self._typed)
        self.help.clicked.connect(self._open_guide)
        self.jobs.ended.connect(self._ended)
        self.jobs.changed.connect(self._show)
        self._typed()
        self._arrange()

    def _lay_out(self) -> None:
        strip = flow_of(self.address, self.key, self.add_button)
        self._rows = column_of(spacing=8)
        self.setLayout(
            column_of(
                label(tr("Remote engines"), "group"),
                label(remote_words.about(), "fact", wrap=True),
                self._rows,
                self.notice,
                strip,
                self.help,
                margins=(0, 16, 0, 0),
                spacing=8,
            )
        )

    # ---------------------------------------------------------------- state from outside

    def show_loaded(self, path_or_id: str | None, loading: str | None) -> None:
        """Shows which model is loaded and which is being loaded; models that are not remote are ignored."""
        self._loaded, self._loading = path_or_id, loading
        for base in self.rows:
            self._show(base)

    @Slot()
    def refresh(self) -> None:
        """Shows every row again, as the offline switch may have changed."""
        for base in self.rows:
            self._show(base)

    @property
    def is_idle(self) -> bool:
        """True if no server is being asked and no key is being stored."""
        return all(self.jobs.phase(base, "probe") is None for base in self.rows) and self._saves == self._saved

    def shutdown(self) -> None:
        self.jobs.shutdown()

    # ---------------------------------------------------------------- showing

    def _arrange(self) -> None:
        listed = {server.base for server in self.servers.all()}
        for base in self.rows.keys() - listed:
            row = self.rows.pop(base)
            row.hide()
            row.deleteLater()
            self._found.pop(base, None)
        for server in self.servers.all():
            if server.base not in self.rows:
                self.rows[server.base] = self._row(server.base)
                self._rows.addWidget(self.rows[server.base])
            self._show(server.base)
        rows = [widget for row in self.rows.values() for widget in row.tab_order()]
        chain_tabs(self, [*rows, self.address, self.key, self.add_button, self.help])

    def _row(self, base: str) -> RemoteRow:
        row = RemoteRow(base)
        row.load_asked.connect(partial(self._load, base))
        row.unload_asked.connect(self.unload_asked)
        row.test_asked.connect(partial(self.test, base))
        row.remove_asked.connect(partial(self._remove, base))
        row.model_chosen.connect(partial(self._choose, base))
        row.key_given.connect(partial(self._take_key, base))
        return row

    @Slot(str)
    def _show(self, base: str) -> None:
        if base not in self.rows or base not in self.servers:
            return
        server, found = self.servers[base], self._found.get(base)
        is_loaded, is_loading = (held is not None and _base_of(held) == base for held in (self._loaded, self._loading))
        is_trying = self.jobs.phase(base, "probe") is not None
        self.rows[base].show_state(
            RemoteState(
                remote_words.status(found, is_trying=is_trying, is_loaded=is_loaded, is_loading=is_loading),
                remote_words.purpose(found),
                "" if is_trying else remote_words.detail(found, is_key_kept=base not in self._unkept),
                [model.id for model in found.models] if found is not None else (),
                server.model,
                is_loaded,
                is_loading,
                is_trying,
                server.origin in self._access.keyed,
                found is not None and found.wants_key,
                "" if self._access.reaches(base) else remote_words.offline(server.name),
            )
        )

    # ---------------------------------------------------------------- what is asked

    @Slot()
    def _typed(self) -> None:
        self.add_button.setEnabled(bool(self.address.text().strip()))

    @Slot()
    def _add(self) -> None:
        self.notice.hide()
        text = self.address.text().strip()
        if not text:
            return
        try:
            server = RemoteServer.parse(text)
            self.servers.add(server)
        except SafelightError as error:
            self.notice.show_message(sentence(str(error)))
            return
        key = self.key.text().strip()
        self.address.clear()
        self.key.clear()
        self._arrange()
        if key:
            self._keep_key(server, key)  # a test follows
        else:
            self.test(server.base)

    def test(self, base: str, _checked: bool = False) -> None:
        """Tests whether a server answers, and asks for its models."""
        server, access = self.servers[base], self._access

        def work(_control: Control) -> object:
            from engine.service.remote import RemoteAddress, RemotePatience, probe  # imports the HTTP client

            patience = RemotePatience(connect=CONNECT_SECONDS, short=ANSWER_SECONDS)
            key = access.key_of(server.origin)
            return probe(RemoteAddress.parse(base), key, is_allowed=access.is_allowed, patience=patience)

        self.rows[base].notice.hide()
        self.jobs.submit(ModelJob(base, "probe", work))

    def _load(self, base: str, model: str) -> None:
        self._choose(base, model)
        self.load_asked.emit(self.servers[base].path)

    def _choose(self, base: str, model: str) -> None:
        self.servers.choose(base, model)
        self._show(base)
        self.changed.emit()

    def _remove(self, base: str, _checked: bool = False) -> None:
        server = self.servers[base]
        self.servers.remove(base)
        if server.origin in self._access.keyed and server.origin not in {one.origin for one in self.servers.all()}:
            self._keep_key(server, "")
        self._arrange()
        self.changed.emit()

    def _take_key(self, base: str, key: str) -> None:
        self._keep_key(self.servers[base], key)

    def _keep_key(self, server: RemoteServer, key: str) -> None:
        origin, access = server.origin, self._access

        def work(_control: Control) -> object:
            if not (key.isascii() and key.isprintable() and " " not in key):
                raise SafelightError(tr("This is no key: it holds characters that no key has. Enter it again."))
            return access.keep(origin, key)

        self._saves += 1  # each job has its own key, so that all run, in order
        self.jobs.submit(ModelJob(f"{server.base} {self._saves}", "token", work))

    @Slot(object)
    def _ended(self, ended: JobEnded) -> None:
        base = ended.key.partition(" ")[0]
        self._saved += ended.kind == "token"
        row = self.rows.get(base)
        if ended.failure is not None:
            (self.notice if row is None else row.notice).show_message(sentence(str(ended.failure)), ended.details)
        elif ended.kind == "token":
            self.servers.note_keys()
            (self._unkept.add if ended.result == "session" else self._unkept.discard)(base)
            if row is not None:
                self.test(base)
        elif row is not None:
            self._took(base, cast("Reachability", ended.result))
        self._show(base)

    def _took(self, base: str, found: Reachability) -> None:
        """Handles a server's answer or failure; if no model was chosen yet, its first model is chosen."""
        self._found[base] = found
        names = [model.id for model in found.models]
        if names and self.servers[base].model not in names and self._loaded != self.servers[base].path:
            self._choose(base, names[0])

    @Slot()
    def _open_guide(self) -> None:
        dialog = GuideDialog(self.window())
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()


def _base_of(path: str) -> str:
    return path.partition("#")[0]
