"""The steps of the guided minute as data, the inspector as it uses it through the controls of the page, and the ring
around what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, Slot
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QPushButton, QWidget

from app.canvas.grid_view import GridView
from app.context import AppContext
from app.design import themes
from app.design.controls import reveal
from app.design.tokens import RADIUS, color
from app.inspector.continuations import Continuations
from app.inspector.page import CELL as CELL_TAB
from app.inspector.page import CHANGE, InspectorPage
from app.player.player import NOTHING
from app.system.i18n import tr, trn
from app.system.timers import later
from engine import Recording

RUN = "sudoku-stuck"  # file name in the gallery: a Sudoku that does not settle
CELL, DIGIT = 0, "5"  # a position that stays unsure, and its right digit, the likeliest one at the first step
PLAY, BOARD, EVENT, PIN, CONTINUE, EXPORT, NONE = "play", "board", "event", "pin", "run", "export", ""
"""The controls that steps speak of."""


@dataclass(frozen=True)
class GuideState:
    """The state of the inspector, as far as the steps depend on it."""

    place: int = 0  # of the shown frame
    last: int = 0  # place of the last frame
    selection: int = NOTHING
    is_taken_back: bool = False  # the selected cell, at the shown frame
    is_pinned: bool = False  # a change pins a cell
    steps: int = 0  # of the recorded run
    changed_steps: int = 0  # of the changed run; 0 before it has ended
    changed_cells: int = 0  # cells with another digit at the end of the changed run, without the pinned one
    is_exported: bool = False  # the export dialog was opened and closed


@dataclass(frozen=True)
class GuideStep:
    """A step. ``control`` is ringed, and Next uses it; ``is_done`` notices that it was used."""

    title: str  # in English, shown through ``tr``
    words: Callable[[GuideState], str]
    control: str
    is_done: Callable[[GuideState], bool]
    at_end: bool = False  # begins at the last frame of the recorded run instead of its noise
    cell: int = NOTHING  # selected at the beginning
    is_pinned: bool = False  # begins with the pinned cell


def _export_words(seen: GuideState) -> str:
    asked = tr("Export it as a film, a picture or a web page.")
    if not seen.changed_steps:
        return asked
    changed = trn(
        "With the pin it took {steps} steps, not {before}, and {count} other digit came out differently.",
        "With the pin it took {steps} steps, not {before}, and {count} other digits came out differently.",
        seen.changed_cells,
        steps=seen.changed_steps,
        before=seen.steps,
    )
    return f"{changed} {asked}"


STEPS = (
    GuideStep(
        "Start",
        lambda _seen: tr("A small model solves a Sudoku. It starts from noise and tries all cells at once. Play it."),
        PLAY,
        lambda seen: seen.place >= seen.last,
    ),
    GuideStep(
        "Doubt",
        lambda seen: tr(
            "After {steps} steps the board is still not settled. Select the ringed cell to see between which digits "
            "the model wavered.",
            steps=seen.steps,
        ),
        BOARD,
        lambda seen: seen.selection == CELL,
        at_end=True,
    ),
    GuideStep(
        "Taken back",
        lambda _seen: tr(
            "A digit that was accepted can be taken back once the others disagree. Go to the last time that happened."
        ),
        EVENT,
        lambda seen: seen.is_taken_back,
        at_end=True,
        cell=CELL,
    ),
    GuideStep(
        "Pin a cell",
        lambda _seen: tr(
            "Here is the noise again. Pin the first cell to {digit}, its right digit; then it stays so in all steps.",
            digit=DIGIT,
        ),
        PIN,
        lambda seen: seen.is_pinned,
        cell=CELL,
    ),
    GuideStep(
        "See the rest change",
        lambda _seen: tr("Run it with this change."),
        CONTINUE,
        lambda seen: seen.changed_steps > 0,
        cell=CELL,
        is_pinned=True,
    ),
    GuideStep("Export", _export_words, EXPORT, lambda seen: seen.is_exported),
    GuideStep(
        "", lambda _seen: tr("That was the minute. What you had open here comes back."), NONE, lambda _seen: False
    ),
)
"""The steps in order. The last one only ends the guide and is not counted."""
COUNTED = len(STEPS) - 1


class Course:
    def __init__(self) -> None:
        self.place = 0

    @property
    def step(self) -> GuideStep:
        return STEPS[self.place]

    @property
    def is_at_end(self) -> bool:
        """True once all counted steps are done."""
        return self.place == COUNTED

    @property
    def title(self) -> str:
        if self.is_at_end:
            return tr("Guided minute")
        return tr(
            "Guided minute · {number} of {count} · {title}",
            number=self.place + 1,
            count=COUNTED,
            title=tr(self.step.title),
        )

    def notice(self, seen: GuideState) -> bool:
        """Goes on if the step is done. Returns True if it went on."""
        return self.step.is_done(seen) and self.go(1)

    def go(self, by: int) -> bool:
        """Goes on (1) or back (-1). Returns False at either end."""
        before, self.place = self.place, max(0, min(self.place + by, COUNTED))
        return self.place != before


MARGIN, LINE_WIDTH = 4, 2  # pixels around the part, and of the line
_MOVES = (QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Show, QEvent.Type.Hide)


def whole(target: QWidget) -> QRect:
    """Returns the visible part of a widget, in its own coordinates; empty if nothing of it is visible."""
    return target.visibleRegion().boundingRect()


class Ring(QWidget):
    """Lies over ``host``, above its other children."""

    def __init__(self, host: QWidget) -> None:
        super().__init__(host)
        self._host = host
        self.target: QWidget | None = None  # the ringed widget
        self._part: Callable[[QWidget], QRect] = whole
        self._watched: list[QWidget] = []
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._placing = later(self, self._place)
        self.hide()

    def surround(self, target: QWidget | None, part: Callable[[QWidget], QRect] = whole) -> None:
        """Rings a descendant of the host, or the part of it that ``part`` returns; None removes the ring."""
        if target is not None and (target, part) == (self.target, self._part):
            self._placing.start()
            return
        for widget in self._watched:
            widget.removeEventFilter(self)
        self._watched = []
        self.target, self._part = target, part
        while target is not None:
            target.installEventFilter(self)
            self._watched.append(target)
            target = None if target is self._host else target.parentWidget()
        self._place()
        self._placing.start()  # again once the layout has settled

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        if event.type() in _MOVES:
            self._placing.start()
        return False

    @Slot()
    def _place(self) -> None:
        target = self.target
        part = QRect() if target is None or not target.isVisible() else self._part(target)
        if target is None or part.isEmpty():
            self.hide()
            return
        corner = target.mapTo(self._host, QPoint())
        self.setGeometry(part.translated(corner).adjusted(-MARGIN, -MARGIN, MARGIN, MARGIN))
        self.show()
        self.raise_()

    def paintEvent(self, _event: QPaintEvent) -> None:
        inset = LINE_WIDTH / 2
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(color(themes.current().accent), LINE_WIDTH))
            painter.drawRoundedRect(self.rect().toRectF().adjusted(inset, inset, -inset, -inset), RADIUS, RADIUS)


def _cell(view: QWidget) -> QRect:
    """Returns the rectangle of the cell that is spoken of, in the grid that shows it."""
    assert isinstance(view, GridView)
    return QRect(*view.grid.rect_of(view.cell_of(CELL)))


class GuideScene:
    """The recorded run of the guide, open in the inspector, or the run that was made from it."""

    def __init__(self, context: AppContext, page: InspectorPage, continuations: Continuations, run: Recording) -> None:
        self._context, self._page, self._continuations = context, page, continuations
        self.run = run
        self.is_exported = False
        self._buttons: dict[str, QPushButton] = {
            PLAY: page.transport.buttons["play"],
            EVENT: page.captions.back,
            PIN: page.change.forks.pin,
            CONTINUE: page.change.forks.run,
            EXPORT: page.export_button,
        }

    @property
    def is_open(self) -> bool:
        """True while the run, or one made from it, is open."""
        trace = self._page.player.trace
        if trace is None:
            return False
        parent = trace.header.parent
        return trace is self.run or (parent is not None and parent.id == self.run.header.id)

    @property
    def _is_changed(self) -> bool:
        """True once the changed run is open and has ended."""
        player = self._page.player
        has_ended = not self._continuations.is_forking and not self._page.is_live
        return player.trace is not self.run and self.is_open and has_ended

    def seen(self) -> GuideState:
        player, overview, forks = self._page.player, self._page.overview, self._page.change.forks
        record, frame, selection = player.block, player.frame, player.selection
        is_step = record is not None and frame is not None and 0 <= frame.step < record.steps
        has_cell = record is not None and 0 <= selection < record.length
        is_changed = self._is_changed and record is not None
        return GuideState(
            place=player.place,
            last=0 if player.replay is None else len(player.replay.frames) - 1,
            selection=selection,
            is_taken_back=bool(
                is_step
                and has_cell
                and record is not None
                and frame is not None
                and record.taken_back[frame.step, selection]
            ),
            is_pinned=forks.has_pin,
            steps=len(self.run.steps),
            changed_steps=sum(overview.steps) if is_changed else 0,
            changed_cells=self._changed_cells() if is_changed else 0,
            is_exported=self.is_exported,
        )

    def _changed_cells(self) -> int:
        """Returns the number of cells whose digit differs at the end of both runs, without the pinned one."""
        player, other = self._page.player, self._page.compare.other
        placed, one = player.sudoku, player.block
        two = other.block
        if placed is None or one is None or two is None:
            return 0
        cells = np.array([position for position in placed.positions if position != CELL])
        return int((one.snapshots[-1].tokens(calm=True)[cells] != two.snapshots[-1].tokens(calm=True)[cells]).sum())

    def problem(self) -> str:
        """Returns why the changed run cannot be made; empty if it can, or is being made."""
        forks = self._page.change.forks
        if self._continuations.reason_to_wait():
            return ""
        return forks.problem.text() or ("" if forks.run.isEnabled() else forks.reason.text())

    def prepare(self, step: GuideStep) -> None:
        """Shows the frame, the cell and the tab with which a step begins."""
        page, player, forks = self._page, self._page.player, self._page.change.forks
        self.is_exported = False
        if step.control not in (PLAY, BOARD, EVENT, PIN, CONTINUE):
            page.show_view(int(self._is_changed))
            return
        page.show_view(0)
        if player.trace is not self.run or (forks.has_pin and not step.is_pinned):
            page.open_trace(self.run, 0)
        player.pause()
        player.set_board(True)
        player.go(self.seen().last if step.at_end else 0)
        player.select(step.cell)
        page.side.setCurrentIndex(CHANGE if step.control in (PIN, CONTINUE) else CELL_TAB)
        if step.control == PIN:
            forks.token.setCurrentIndex(0)  # a text typed before would stay
        if step.is_pinned and not self.seen().is_pinned:
            forks.pin.click()

    def scroll_to(self, step: GuideStep) -> None:
        """Brings a step's control into sight, if it is in an area that scrolls."""
        reveal(self._buttons.get(step.control, self._page.canvas))

    def show_ring(self, ring: Ring, step: GuideStep) -> None:
        if step.control == BOARD:
            canvas = self._page.canvas
            ring.surround(canvas.board if canvas.shows_board else canvas.view, _cell)
        else:
            ring.surround(self._buttons.get(step.control), whole)

    def use(self, step: GuideStep) -> None:
        """Does what a step asks for, by its control. What is being shown slowly is skipped to its end."""
        player, continuations = self._page.player, self._continuations
        if step.control == BOARD:
            player.select(CELL)
        elif step.control == PLAY and player.is_playing:
            self._page.run("last")
        elif step.control == CONTINUE and continuations.reason_to_wait():
            if self._context.backend.pacing.is_computed:
                continuations.stop()
        elif step.control in self._buttons:
            self._buttons[step.control].click()
