"""Connects the chat page with the session: shows the session's changes, the model's abilities, and the presets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QApplication

from app.chat.commands import TurnCommands, ViewOptions
from app.chat.page import ChatPage
from app.chat.sending import Sending
from app.chat.words import introduction
from app.context import MODELS, AppContext
from app.design import themes
from app.design.notice import Notice
from app.pictures.source import PictureSource
from app.presets.picker import PresetPicker
from app.presets.preset import Preset
from app.presets.store import PresetStore
from app.session.session import cannot_see, reserve
from app.state.chat.conversation import Turn
from app.state.chat.counting import PromptCount
from app.state.chat.prompts import small_suggestions, suggestions
from app.state.chat.rewriting import can_fill
from engine import catalog
from engine.catalog import SMALL, Traits
from engine.service.small import usual_part
from engine.text.message import Message


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
        context.settings_changed.connect(self.show_settings)
        context.tools.changed.connect(self._hold_back)
        themes.settled.connect(self._show_options)
        page.welcome.suggestions.picked.connect(self.sending.pick)
        page.welcome.models.clicked.connect(composer.larger_asked)
        page.welcome.guide.clicked.connect(lambda: context.navigator.start_guide())
        if kept.problem:
            context.say(kept.problem)
        self.show_model()
        self.refresh()

    @property
    def notice(self) -> Notice:
        return self.page.notice

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
        """Shows the turns on the conversation's present path."""
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
            own = suggestions(traits, rng) if present else []
            self.page.offer(small_suggestions(rng) if present == SMALL else own)

    @Slot()
    def show_settings(self) -> None:
        """Applies changed settings to drawing and token counting, and marks the preset if they differ from it."""
        self._introduce()
        self._show_options()
        self._hold_back()

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
            tools = tuple(tool.function for tool in self._session.offered(usual))
            counting = PromptCount(model.count_tokens, model.image_cost, config.image_tokens, tools)
            self.page.composer.pictures.set_cost(counting.cost if model.image_cost is not None else None)
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
        return self._session.pending(
            self._context.model, composer.text, composer.attachments, composer.pictures.pictures
        )


def build(context: AppContext) -> ChatController:
    return ChatController(context)
