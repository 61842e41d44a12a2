"""Connects the chat page with the session: passes on the user's requests and shows the session's changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QApplication

from app.chat.commands import TurnCommands
from app.chat.introducing import Introducing
from app.chat.page import ChatPage
from app.chat.regenerating import Regenerating
from app.chat.replaying import Replaying, not_kept, run_of
from app.chat.rewriting import RewritingRuns
from app.chat.view_options import ViewOptions
from app.chat.waiting import Waiting
from app.context import MODELS, AppContext
from app.design import themes
from app.design.notice import Notice
from app.pictures.source import PictureSource
from app.presets.picker import PresetPicker
from app.presets.preset import Preset
from app.presets.store import PresetStore
from app.session.session import cannot_see, reserve, visible
from app.state.chat.attachment import AttachedPicture, Attachment
from app.state.chat.calls import Decision, ToolCall, ToolRound
from app.state.chat.conversation import Turn, user_message
from app.state.chat.counting import PromptCount
from app.state.chat.prompts import prepare, prepare_with_files
from app.state.chat.rewriting import can_fill
from app.system.i18n import tr
from engine import SafelightError, catalog
from engine.catalog import SMALL, TALK
from engine.service import AdapterChanged, ServiceReply
from engine.service.small import part_for, usual_part, worded
from engine.text.message import Message


class ChatController(QObject):
    """The chat page's logic. A slot that cannot act says why under the composer; the user's draft is kept."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self._session = session = context.session
        self._pictures = PictureSource(session.library.pictures.get)
        self.widget = self.page = page = ChatPage(self._options(), self._commands())
        self.setParent(page)  # so that no signal arrives after the page is deleted
        kept = PresetStore(context.folders.data)
        self.presets = PresetPicker(kept, context.values)
        page.composer.place_presets(self.presets)
        page.composer.pictures.set_store(session.library.pictures, self._pictures)
        page.composer.submitted.connect(self.send)
        page.composer.edit.stepped.connect(self.step_last)
        page.composer.larger_asked.connect(self._show_models)
        page.composer.meter.follow(self._pending)
        session.path_changed.connect(self.show_path)
        session.found.connect(page.show_found)
        session.progressed.connect(self._progressed)
        session.returned.connect(self._put_back)
        context.backend.pacing.revealed.connect(page.reveal)
        self.presets.chosen.connect(self.take_preset)
        context.model_changed.connect(self.show_model)
        context.arrived.connect(self._adapted)
        context.busy_changed.connect(self.refresh)
        context.settings_changed.connect(self.show_settings)
        context.tools.changed.connect(self._hold_back)
        themes.settled.connect(self._show_options)
        page.welcome.models.clicked.connect(self._show_models)
        page.welcome.guide.clicked.connect(context.guide)
        self._introducing = Introducing(context, page)
        self._waiting = Waiting(context, page.composer, self.send)
        self._replaying = Replaying(context, page)
        self.rewriting = RewritingRuns(context, page, self._can_ask, self._try)
        self._regenerating = Regenerating(context, page, self.again)
        if kept.problem:
            context.say(kept.problem)
        self.show_model()
        self.refresh()

    def _commands(self) -> TurnCommands:
        session = self._session
        return TurnCommands(
            stop=session.stop,
            again=self.again,
            others=self.others,
            ask_other=self.ask_other,
            edit=self.edit,
            can_change=lambda turn: self.rewriting.can_change(turn),
            rewrite=lambda turn, how: self.rewriting.rewrite(turn, how),
            put=lambda turn, text: self.rewriting.put(turn, text),
            say=lambda reason: self.say(reason),
            delete=self.delete,
            delete_answer=self.delete_answer,
            decide=self.decide,
            inspect_call=self.inspect_call,
            choose_answer=session.choose_answer,
            choose_prompt=session.choose_prompt,
            inspect=self.inspect,
            replay=lambda turn: self._replaying.read(turn),
            pick=self.pick,
            choose_pace=self._context.choose_pace,
        )

    @property
    def notice(self) -> Notice:
        return self.page.notice

    def enter(self) -> None:
        """Focuses the composer."""
        self.page.composer.edit.setFocus()

    def say(self, reason: str) -> None:
        """Shows under the composer why something cannot be done now.

        The reason why no prompt can be sent is left out: the composer shows it anyway.
        """
        self.page.composer.say("" if reason == self._context.reason_to_wait() else reason)

    @property
    def is_waiting(self) -> bool:
        return self._waiting.is_on

    def stop(self) -> None:
        """Takes back a prompt that waits for its model; if none does, stops the current work."""
        if self._waiting.is_on:
            self._waiting.take_back()
        else:
            self._context.stop()

    @Slot(str)
    def send(self, text: str) -> None:
        """Sends the composer's draft to the model; if the model is still loading, lets the draft wait for it."""
        composer = self.page.composer
        if self._context.loading is not None:
            self._wait(text, self._context.loading.path_or_id)
        elif composer.meter.problem:
            composer.say(composer.meter.problem)
        elif self._can_ask() and self._ask(text, composer.attachments, composer.pictures.pictures):
            composer.edit.history.remember(text)
            composer.clear()

    def _wait(self, text: str, model: str) -> None:
        """Lets the draft wait for a model, if that model can read it."""
        composer = self.page.composer
        traits = catalog.traits(Path(model).name)
        try:
            if model != SMALL or not composer.attachments:  # a file may be a puzzle, which needs no text
                prepare_with_files(traits, text, composer.attachments, len(composer.pictures.pictures))
        except SafelightError as error:
            composer.say(str(error))
        else:
            self._waiting.begin(model)

    def pick(self, prompt: str) -> None:
        """Sends a suggested prompt, or puts it into the composer if it cannot be sent now."""
        composer = self.page.composer
        if self._context.reason_to_wait():
            composer.set_text(prompt)
        elif self._can_ask() and self._ask(prompt, ()):
            composer.edit.history.remember(prompt)
        composer.edit.setFocus()

    def _ask(self, text: str, files: tuple[Attachment, ...], pictures: tuple[AttachedPicture, ...] = ()) -> bool:
        model = self._context.model
        if model is None:
            return False

        def ask() -> None:
            part = self._session.part(model, user_message(text, files, pictures))
            prompt, attachments = prepare_with_files(part.traits, text, files, len(pictures))
            self.page.notice.hide()
            self.page.scroller.follow()
            self._session.ask(prompt, attachments, part, pictures)

        return self._try(ask)

    def again(self, turn: Turn, model: str = "") -> None:
        """Answers a turn again with another seed, by the part ``model`` of the loaded one, or the one that wrote it."""
        loaded = self._context.model
        if self._can_ask() and loaded is not None:
            part = loaded.part(model or turn.answer.model)
            self._try(lambda: self._session.ask_again(turn, part))
            focus = QApplication.focusWidget()
            if focus is None or not self.page.scroller.isAncestorOf(focus):  # the question that had it is closed
                self.page.composer.edit.setFocus()

    def others(self, turn: Turn) -> list[str]:
        """Returns the ids of the models that could answer a turn instead of the one that did, the best first."""
        model, chat = self._context.model, self._session.chat
        messages = chat.messages(turn) if turn in chat.turns else (turn.message,)
        found = [part_for(messages, [tool.called for tool in self._context.tools.offered])]
        if TALK.is_here and not turn.pictures and TALK.id not in found:
            found.append(TALK.id)
        found = [part for part in found if part != turn.answer.model]
        return found if model is None or model.parts else [SMALL] if found else []

    def ask_other(self, turn: Turn, model: str) -> None:
        """Answers a turn by a part of the small models, which are loaded for that if necessary; by its id."""
        loaded = self._context.model
        if loaded is not None and loaded.part(model) is not loaded:
            self.again(turn, model)
        elif self._can_ask():
            self._regenerating.ask_with(turn, model)

    @Slot()
    def _show_models(self) -> None:
        self._context.show_page(MODELS)

    def decide(self, call: ToolCall, decision: Decision) -> None:
        """Takes the user's decision about a call of a tool."""
        self._try(lambda: self._session.decide(call, decision))
        self.page.composer.edit.setFocus()

    def again_last(self) -> None:
        turns = self._session.chat.turns
        if turns:
            self.again(turns[-1])

    @Slot(int)
    def step_last(self, by: int) -> None:
        """Shows an earlier or a later version of the last answer."""
        turns = self._session.chat.turns
        if turns and not turns[-1].answer.is_active and 0 <= turns[-1].answers.shown + by < len(turns[-1].answers):
            self._session.choose_answer(turns[-1], turns[-1].answers.shown + by)

    def inspect_last(self) -> None:
        turns = self._session.chat.turns
        if turns:
            self.inspect(turns[-1])

    def inspect(self, turn: Turn) -> None:
        """Opens the shown answer of a turn in the inspector, at the step that its replay shows."""
        run = run_of(turn.answer, self._context.folders.traces)
        if run is not None:
            replay = self.page.replay_of(turn, turn.answer)
            place = -1 if replay is None else replay.place
            self._context.inspect(run, is_live=turn.answer.is_active, place=place)
        else:
            self.say(not_kept())

    def inspect_call(self, made: ToolRound) -> None:
        """Opens the run of a round of calls in the inspector, at its first step."""
        run = run_of(made, self._context.folders.traces)
        if run is not None:
            self._context.inspect(run)
        else:
            self.say(not_kept())

    def edit(self, turn: Turn, text: str) -> None:
        """Sends another version of a prompt."""
        model = self._context.model
        if self._can_ask() and model is not None:
            part = self._session.part(model, user_message(text, turn.attachments, turn.pictures), turn)
            self._try(lambda: self._session.edit(turn, prepare(part.traits, text), part))

    def delete(self, turn: Turn) -> None:
        """Deletes a turn and what follows it, and offers to undo that."""
        if self._try(lambda: self._session.remove(turn)):
            self._offer_undo(tr("Deleted the prompt, its answer and what followed."))

    def delete_answer(self, turn: Turn, index: int) -> None:
        """Deletes a version of an answer and what follows it, and offers to undo that."""
        if self._try(lambda: self._session.remove_answer(turn, index)):
            self._offer_undo(tr("Deleted the answer and what followed."))

    def _offer_undo(self, text: str) -> None:
        self.page.notice.show_undo(text, self._session.undo_remove)

    def _can_ask(self) -> bool:
        """Returns True if a prompt can be sent, and says why not; skips to the end of what is only being shown."""
        if self._context.backend.pacing.is_computed:
            self._context.stop()
        reason = self._context.reason_to_wait()
        if reason:
            self.say(reason)
        return not reason

    def _try(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except SafelightError as error:
            self.page.composer.say(str(error))
            return False
        self._context.busy_changed.emit()
        return True

    @Slot(object, str)
    def _put_back(self, turn: Turn, why: str) -> None:
        """Puts a prompt that could not be sent back into an empty composer, and shows the reason."""
        composer = self.page.composer
        if not composer.is_empty:
            if why:
                self._context.say(why)
            return
        composer.pictures.set_pictures(turn.pictures)
        composer.files.set_attachments(turn.attachments)
        composer.set_text(turn.prompt)  # a long prompt may become a file
        if why:
            composer.say(why)

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
        if self.page.shows_other(session.chat):
            self._waiting.take_back()
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
    def _progressed(self) -> None:
        page, active = self.page, self._session.chat.active
        if active is not None:
            page.refresh(self._context.backend.pacing.share)
        else:
            page.settle()
            page.composer.meter.touch()

    @Slot()
    def show_model(self) -> None:
        """Adapts the page to the loaded model: introduction, suggested prompts and token counting."""
        model, composer = self._context.model, self.page.composer
        composer.say("")
        self._introducing.introduce()
        self._introducing.suggest()
        if model is None:
            composer.meter.set_model(None)
            composer.pictures.set_cost(None)
            composer.note_blind("")
        else:
            composer.note_blind("" if model.capabilities.images else cannot_see(model.title))
            self._hold_back()

    @Slot(object)
    def _adapted(self, replies: list[ServiceReply]) -> None:
        """Shows the model anew once another adapter is active: it may have other abilities."""
        if any(isinstance(reply, AdapterChanged) for reply in replies):
            self.show_model()

    @Slot()
    def show_settings(self) -> None:
        """Applies changed settings to drawing and token counting, and marks the preset if they differ from it."""
        self._introducing.introduce()
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
        composer, model = self.page.composer, self._context.model
        pictures = composer.pictures.pictures or (() if model is None else self._session.carried(model))
        asked = user_message(composer.text, composer.attachments, pictures)
        messages = self._session.chat.messages_with(asked)
        return messages if model is None else visible(worded(model.path_or_id, messages), model)


def build(context: AppContext) -> ChatController:
    return ChatController(context)
