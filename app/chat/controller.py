"""What the chat page asks for, done by the session; and what the settings' buttons do. Part of the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QGuiApplication

from app.chat.prompts import prepare, prepare_with_files
from app.presets.preset import Preset
from app.session.session import reserve
from app.settings.preferences import listed
from app.state.chat.attachment import Attachment, with_attachments
from app.state.chat.conversation import Turn
from app.system.folders import ensure
from app.system.i18n import tr
from engine import SafelightError

if TYPE_CHECKING:
    from app.window.main_window import MainWindow


class Asking(QObject):
    """Every slot does something or says under the composer why not; what was written stays."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        page, session = window.page, window.session
        page.submitted.connect(self.send)
        page.picked.connect(self.pick)
        page.stop_asked.connect(session.stop)
        page.again_asked.connect(self.again)
        page.edit_asked.connect(self.edit)
        page.delete_asked.connect(self.delete)
        page.answer_delete_asked.connect(self.delete_answer)
        page.answer_chosen.connect(session.choose_answer)
        page.prompt_chosen.connect(session.choose_prompt)
        page.files_dropped.connect(page.composer.accept_files)
        session.path_changed.connect(self.show_path)
        session.progressed.connect(self._progressed)
        session.returned.connect(self._give_back)
        page.composer.meter.follow(self._pending)
        window.presets.chosen.connect(self.take_preset)

    # ---------------------------------------------------------------- asking

    @Slot(str)
    def send(self, text: str) -> None:
        """Ask the model what the composer holds."""
        composer = self._window.page.composer
        if composer.meter.problem:
            composer.say(composer.meter.problem)
        elif self._can_ask() and self._ask(text, composer.attachments):
            composer.remember(text)
            composer.clear()

    @Slot(str)
    def pick(self, prompt: str) -> None:
        """Ask a suggested prompt, or put it into the composer when it cannot be sent now."""
        composer = self._window.page.composer
        if self._window.reason_to_wait():
            composer.set_text(prompt)
        elif self._ask(prompt, ()):
            composer.remember(prompt)
        composer.edit.setFocus()

    def _ask(self, text: str, files: tuple[Attachment, ...]) -> bool:
        window = self._window
        model = window.model
        if model is None:
            return False
        window.page.notice.hide()
        window.page.follow()
        return self._try(lambda: window.session.ask(*prepare_with_files(model.name, text, files), model=model))

    @Slot(object)
    def again(self, turn: Turn) -> None:
        """Answer a turn once more, with another seed."""
        model = self._window.model
        if self._can_ask() and model is not None:
            self._try(lambda: self._window.session.ask_again(turn, model))

    @Slot()
    def again_last(self) -> None:
        """Answer the last turn once more."""
        turns = self._window.session.chat.turns
        if turns:
            self.again(turns[-1])

    @Slot()
    def inspect_last(self) -> None:
        """Look into the last answer."""
        turns = self._window.session.chat.turns
        if turns:
            self._window.inspecting.inspect(turns[-1])

    @Slot(object, str)
    def edit(self, turn: Turn, text: str) -> None:
        """Ask another version of a prompt."""
        model = self._window.model
        if self._can_ask() and model is not None:
            self._try(lambda: self._window.session.edit(turn, prepare(model.name, text), model))

    @Slot(object)
    def delete(self, turn: Turn) -> None:
        """Delete a turn and what follows it; a line offers to undo that."""
        if self._try(lambda: self._window.session.remove(turn)):
            self._offer_undo(tr("Deleted the prompt, its answer and what followed."))

    @Slot(object, int)
    def delete_answer(self, turn: Turn, index: int) -> None:
        """Delete a version of an answer and what follows it; a line offers to undo that."""
        if self._try(lambda: self._window.session.remove_answer(turn, index)):
            self._offer_undo(tr("Deleted the answer and what followed."))

    def _offer_undo(self, text: str) -> None:
        self._window.page.notice.show_undo(text, self._window.session.undo_remove)

    def _can_ask(self) -> bool:
        reason = self._window.reason_to_wait()
        if reason:
            self._window.page.composer.say(reason)
        return not reason

    def _try(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except SafelightError as error:
            self._window.page.composer.say(str(error))
            return False
        self._window.refresh_blocking()
        return True

    @Slot(str, object)
    def _give_back(self, prompt: str, files: object) -> None:
        composer = self._window.page.composer
        if not composer.text and isinstance(files, tuple):
            composer.set_attachments(files)
            composer.set_text(prompt)  # may itself become a file

    # ---------------------------------------------------------------- showing

    @Slot()
    def show_path(self) -> None:
        """Show the turns that are on the path now."""
        window = self._window
        window.page.show_chat(window.session.chat, window.model)
        window.presets.show_preset(window.session.preset)
        window.session.think = window.presets.current.think
        self._mark_preset()
        window.page.composer.set_history([turn.prompt for turn in window.session.chat.turns])
        window.page.composer.meter.touch()
        answer = window.session.active or (turns[-1].answer if (turns := window.session.chat.turns) else None)
        window.status.show_run(None if answer is None else answer.stats)
        window.refresh_blocking()

    @Slot()
    def _progressed(self) -> None:
        page, active = self._window.page, self._window.session.chat.active
        if active is not None:
            page.refresh()
        else:
            page.settle()
            page.composer.meter.touch()

    def model_changed(self) -> None:
        """Count by the model that is there now."""
        model, composer = self._window.model, self._window.page.composer
        if model is None:
            composer.meter.set_model(None)
            composer.set_token_counter(None)
        else:
            composer.set_token_counter(lambda text: model.count_tokens([{"role": "user", "content": text}]))
            self._window.presets.set_defaults(model.defaults)
            self.settings_changed()

    def settings_changed(self) -> None:
        """Keep as much of the context free as the settings ask for, and say whether they are still the preset's."""
        self._mark_preset()
        model, values = self._window.model, self._window.values
        if model is not None and not values.problem(model.defaults):
            room = reserve(values.config(model.defaults), model)
            self._window.page.composer.meter.set_model(model.count_tokens, model.context, room)

    # ---------------------------------------------------------------- presets

    @Slot(object)
    def take_preset(self, preset: Preset) -> None:
        """Ask by a preset from now on, in the conversation on show and those begun after it."""
        window = self._window
        window.session.describe(system_prompt=preset.system_prompt, preset=preset.id, think=preset.think)
        window.values.overrides = dict(preset.overrides)
        window.strip.refresh()
        window.settings_changed()
        window.page.composer.meter.touch()

    @Slot()
    def edit_presets(self) -> None:
        """Open the presets' editor."""
        self._window.presets.edit_presets()

    def _mark_preset(self) -> None:
        window = self._window
        window.presets.show_changed(window.values.overrides != dict(window.presets.current.overrides))

    def _pending(self) -> Sequence[dict[str, str]]:
        """The conversation as it would be sent now, with what the composer holds."""
        composer, chat = self._window.page.composer, self._window.session.chat
        draft = with_attachments(composer.text, composer.attachments)
        return chat.messages_with(draft)

    # ---------------------------------------------------------------- the settings' buttons

    def act(self, name: str) -> str:
        """Do what a button of the settings says; returns how it went, in a sentence."""
        window = self._window
        match name:
            case "open_logs":
                try:
                    folder = ensure(window.folders.logs)
                except SafelightError as error:
                    return str(error)
                QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
                return tr("Opened {folder}", folder=folder)
            case "copy_diagnostics":
                QGuiApplication.clipboard().setText(self.diagnostics())
                return tr("Copied")
            case "show_shortcuts":
                window.open_shortcuts()
        return ""

    def diagnostics(self) -> str:
        """The report for the clipboard."""
        window = self._window
        from app.system import diagnostics

        facts = diagnostics.Facts()
        if window.model is not None:
            facts = diagnostics.Facts(window.model.title, window.model.device, window.model.kernels)
        return diagnostics.report(listed(window.preferences, window.values), window.folders, facts)
