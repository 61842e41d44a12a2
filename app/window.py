"""The window: lets the conversation, the settings and the engine's thread speak to each other. Draws nothing itself."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from PySide6.QtCore import QSettings, Signal, Slot
from PySide6.QtGui import QCloseEvent, QKeySequence, QPaintEvent, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QApplication,
    QFileDialog,
    QHBoxLayout,
    QMainWindow,
    QProgressBar,
    QStyle,
    QVBoxLayout,
    QWidget,
)

from app.chat.look import CanvasLook
from app.chat.page import ChatPage
from app.chat.prompts import introduction, placeholder, prepare, suggestions
from app.chat.wording import parameters
from app.chrome import chrome
from app.controls import Hairline
from app.looks import Looks
from app.messages import (
    LoadedModel,
    LoadFailed,
    LoadProgress,
    LoadStarted,
    Message,
    ModelLoaded,
    RunFailed,
    RunRequest,
    RunStarted,
)
from app.settings import store
from app.settings.strip import SettingsStrip
from app.state.chat_state import Answer, ChatState, Decode
from app.topbar import TopBar
from app.worker import EngineLink
from engine import SKILLS, SafelightError


def platform_reduces_motion() -> bool:
    """Whether the desktop asks for no animations."""
    return QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0


def _no_text(_tokens: Iterable[int]) -> str:
    return ""


class MainWindow(QMainWindow):
    """One conversation with one model at a time."""

    firstPainted = Signal()  # noqa: N815 - Qt's way of naming

    def __init__(self, link: EngineLink, settings: QSettings, seed: int | None = None) -> None:
        super().__init__()
        self.setWindowTitle("Safelight")
        self.resize(1120, 760)
        self.setMinimumSize(640, 480)
        self._painted = False
        self._link = link
        self._settings = settings
        self._reduces_motion = platform_reduces_motion()
        self.values = store.read_values(settings, self._reduces_motion)
        self._given_seed = seed
        if seed is not None:
            self.values.seed = seed
        link.pace_ms = self.values.pace_ms
        self.looks = Looks(settings)  # before the first widget, which takes its font from the app
        self.chat = ChatState()
        self.model: LoadedModel | None = None
        self._loading = ""
        self._loading_text = ""
        self._wanted = ""  # the model asked for last; what arrives of another is out of date
        self._decode: Decode = _no_text

        self.topbar = TopBar()
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Loading the model")
        self.page = ChatPage(self._look())
        self.strip = SettingsStrip(self.values)
        self._lay_out()
        self._connect()
        self._add_shortcuts()
        self._dress()
        self.topbar.settings.setChecked(store.read_strip_open(settings))
        self.strip.setVisible(self.topbar.settings.isChecked())
        self.page.composer.edit.setFocus()
        self._refresh_blocking()

    # ---------------------------------------------------------------- building

    def _lay_out(self) -> None:
        body = QHBoxLayout()
        body.setContentsMargins(0, 0, 0, 0)
        body.setSpacing(0)
        body.addWidget(self.page, 1)
        body.addWidget(self.strip)
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for widget in (self.topbar, Hairline()):
            column.addWidget(widget)
        column.addLayout(body, 1)
        self.setCentralWidget(centre)
        self.progress.setParent(centre)  # lies over the hairline, so that its coming and going moves nothing
        self.progress.raise_()

    def _connect(self) -> None:
        self._link.arrived.connect(self._take_in)
        self.topbar.model_chosen.connect(self.load)
        self.topbar.folder_asked.connect(self._open_folder)
        self.topbar.theme_chosen.connect(self.looks.choose)
        self.topbar.settings_toggled.connect(self._toggle_settings)
        self.page.submitted.connect(self.send)
        self.page.picked.connect(self.send_suggestion)
        self.page.stop_asked.connect(self._link.cancel)
        self.page.again_asked.connect(self.regenerate)
        self.strip.changed.connect(self._settings_changed)
        self.looks.changed.connect(self._dress)

    def _add_shortcuts(self) -> None:
        for keys, slot in (
            ("Ctrl+L", self.page.composer.edit.setFocus),
            ("Escape", self._link.cancel),
            ("Ctrl+R", self.regenerate),
            ("Ctrl+,", self.topbar.settings.toggle),
            ("Ctrl+T", self.looks.choose_next),
            ("Ctrl+M", self._open_chooser),
        ):
            QShortcut(QKeySequence(keys), self).activated.connect(slot)

    # ---------------------------------------------------------------- models

    @Slot(str)
    def load(self, path_or_id: str = SKILLS) -> None:
        """Load a model in the engine's thread; an answer under way is stopped."""
        self._link.load(path_or_id, self.expect(path_or_id))

    def expect(self, path_or_id: str) -> str:
        """Show that a model is going to be loaded; returns what it is called."""
        title = self.topbar.title_of(path_or_id)
        title = Path(path_or_id).name if title == path_or_id else title
        self.topbar.show_model(path_or_id, title)
        self.model = None
        self._wanted = path_or_id
        self._loading = title
        self._show_progress("Starting the engine", 0.0)
        self.topbar.facts.clear()
        name = Path(path_or_id).name
        self.page.introduce(introduction(name), placeholder(name))
        self.page.offer(())
        self._refresh_blocking()
        return title

    @Slot()
    def _open_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Open a model folder")
        if folder:
            self.load(folder)
        elif self.model is not None:
            self.topbar.show_model(self.model.path_or_id, self.model.title)

    @Slot()
    def _open_chooser(self) -> None:
        self.topbar.chooser.setFocus()
        self.topbar.chooser.showPopup()

    def _model_ready(self, model: LoadedModel) -> None:
        self.model = model
        self._loading = ""
        self.topbar.facts.setText(f"{parameters(model.parameter_count)} · {model.device.upper()}")
        self.strip.show_values(model.defaults)
        self.page.introduce(introduction(model.name), placeholder(model.name))
        self.page.offer(suggestions(model.name, random.Random()))

    # ---------------------------------------------------------------- asking

    @Slot(str)
    def send(self, text: str) -> None:
        """Ask the model; what cannot be asked is explained under the composer, and the text stays."""
        answer = self._new_answer()
        if answer is None or self.model is None:
            return
        try:
            prompt = prepare(self.model.name, text)
        except SafelightError as error:
            self.page.composer.say(str(error))
            return
        self.page.add_turn(self.chat.ask(prompt, answer), self.model)
        self.page.composer.edit.clear()
        self._start(answer)

    @Slot(str)
    def send_suggestion(self, prompt: str) -> None:
        """Ask a suggested prompt, or put it into the composer when it cannot be sent now."""
        if self._reason_to_wait():
            self.page.composer.set_text(prompt)
        else:
            kept = self.page.composer.text
            self.send(prompt)
            self.page.composer.set_text(kept)
        self.page.composer.edit.setFocus()

    @Slot()
    def regenerate(self) -> None:
        """Answer the last prompt once more, with another seed."""
        if not self.chat.turns:
            return
        answer = self._new_answer(version=len(self.chat.turns[-1].answers))
        if answer is not None:
            self.chat.ask_again(answer)
            self._start(answer)

    def _new_answer(self, version: int = 0) -> Answer | None:
        reason = self._reason_to_wait()
        if reason or self.model is None:
            self.page.composer.say(reason)
            return None
        config = self.values.config(self.model.defaults)
        return Answer(self.model.title, self.values.next_seed(version), config)

    def _start(self, answer: Answer) -> None:
        if self.model is not None:
            self._decode = self.model.decode  # the run may end after another model was chosen
        self.page.notice.hide()
        self.page.follow()
        self.page.turns[-1].answer.refresh()
        self._link.run(RunRequest(self.chat.messages(), answer.config, answer.seed))
        self._refresh_blocking()

    # ---------------------------------------------------------------- what arrives

    @Slot(object)
    def _take_in(self, messages: list[Message]) -> None:
        """Fold everything that was pending, then draw once."""
        was_active = self.chat.active
        for message in messages:
            match message:
                case LoadStarted(title):
                    self._loading = title
                case LoadProgress(stage, share):
                    self._show_progress(stage, share)
                case ModelLoaded(model) if model.path_or_id == self._wanted:
                    self._model_ready(model)
                case LoadFailed(path_or_id, text, details) if path_or_id == self._wanted:
                    self._loading = ""
                    self.page.notice.show_message(text, details)
                case RunStarted(trace):
                    if self.chat.active is not None:
                        self.chat.active.trace = trace
                case RunFailed(text, details):
                    self._run_failed(text, details)
                case ModelLoaded() | LoadFailed():
                    pass  # another model was chosen since
                case _:
                    self.chat.fold(message, self._decode)
        if was_active is not None and self.page.turns:
            view = self.page.turns[-1].answer
            if was_active.is_active:
                view.refresh()
            else:
                view.settle()
        self._refresh_blocking()

    def _run_failed(self, message: str, details: str) -> None:
        prompt = self.chat.fail(message, self._decode)
        self.page.notice.show_message(message, details)
        if prompt is not None:
            self.page.drop_last_turn()
            if not self.page.composer.text:
                self.page.composer.set_text(prompt)

    def _show_progress(self, stage: str, share: float) -> None:
        unknown = share == 0.0 and not self.values.reduced_motion
        self.progress.setRange(0, 0 if unknown else 100)  # an empty range makes the bar move to and fro
        self.progress.setValue(round(100 * share))
        percent = f", {share:.0%}" if share else ""
        self._loading_text = f"Loading {self._loading}: {stage.lower()}{percent}"

    # ---------------------------------------------------------------- what is possible now

    def _reason_to_wait(self) -> str:
        """Why nothing can be asked now; empty if something can."""
        if self.chat.active is not None:
            return "The answer is developing; Esc stops it"
        if self.model is None:
            return self._loading_text if self._loading else "No model is loaded. Choose one above"
        return self.values.problem(self.model.defaults)

    def _refresh_blocking(self) -> None:
        reason = self._reason_to_wait()
        self.page.composer.block(reason)
        self.page.set_can_repeat(not reason)
        self.progress.setVisible(bool(self._loading))

    # ---------------------------------------------------------------- settings and looks

    def _look(self) -> CanvasLook:
        return CanvasLook(self.looks.theme, self.values.calm, self.values.layer, self.values.reduced_motion)

    @Slot()
    def _settings_changed(self) -> None:
        keep_seed = self._given_seed is not None and self.values.seed == self._given_seed
        store.write_values(self._settings, self.values, self._reduces_motion, keep_seed=keep_seed)
        self._link.pace_ms = self.values.pace_ms
        self.page.set_look(self._look())
        self._refresh_blocking()

    @Slot(bool)
    def _toggle_settings(self, is_open: bool) -> None:
        self.strip.setVisible(is_open)
        store.write_strip_open(self._settings, is_open)

    @Slot()
    def _dress(self) -> None:
        self.setStyleSheet(chrome(self.looks.theme))
        self.topbar.show_theme(self.looks.choice)
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
        self.hide()  # the thread may need a moment, as when it is importing torch
        self._link.shutdown()
        super().closeEvent(event)
