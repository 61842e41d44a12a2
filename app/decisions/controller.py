"""Connects the Decisions page to the engine, to the loaded model and to the stored questions."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Slot

from app.context import DECISIONS, AppContext
from app.decisions import words
from app.decisions.deciding import StateDecider
from app.decisions.page import DecisionsPage
from app.decisions.question_store import QuestionStore
from app.design.controls import focus_in_view
from app.pictures.bar import Cost
from app.pictures.files import drawing_of
from app.pictures.source import PictureSource
from app.state.chat.attachment import AttachedPicture
from app.state.decisions.drafts import QuestionDraft
from app.state.decisions.reading import DecisionReading
from app.state.decisions.samples import drawing_sample, samples
from app.state.decisions.sheet import QuestionSheet
from app.state.run.replay import Frame, Replay
from app.system.i18n import tr
from engine import DECIDER, SIGHT, Recording
from engine.pictures import Picture
from engine.service import LoadedModel, ServiceReply

if TYPE_CHECKING:
    from engine.tasks.drawings import Scene


NO_QUESTIONS = QuestionSheet()


@dataclass(frozen=True)
class _Asked:
    """Questions, and the state that they are about, which is a text and pictures."""

    sheet: QuestionSheet = NO_QUESTIONS
    state: tuple[str, tuple[AttachedPicture, ...]] = ("", ())


class DecisionsController(QObject):
    """The controller of the Decisions page. It decides one state at a time."""

    notice = None  # errors go through ``context.say``

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.widget = self.page = page = DecisionsPage()
        self.setParent(page)  # so that no signal arrives after the page is deleted
        self.decider = StateDecider(context, self)
        self.store = QuestionStore(context, page.one.questions, page.one.column.state.raw, self)
        self._example = _Asked()  # the example shown last; content that differs from it is the user's own
        self._own = _Asked()  # the user's own questions and state, kept to be put back
        self._problem = ""  # of the last decision
        self._awaited = ""  # id of the model that is being loaded for a decision
        one = page.one
        one.decide.clicked.connect(self.decide)
        one.stop.clicked.connect(self.stop)
        one.load.clicked.connect(self._load)
        one.column.examples.activated.connect(self._show_sample)
        one.column.typed.connect(self._changed)
        one.column.switched.connect(self._switched)
        one.questions.changed.connect(self._changed)
        self.store.opened.connect(self._show_file)
        one.strip.inspect_asked.connect(self._inspect)
        page.go_asked.connect(self.decide)
        self.decider.began.connect(self._began)
        self.decider.changed.connect(one.refresh)
        self.decider.ended.connect(self._ended)
        context.register_busy(self)
        context.arrived.connect(self.take)
        context.busy_changed.connect(self.refresh)
        context.model_changed.connect(self._go_on)
        one.column.frame.pictures.set_store(context.session.library.pictures, PictureSource(self._stored))
        one.column.offer([*(sample.title for sample in samples()), tr("A drawing")])
        self._recall()
        self.refresh()

    def enter(self) -> None:
        """Moves the keyboard focus to the page."""
        self.page.enter()

    @property
    def is_busy(self) -> bool:
        """True while a state is being decided."""
        return self.decider.is_busy

    def reason_to_wait(self) -> str:
        """A sentence that says that a decision is running; empty if none is."""
        return tr("Questions are being answered; Esc stops it") if self.is_busy else ""

    def _recall(self) -> None:
        """Shows the stored questions and text, or the first sample if there are none."""
        found, one = self.store.recall(), self.page.one
        if found is None:
            one.questions.sheet = QuestionSheet(is_joint=True)
            self._example = self._asked
            self._show_sample(0)
            return
        sheet, state = found
        one.column.state.setPlainText(state)
        one.questions.show_sheet(sheet)
        one.column.show_sheet(sheet)
        one.set_temperature(sheet.temperature)

    @Slot()
    def _changed(self) -> None:
        self._problem = ""
        self.store.note_change()
        self.refresh()

    @Slot()
    def _switched(self) -> None:
        one = self.page.one
        column = one.column
        sheet = one.questions.sheet
        one.questions.sheet = replace(
            sheet,
            instructions=column.instructions.raw(),
            is_joint=column.joint.isChecked(),
            repeats=column.repeats.value(),
            temperature=column.temperature.value(),
        )
        one.set_temperature(column.temperature.value())
        self._changed()

    @Slot(int)
    def _show_sample(self, place: int) -> None:
        before = self.page.one.questions.sheet
        if place < len(samples()):
            self._show_sheet(samples()[place].sheet(before), samples()[place].state)
            return
        if place > len(samples()):
            self._put_back(self._own)
            return
        scene, questions = drawing_sample(random.Random())
        drafts = tuple(map(QuestionDraft.from_question, questions))
        self._show_sheet(replace(before, questions=drafts, instructions="", is_joint=False), scene=scene)

    def _show_sheet(self, sheet: QuestionSheet, state: str = "", scene: Scene | None = None) -> None:
        """Shows other questions, and another state if one is given, as a text or a drawing.

        Keeps the user's own questions and state, and offers to put them back.
        """
        one, before, shows_state = self.page.one, self._asked, bool(state) or scene is not None
        one.clear_reading()
        if shows_state:
            one.column.state.setPlainText(state)
            one.column.frame.pictures.set_pictures(())
        if scene is not None:
            one.column.frame.add([drawing_of(scene)])
        one.questions.show_sheet(sheet)
        one.column.show_sheet(sheet)
        one.set_temperature(sheet.temperature)
        self._changed()
        own_sheet, own_state = before.sheet != self._example.sheet, before.state != self._example.state
        self._own = _Asked(
            before.sheet if own_sheet else self._own.sheet, before.state if own_state else self._own.state
        )
        self._example = _Asked(sheet, self._asked.state if shows_state else self._example.state)
        if own_sheet or (shows_state and own_state):
            said = tr("An example has replaced your questions.")
            self._context.done.emit(said, tr("Restore mine"), functools.partial(self._put_back, self._own))
            one.column.offer_own()  # the message disappears after a moment

    @property
    def _asked(self) -> _Asked:
        column = self.page.one.column
        return _Asked(self.page.one.questions.sheet, (column.state.raw(), column.frame.pictures.pictures))

    def _put_back(self, own: _Asked) -> None:
        """Shows the user's own questions and state again, each if there was one."""
        column = self.page.one.column
        if own.state != _Asked().state:
            column.state.setPlainText(own.state[0])
            column.frame.pictures.set_pictures(own.state[1])
        example, self._example = self._example, self._asked
        self._show_sheet(own.sheet if len(own.sheet) else self._asked.sheet)
        self._example = example

    @Slot(object, str)
    def _show_file(self, sheet: QuestionSheet, state: str) -> None:
        self._show_sheet(sheet, state)

    def _is_ready(self) -> bool:
        """Returns True if the questions can be asked; else it shows their problems."""
        sheet = self.page.one.questions.sheet
        problems = sheet.problems
        self.page.one.questions.show_problems(problems)
        return len(sheet) > 0 and not problems

    def _reason(self) -> str:
        """Returns why nothing can be decided now, as a sentence; empty if something can."""
        model = self._context.model
        return self._context.reason_to_wait() or ("" if model is None or self._takes_own else words.obstacle(model))

    @property
    def _takes_own(self) -> bool:
        """True if the text is decided by the embedded model that suits it, which is loaded first."""
        model = self._context.model
        return self._context.is_auto and model is not None and model.path_or_id != self._suited

    @property
    def _has_pictures(self) -> bool:
        return bool(self.page.one.column.frame.pictures.chips)

    def _blindness(self) -> str:
        """Returns why the model cannot take the state's pictures; empty if it can, or if there are none."""
        return words.blindness(self._context.model) if self._has_pictures and not self._takes_own else ""

    def _stored(self, digest: str, width: int, height: int) -> Picture | None:
        return self._context.session.library.pictures.get(digest, width, height)

    @Slot()
    def decide(self) -> None:
        """Asks the questions about the state; if something is missing, a message is shown at its field."""
        one, model = self.page.one, self._context.model
        if self._reason() or self._blindness() or model is None:
            return
        state, shown, sheet = one.column.state.raw(), one.column.frame.pictures, one.questions.sheet
        is_ready, is_empty = self._is_ready(), not state.strip() and not shown.chips
        wait = tr("A picture is still being read; decide in a moment.") if shown.is_reading else ""
        one.column.show_problem(wait or (tr("Write what the questions are about.") if is_empty else ""))
        if is_empty and is_ready:
            focus_in_view(one.column.state)
        if wait or is_empty or not is_ready:
            return
        self._problem = ""
        if self._takes_own:
            self._awaited = self._suited
            self._context.borrow(self._awaited)
            return
        stored = self._context.session.library.pictures
        self.decider.decide(model, state, sheet, functools.partial(stored.all_of, shown.pictures))
        self._context.busy_changed.emit()

    @Slot()
    def _go_on(self) -> None:
        """Decides once the model that it takes is there; not if another was chosen meanwhile, or loading failed."""
        model, loading = self._context.model, self._context.loading
        if self._awaited and (model is not None or loading is None or loading.path_or_id != self._awaited):
            is_there = model is not None and model.path_or_id == self._awaited
            self._awaited = ""
            if is_there:
                self.decide()

    @Slot()
    def stop(self) -> None:
        """Stops within one denoising step."""
        self.decider.stop()

    @Slot(object)
    def _began(self, reading: DecisionReading) -> None:
        self.page.one.begin(reading, self.page.one.questions.sheet.temperature)

    @Slot(str, str)
    def _ended(self, problem: str, _details: str) -> None:
        self._problem = problem
        self._context.busy_changed.emit()

    @Slot(object)
    def take(self, replies: list[ServiceReply]) -> None:
        """Passes replies of the engine on to the decider."""
        self.decider.take(replies)

    @Slot()
    def _load(self) -> None:
        self._context.borrow(self._suited)

    def _cost(self, model: LoadedModel | None) -> Cost | None:
        """Returns the function from a picture's size to its tokens; None if the model takes no pictures."""
        cost = None if model is None else model.image_cost
        if model is None or cost is None:
            return None
        most = model.defaults.image_tokens
        return lambda width, height: cost(width, height, most)

    @property
    def _suited(self) -> str:
        """The embedded model that suits the state: one that takes pictures, or the decider."""
        return SIGHT if self._has_pictures else DECIDER

    @Slot()
    def refresh(self) -> None:
        """Updates messages and buttons after a change of model, questions, state or running decision."""
        context, one = self._context, self.page.one
        model, busy = context.model, self.is_busy
        takes_own = self._takes_own
        obstacle = "" if model is None else words.obstacle(model)
        reason, blind = "" if busy else self._reason(), self._blindness()
        lacks_question = not len(one.questions.sheet)
        advice, unlearned = "", ""
        if model is not None and not takes_own:
            advice = words.advice(model, has_pictures=self._has_pictures)
            unlearned = words.unlearned(model, one.column.state.raw(), one.questions.sheet)
        missing = tr("Add a question, or choose an example.") if lacks_question else ""
        is_right = model is not None and (model.path_or_id == self._suited or not (obstacle or blind or advice))
        is_offered = not busy and context.loading is None and not is_right and not takes_own
        one.show_doing(
            is_busy=busy,
            message=reason or blind or missing or advice or unlearned,
            fault=self._problem,
            can_decide=not reason and not blind and not lacks_question,
            offer=context.title_of(self._suited) if is_offered else "",
        )
        one.column.show_blind("" if takes_own or context.is_auto else words.blindness(model))
        one.column.frame.pictures.set_cost(self._cost(model))

    @Slot(object)
    def _inspect(self, asked: tuple[Recording, int]) -> None:
        trace, read = asked
        if trace.result is not None:
            self._context.inspect(trace, place=Replay(trace).place(Frame(read, 0)))

    def show(self) -> None:
        """Opens the page."""
        self._context.show_page(DECISIONS)
        self.page.enter()


def build(context: AppContext) -> DecisionsController:
    return DecisionsController(context)
