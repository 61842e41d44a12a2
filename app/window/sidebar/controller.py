"""Connects the sidebar to the library: listing, renaming, deleting, exporting and importing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QDir, QObject, Slot
from PySide6.QtWidgets import QFileDialog

from app.session.session import Session
from app.session.transfers import Exporting, Importing
from app.system.i18n import tr
from app.window.sidebar import Sidebar
from engine import SafelightError
from engine.clock import this_moment
from engine.files import stem_of

SUFFIXES = {"markdown": ".md", "json": ".json", "html": ".html"}
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
        self._importing.taken_over.connect(self.refresh)
        self.ask_save: AskSave = self._ask_save
        self.ask_open: AskOpen = self._ask_open
        sidebar.new_asked.connect(self.begin)
        sidebar.opened.connect(session.open)
        sidebar.searched.connect(self._search)
        sidebar.renamed.connect(self._rename)
        sidebar.pin_asked.connect(self._pin)
        sidebar.duplicate_asked.connect(self._duplicate)
        sidebar.delete_asked.connect(self._delete)
        sidebar.undo_asked.connect(self._undo)
        sidebar.export_asked.connect(self.export)
        sidebar.import_asked.connect(self.bring_in)
        session.listed.connect(self.refresh)
        session.path_changed.connect(self.refresh)
        self._importing.take_over()

    @Slot()
    def refresh(self) -> None:
        """Lists the library's conversations."""
        session = self._session
        try:
            found = session.library.summaries(self._query)
        except SafelightError as error:
            self._say(str(error))
            return
        self.sidebar.show_conversations(found, session.conversation, this_moment())

    @Slot()
    def begin(self) -> None:
        """Shows a new conversation, with the system prompt of the previous one."""
        self._session.begin(self._session.chat.system_prompt)

    @Slot(str)
    def _search(self, query: str) -> None:
        self._query = query
        self.refresh()

    @Slot(int, str)
    def _rename(self, conversation: int, title: str) -> None:
        self._change(lambda: self._session.library.describe(conversation, title=title))

    @Slot(int, bool)
    def _pin(self, conversation: int, pinned: bool) -> None:
        self._change(lambda: self._session.library.describe(conversation, pinned=pinned))

    @Slot(int)
    def _duplicate(self, conversation: int) -> None:
        self._change(lambda: self._session.open(self._session.library.duplicate(conversation)))

    @Slot(int)
    def _delete(self, conversation: int) -> None:
        if not self._change(lambda: self._session.library.delete(conversation)):
            return
        if conversation == self._session.active_conversation:
            self._session.stop()
        if conversation == self._session.conversation:
            self.begin()

    @Slot(int)
    def _undo(self, conversation: int) -> None:
        if self._change(lambda: self._session.library.restore(conversation)):
            self._session.open(conversation)

    @Slot(int, str)
    def export(self, conversation: int, form: str) -> None:
        """Writes a conversation to a file that the user chooses: "markdown", "json" or "html"."""
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
