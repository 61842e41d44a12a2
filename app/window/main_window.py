"""The window: lays out the parts and lets them speak to each other. Draws nothing itself."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSettings, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QCloseEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QHBoxLayout,
    QMainWindow,
    QProgressBar,
    QStackedWidget,
    QStyle,
    QVBoxLayout,
    QWidget,
)

from app.bridge.engine_thread import EngineLink
from app.bridge.messages import (
    AdapterChanged,
    ForkEnded,
    ForkGrown,
    ForkStarted,
    InfluenceMeasured,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    LoadStarted,
    MemoryUsed,
    Message,
    ModelLoaded,
    ModelUnloaded,
    TraceNotKept,
    TrialEnded,
    TrialGrown,
    TrialStarted,
)
from app.chat.controller import Asking
from app.chat.page import ChatPage
from app.chat.paint_options import CanvasLook
from app.chat.prompts import introduction, placeholder, suggestions
from app.chat.words import parameters
from app.design import icons
from app.design.controls import Hairline
from app.design.notice import Notice
from app.design.stylesheet import chrome
from app.library import Library
from app.models.jobs import Jobs
from app.models.page import ModelsPage
from app.presets.picker import PresetPicker
from app.presets.store import PresetStore
from app.session.session import Session
from app.settings import dialog, store
from app.settings.dialog import SettingsDialog
from app.settings.preferences import TEXT_PERCENT
from app.settings.strip import SettingsStrip
from app.state.chat.conversation import Turn
from app.system import logs, memory_use
from app.system.crash_handler import one_line
from app.system.folders import Folders
from app.system.i18n import tr
from app.window import palette, shortcuts, sidebar, statusbar
from app.window.action import Actions
from app.window.actions import deeds
from app.window.appearance import Looks
from app.window.palette import Palette
from app.window.shortcuts import ShortcutSheet
from app.window.sidebar import Sidebar
from app.window.sidebar.controller import Shelf
from app.window.statusbar import StatusBar
from app.window.topbar import CHAT, INSPECTOR, MODELS, SUDOKU, TopBar
from engine import SKILLS

if TYPE_CHECKING:
    from app.inspector.controller import Inspecting
    from app.sudoku.controller import Solving

MEMORY_MS = 2000  # between two looks at the process's memory
REOPENING_MS = 3000  # after which a conversation shown again counts as harmless


def platform_reduces_motion() -> bool:
    """Whether the desktop asks for no animations."""
    return QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0


class MainWindow(QMainWindow):
    """Conversations with one model at a time, and the models."""

    firstPainted = Signal()  # noqa: N815 - Qt's way of naming

    def __init__(
        self,
        link: EngineLink,
        settings: QSettings,
        library: Library,
        folders: Folders,
        seed: int | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        super().__init__()
        self._said_at_start: list[tuple[str, str]] | None = []  # messages and details; None once the start is over
        self._is_made = self._is_closed = False
        self.setWindowTitle("Safelight")
        self.resize(1280, 800)
        self.setMinimumSize(640, 480)
        self._painted = False
        self.link = link
        self._settings = settings
        self.folders = folders
        self._reduces_motion = platform_reduces_motion()
        self.values = store.read_values(settings, self._reduces_motion)
        self.preferences = store.read_preferences(settings)
        self._given_seed = seed
        if seed is not None:
            self.values.seed = seed
        link.pace_ms = self.values.pace_ms
        self.looks = Looks(settings, self.preferences)  # before the first widget, which takes its font from the app
        self.model: LoadedModel | None = None
        self._loading = ""
        self._loading_text = ""
        self._wanted = ""  # the model asked for last; what arrives of another is out of date

        self.session = Session(library, link, self.values)
        self.topbar = TopBar()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(tr("Loading the model"))
        self.sidebar = Sidebar()
        self.page = ChatPage(self._look())
        self._jobs = jobs or Jobs()
        self.models = ModelsPage(self._jobs, folders.models, settings)
        self.strip = SettingsStrip(self.values)
        self.status = StatusBar()
        presets = PresetStore(folders.data)
        self.presets = PresetPicker(presets)
        self.page.composer.place_presets(self.presets)
        self.shelf = Shelf(self.sidebar, self.session, self.say)
        self.asking = Asking(self)
        self.actions_by_name = Actions(deeds(self))
        self._shortcuts = self.actions_by_name.bind(self, self.page.composer.say)
        self._lay_out()
        self._connect()
        self._dress()
        self.topbar.sidebar.setChecked(store.read_open(settings, "sidebar", default=True))
        self.sidebar.setVisible(self.topbar.sidebar.isChecked())
        self.topbar.strip.setChecked(store.read_open(settings, "settings", default=False))
        self.strip.setVisible(self.topbar.strip.isChecked())
        self.set_offline(self.preferences.offline)
        self.link.threads = self.preferences.threads
        self._memory = QTimer(self)
        self._memory.timeout.connect(self._show_memory)
        self.firstPainted.connect(self._after_first_paint)
        self.page.composer.edit.setFocus()
        for problem in filter(None, (library.notice, presets.problem)):
            self.say(problem)
        self._is_made = True
        self._show_said_at_start()
        self._start(tr("The conversations could not be listed"), self.shelf.refresh)
        self._start(tr("The models could not be listed"), self.models.refresh)
        self.refresh_blocking()

    # ---------------------------------------------------------------- building

    def _lay_out(self) -> None:
        self.stack = QStackedWidget()
        self.stack.addWidget(self.page)
        self.stack.addWidget(self.models)
        self._sidebar_line = Hairline(Qt.Orientation.Vertical)
        body = QHBoxLayout()
        body.setContentsMargins(0, 0, 0, 0)
        body.setSpacing(0)
        body.addWidget(self.sidebar)
        body.addWidget(self._sidebar_line)
        body.addWidget(self.stack, 1)
        body.addWidget(self.strip)
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget in (self.topbar, Hairline()):
            column.addWidget(widget)
        column.addLayout(body, 1)
        self.notice = Notice()
        for widget in (self.notice, Hairline(), self.status):
            column.addWidget(widget)
        self.setCentralWidget(centre)
        self.progress.setParent(centre)  # lies over the hairline, so that its coming and going moves nothing
        self.progress.raise_()

    def _connect(self) -> None:
        self.link.arrived.connect(self._take_in)
        self.topbar.page_chosen.connect(self.show_page)
        self.topbar.model_chosen.connect(self.load)
        self.topbar.folder_asked.connect(self.open_folder)
        self.topbar.sidebar_toggled.connect(self._toggle_sidebar)
        self.topbar.strip_toggled.connect(self._toggle_strip)
        self.topbar.settings_asked.connect(self.open_settings)
        self.sidebar.opened.connect(self._show_chat)
        self.sidebar.new_asked.connect(self._show_chat)
        self.models.load_asked.connect(self.load)
        self.models.unload_asked.connect(self.unload)
        self.models.models_changed.connect(self.topbar.offer_models)
        self.strip.changed.connect(self.settings_changed)
        self.looks.changed.connect(self._dress)
        self.session.failed.connect(self.say)
        self.session.saving.problem_changed.connect(self.status.show_unsaved)
        self.session.listed.connect(self._note_conversation)
        self.page.inspect_asked.connect(self._inspect)
        self.session.ended.connect(self.refresh_blocking)
        self.session.path_changed.connect(self._note_conversation)

    def _start(self, problem: str, part: Callable[[], object]) -> None:
        """Do a part of the start. Where it fails, whatever the reason, it costs only that part and is said."""
        try:
            part()
        except Exception as error:
            logs.record(error, "at the start")
            self.say(f"{problem}. {one_line(error)}", "".join(traceback.format_exception(error)))

    @Slot()
    def reopen(self) -> None:
        """Show the conversation that was on show when the app ended last, whichever way it ended."""
        self._start(tr("The last conversation could not be shown"), self._reopen)

    def _reopen(self) -> None:
        last = store.read_conversation(self._settings)
        if last is None or all(found.id != last for found in self.session.library.summaries()):
            return
        if store.read_reopening(self._settings) == last:
            self.say(
                tr("The last conversation is not shown, since Safelight ended while opening it. It is in the list.")
            )
            self._reopened()
            return
        store.write_reopening(self._settings, last)
        QTimer.singleShot(REOPENING_MS, self, self._reopened)
        self.session.open(last)

    @Slot()
    def _reopened(self) -> None:
        """The conversation shown again has harmed nobody."""
        store.write_reopening(self._settings, None)

    # ---------------------------------------------------------------- pages

    @functools.cached_property
    def inspecting(self) -> Inspecting:
        """The inspector and its dealings, made when first asked for."""
        from app.inspector.controller import Inspecting

        made = Inspecting(self, self.looks.theme, self.values.reduced_motion)
        self.stack.addWidget(made.page)
        return made

    @functools.cached_property
    def solving(self) -> Solving:
        """The Sudoku page and its dealings, made when first asked for."""
        from app.sudoku.controller import Solving

        made = Solving(self, self.looks.theme, self.values.reduced_motion)
        self.stack.addWidget(made.page)
        return made

    @Slot(str)
    def show_page(self, page: str) -> None:
        """``chat``, ``inspector``, ``sudoku`` or ``models``."""
        self.topbar.show_page(page)
        made: dict[str, Callable[[], QWidget]] = {
            CHAT: lambda: self.page,
            INSPECTOR: lambda: self.inspecting.page,
            SUDOKU: lambda: self.solving.page,
            MODELS: lambda: self.models,
        }
        shown = made[page]()
        self.stack.setCurrentWidget(shown)
        self.notice.hide()
        if page == CHAT:
            self.page.composer.edit.setFocus()
            return
        if page == MODELS:
            self.models.refresh()
        elif page == INSPECTOR and self.inspecting.page.player.trace is None:
            self.inspecting.offer()
        shown.setFocus()

    @Slot(object)
    def _inspect(self, turn: Turn) -> None:
        self.inspecting.inspect(turn)

    @Slot()
    def _show_chat(self) -> None:
        self.show_page(CHAT)

    @Slot()
    def _note_conversation(self) -> None:
        store.write_conversation(self._settings, self.session.conversation)

    @Slot(str, str)
    def say(self, message: str, details: str = "") -> None:
        """Tell what went wrong, over the composer or, on other pages, under them; nothing is lost by it.

        What is said during the start is kept until there is a place to say it, and stays beside what follows.
        """
        if self._said_at_start is None:
            self._show_message(message, details)
        elif (message, details) not in self._said_at_start:
            self._said_at_start.append((message, details))
            self._show_said_at_start()

    def _show_said_at_start(self) -> None:
        if self._is_made and self._said_at_start:
            messages, details = zip(*self._said_at_start, strict=True)
            several = " ".join(f"{message.rstrip('.')}." for message in messages)
            self._show_message(messages[0] if len(messages) == 1 else several, "\n".join(filter(None, details)))

    @Slot()
    def _end_start(self) -> None:
        self._said_at_start = None

    def _show_message(self, message: str, details: str) -> None:
        is_chat = self.stack.currentWidget() is self.page
        (self.page.notice if is_chat else self.notice).show_message(message, details)

    @Slot()
    def open_settings(self) -> None:
        """Open the settings; they hold at once."""
        opened = SettingsDialog(self.preferences, self.values, self._settings, self)
        opened.changed.connect(self._preference_changed)
        opened.asked.connect(lambda name: opened.say(name, self.asking.act(name)))
        opened.finished.connect(opened.deleteLater)
        opened.open()

    @Slot()
    def open_palette(self) -> None:
        """Find an action by its name."""
        opened = Palette(self.actions_by_name, self.looks.theme, self)
        opened.finished.connect(opened.deleteLater)
        opened.ask()

    @Slot()
    def open_shortcuts(self) -> None:
        """Show every key."""
        opened = ShortcutSheet(self.actions_by_name, self)
        opened.finished.connect(opened.deleteLater)
        opened.open()

    # ---------------------------------------------------------------- models

    @Slot(str)
    def load(self, path_or_id: str = SKILLS) -> None:
        """Load a model in the engine's thread; an answer under way is stopped."""
        self.link.load(path_or_id, self.expect(path_or_id))

    def expect(self, path_or_id: str) -> str:
        """Show that a model is going to be loaded; returns what it is called."""
        title = self.topbar.title_of(path_or_id)
        title = Path(path_or_id).name if title == path_or_id else title
        self.topbar.show_model(path_or_id, title)
        self.model = None
        self._wanted = path_or_id
        self._loading = title
        self._show_progress(tr("Starting the engine"), 0.0)
        self.topbar.facts.clear()
        name = Path(path_or_id).name
        self.page.introduce(introduction(name), placeholder(name))
        self.page.offer(())
        self._show_model()
        return title

    @Slot()
    def unload(self) -> None:
        """Let go of the model and its memory."""
        self._wanted = ""
        self.link.unload()

    @Slot()
    def open_folder(self) -> None:
        """Load a model from a folder of the user's choice."""
        folder = QFileDialog.getExistingDirectory(self, tr("Open a model folder"))
        if folder:
            self.load(folder)
        elif self.model is not None:
            self.topbar.show_model(self.model.path_or_id, self.model.title)

    @Slot()
    def open_chooser(self) -> None:
        """Drop down the list of models."""
        self.topbar.chooser.setFocus()
        self.topbar.chooser.showPopup()

    def _model_ready(self, model: LoadedModel) -> None:
        self.model = model
        self._loading = ""
        self.topbar.facts.setText(f"{parameters(model.parameter_count)} · {model.device.upper()}")
        self.strip.show_values(model.defaults)
        self.page.introduce(introduction(model.name), placeholder(model.name))
        self.page.offer(suggestions(model.name, random.Random()))
        self._show_model()

    def _adapter_changed(self, change: AdapterChanged) -> None:
        if change.message:
            self.say(change.message, change.details)
        elif self.model is not None:
            self.model = dataclasses.replace(self.model, adapter=change.path_or_id, adapter_title=change.title)
            self._show_model()
        if "solving" in self.__dict__:
            self.solving.adapter_changed(change)

    def _no_model(self) -> None:
        self.model = None
        self._loading = ""
        self.topbar.show_model("", "")
        self.topbar.facts.clear()
        self.page.offer(())
        self._show_model()

    def _show_model(self) -> None:
        """Tell every part which model there is."""
        model = self.model
        self.models.show_loaded(None if model is None else model.path_or_id)
        if model is None:
            self.status.show_model(None)
        else:
            self.status.show_model(model.title, model.device, model.threads)
        self.asking.model_changed()
        self.refresh_blocking()

    # ---------------------------------------------------------------- what arrives

    @Slot(object)
    def _take_in(self, messages: list[Message]) -> None:
        """Fold everything that was pending, then draw once."""
        of_run: list[Message] = []
        for message in messages:
            match message:
                case LoadStarted(title):
                    self._loading = title
                case LoadProgress(stage, share):
                    self._show_progress(tr(stage), share)
                case ModelLoaded(model) if model.path_or_id == self._wanted:
                    self._model_ready(model)
                case LoadFailed(path_or_id, text, details) if path_or_id == self._wanted:
                    self._no_model()
                    self.say(text, details)
                case ModelUnloaded() if not self._wanted:
                    self._no_model()
                case TraceNotKept(text):
                    self.say(text)
                case ForkStarted() | ForkGrown() | ForkEnded() | InfluenceMeasured():
                    self.inspecting.take(message)
                case TrialStarted() | TrialGrown() | TrialEnded():
                    self.solving.take(message)
                case AdapterChanged():
                    self._adapter_changed(message)
                case MemoryUsed(used, total):
                    self.status.show_memory(used, total, "cuda")
                case ModelLoaded() | LoadFailed() | ModelUnloaded():
                    pass  # another model was chosen since
                case _:
                    of_run.append(message)
        self.session.take(of_run)
        answer = self.session.active
        if answer is not None:
            self.status.show_run(answer.stats)
        self.refresh_blocking()

    def _show_progress(self, stage: str, share: float) -> None:
        unknown = share == 0.0 and not self.values.reduced_motion
        self.progress.setRange(0, 0 if unknown else 100)  # an empty range makes the bar move to and fro
        self.progress.setValue(round(100 * share))
        percent = f", {share:.0%}" if share else ""
        self._loading_text = tr("Loading {model}: {stage}", model=self._loading, stage=f"{stage.lower()}{percent}")

    @Slot()
    def _after_first_paint(self) -> None:
        """What the first sight of the window need not wait for."""
        QTimer.singleShot(0, icons.load)
        QTimer.singleShot(0, self._end_start)
        self._memory.start(MEMORY_MS)
        self._show_memory()

    @Slot()
    def _show_memory(self) -> None:
        if self.model is None or not self.model.device.startswith("cuda"):
            self.status.show_memory(memory_use.used_bytes(), memory_use.total_bytes(), "cpu")

    # ---------------------------------------------------------------- what is possible now

    def reason_to_wait(self) -> str:
        """Why nothing can be asked now; empty if something can."""
        if self.session.active is not None:
            if self.session.chat.active is None:
                return tr("An answer in another conversation is developing; Esc stops it")
            return tr("The answer is developing; Esc stops it")
        if self.is_solving:
            return tr("A puzzle is being solved; Esc stops it")
        if self.is_forking:
            return tr("A fork is developing in the inspector; Esc stops it")
        if self.model is None:
            return self.loading_text or tr("No model is loaded. Choose one above")
        return self.values.problem(self.model.defaults)

    @property
    def loading_text(self) -> str:
        """How far the loading of a model is; empty where none is being loaded."""
        return self._loading_text if self._loading else ""

    @property
    def is_solving(self) -> bool:
        """Whether the Sudoku page runs something."""
        return "solving" in self.__dict__ and self.solving.is_busy

    @Slot()
    def stop(self) -> None:
        """Stop what is under way within one denoising step."""
        if self.is_solving:
            self.solving.stop()
        else:
            self.session.stop()

    @property
    def is_forking(self) -> bool:
        """Whether the inspector runs something."""
        return "inspecting" in self.__dict__ and self.inspecting.is_forking

    @Slot()
    def refresh_blocking(self) -> None:
        """Show what can be asked now, and why not where it cannot."""
        reason = self.reason_to_wait()
        self.page.composer.block(reason)
        self.page.set_can_repeat(not reason)
        if "inspecting" in self.__dict__:
            self.inspecting.refresh()
        if "solving" in self.__dict__:
            self.solving.refresh()
        self.progress.setVisible(bool(self._loading))

    # ---------------------------------------------------------------- settings and looks

    def _look(self) -> CanvasLook:
        return CanvasLook(self.looks.theme, self.values.calm, self.values.layer, self.values.reduced_motion)

    @Slot()
    def settings_changed(self) -> None:
        """The sampler's or the canvas's settings have changed: store them and let them hold."""
        keep_seed = self._given_seed is not None and self.values.seed == self._given_seed
        store.write_values(self._settings, self.values, self._reduces_motion, keep_seed=keep_seed)
        self.link.pace_ms = self.values.pace_ms
        self.page.set_look(self._look())
        if "inspecting" in self.__dict__:
            self.inspecting.page.set_reduced_motion(self.values.reduced_motion)
        if "solving" in self.__dict__:
            self.solving.page.set_reduced_motion(self.values.reduced_motion)
        self.asking.settings_changed()
        self.refresh_blocking()

    @Slot(str)
    def _preference_changed(self, name: str) -> None:
        match name:
            case "theme":
                self.looks.choose(self.preferences.theme)
            case "text_percent":
                self.looks.set_text_percent(self.preferences.text_percent)
            case "offline":
                self.set_offline(self.preferences.offline)
            case "threads":
                self.link.threads = self.preferences.threads
            case _ if hasattr(self.values, name):
                self.strip.refresh()
                self.settings_changed()

    def set_offline(self, offline: bool) -> None:
        """Allow or refuse every use of the network."""
        self.preferences.offline = offline
        store.write_preference(self._settings, self.preferences, "offline")
        self.models.set_offline(offline)
        self.status.show_offline(offline)

    def step_text(self, percent: int) -> None:
        """Make all text larger or smaller by so much of its usual size."""
        low, high = int(TEXT_PERCENT.low), int(TEXT_PERCENT.high)
        self.looks.set_text_percent(max(low, min(high, self.preferences.text_percent + percent)))

    @Slot(bool)
    def _toggle_sidebar(self, is_open: bool) -> None:
        self.sidebar.setVisible(is_open)
        self._sidebar_line.setVisible(is_open)
        store.write_open(self._settings, "sidebar", is_open)

    @Slot(bool)
    def _toggle_strip(self, is_open: bool) -> None:
        self.strip.setVisible(is_open)
        store.write_open(self._settings, "settings", is_open)

    @Slot()
    def _dress(self) -> None:
        theme = self.looks.theme
        self.setStyleSheet(
            chrome(
                theme,
                statusbar.style,
                palette.style,
                shortcuts.style,
                dialog.style,
                sidebar.style,
            )
        )
        self.sidebar.dress(theme)
        if "inspecting" in self.__dict__:
            self.inspecting.page.set_theme(theme)
        if "solving" in self.__dict__:
            self.solving.page.set_theme(theme)
        self.page.set_look(self._look())

    # ---------------------------------------------------------------- Qt's events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.progress.setGeometry(0, self.topbar.height() - 1, self.width(), 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            self.firstPainted.emit()

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self.session.saving.may_close():
            event.ignore()
            return
        self.hide()  # the threads may need a moment, as when one is importing torch
        super().closeEvent(event)
        if self._is_closed:
            return
        self._is_closed = True
        self._memory.stop()
        with contextlib.ExitStack() as ending:  # from the last to the first; each is done, whatever becomes of another
            ending.callback(self.session.close)
            ending.callback(self._reopened)
            ending.callback(self.link.shutdown)
            if self.is_solving:
                ending.callback(self.solving.stop)
            ending.callback(self._jobs.shutdown)
            ending.callback(self.models.shutdown)
