"""Connects the server page to the app: the switch, the served model, and the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Slot

from app.context import AppContext
from app.server import words
from app.server.page import ServerPage
from app.server.snippets import Access
from app.session.turn_request import title_of
from app.system.i18n import tr
from engine.service import is_remote

if TYPE_CHECKING:
    from engine.server.live import LiveRequest


class ServerController(QObject):
    """Shows the server's state and carries out the user's choices."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context, self._server = context, context.server
        self.widget = self.page = page = ServerPage()
        self.setParent(page)  # so that no signal arrives once the page is destroyed
        self.notice = page.notice
        page.card.chosen.connect(context.choose_server)
        page.card.new_key.clicked.connect(self._server.renew_key)
        page.card.show_key.toggled.connect(self._show_access)
        page.requests.inspect_asked.connect(self._inspect)
        page.requests.stop_asked.connect(self._server.stop)
        self._server.changed.connect(self._show_state)
        self._server.requests_changed.connect(self._show_requests)
        context.slot.changed.connect(self._show_model)
        context.busy_changed.connect(self._show_model)
        context.server_chosen.connect(self._show_preferences)
        context.offline_changed.connect(self._show_preferences)
        self._show_preferences()
        self._show_state()
        self._show_requests()

    def enter(self) -> None:
        """Focuses the switch when the page is shown."""
        self.page.card.switch.setFocus()

    @Slot()
    def _show_preferences(self) -> None:
        self.page.card.show_preferences(self._context.preferences)

    @Slot()
    def _show_state(self) -> None:
        state = self._server.state
        self.page.card.show_state(state)
        self.page.requests.teach(is_on=state.phase == "on")
        if state.problem:
            self.page.notice.show_message(
                tr("The server could not be started: {why}.", why=tr(state.problem).rstrip("."))
            )
        elif state.phase == "on":
            self.page.notice.hide()
        self._show_model()

    @Slot()
    def _show_model(self) -> None:
        model, loading = self._context.model, self._context.loading
        title = "" if model is None else title_of(model)
        text = words.served_line(
            is_on=self._server.is_on,
            model=title,
            loading="" if loading is None else loading.text,
            is_elsewhere=model is not None and is_remote(model.path_or_id),
        )
        self.page.card.served.setText(text)
        self._show_access()

    @Slot()
    def _show_access(self) -> None:
        state, model = self._server.state, self._context.model
        port = self._context.preferences.server_port or 8317
        access = Access(
            state.url or f"http://127.0.0.1:{port}/v1",
            state.key or tr("KEY"),
            tr("MODEL") if model is None else model.name,
        )
        shows = self.page.card.show_key.isChecked() or not state.key
        self.page.connect_panel.show_access(access, shows_key=shows)

    @Slot()
    def _show_requests(self) -> None:
        self.page.requests.show_requests(self._server.requests)

    @Slot(object)
    def _inspect(self, request: LiveRequest) -> None:
        trace = request.trace
        if trace is not None:
            self._context.navigator.inspect(trace, place=len(trace.entries))


build = ServerController
