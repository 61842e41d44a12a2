"""Connects the chat page with the session: shows its changes, the model's abilities and the presets, sends prompts.

A draft waits for a model that is being loaded; one that cannot be sent stays in the composer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QApplication

from app.chat.commands import TurnCommands, ViewOptions
from app.chat.composer.composer import Composer
from app.chat.page import ChatPage
from app.chat.words import introduction
from app.context import MODELS, AppContext, Waiting
from app.design import themes
from app.pictures.source import PictureSource
from app.presets.editor import PresetPicker
from app.presets.store import Preset, PresetStore
from app.session.turn_request import cannot_see, reserve
from app.state.chat.attachment import AttachedPicture, Attachment
from app.state.chat.conversation import Turn
from app.state.chat.prompts import PromptCount, prepare_with_files, small_suggestions, suggestions
from app.state.chat.rewriting import Rewriting, can_fill, of_draft
from app.system.i18n import tr
from engine import SafelightError, catalog
from engine.catalog import SMALL, Traits
from engine.service.small import usual_part
from engine.text.message import Message


class Sending(QObject):
    """Any change of a draft that waits takes it back, so that no half-written text is sent."""

    def __init__(self, context: AppContext, composer: Composer, commands: TurnCommands) -> None:
        super().__init__(composer)
        self._context, self._composer, self._commands = context, composer, commands
        self._loading = Waiting(context, self)
        self._loading.ended.connect(lambda: composer.wait(False))
        self.take_back = self._loading.end  # the text stays in the composer as a draft
        composer.edit.submitted.connect(self.enter)
        composer.send.clicked.connect(self._press)
        composer.changed.connect(self.take_back)
        context.session.returned.connect(self._put_back)

    @property
    def is_waiting(self) -> bool:
        return self._loading.is_on

    @Slot()
    def enter(self) -> None:
        """Sends what was typed, with what an input method still composes."""
        composer = self._composer
        composer.edit.commit()
        if composer.pictures.is_reading:
            composer.say(tr("A picture is still being read; send the prompt in a moment."))
        elif composer.files.problem:
            composer.say(composer.files.problem)
        elif not self.is_waiting and composer.send.isEnabled():
            self.send(composer.text)

    @Slot()
    def _press(self) -> None:
        if self.is_waiting:
            self.take_back()
        else:
            self.enter()

    def send(self, text: str) -> None:
        """Sends the draft to the model; if the model is still loading, lets the draft wait for it."""
        composer = self._composer
        if self._context.loading is not None:
            self._wait(text, self._context.loading.path_or_id)
        elif composer.meter.problem:
            composer.say(composer.meter.problem)
        elif self._ask(text, composer.attachments, composer.pictures.pictures):
            composer.clear()

    def _wait(self, text: str, model: str) -> None:
        """Lets the draft wait for a model, if that model can read it."""
        composer = self._composer
        try:
            if model != SMALL or not composer.attachments:  # a file may be a puzzle, which needs no text
                traits = catalog.traits(Path(model).name)
                prepare_with_files(traits, text, composer.attachments, len(composer.pictures.pictures))
        except SafelightError as error:
            composer.say(str(error))
        else:
            self._loading.wait_for(model, lambda: self.send(composer.text))
            composer.wait(True)

    @Slot(str)
    def pick(self, prompt: str) -> None:
        """Sends a suggested prompt, or puts it into the composer if it cannot be sent now."""
        if self._context.reason_to_wait():
            self._composer.set_text(prompt)
        else:
            self._ask(prompt)
        self._composer.edit.setFocus()

    def revise(self) -> None:
        """Sends the draft to be revised; the answer shows what has changed."""
        composer, model = self._composer, self._context.model
        try:
            how = of_draft(composer.text)
        except SafelightError as error:
            composer.say(str(error))
            return
        if not self._commands.can_ask() or model is None:
            return
        if not can_fill(model):
            composer.say(tr("{model} cannot revise a text: it does not write by block diffusion.", model=model.title))
        elif self._ask(composer.text.strip(), how=how):
            composer.clear()

    def _ask(
        self,
        text: str,
        files: tuple[Attachment, ...] = (),
        pictures: tuple[AttachedPicture, ...] = (),
        how: Rewriting | None = None,
    ) -> bool:
        model = self._context.model
        if not self._commands.can_ask() or model is None:
            return False
        try:
            self._context.session.ask(text, files, model, pictures, how)
        except SafelightError as error:
            self._composer.say(str(error))
            return False
        self._composer.edit.history.remember(text)
        return True

    @Slot(object, str)
    def _put_back(self, turn: Turn, why: str) -> None:
        """Puts a prompt that could not be sent back into an empty composer, and shows the reason."""
        composer = self._composer
        if not composer.is_empty:
            if why:
                self._context.say(why)
            return
        composer.pictures.set_pictures(turn.pictures)
        composer.files.set_attachments(turn.attachments)
        composer.set_text(turn.prompt)  # a long prompt may become a file
        if why:
            composer.say(why)


class ChatController(QObject):
    """The chat page's logic. What cannot be done is explained under the composer; the user's draft is kept."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context, self._session = context, context.session
        session = context.session
        self._pictures = PictureSource(session.library.pictures.get)
        self._offered: tuple[str, Traits] | None = None  # what the shown prompts were chosen for
        self.commands = commands = TurnCommands(context)
        self.widget = self.page = page = ChatPage(self._options(), commands)
        self.notice = page.notice
        self.setParent(page)  # so that no signal arrives after the page is deleted
        commands.setParent(page)
        composer = page.composer
        self.sending = Sending(context, composer, commands)
        kept = PresetStore(context.folders.data)
        self.presets = PresetPicker(kept, context.values)
        composer.place_presets(self.presets)
        composer.pictures.set_store(session.library.pictures, self._pictures)
        composer.edit.stepped.connect(self.step_last)
        composer.larger_asked.connect(lambda: context.navigator.show_page(MODELS))
        composer.meter.follow(self._pending)
        commands.said.connect(composer.say)
        commands.removed.connect(lambda text: page.notice.show_undo(text, session.undo_remove))
        commands.acted.connect(self._focus_again)
        commands.quoted.connect(composer.edit.quote)
        commands.rewritten.connect(self._focus_stop)
        session.path_changed.connect(self.show_path)
        session.found.connect(page.show_found)
        session.progressed.connect(page.refresh)
        session.settled.connect(page.settle)
        session.settled.connect(composer.meter.touch)
        session.revealed.connect(page.reveal)
        self.presets.chosen.connect(self.take_preset)
        context.slot.changed.connect(self.show_model)
        context.busy_changed.connect(self.refresh)
        for follow in (self._introduce, self._show_options, self._hold_back):
            context.settings_changed.connect(follow)
        context.tools.changed.connect(self._hold_back)
        themes.settled.connect(self._show_options)
        page.welcome.suggestions.picked.connect(self.sending.pick)
        page.welcome.models.clicked.connect(composer.larger_asked)
        page.welcome.guide.clicked.connect(lambda: context.navigator.start_guide())
        if kept.problem:
            context.say(kept.problem)
        self.show_model()
        self.refresh()

    def enter(self) -> None:
        """Focuses the composer."""
        self.page.composer.edit.setFocus()

    def stop(self) -> None:
        """Takes back a prompt that waits for its model; if none does, stops the current work."""
        if self.sending.is_waiting:
            self.sending.take_back()
        else:
            self._context.stop()

    @Slot(int)
    def step_last(self, by: int) -> None:
        """Shows an earlier or a later version of the last answer."""
        turns = self._session.chat.turns
        if turns and not turns[-1].answer.is_active and 0 <= turns[-1].answers.shown + by < len(turns[-1].answers):
            self._session.choose_answer(turns[-1], turns[-1].answers.shown + by)

    @Slot()
    def _focus_again(self) -> None:
        """Focuses the composer if the button that had the focus is gone."""
        focus = QApplication.focusWidget()
        if focus is None or not self.page.scroller.isAncestorOf(focus):
            self.enter()

    @Slot(object)
    def _focus_stop(self, turn: Turn) -> None:
        view = self.page.view_of(turn)
        if view is not None and turn.answer.is_active:
            view.answer.stop.setFocus()  # the panel, which had it, is gone

    def _options(self) -> ViewOptions:
        values = self._context.values
        return ViewOptions(values.calm, values.pace, self._pictures)

    @Slot()
    def _show_options(self) -> None:
        self.page.set_options(self._options())

    @Slot()
    def refresh(self) -> None:
        """Shows whether a prompt can be sent now, and the reason if not."""
        context, reason = self._context, self._context.reason_to_wait()
        is_shown = context.backend.pacing.is_computed
        self.page.composer.block(reason, can_wait=is_shown or context.loading is not None)
        self.page.set_state(can_repeat=not reason, skips=is_shown)

    @Slot()
    def show_path(self) -> None:
        session, composer = self._session, self.page.composer
        if session.chat.active is not None:
            self.page.notice.hide()
        if self.page.shows_other(session.chat):
            self.sending.take_back()
            self.page.notice.leave_undo()
        composer.say("")
        self.page.show_chat(session.chat, self._context.model)
        self.presets.show_preset(session.chat.preset)
        session.think = self.presets.current.think
        self._mark_preset()
        composer.edit.history.set_conversation([turn.prompt for turn in session.chat.turns])
        composer.meter.touch()
        self._context.busy_changed.emit()

    @Slot()
    def show_model(self) -> None:
        """Adapts the page to the loaded model: introduction, suggested prompts and token counting."""
        model, composer = self._context.model, self.page.composer
        composer.say("")
        self._introduce()
        composer.note_blind("" if model is None or model.capabilities.images else cannot_see(model.title))
        if model is None:
            composer.meter.set_model(None)
            composer.pictures.set_cost(None)
        else:
            self._hold_back()

    def _introduce(self) -> None:
        """Says how the model writes, and suggests prompts for it; once it is loaded, they stay the same."""
        context, present = self._context, self._context.slot.present
        caution, how = introduction(present, context.model, context.values.present_decoding.decoder)
        self.page.composer.caution(caution)
        self.page.welcome.introduce(how)
        traits = catalog.traits(Path(present).name) if context.model is None else context.model.traits
        if (present, traits) != self._offered:
            self._offered = present, traits
            rng = random.Random()
            by_traits = suggestions(traits, rng) if present else []
            self.page.offer(small_suggestions(rng) if present == SMALL else by_traits)

    @Slot()
    def _hold_back(self) -> None:
        """Passes the context length and the tokens reserved for the answer to the context meter."""
        self._mark_preset()
        model, values = self._context.model, self._context.values
        if model is not None:
            usual = model.part(usual_part())
            config = values.config(usual.defaults, usual.decoders)
            self.page.composer.fills = bool(model.parts) or can_fill(model, config)
            room = reserve(config, usual)
            tools = tuple(tool.function for tool in self._session.calls.offered(usual))
            counting = PromptCount(model.count_tokens, model.image_cost, config.image_tokens, tools)
            self.page.composer.pictures.set_cost(counting.cost if model.image_cost is not None else None)
            self.page.composer.files.set_model(counting, model.image_cost is not None)
            self.page.composer.meter.set_model(counting if model.context else None, model.context, room)

    @Slot(object)
    def take_preset(self, preset: Preset) -> None:
        """Applies a preset to the shown conversation and to those begun after it."""
        self._session.describe(system_prompt=preset.system_prompt, preset=preset.id, think=preset.think)
        self._context.values.overrides, self._context.values.decoding = dict(preset.overrides), preset.decoding
        self._context.apply_values()
        self.page.composer.meter.touch()

    def _mark_preset(self) -> None:
        values, preset = self._context.values, self.presets.current
        self.presets.show_changed((values.overrides, values.decoding) != (dict(preset.overrides), preset.decoding))

    def _pending(self) -> Sequence[Message]:
        """Returns the conversation as it would be sent now, with the composer's draft."""
        composer = self.page.composer
        session, model = self._session, self._context.model
        return session.requests.pending(
            session.chat, model, composer.text, composer.attachments, composer.pictures.pictures
        )


build = ChatController
