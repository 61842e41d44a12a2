"""The shown conversation: turns in a column, or suggestions, and the composer below. Decides nothing about runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from PySide6.QtCore import QPoint, Slot
from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent, QFont, QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QApplication, QStackedWidget, QWidget

from app.chat.commands import TurnCommands, ViewOptions
from app.chat.composer.composer import Composer
from app.chat.find_bar import FindBar
from app.chat.markdown_view import PAD
from app.chat.messages.action_row import VersionSwitch
from app.chat.messages.scroller import FEW_WIDGETS, SIDE, Scroller
from app.chat.welcome import ChatWelcome, centred
from app.design.controls import Hairline, introduce, usable
from app.design.drops import accept_drag
from app.design.fonts import TEXT_LEAD, px
from app.design.layouts import boxed, column_of, stops_of
from app.design.notice import Notice
from app.library.search import Term, terms_of
from app.state.chat.conversation import Answer, ChatState, Turn
from app.state.chat.prompts import Suggestion
from app.system.i18n import tr
from engine.service import LoadedModel

if TYPE_CHECKING:
    from app.chat.messages.turn import TurnView

ViewOf: TypeAlias = "Callable[[Turn], TurnView | None]"


COLUMN_CHARACTERS = 72
FIXED = 150  # pixels of an earlier turn: speakers, buttons, and the space between them
PICTURES = 136


@dataclass(frozen=True)
class FocusPlace:
    """The turn that has the focus, its index on the path, and the names of controls that may get it, best first."""

    turn: Turn
    at: int
    names: tuple[str, ...]

    @classmethod
    def of(cls, path: Sequence[Turn], view_of: ViewOf) -> FocusPlace | None:
        """Returns the present place of the focus; None if no turn has it."""
        focus = QApplication.focusWidget()
        at = next((at for at, turn in enumerate(path) if _holds(view_of(turn), focus)), None)
        if at is None or focus is None:
            return None
        switch = focus.parentWidget()
        others = (switch.before, switch.after) if isinstance(switch, VersionSwitch) else ()
        return cls(path[at], at, tuple(widget.accessibleName() for widget in (focus, *others)))

    def keep(self, path: Sequence[Turn], view_of: ViewOf, otherwise: QWidget) -> None:
        """Gives the focus to the same control of the turn now at this index, or else to the widget ``otherwise``.

        Another version of a prompt is another turn, and a neighbour takes the index of a deleted turn.
        """
        if self.turn in path and _holds(view_of(self.turn), QApplication.focusWidget()):
            return
        view = view_of(path[min(self.at, len(path) - 1)]) if path else None
        stops = [stop for stop in stops_of(view) if usable(stop)] if view is not None else []
        heirs = [stop for name in self.names for stop in stops if stop.accessibleName() == name]
        (*heirs, otherwise)[0].setFocus()


def _holds(view: TurnView | None, focus: QWidget | None) -> bool:
    return view is not None and focus is not None and view.isAncestorOf(focus)


def column_width() -> int:
    """Returns the widest width of the text column in pixels, padding included."""
    font = QFont()
    font.setPixelSize(px(TEXT_LEAD))
    return COLUMN_CHARACTERS * QFontMetrics(font).averageCharWidth() + 2 * PAD


class ChatPage(QWidget):
    """Gives the views of turns their ``commands``; shows what its methods are given.

    ``show_chat`` opens a conversation or shows a changed path; ``refresh`` and ``settle`` follow its run.
    """

    def __init__(self, options: ViewOptions, commands: TurnCommands) -> None:
        super().__init__(acceptDrops=True)
        self._options, self.commands = options, commands
        self._chat = ChatState()
        self._path: list[Turn] = []
        self._model: LoadedModel | None = None
        self._can_repeat = True
        self._skips = False
        self._found: tuple[Turn, tuple[Term, ...]] | None = None  # that a search has found
        self._is_found_shown = True  # scrolled to
        self._held_replay: int | None = None  # pixels between the top of the page and the replay bar
        self._models: weakref.WeakKeyDictionary[Answer, LoadedModel] = weakref.WeakKeyDictionary()  # who wrote it
        width = column_width()

        self.welcome = ChatWelcome(width, SIDE)
        self.scroller = introduce(Scroller(self._make, guess_height, stops_of, column_width), tr("Conversation"))
        self._pages = QStackedWidget()
        self._pages.addWidget(self.welcome)
        self._pages.addWidget(self.scroller)

        self.finder = FindBar()
        self.finder.went.connect(self._show_hit)
        self.notice = Notice()
        self.composer = Composer()
        self.composer.changed.connect(self.welcome.first_run.stop)
        self._bottom = boxed(column_of(self.composer, margins=(PAD, 12, PAD, 12)))

        self._bottom_row = centred(self._bottom, width, SIDE)
        self.setLayout(column_of(self.finder, (self._pages, 1), Hairline(), self._bottom_row, spacing=0))
        self.finder.closed.connect(self.composer.edit.setFocus)
        self.notice.float_over(self._pages, self.composer)
        self.notice.covered.connect(self.scroller.set_covered)

    def offer(self, suggestions: Sequence[Suggestion]) -> None:
        self.welcome.suggestions.offer(suggestions)
        self.welcome.order_tabs()

    @property
    def turns(self) -> list[TurnView]:
        """The views of the path's turns from the top: all in a short conversation, else those that exist now."""
        if len(self._path) <= FEW_WIDGETS:
            for turn in self._path:
                self.scroller.realise(turn)
        views = (self.view_of(turn) for turn in self._path)
        return [view for view in views if view is not None]

    def view_of(self, turn: Turn) -> TurnView | None:
        """Returns the view of a turn; None if it has none now."""
        return cast("TurnView | None", self.scroller.view(turn))

    def shows_other(self, chat: ChatState) -> bool:
        return chat is not self._chat

    def show_chat(self, chat: ChatState, model: LoadedModel | None) -> None:
        """Shows another conversation from its end, or the changed path. Views of turns that stay are kept."""
        is_other = self.shows_other(chat)
        place = None if is_other else FocusPlace.of(self._path, self.view_of)
        path = chat.turns
        self._chat, self._model, self._path = chat, model, path
        self._found = None if is_other else self._found
        self._note_writers()
        kept = [view for view in self._views() if view.turn in path]
        self.scroller.set_items(path, follow=is_other or chat.active is not None)
        for view in kept:
            view.answer.model = self._models.get(view.turn.answer)
            view.answer.refresh()
            self._show_state(view)
        self._pages.setCurrentWidget(self.scroller if path else self.welcome)
        self.finder.set_turns(path)
        if place is not None:
            place.keep(path, self.view_of, self.composer.edit)

    @Slot(object, str)
    def show_found(self, turn: Turn, query: str) -> None:
        """Marks the terms of a query in a turn, and scrolls to the first; follows ``show_chat``."""
        before, self._found = self._found, (turn, tuple(terms_of(query)))
        self._is_found_shown = False
        for view in self._views():
            if view.turn is turn or (before is not None and view.turn is before[0]):
                self._mark(view)
        self.scroller.realise(turn)
        self._go_to_found()

    @Slot(object, str)
    def _show_hit(self, turn: Turn | None, query: str) -> None:
        if turn is not None:
            self.show_found(turn, query)
            return
        self._found = None
        for view in self._views():
            self._mark(view)

    def open_find(self) -> None:
        """Shows the line that finds words in the shown conversation."""
        self.finder.open(self._path)

    def step_turn(self, by: int) -> None:
        """Scrolls to the prompt before the page's top, or to the next one."""
        item = self.scroller.top_item
        if item in self._path:
            self.scroller.show_top(self._path[max(0, min(len(self._path) - 1, self._path.index(item) + by))])

    def _mark(self, view: TurnView) -> None:
        """Marks what a search has found in a turn, or takes the marks away."""
        terms = self._found[1] if self._found is not None and self._found[0] is view.turn else ()
        for prose in (view.prompt.prose, view.answer.text):
            prose.mark(terms)

    def _go_to_found(self) -> None:
        """Scrolls to the first mark, once; is called again while the text is still being laid out."""
        view = self.view_of(self._found[0]) if self._found is not None and not self._is_found_shown else None
        if view is None:
            return
        proses = view.prompt.prose, view.answer.text
        tops = [(prose, prose.first_mark()) for prose in proses]
        offset = next((prose.mapTo(view, QPoint(0, top)).y() for prose, top in tops if top is not None), None)
        self._is_found_shown = offset is not None or all(prose.is_laid_out for prose in proses)
        self.scroller.show_place(view.turn, offset or 0)

    @Slot(float)
    def refresh(self, share: float = 1.0) -> None:
        """Shows the changed running answer, with a share (0 to 1) of its latest step."""
        self._note_writers()
        view = self.view_of(self._path[-1]) if self._path else None
        if view is not None:
            place = self.scroller.hold()
            view.answer.model = self._models.get(view.turn.answer)
            has_settled = view.answer.refresh(share)
            self._show_state(view)
            if has_settled:
                self.scroller.settle(place, goes_on=True)

    @Slot(float)
    def reveal(self, share: float) -> None:
        """Shows another share (0 to 1) of the latest step of the running answer."""
        view = self.view_of(self._path[-1]) if self._chat.active is not None else None
        if view is not None:
            view.answer.reveal(share)

    @Slot()
    def settle(self) -> None:
        """Turns the canvases of a run that has ended into text; the visible part does not move."""
        view = self.view_of(self._path[-1]) if self._path else None
        place = self.scroller.hold()
        if view is not None:
            view.answer.settle()
        for other in self._views():
            self._show_state(other)
        self.scroller.settle(place)

    @Slot(object)
    def _forget_other_replays(self, turn: Turn) -> None:
        """Drops the runs of all answers but one, so that only one is in memory."""
        for view in self._views():
            if view.turn is not turn:
                view.answer.replay.forget()

    @Slot(object)
    def _hold_replay(self, turn: Turn) -> None:
        """Notes where the replay bar is before another frame is shown: the pointer may be on it."""
        view = self.view_of(turn)
        self._held_replay = None if view is None else self.scroller.height_in_sight(view.answer.replay)

    @Slot(object)
    def _keep_replay(self, turn: Turn) -> None:
        """Scrolls so that the replay bar stays where it was before the frame changed."""
        view = self.view_of(turn)
        if view is None or self._held_replay is None:
            return
        replay, height = view.answer.replay, self._held_replay
        missing = self.scroller.keep_in_sight(turn, replay, height)
        if missing and replay.is_on:  # the page cannot be scrolled up any further
            replay.reserve(missing)
            self.scroller.keep_in_sight(turn, replay, height)

    def set_state(self, *, can_repeat: bool, skips: bool = False) -> None:
        """Sets which actions are possible now.

        Args:
            can_repeat: answers can be regenerated and prompts edited.
            skips: the running answer is already computed, so that Stop skips to its end.
        """
        if (can_repeat, skips) != (self._can_repeat, self._skips):
            self._can_repeat, self._skips = can_repeat, skips
            for view in self._views():
                self._show_state(view)

    def set_options(self, options: ViewOptions) -> None:
        if options == self._options:
            return
        resized = options.percent != self._options.percent
        self._options = options
        for view in self._views():
            view.answer.set_options(options)
        if resized:
            self.welcome.set_width(column_width())
            self._bottom.setMaximumWidth(column_width())
            self.scroller.forget_heights()

    def _views(self) -> list[TurnView]:
        return [cast("TurnView", view) for view in self.scroller.views.values()]

    def _make(self, turn: Turn) -> TurnView:
        from app.chat.messages.turn import TurnView  # large import that an empty page does not need

        rebuilt = partial(self._rebuilt, turn)
        view = TurnView(turn, self._models.get(turn.answer), self._options, self.commands, rebuilt)
        view.answer.replay.reading.connect(self._forget_other_replays)
        view.answer.replay.moving.connect(self._hold_replay)
        view.answer.replay.moved.connect(self._keep_replay)
        self._mark(view)
        self._show_state(view)
        return view

    def _rebuilt(self, turn: Turn) -> None:
        self.scroller.rechain(turn)
        self._go_to_found()

    def _note_writers(self) -> None:
        """Notes for each new answer the model loaded now: its tokenizer is needed after another is loaded, too."""
        if self._model is not None:
            for turn in self._path:
                answer = turn.answer
                if answer.kept is None and answer not in self._models:
                    self._models[answer] = self._model.part(answer.model)

    def _show_state(self, view: TurnView) -> None:
        is_busy = self._chat.active is not None
        can_ask = self._can_repeat and not is_busy
        versions = self._chat.alternatives(view.turn)
        view.prompt.set_state(versions.shown, len(versions), can_ask=can_ask, is_busy=is_busy)
        is_last = view.turn is self._path[-1]
        view.answer.set_state(can_ask=can_ask, is_busy=is_busy, is_last=is_last, skips=self._skips)

    def resizeEvent(self, _event: QResizeEvent) -> None:
        # Keep room for the scroll bar even while it is hidden, so that the column never moves.
        bar = self.scroller.verticalScrollBar().sizeHint().width()
        self._bottom_row.setContentsMargins(SIDE, 0, SIDE + bar, 0)
        self.welcome.setViewportMargins(0, 0, bar, 0)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        accept_drag(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        accept_drag(event)

    def dropEvent(self, event: QDropEvent) -> None:
        self.composer.dropEvent(event)


def guess_height(turn: Turn, width: int) -> int:
    """Returns the estimated height of a turn in a column ``width`` pixels wide, in pixels."""
    letters = max(20, round(width / (px(TEXT_LEAD) * 0.53)))
    lines = f"{turn.prompt}\n{turn.answer.text[:24_000]}".split("\n")
    pictures = px(PICTURES) if turn.pictures else 0  # assumes one row
    return FIXED + pictures + round(px(TEXT_LEAD) * 1.55) * sum(1 + len(line) // letters for line in lines)
