"""The guided minute: goes through its steps on a recorded run in the inspector, and brings back what was there."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QWidget

import engine
from app.canvas.grid_view import GridView
from app.context import CHAT, AppContext
from app.inspector.going_on import GoingOn
from app.inspector.guide.before import Before
from app.inspector.guide.card import GuideCard
from app.inspector.guide.ring import Ring
from app.inspector.guide.scene import GuideScene
from app.inspector.guide.steps import RUN, STEPS, Course, GuideState
from app.inspector.page import InspectorPage
from app.system.i18n import tr
from app.system.timers import later
from engine import SafelightError


class Guide(QObject):
    """Can be started again. Esc and Leave end it at any step; so does opening another run.

    ``open_run`` opens a run in the inspector by the path of its file.
    """

    def __init__(
        self, context: AppContext, page: InspectorPage, going_on: GoingOn, open_run: Callable[[str], object]
    ) -> None:
        super().__init__(page)
        self._context, self._page, self._going_on, self._open_run = context, page, going_on, open_run
        self._course = Course()
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
            *(forks.pin.clicked, going_on.ended, context.busy_changed, self._page.overview.known),
        )
        for signal in signals:
            signal.connect(self._look_soon)
        self._filtered: list[QWidget] = []

    @property
    def is_on(self) -> bool:
        return self._scene is not None

    @property
    def course(self) -> Course:
        """The place among the steps."""
        return self._course

    @Slot()
    def start(self) -> None:
        """Begins, or begins again, with the first step. Does nothing if the recorded run cannot be opened."""
        before = self._before or Before.of(self._context, self._page)
        run = self._opened_run()
        if run is None:
            return
        self._before, self._course.place = before, 0
        self._scene = GuideScene(self._context, self._page, self._going_on, run)
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
            self._context.show_page(before.page)
            before.bring_focus_back()

    def _end(self) -> Before | None:
        """Ends the guide. Returns what was there before; None if it had ended already."""
        before, self._before, self._scene = self._before, None, None
        self._looking.stop()
        if before is not None:
            self._going_on.stop()
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
        if self._course.is_at_end:
            self.leave()
            self._context.show_page(CHAT)
        elif self._problem():
            self._course.go(1)
            self._begin_step()
        else:
            self._scene.use(self._course.step)
            self._look_soon()

    @Slot()
    def _back(self) -> None:
        if self._scene is not None and self._course.go(-1):
            self._going_on.stop()
            self._begin_step()

    @Slot()
    def note_export(self) -> None:
        """Notes that the export dialog was closed."""
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
        elif self._course.notice(self._scene.seen()):
            self._begin_step()
        else:
            self._say()

    def _begin_step(self) -> None:
        if self._scene is None:
            return
        self._scene.prepare(self._course.step)
        self._say()
        self._settling.start()
        if QApplication.focusWidget() in (None, self._page):  # the page takes the focus when it opens a run
            self.card.next.setFocus()

    @Slot()
    def _scroll(self) -> None:
        if self._scene is not None:
            self._scene.scroll_to(self._course.step)

    def _problem(self) -> str:
        is_run = self._scene is not None and self._course.step.is_pinned
        return self._scene.problem() if is_run and self._scene is not None else ""

    def _say(self) -> None:
        scene, course = self._scene, self._course
        if scene is None:
            return
        problem, waiting = self._problem(), self._going_on.reason_to_wait()
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
