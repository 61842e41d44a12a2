"""Connects the sidebar to the library: listing, renaming, deleting, exporting and importing.

Files are read and written in threads, the library in small steps, so that the window never waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QDir, QObject, Signal, Slot
from PySide6.QtWidgets import QFileDialog

from app.bridge.background import Background
from app.library import Library, Whole, transfer
from app.library.foreign import ImportReport
from app.library.moving_in import move_in
from app.session.session import Session
from app.system.i18n import tr, trn
from app.system.timers import every
from app.window.sidebar import Sidebar
from engine import SafelightError
from engine.clock import this_moment
from engine.files import stem_of


class Transfer(QObject):
    """Runs one generator of the library at a time, and what may wait for a disk in a thread; a generator that is still
    running when the library is closed is dropped."""

    failed = Signal(str)  # why, in a sentence
    slice_seconds = 0.0  # of steps before the event loop runs again; at least one step

    def __init__(self, library: Library, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._steps: Generator[None, None, Any] | None = None
        self._timer = every(self, self._go_on)  # zero interval: runs when no other event is pending
        self._thread = Background(self, self._come, self.failed)

    @property
    def is_busy(self) -> bool:
        return self._steps is not None or self._thread.is_busy

    def _run(self, steps: Generator[None, None, Any]) -> None:
        self._steps = steps
        self._timer.start()

    @Slot()
    def _go_on(self) -> None:
        if self._steps is None or not self._library.is_open:
            self._timer.stop()
            return
        until = time.monotonic() + self.slice_seconds
        try:
            next(self._steps)
            while time.monotonic() < until:
                next(self._steps)
        except StopIteration as end:
            self._stop()
            self._end(end.value)
        except SafelightError as error:
            self._stop()
            self.failed.emit(str(error))
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        self._timer.stop()
        self._steps = None

    def _end(self, result: Any) -> None:
        """Handles the result of the generator."""
        raise NotImplementedError

    def _come(self, result: Any) -> None:
        """Handles the result of the thread."""
        raise NotImplementedError


class Erasing(Transfer):
    """Erases conversations for good, with their runs."""

    erased = Signal()
    slice_seconds = 0.008

    def erase(self, *conversations: int) -> None:
        """Erases deleted conversations, or without any what has lapsed; ``erased`` or ``failed`` follows."""
        if self.is_busy:
            self.failed.emit(tr("Other conversations are still being erased. Try again in a moment."))
            return
        self._run(self._library.erasing(*conversations))

    def _end(self, _result: None) -> None:
        self.erased.emit()


class Exporting(Transfer):
    """Reads a conversation, and writes it to a file in a thread."""

    exported = Signal(str)  # the file
    slice_seconds = 0.008
    _form, _path = "", Path()

    def export(self, conversation: int, form: str, path: Path) -> None:
        """Writes a conversation as "markdown" or "json"; ``exported`` or ``failed`` follows."""
        if self.is_busy:
            self.failed.emit(tr("Another conversation is still being exported. Try again once it is done."))
            return
        self._form, self._path = form, path
        self._run(self._library.reading(conversation))

    def _end(self, whole: Callable[[], Whole]) -> None:
        self._thread.ask(lambda: transfer.write_file(self._path, whole(), self._form))

    def _come(self, _result: None) -> None:
        self.exported.emit(str(self._path))


class Importing(Transfer):
    """Reads files in a thread, and stores their conversations: those of other programs in the thread, too."""

    imported = Signal(int)  # the conversation's id
    progressed = Signal(int)  # chats of another program so far
    moved_in = Signal(object)  # the ImportReport of an import from another program

    def __init__(self, library: Library, parent: QObject | None = None) -> None:
        super().__init__(library, parent)
        self._report = ImportReport()
        self._progress = every(self, lambda: self.progressed.emit(len(self._report.imported)), PROGRESS_MS)
        self._thread.failed.connect(self._end_early)

    def import_files(self, paths: Sequence[Path]) -> None:
        """Imports what Safelight or another program has exported; a signal follows."""
        if self.is_busy:
            self.failed.emit(tr("Another conversation is still being imported. Try again once it is done."))
            return
        self._report = ImportReport()
        self._progress.start()
        self._thread.ask(lambda: self._read(paths))

    def _read(self, paths: Sequence[Path]) -> Whole | ImportReport:
        """Reads a file of Safelight's and keeps its pictures, or stores the chats of other files; in the thread."""
        if len(paths) > 1 or not transfer.is_own(paths[0]):
            library = self._library.reopen()
            try:
                return move_in(library, paths, self._report)
            finally:
                library.close()
        whole = transfer.read_file(paths[0])
        for picture in whole.pictures:
            self._library.pictures.keep(picture)
        return whole

    def _come(self, result: Whole | ImportReport) -> None:
        self._progress.stop()
        if isinstance(result, ImportReport):
            self.moved_in.emit(result)
        else:
            self._run(self._library.inserting(result))

    @Slot()
    def _end_early(self) -> None:
        """Reports the chats that were stored before a failure, so that they can be taken back."""
        self._progress.stop()
        if self._report.imported:
            self.moved_in.emit(self._report)

    def _end(self, conversation: int) -> None:
        self.imported.emit(conversation)


SUFFIXES = {"markdown": ".md", "json": ".json"}
PROGRESS_MS = 500
LOOK_MS = 1000  # between two looks for what another window has written
AskSave = Callable[[str], str]
AskOpen = Callable[[], list[str]]


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
        self._exporting.failed.connect(say)
        self._exporting.exported.connect(confirm_export)
        self._importing = Importing(session.library, self)
        self._importing.imported.connect(self._open_imported)
        self._importing.progressed.connect(self._show_progress)
        self._importing.moved_in.connect(self._report)
        self._importing.failed.connect(say)
        self._erasing = Erasing(session.library, self)
        self._erasing.failed.connect(say)
        self._erasing.erased.connect(self.refresh)
        self._lapsing = Erasing(session.library, self)  # at the start; what fails then is tried at the next one
        self._lapsing.erased.connect(self.refresh)
        self._looking = every(self, self._look, LOOK_MS)
        self.ask_save: AskSave = self._ask_save
        self.ask_open: AskOpen = self._ask_open
        sidebar.new_asked.connect(self.open_new)
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
            summaries, deleted = session.library.summaries(self._query), session.library.deleted()
        except SafelightError as error:
            self._say(str(error))
            return
        self.sidebar.show_conversations(summaries, session.conversation, this_moment())
        self.sidebar.offer_deleted(deleted, this_moment())
        if not self._looking.isActive():  # once the window is there
            self._looking.start()
            self._lapsing.erase()

    @Slot()
    def _look(self) -> None:
        """Follows what another window has written or deleted."""
        if self._session.library.is_open and self._session.library.is_changed():
            self.refresh()

    @Slot()
    def open_new(self) -> None:
        """Shows a new conversation, with the system prompt of the previous one."""
        self._session.open_new(self._session.chat.system_prompt)

    @Slot(str)
    def _search(self, query: str) -> None:
        self._query = query
        self.refresh()

    @Slot(int)
    def _open(self, conversation: int) -> None:
        """Opens a conversation, at the message that the search has found."""
        rows = self.sidebar.list.rows
        summary = rows.summary(rows.index_of(conversation))
        self._session.open(conversation, None if summary is None else summary.found_message, self._query)

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
            self.open_new()

    @Slot(list)
    def _undo(self, conversations: list[int]) -> None:
        """Restores conversations, and opens one that is alone."""
        if self._change(lambda: self._session.library.restore(*conversations)) and len(conversations) == 1:
            self._session.open(conversations[0])

    @Slot(list)
    def _erase(self, conversations: list[int]) -> None:
        self._erasing.erase(*conversations)

    @Slot(int, str)
    def export(self, conversation: int, form: str) -> None:
        """Writes a conversation to a file that the user chooses: "markdown" or "json"."""
        library = self._session.library
        try:
            self._session.saving.require_saved()
            title = library.conversation(conversation).title
            path = self.ask_save(stem_of(title, "conversation") + SUFFIXES[form])
            if path:
                self._exporting.export(conversation, form, Path(path))
        except SafelightError as error:
            self._say(str(error))

    @Slot()
    def bring_in(self) -> None:
        """Imports conversations from files that Safelight or another program exported."""
        paths = self.ask_open()
        if paths:
            self._importing.import_files([Path(path) for path in paths])

    @Slot(int)
    def _show_progress(self, count: int) -> None:
        if count:
            self.sidebar.undo.show_progress(trn("{count} chat imported …", "{count} chats imported …", count))

    @Slot(object)
    def _report(self, report: ImportReport) -> None:
        self.refresh()
        self.sidebar.undo.offer_taking_back(report.imported, said_of(report))

    @Slot(int)
    def _open_imported(self, conversation: int) -> None:
        self._change(lambda: self._session.open(conversation))

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

    def _ask_open(self) -> list[str]:
        form = tr("Conversations ({pattern})", pattern="*.json *.zip")
        title = tr("Import what Safelight, ChatGPT, Claude, Open WebUI, LM Studio or Jan exported")
        return QFileDialog.getOpenFileNames(self.sidebar.window(), title, QDir.homePath(), form)[0]


def said_of(report: ImportReport) -> str:
    """Returns what came of an import, and what did not."""
    counts = (
        trn("{count} chat imported", "{count} chats imported", len(report.imported)),
        trn("{count} was here already", "{count} were here already", report.known) if report.known else "",
        trn("{count} was empty", "{count} were empty", report.empty) if report.empty else "",
        trn("{count} could not be read", "{count} could not be read", report.unreadable) if report.unreadable else "",
        trn("{count} picture is missing", "{count} pictures are missing", report.missing_pictures)
        if report.missing_pictures
        else "",
    )
    return ", ".join(filter(None, counts))
