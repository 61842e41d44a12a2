"""The window: lays out its parts. Their behaviour is in the pages' controllers and the context."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QCloseEvent, QKeyEvent, QPaintEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QSizePolicy, QTabBar, QToolButton, QWidget

from app.context import CHAT, MODELS, SERVER, AppContext
from app.design import icons, themes
from app.design.controls import Hairline, introduce
from app.design.focus_rings import FocusRings
from app.design.fonts import px
from app.design.layouts import STRETCH, boxed, column_of, row_of
from app.design.notice import Notice
from app.design.stylesheet import chrome
from app.design.tokens import Theme
from app.settings import store
from app.settings.strip import SettingsStrip
from app.system.i18n import tr
from app.window import dialogs, sidebar, statusbar
from app.window.actions import all_actions
from app.window.dialogs import Appearance, Dialogs
from app.window.pages import BY_NAME, PAGES, PageEntry, Pages
from app.window.reopening import Reopening, attempt
from app.window.sidebar import Sidebar
from app.window.sidebar.controller import SidebarController
from app.window.statusbar import Indicators, StatusBar
from app.window.topbar import TopBar

AROUND = 22  # pixels above and below the text, together
LEAST_PAGE = 480  # pixels at 100 %
USUAL_WINDOW, LEAST_WINDOW = QSize(1280, 800), QSize(640, 480)


class PlaceBar(QWidget):
    """Hidden while a page is shown that is alone in its place."""

    page_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        introduce(self, tr("Where you are"), id="placebar")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._shown: list[PageEntry] = []
        self.tabs = introduce(QTabBar(drawBase=False), tr("Pages of this place"))
        self.tabs.currentChanged.connect(self._choose)
        self.setLayout(row_of(self.tabs, STRETCH, margins=(20, 0, 20, 0)))
        self._fit()

    def show_page(self, name: str) -> None:
        """Shows the pages of a page's place, without emitting."""
        entry = BY_NAME[name]
        pages = [one for one in PAGES if one.place == entry.place]
        self.setVisible(len(pages) > 1)
        self.tabs.blockSignals(True)
        if pages != self._shown:
            self._shown = pages
            while self.tabs.count():
                self.tabs.removeTab(0)
            for one in pages:
                tip = tr("{purpose} ({key})", purpose=tr(one.purpose), key=one.key)
                self.tabs.setTabToolTip(self.tabs.addTab(tr(one.title)), tip)
        self.tabs.setCurrentIndex(pages.index(entry))
        self.tabs.blockSignals(False)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        self.setFixedHeight(self.fontMetrics().height() + AROUND)

    @Slot(int)
    def _choose(self, index: int) -> None:
        by_keys = self.tabs.hasFocus()  # the arrow keys go on from tab to tab
        self.page_chosen.emit(self._shown[index].name)
        if by_keys:
            self.tabs.setFocus()


class Notices(QObject):
    """Shows messages without losing any.

    Messages during the start are kept until they can be shown, and are not replaced by later ones.
    """

    def __init__(self, pages: Pages) -> None:
        super().__init__()
        self._pages = pages
        self.notice = Notice()  # shown at the bottom of the pages
        self._has_place = False
        self._said_at_start: list[tuple[str, str]] | None = []  # messages and details; None once the start is over

    @Slot(str, str)
    def say(self, message: str, details: str = "") -> None:
        """Shows an error in a sentence; ``details`` may be a traceback."""
        if self._said_at_start is None:
            self._show(message, details)
        elif (message, details) not in self._said_at_start:
            self._said_at_start.append((message, details))
            self._show_said_at_start()

    @Slot(str, str, object)
    def confirm(self, message: str, title: str, act: Callable[[], object]) -> None:
        """Confirms what was done, with a button for the next step."""
        self._place().show_done(message, title, act)

    def show_collected(self) -> None:
        """Shows the collected messages; called when they can be shown."""
        self._has_place = True
        self._show_said_at_start()

    @Slot()
    def end_start(self) -> None:
        """Ends the start; a message now replaces the previous one."""
        self._said_at_start = None

    def _show_said_at_start(self) -> None:
        if self._has_place and self._said_at_start:
            messages, details = zip(*self._said_at_start, strict=True)
            several = " ".join(f"{message.rstrip('.')}." for message in messages)
            self._show(messages[0] if len(messages) == 1 else several, "\n".join(filter(None, details)))

    def _show(self, message: str, details: str) -> None:
        self._place().show_message(message, details)

    def _place(self) -> Notice:
        page = self._pages.current
        own = None if page is None else page.notice
        return own or self.notice


def style(theme: Theme) -> str:
    """Returns the window's own rules of its style sheet."""
    return f"QMainWindow {{ background: {theme.surface}; }}"


class MainWindow(QMainWindow):
    """Conversations with one model at a time, and the models. Closing it ends the context."""

    firstPainted = Signal()  # noqa: N815 - Qt's way of naming

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self.setWindowTitle("Safelight")
        self._painted = self._is_closed = False
        self._page = CHAT
        self.context = context
        self._rings = FocusRings(self)
        # Before the first widget, which inherits the app's font.
        self.appearance = Appearance(context.settings, context.preferences)
        themes.changed.connect(self._dress)  # first, so that all that follows has the new sheet
        self.pages = Pages(context, self.show_page)
        self.notices = Notices(self.pages)
        context.said.connect(self.notices.say)
        context.done.connect(self.notices.confirm)
        if context.library.notice:
            context.say(context.library.notice)
        self.topbar, self.place_bar, self.sidebar, self.status = TopBar(), PlaceBar(), Sidebar(), StatusBar()
        self.strip = SettingsStrip(context.values)
        self.indicators = Indicators(context, self.topbar, self.strip, self.status)
        self.conversations = SidebarController(self.sidebar, context.session, context.say, context.confirm_export)
        self.reopening = Reopening(context)
        self.dialogs = Dialogs(context, self.appearance, self)
        self.pages.chat()
        self.actions_by_name = self.dialogs.actions = all_actions(
            context, self.pages, self.conversations, self.topbar, self.appearance, self.dialogs, self.close
        )
        self._shortcuts = self.actions_by_name.bind(self, self._refuse)
        self._lay_out()
        self._connect()
        self._dress()
        self._show_parts()
        self.firstPainted.connect(self._after_first_paint)
        self._restore_place()
        self._show_frame(CHAT)
        self.pages.show(CHAT)
        attempt(context, tr("The last page could not be shown"), self._show_last_page)
        self.notices.show_collected()
        attempt(context, tr("The conversations could not be listed"), self.conversations.refresh)

    def _restore_place(self) -> None:
        """Gives the window its stored place and size, or the usual size at a first start."""
        room = self.screen().availableSize()
        self.setMinimumSize(LEAST_WINDOW.boundedTo(room))
        self.resize(USUAL_WINDOW.boundedTo(room))
        self.restoreGeometry(store.read_window(self.context.settings))

    def _lay_out(self) -> None:
        self._sidebar_line = Hairline(Qt.Orientation.Vertical)
        page = column_of(self.place_bar, (self.pages.stack, 1), spacing=0)
        body = row_of(self.sidebar, self._sidebar_line, (page, 1), self.strip, spacing=0)
        centre = boxed(column_of(self.topbar, Hairline(), (body, 1), Hairline(), self.status, spacing=0))
        self.setCentralWidget(centre)
        self.notices.notice.float_over(self.pages.stack)
        # over the hairline, so that showing it moves nothing
        self.indicators.progress.setParent(centre)
        self.indicators.progress.raise_()

    def _connect(self) -> None:
        context = self.context
        self.topbar.resized.connect(self._place_progress)
        self.topbar.page_chosen.connect(self.show_page)
        self.place_bar.page_chosen.connect(self.show_page)
        self.topbar.chooser.model_chosen.connect(context.load)
        self.topbar.chooser.manage_asked.connect(functools.partial(self.show_page, MODELS))
        self.topbar.chooser.folder_asked.connect(self.dialogs.open_folder)
        self.topbar.sidebar.toggled.connect(self._toggle_sidebar)
        self.topbar.strip.toggled.connect(self._toggle_strip)
        self.topbar.settings_asked.connect(self.dialogs.open_settings)
        self.sidebar.opened.connect(self._show_chat)
        self.sidebar.new_asked.connect(self._show_chat)
        self.sidebar.list.typed.connect(self._type)
        self.strip.changed.connect(context.apply_values)
        self.strip.advanced.toggled.connect(functools.partial(store.write_open, context.settings, "advanced"))
        self.status.server_asked.connect(functools.partial(self.show_page, SERVER))
        self.dialogs.sampler_asked.connect(self._show_sampler)

    def _show_parts(self) -> None:
        """Restores which collapsible parts are open."""
        settings = self.context.settings
        self.topbar.sidebar.setChecked(store.read_open(settings, "sidebar", default=True))
        self.topbar.strip.setChecked(store.read_open(settings, "settings", default=False))
        self.strip.setVisible(self.topbar.strip.isChecked())
        self.strip.advanced.setChecked(store.read_open(settings, "advanced", default=False))

    def _show_last_page(self) -> None:
        page = store.read_page(self.context.settings)
        if page in self.pages.by_name:
            self.show_page(page)

    @Slot(str)
    def show_page(self, page: str) -> None:
        self._show_frame(page)
        self.notices.notice.hide()
        self.pages.show(page)
        store.write_page(self.context.settings, page)

    def _show_frame(self, page: str) -> None:
        """Shows around the page what belongs to it."""
        self._page = self.dialogs.page = page
        self.topbar.show_page(page)
        self.place_bar.show_page(page)
        self._show_sidebar()
        self._make_room(self.topbar.sidebar)

    def _show_sidebar(self) -> None:
        is_shown = self._page == CHAT and self.topbar.sidebar.isChecked()
        self.sidebar.setVisible(is_shown)
        self._sidebar_line.setVisible(is_shown)

    def _refuse(self, reason: str) -> None:
        """Shows the reason why a key did nothing, on the chat page only; other pages show it at their buttons."""
        chat = self.pages.chat()
        if self.pages.current is chat:
            chat.commands.say(reason)

    @Slot()
    def _show_chat(self) -> None:
        self.show_page(CHAT)

    @Slot(QKeyEvent)
    def _type(self, event: QKeyEvent) -> None:
        """Passes on to the composer what was typed in the list of conversations."""
        edit = self.pages.chat().page.composer.edit
        edit.setFocus()
        QApplication.sendEvent(edit, QKeyEvent(event.type(), event.key(), event.modifiers(), event.text()))

    @Slot(bool)
    def _toggle_sidebar(self, is_open: bool) -> None:
        self._show_sidebar()
        store.write_open(self.context.settings, "sidebar", is_open)
        self._make_room(self.topbar.strip)

    @Slot(bool)
    def _toggle_strip(self, is_open: bool) -> None:
        self.strip.setVisible(is_open)
        store.write_open(self.context.settings, "settings", is_open)
        self._make_room(self.topbar.sidebar)

    def _make_room(self, closing: QToolButton) -> None:
        """Closes a side panel, by its button, if the page between both is too narrow to read."""
        both = not self.sidebar.isHidden() and not self.strip.isHidden()
        if both and self.width() < self.sidebar.width() + self.strip.width() + px(LEAST_PAGE):
            closing.setChecked(False)

    @Slot(str)
    def _show_sampler(self, setting: str) -> None:
        self.topbar.strip.setChecked(True)
        self.strip.show_setting(setting)

    @Slot()
    def _dress(self) -> None:
        self.setStyleSheet(chrome(themes.current(), style, statusbar.style, sidebar.style, dialogs.style))

    @Slot()
    def _after_first_paint(self) -> None:
        """Runs start-up work that is delayed until the window is painted."""
        for work in (self._list_models, icons.load, self.notices.end_start):
            QTimer.singleShot(0, work)

    @Slot()
    def _list_models(self) -> None:
        attempt(self.context, tr("The models could not be listed"), self.pages.models().list_models)

    @Slot()
    def _place_progress(self) -> None:
        self.indicators.progress.setGeometry(0, self.topbar.height() - 1, self.width(), 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            self.firstPainted.emit()

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self.context.session.saving.may_close():
            event.ignore()
            return
        if not self._is_closed:
            store.write_window(self.context.settings, self.saveGeometry())
        self.hide()  # threads may need a moment to end, as when one is importing torch
        super().closeEvent(event)
        if self._is_closed:
            return
        self._is_closed = True
        with contextlib.ExitStack() as ending:  # each runs even if the other fails
            ending.callback(self.context.close)
            ending.callback(self.reopening.close)
