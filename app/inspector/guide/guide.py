"""The guided minute: goes through its steps on a recorded run in the inspector, and brings back what was there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QRect, Qt, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QFrame, QWidget
from shiboken6 import isValid

import engine
from app.canvas.grid_view import GridView
from app.context import CHAT, AppContext
from app.design import themes
from app.design.controls import button, label, usable
from app.design.layouts import column_of, row_of
from app.design.tokens import SPACE_1, SPACE_2, SPACE_4
from app.inspector.continuations import Continuations
from app.inspector.guide.scene import RUN, STEPS, Course, GuideScene, GuideState, Ring
from app.inspector.page import InspectorPage
from app.settings import store
from app.system.i18n import tr
from app.system.timers import later
from engine import Recording, SafelightError


@dataclass(frozen=True)
class Before:
    """The open run at its frame and cell, the page of the window, and the focused widget."""

    page: str
    focus: QWidget | None
    trace: Recording | None
    is_live: bool
    place: int
    selection: int
    has_board: bool

    @classmethod
    def of(cls, context: AppContext, page: InspectorPage) -> Before:
        player = page.player
        return cls(
            page=store.read_page(context.settings) or CHAT,
            focus=QApplication.focusWidget(),
            trace=player.trace,
            is_live=page.is_live,
            place=player.place,
            selection=player.selection,
            has_board=player.board,
        )

    def bring_back(self, page: InspectorPage) -> None:
        """Opens the run again, as it was."""
        page.player.set_board(self.has_board)
        page.compare.set_other(None)
        page.show_view(0)
        if self.trace is None:
            page.close_trace()
        elif self.is_live:
            page.follow_live(self.trace)
        else:
            page.open_trace(self.trace, self.place)
        page.player.select(self.selection)

    def bring_focus_back(self) -> None:
        """Focuses the widget that had the focus, if it is still there."""
        if self.focus is not None and isValid(self.focus) and usable(self.focus):
            self.focus.setFocus()


class GuideCard(QFrame):
    """Has the height of the longest of the sentences given to ``reserve``, so that nothing jumps."""

    back_asked = Signal()
    next_asked = Signal()
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "guide")
        self.title, self.sentence = label("", "caption", wrap=True), label("", "setting", wrap=True)
        self.back = button(tr("Back"), tr("Back to the step before"), clicked=self.back_asked)
        self.next = button(tr("Next"), role="primary", clicked=self.next_asked)
        self.leave = button(tr("Leave"), tr("Leave the guided minute"), tip=tr("Esc"), clicked=self.left)
        self._reserved: tuple[str, ...] = ()
        head = row_of((self.title, 1), self.back, self.next, self.leave, spacing=SPACE_4)
        self.setLayout(column_of(head, self.sentence, margins=(SPACE_4, SPACE_1, SPACE_4, SPACE_2), spacing=0))
        themes.settled.connect(self._fit)

    def reserve(self, sentences: Iterable[str]) -> None:
        self._reserved = tuple(sentences)
        self._fit()

    def show_step(self, title: str, sentence: str, act: str = "", *, can_go_back: bool = True) -> None:
        """Shows a step, and lets screen readers say it. ``act`` is the text of the button that goes on."""
        if (title, sentence) == (self.title.text(), self.sentence.text()):
            return
        self.title.setText(title)
        self.sentence.setText(sentence)
        self.next.setText(act or tr("Next"))
        self.next.setAccessibleName(act or tr("Next"))
        self.back.setEnabled(can_go_back)
        self.setAccessibleName(title)
        for part in (self, self.next):
            part.setAccessibleDescription(sentence)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, f"{title}. {sentence}"))

    @Slot()
    def _fit(self) -> None:
        metrics, room = self.sentence.fontMetrics(), QRect(0, 0, self.width() - 2 * SPACE_4, 0)
        wrap = Qt.TextFlag.TextWordWrap
        heights = [metrics.boundingRect(room, wrap, text).height() for text in self._reserved]
        self.sentence.setMinimumHeight(max(heights, default=0))

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._fit()


class Guide(QObject):
    """Can be started again. Esc and Leave end it at any step; so does opening another run.

    ``open_run`` opens a run in the inspector by the path of its file.
    """

    def __init__(
        self, context: AppContext, page: InspectorPage, continuations: Continuations, open_run: Callable[[str], object]
    ) -> None:
        super().__init__(page)
        self._context, self._page, self._continuations, self._open_run = context, page, continuations, open_run
        self.course = Course()
        self._scene: GuideScene | None = None
        self._before: Before | None = None
        self.card, self.ring = GuideCard(), Ring(self._page)
        self._page.add_guide(self.card)
        self.card.hide()
        self._looking, self._settling = later(self, self._look), later(self, self._scroll)
        self.card.next_asked.connect(self._next)
        self.card.back_asked.connect(self._back)
        self.card.left.connect(self.leave)
        player, forks = self._page.player, self._page.change.forks
        signals = (
            *(player.opened, player.placed, player.selected, player.board_changed),
            *(forks.pin.clicked, continuations.ended, context.busy_changed, self._page.overview.known),
        )
        for signal in signals:
            signal.connect(self._look_soon)
        self._filtered: list[QWidget] = []

    @property
    def is_on(self) -> bool:
        return self._scene is not None

    @Slot()
    def start(self) -> None:
        """Begins, or begins again, with the first step. Does nothing if the recorded run cannot be opened."""
        before = self._before or Before.of(self._context, self._page)
        run = self._opened_run()
        if run is None:
            return
        self._before, self.course.place = before, 0
        self._scene = GuideScene(self._context, self._page, self._continuations, run)
        self.card.resize(self._page.width(), self.card.height())  # room is made for lines of this width
        self.card.reserve([step.words(GuideState(steps=48, changed_steps=11, changed_cells=50)) for step in STEPS])
        self.card.show()
        self._catch_escape()
        self._begin_step()
        self.card.next.setFocus()

    def _opened_run(self) -> engine.Recording | None:
        try:
            path = next((one.path for one in engine.gallery() if one.path.stem == RUN), None)
        except SafelightError as error:
            self._context.say(str(error))
            return None
        if path is not None:
            self._open_run(str(path))
        trace = self._page.player.trace
        return trace if trace is not None and trace.path == path else None

    @Slot()
    def leave(self) -> None:
        """Ends the guide, stops its run, and shows what was there before."""
        before = self._end()
        if before is not None:
            before.bring_back(self._page)
            self._context.navigator.show_page(before.page)
            before.bring_focus_back()

    def _end(self) -> Before | None:
        """Ends the guide. Returns what was there before; None if it had ended already."""
        before, self._before, self._scene = self._before, None, None
        self._looking.stop()
        if before is not None:
            self._continuations.stop()
            for widget in self._filtered:
                widget.removeEventFilter(self)
            self.ring.surround(None)
            self.card.hide()
        return before

    @Slot()
    def _next(self) -> None:
        """Does what the step asks for; if that is impossible, goes on without it."""
        if self._scene is None:
            return
        if self.course.is_at_end:
            self.leave()
            self._context.navigator.show_page(CHAT)
        elif self._problem():
            self.course.go(1)
            self._begin_step()
        else:
            self._scene.use(self.course.step)
            self._look_soon()

    @Slot()
    def _back(self) -> None:
        if self._scene is not None and self.course.go(-1):
            self._continuations.stop()
            self._begin_step()

    @Slot()
    def note_export(self) -> None:
        if self._scene is not None:
            self._scene.is_exported = True
            self._look_soon()

    @Slot()
    def _look_soon(self) -> None:
        if self._scene is not None:
            self._looking.start()

    @Slot()
    def _look(self) -> None:
        """Goes on if the step was done, by Next or by the user."""
        if self._scene is None:
            return
        if not self._scene.is_open:
            self._end()
        elif self.course.notice(self._scene.seen()):
            self._begin_step()
        else:
            self._say()

    def _begin_step(self) -> None:
        if self._scene is None:
            return
        self._scene.prepare(self.course.step)
        self._say()
        self._settling.start()
        if QApplication.focusWidget() in (None, self._page):  # the page takes the focus when it opens a run
            self.card.next.setFocus()

    @Slot()
    def _scroll(self) -> None:
        if self._scene is not None:
            self._scene.scroll_to(self.course.step)

    def _problem(self) -> str:
        is_run = self._scene is not None and self.course.step.is_pinned
        return self._scene.problem() if is_run and self._scene is not None else ""

    def _say(self) -> None:
        scene, course = self._scene, self.course
        if scene is None:
            return
        problem, waiting = self._problem(), self._continuations.reason_to_wait()
        said = course.step.words(scene.seen())
        if problem:
            said = tr("{problem} Next goes on without it.", problem=problem)
        elif waiting and course.step.is_pinned:
            said = tr("The changed run is written with the same random numbers. Watch the other cells.")
        act = tr("Try it with your own prompt") if course.is_at_end else ""
        self.card.show_step(course.title, said, act, can_go_back=course.place > 0)
        scene.show_ring(self.ring, course.step)

    def _catch_escape(self) -> None:
        """Takes Esc before the window does, and before grids of cells, which clear their selection with it."""
        self._filtered = [self._page.window(), *self._page.findChildren(GridView)]
        for widget in self._filtered:
            widget.installEventFilter(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        is_key = event.type() in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
        if not is_key or not isinstance(event, QKeyEvent) or event.key() != Qt.Key.Key_Escape:
            return False
        if self._scene is None or not self._page.isVisible():
            return False
        event.accept()
        if event.type() == QEvent.Type.KeyPress:
            self.leave()
        return True
