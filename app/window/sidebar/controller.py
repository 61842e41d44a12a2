"""Connects the sidebar to the library: listing, renaming, deleting, exporting and importing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QDir, QObject, Slot
from PySide6.QtWidgets import QFileDialog

from app.session.session import Session
from app.session.transfers import Erasing, Exporting, Importing
from app.system.i18n import tr
from app.system.timers import every
from app.window.sidebar import Sidebar
from engine import SafelightError
from engine.clock import this_moment
from engine.files import stem_of

SUFFIXES = {"markdown": ".md", "json": ".json"}
LOOK_MS = 1000  # between two looks for what another window has written
AskSave = Callable[[str], str]
AskOpen = Callable[[], str]


class SidebarController(QObject):
    """Connects a sidebar and a session. ``say`` shows errors, ``confirm_export`` a file that was written.

    Lists no conversations before the first ``refresh``.
    """

    def __init__(
        self,
        sidebar: Sidebar,
        session: Session,
        say: Callable[[str], object],
        confirm_export: Callable[[str], object] = lambda _path: None,
    ) -> None:
        super().__init__(sidebar)
        self.sidebar, self._session, self._say = sidebar, session, say
        self._query = ""
        self._exporting = Exporting(session.library, self)
        self._exporting.failed.connect(self._show_problem)
        self._exporting.exported.connect(confirm_export)
        self._importing = Importing(session.library, self)
        self._importing.imported.connect(self._open_imported)
        self._importing.failed.connect(self._show_problem)
        self._erasing = Erasing(session.library, self)
        self._erasing.failed.connect(self._show_problem)
        self._erasing.erased.connect(self.refresh)
        self._lapsing = Erasing(session.library, self)  # at the start; what fails then is tried at the next one
        self._lapsing.erased.connect(self.refresh)
        self._looking = every(self, self._look, LOOK_MS)
        self.ask_save: AskSave = self._ask_save
        self.ask_open: AskOpen = self._ask_open
        sidebar.new_asked.connect(self.begin)
        sidebar.opened.connect(self._open)
        sidebar.searched.connect(self._search)
        sidebar.renamed.connect(self._rename)
        sidebar.pin_asked.connect(self._pin)
        sidebar.delete_asked.connect(self._delete)
        sidebar.undo_asked.connect(self._undo)
        sidebar.erase_asked.connect(self._erase)
        sidebar.export_asked.connect(self.export)
        sidebar.import_asked.connect(self.bring_in)
        session.listed.connect(self.refresh)
        session.path_changed.connect(self.refresh)

    @Slot()
    def refresh(self) -> None:
        """Lists the library's conversations; does nothing once it is closed."""
        session = self._session
        if not session.library.is_open:
            return
        try:
            found, deleted = session.library.summaries(self._query), session.library.deleted()
        except SafelightError as error:
            self._say(str(error))
            return
        self.sidebar.show_conversations(found, session.conversation, this_moment())
        self.sidebar.offer_deleted(deleted, this_moment())
        if not self._looking.isActive():  # once the window is there
            self._looking.start()
            self._lapsing.begin()

    @Slot()
    def _look(self) -> None:
        """Follows what another window has written or deleted."""
        if self._session.library.is_open and self._session.library.is_changed():
            self.refresh()

    @Slot()
    def begin(self) -> None:
        """Shows a new conversation, with the system prompt of the previous one."""
        self._session.begin(self._session.chat.system_prompt)

    @Slot(str)
    def _search(self, query: str) -> None:
        self._query = query
        self.refresh()

    @Slot(int)
    def _open(self, conversation: int) -> None:
        """Opens a conversation, at the message that the search has found."""
        rows = self.sidebar.list.rows
        summary = rows.summary(rows.index_of(conversation))
        self._session.open(conversation, None if summary is None else summary.found, self._query)

    @Slot(int, str)
    def _rename(self, conversation: int, title: str) -> None:
        self._change(lambda: self._session.library.describe(conversation, title=title))

    @Slot(int, bool)
    def _pin(self, conversation: int, pinned: bool) -> None:
        self._change(lambda: self._session.library.describe(conversation, pinned=pinned))

    @Slot(list)
    def _delete(self, conversations: list[int]) -> None:
        if not self._change(lambda: self._session.library.delete(*conversations)):
            return
        if self._session.active_conversation in conversations:
            self._session.stop()
        if self._session.conversation in conversations:
            self.begin()

    @Slot(list)
    def _undo(self, conversations: list[int]) -> None:
        """Restores conversations, and opens one that is alone."""
        if self._change(lambda: self._session.library.restore(*conversations)) and len(conversations) == 1:
            self._session.open(conversations[0])

    @Slot(list)
    def _erase(self, conversations: list[int]) -> None:
        self._erasing.begin(*conversations)

    @Slot(int, str)
    def export(self, conversation: int, form: str) -> None:
        """Writes a conversation to a file that the user chooses: "markdown" or "json"."""
        library = self._session.library
        try:
            self._session.saving.require_saved()
            title = library.conversation(conversation).title
            path = self.ask_save(stem_of(title, "conversation") + SUFFIXES[form])
            if path:
                self._exporting.begin(conversation, form, Path(path))
        except SafelightError as error:
            self._say(str(error))

    @Slot()
    def bring_in(self) -> None:
        """Imports a conversation from a JSON file that Safelight wrote."""
        path = self.ask_open()
        if path:
            self._importing.begin(Path(path))

    @Slot(int)
    def _open_imported(self, conversation: int) -> None:
        self._change(lambda: self._session.open(conversation))

    @Slot(str)
    def _show_problem(self, problem: str) -> None:
        self._say(problem)

    def _change(self, work: Callable[[], None]) -> bool:
        """Runs a change; returns True if it succeeded, and shows the error if not."""
        try:
            self._session.saving.require_saved()
            work()
        except SafelightError as error:
            self._say(str(error))
            return False
        self.refresh()
        return True

    def _ask_save(self, name: str) -> str:
        place = QDir.home().filePath(name)
        return QFileDialog.getSaveFileName(self.sidebar.window(), tr("Export the conversation"), place)[0]

    def _ask_open(self) -> str:
        form = tr("Conversations ({pattern})", pattern="*.json")
        start = QDir.homePath()
        return QFileDialog.getOpenFileName(self.sidebar.window(), tr("Import a conversation"), start, form)[0]
