"""The guided minute: goes through its steps on a recorded run in the inspector, and brings back what was there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QWidget

import engine
from app.canvas.grid_view import GridView
from app.context import CHAT, AppContext
from app.inspector.guide.before import Before
from app.inspector.guide.card import GuideCard
from app.inspector.guide.ring import Ring
from app.inspector.guide.scene import Scene
from app.inspector.guide.steps import RUN, STEPS, Course, Seen
from app.system.i18n import tr
from app.system.timers import later
from engine import SafelightError

if TYPE_CHECKING:
    from app.inspector.controller import InspectorController


class Guide(QObject):
    """Exists while the guide is on. Esc and Leave end it at any step; so does opening another run."""

    def __init__(self, context: AppContext, inspector: InspectorController) -> None:
        super().__init__(inspector)
        self._context, self._inspector, self._page = context, inspector, inspector.page
        self._course = Course()
        self._scene: Scene | None = None
        self._before: Before | None = None
        self.card, self.ring = GuideCard(), Ring(self._page)
        self._page.add_guide(self.card)
        self._looking = later(self, self._look)
        self.card.next_asked.connect(self._next)
        self.card.back_asked.connect(self._back)
        self.card.left.connect(self.leave)
        player, forks = self._page.player, self._page.change.forks
        signals = (
            *(player.opened, player.placed, player.selected, player.board_changed),
            *(forks.pin.clicked, inspector.going_on.ended, context.busy_changed, self._page.overview.known),
        )
        for signal in signals:
            signal.connect(self._look_soon)
        inspector.export_closed.connect(self._exported)
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
        self._before, self._scene, self._course.place = before, Scene(self._context, self._inspector, run), 0
        self.card.reserve([step.words(Seen(steps=48, changed_steps=11, changed_cells=50)) for step in STEPS])
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
            self._inspector.open_key(str(path))
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
            self._inspector.going_on.stop()
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
            self._looking.start()

    @Slot()
    def _back(self) -> None:
        if self._scene is not None and self._course.go(-1):
            self._inspector.going_on.stop()
            self._begin_step()

    @Slot()
    def _exported(self) -> None:
        if self._scene is not None:
            self._scene.is_exported = True
            self._looking.start()

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
        if QApplication.focusWidget() in (None, self._page):  # the page takes the focus when it opens a run
            self.card.next.setFocus()

    def _problem(self) -> str:
        is_run = self._scene is not None and self._course.step.is_pinned
        return self._scene.problem() if is_run and self._scene is not None else ""

    def _say(self) -> None:
        scene, course = self._scene, self._course
        if scene is None:
            return
        problem, waiting = self._problem(), self._inspector.going_on.reason_to_wait()
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
