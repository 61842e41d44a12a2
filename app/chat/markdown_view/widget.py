"""A widget that shows a text, Markdown or plain, with one selection across all of it. Knows no conversations.

The layout is made once per width, that of long texts a little at a time. Only the visible part is drawn. No resources
that the text names are loaded. Formulas and the colours of programs arrive later, from ``side_process``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

from PySide6.QtCore import QEvent, QMimeData, QPointF, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
    QTextCursor,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from app.chat.markdown_view import PAD as PAD
from app.chat.markdown_view.blocks import safe
from app.chat.markdown_view.controls import Controls, LinkRing, ask_to_open
from app.chat.markdown_view.document import Style
from app.chat.markdown_view.parse import html_of
from app.chat.markdown_view.section import BETWEEN, Link, Section
from app.chat.markdown_view.sheet import Selection, Sheet, rows_of, shown_part
from app.chat.markdown_view.side_process import side_process
from app.chat.markdown_view.slow import Job
from app.design import themes
from app.design.controls import button, chain_tabs, grow_with_width, show_tip
from app.design.text_field import raw_text
from app.design.tokens import color, set_inks
from app.library.search import Term, spans
from app.system.i18n import tr
from app.system.timers import later

AT_ONCE, AGAIN_AT_ONCE, SLICE = 0.06, 0.03, 0.008
"""Seconds of layout when a text is set, when its width changes, and each time that Qt is idle."""
TOGETHER_MS = 60  # for which finished pictures and colours are collected, as each makes a paragraph anew
MAX_DESCRIBED = 20_000
CARET = 1.3  # its height, in heights of the letters


Offers = Sequence[tuple[str, Callable[[], object]]]
"""Titles and what each does."""
_EXTENDING = {
    Qt.Key.Key_Left: (QTextCursor.MoveOperation.PreviousCharacter, QTextCursor.MoveOperation.PreviousWord),
    Qt.Key.Key_Right: (QTextCursor.MoveOperation.NextCharacter, QTextCursor.MoveOperation.NextWord),
    Qt.Key.Key_Up: (QTextCursor.MoveOperation.Up, QTextCursor.MoveOperation.Up),
    Qt.Key.Key_Down: (QTextCursor.MoveOperation.Down, QTextCursor.MoveOperation.Down),
    Qt.Key.Key_Home: (QTextCursor.MoveOperation.StartOfLine, QTextCursor.MoveOperation.StartOfLine),
    Qt.Key.Key_End: (QTextCursor.MoveOperation.EndOfLine, QTextCursor.MoveOperation.EndOfLine),
}
"""What Shift with a key does to the end of the selection, and with Ctrl, too."""


class MarkdownView(QWidget):
    """Shows the text given to ``set_text``. ``tab_stops`` are the widget and its controls, in order."""

    rebuilt = Signal()  # the controls changed
    entered = Signal()  # Enter was pressed on a selection

    def __init__(self, name: str, *, markdown: bool = True, quoted: bool = False) -> None:
        super().__init__(accessibleName=name, focusPolicy=Qt.FocusPolicy.StrongFocus, mouseTracking=True)
        self._text = ""
        self._markdown = markdown
        self._quoted = quoted  # with a vertical line at its left
        self._style = Style.now()
        self._whole = False
        self._sheet = Sheet((), self._style)
        self._controls = Controls(self)
        self._laid_for = -1
        self._working = later(self, self._work)
        self._finished: set[Job] = set()  # that are still to be put in
        self._applying = later(self, self._apply_finished)
        side_process().done.connect(self._note_finished)
        self._selection, self._links = Selection(self._sheet), LinkRing(self._sheet.sections)
        self._terms: tuple[Term, ...] = ()  # that are marked
        self._marks: dict[Section, list[tuple[int, int]]] = {}  # known ones
        self._pressed_link = ""
        self._by_keyboard = False
        self.has_caret = False
        self.quote: Callable[[str], object] | None = None  # puts a selected text into the prompt
        self.offers: Offers = ()  # further entries of the menu while something is selected
        self.show_all = button("", tr("Show all"), role="chip", clicked=self._show_whole)
        self.show_all.setParent(self)
        self.show_all.hide()
        themes.changed.connect(self._restyle)
        grow_with_width(self, QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)

    def text(self) -> str:
        """Returns the text as it was given: the Markdown source."""
        return self._text

    def set_text(self, text: str) -> None:
        """Shows another text; does nothing for the same one."""
        if text != self._text:
            self._text = text
            self._whole = False
            self.setAccessibleDescription(safe(text[:MAX_DESCRIBED]))
            self._build()

    def mark(self, terms: tuple[Term, ...]) -> None:
        """Marks all places of these terms; if the part shown at first has none, all of the text is shown."""
        if terms == self._terms:
            return
        self._terms = terms
        self._marks.clear()
        if terms and not self._whole and not spans(shown_part(self._text), terms) and spans(self._text, terms):
            self._whole = True
            self._build()
        self.update()

    def first_mark(self) -> int | None:
        """Returns the top of the first mark, in pixels; None if there is none, or it is not laid out yet."""
        marked = ((section, marks[0]) for section in self._sheet.shown if (marks := self._marks_in(section)))
        return next((round(section.span_rect(*mark).top()) for section, mark in marked), None)

    @property
    def is_laid_out(self) -> bool:
        """True if all of the shown text is laid out."""
        return self._sheet.is_done

    def _marks_in(self, section: Section) -> list[tuple[int, int]]:
        if self._terms and section not in self._marks:
            text = raw_text(section.document)
            units = [0, *accumulate(2 if ord(letter) > 0xFFFF else 1 for letter in text)]  # as Qt counts positions
            self._marks[section] = [(units[start], units[end]) for start, end in spans(text, self._terms)]
        return self._marks.get(section, [])

    def set_caret(self, is_on: bool) -> None:
        """Draws a caret behind the text while it grows, or none."""
        if is_on != self.has_caret:
            self.has_caret = is_on
            self.update()

    @Slot()
    def _restyle(self) -> None:
        style = Style.now()
        if style != self._style:
            self._style = style
            self._build()

    @property
    def sections(self) -> list[Section]:
        """The sections of the text that have been read, in order."""
        return self._sheet.sections

    def tab_stops(self) -> list[QWidget]:
        """Returns this widget, then its controls, in tab order."""
        return [self, *self._controls.in_order(self.sections), self.show_all]

    def _build(self) -> None:
        shown = self._text if self._whole else shown_part(self._text)
        self._controls.clear()
        self._marks.clear()
        self._working.stop()
        self._sheet = Sheet(rows_of(shown, markdown=self._markdown, quoted=self._quoted), self._style)
        self._selection, self._links = Selection(self._sheet), LinkRing(self._sheet.sections)
        self._finished.clear()
        self._sheet.read(AT_ONCE)
        self._find_controls()
        self.show_all.setVisible(len(shown) < len(self._text))
        if len(shown) < len(self._text):
            self.show_all.setText(tr("Show all {count} characters", count=f"{len(self._text):,}"))
            self.show_all.setAccessibleName(self.show_all.text())
        self._laid_for = -1
        if self.isVisible():
            self._lay_out(self.width())
            self._put_controls()
        self.rebuilt.emit()
        self.updateGeometry()
        self.update()

    def _find_controls(self) -> None:
        """Adds buttons for newly read programs, and looks for links again."""
        self._controls.add_buttons(self.sections)
        self._links.look_again()

    @Slot()
    def _show_whole(self) -> None:
        self._whole = True
        self.setFocus()
        self._build()

    def heightForWidth(self, width: int) -> int:
        self._lay_out(width)
        return self._height

    def sizeHint(self) -> QSize:
        return QSize(480, self._height)  # without a layout, which is only worth making for the final width

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self._style.pixels)

    def showEvent(self, _event: QShowEvent) -> None:
        self._lay_out(self.width())
        self._put_controls()

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._lay_out(self.width())
        self._put_controls()

    @property
    def _height(self) -> int:
        below = BETWEEN + self.show_all.sizeHint().height() if not self.show_all.isHidden() else 0
        return self._sheet.height + below

    def _lay_out(self, width: int) -> None:
        """Lays out for another width as far as possible at once; leaves the rest to ``_work``."""
        if width == self._laid_for:
            return
        self._sheet.set_width(PAD, max(80, width - 2 * PAD))
        self._sheet.lay_out(AT_ONCE if self._laid_for < 0 else AGAIN_AT_ONCE)
        self._laid_for = width
        if not self._sheet.is_done:
            self._working.start()

    @Slot()
    def _work(self) -> None:
        self._sheet.lay_out(SLICE)
        self._find_controls()
        if self._sheet.is_done:
            self.rebuilt.emit()
        else:
            self._working.start()
        self._show_layout()

    @Slot(object)
    def _note_finished(self, jobs: set[Job]) -> None:
        if any(section.waits_for(jobs) for section in self.sections):
            self._finished |= jobs
            if not self._applying.isActive():
                self._applying.start(TOGETHER_MS)

    @Slot()
    def _apply_finished(self) -> None:
        """Puts in finished pictures and colours. A selection ends with the first picture, which is one character."""
        if any(section.code is None and section.waits_for(self._finished) for section in self.sections):
            self._selection = Selection(self._sheet)
        if self._sheet.apply(self._finished, SLICE):
            self._finished.clear()
        else:
            self._applying.start(0)
        self._marks.clear()
        self._links.look_again()
        self._show_layout()

    def _show_layout(self) -> None:
        self._put_controls()
        self.updateGeometry()
        self.update()

    def _put_controls(self) -> None:
        if self._controls.put(self._sheet.shown):
            chain_tabs(self, self.tab_stops()[1:])
        if not self.show_all.isHidden():
            size = self.show_all.sizeHint()
            self.show_all.setGeometry(PAD, self._height - size.height(), size.width(), size.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            exposed = event.rect()
            ringed = self._ring()
            for number, section in enumerate(self._sheet.shown):
                if not section.rect.intersects(exposed.adjusted(0, -24, 0, 24)):
                    continue
                link = ringed[1] if ringed is not None and ringed[0] == number else None
                section.paint(painter, exposed, self._selection.within(number), link, self._marks_in(section))
                if section.code is not None:
                    section.paint_header(painter)
            if self.has_caret and self._sheet.shown:
                last = self._sheet.shown[-1]
                end = last.document.characterCount() - 1
                corner = last.span_rect(end - 1, end).topRight()
                caret = QRectF(corner.x() + 1, corner.y(), 2, self._style.pixels * CARET)
                painter.fillRect(caret, color(self._style.theme.accent))
            if self.hasFocus() and self._by_keyboard and ringed is None:
                set_inks(painter, color(self._style.theme.focus), Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), 4, 4)

    def selected_text(self) -> str:
        """Returns the selected text as it is copied; empty without a selection."""
        return self._selection.text()

    def text_before_selection(self) -> str:
        """Returns the shown text before the selection, as it is copied."""
        return self._selection.before()

    @Slot()
    def select_all(self) -> None:
        """Selects the whole text, including the part not yet laid out."""
        if self.sections:
            self._selection.select_all()
            self.update()

    @Slot()
    def copy(self) -> None:
        """Copies the selection, or without one the source of the whole text."""
        QGuiApplication.clipboard().setText(self.selected_text() or self._text)

    @Slot()
    def copy_rich(self) -> None:
        """Copies the whole text as HTML, for office programs, and as its source."""
        data = QMimeData()
        data.setText(self._text)
        data.setHtml(html_of(self._text))
        QGuiApplication.clipboard().setMimeData(data)

    def _link_at(self, point: QPointF) -> str:
        return next((address for section in self._sheet.shown if (address := section.link_at(point))), "")

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            super().mousePressEvent(event)
            return
        self._by_keyboard = False
        self._links.leave()
        self._pressed_link = self._link_at(event.position())
        selection = self._selection
        selection.cursor = selection.place_at(event.position())
        if not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            selection.anchor = selection.cursor
        self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            place = self._selection.place_at(event.position())
            if place != self._selection.cursor:
                self._selection.cursor = place
                self.update()
            return
        over_text = any(section.inner.contains(event.position().toPoint()) for section in self._sheet.shown)
        shape = Qt.CursorShape.IBeamCursor if over_text else Qt.CursorShape.ArrowCursor
        self.setCursor(Qt.CursorShape.PointingHandCursor if self._link_at(event.position()) else shape)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed_link = self._pressed_link, ""
        if pressed and self._selection.is_empty and self._link_at(event.position()) == pressed:
            ask_to_open(pressed, self)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if self.sections:
            self._selection.select_word(self._selection.place_at(event.position()))
            self._pressed_link = ""
            self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolls the box under the pointer sideways, by a horizontal wheel or with Shift."""
        sideways = event.pixelDelta().x() or event.angleDelta().x() // 2
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and not sideways:
            sideways = event.angleDelta().y() // 2
        if sideways and self._controls.scroll(event.position().toPoint(), sideways):
            event.accept()
        else:
            event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        ringed = self._ring()
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and ringed is not None:
            ask_to_open(ringed[1].address, self)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not self._selection.is_empty:
            self.entered.emit()
        elif event.key() in _EXTENDING and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            by_words = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            self._selection.extend(_EXTENDING[Qt.Key(event.key())][by_words])
            self.update()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        reasons = Qt.FocusReason
        self._by_keyboard = event.reason() in (reasons.TabFocusReason, reasons.BacktabFocusReason)
        if event.reason() == reasons.BacktabFocusReason:
            self._links.to_last()
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self._links.leave()
        self.update()

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Moves Tab through the links before it leaves the widget."""
        if self.hasFocus() and self._links.step(1 if forward else -1):
            self._by_keyboard = True
            self.update()
            return True
        return super().focusNextPrevChild(forward)

    def _ring(self) -> tuple[int, Link] | None:
        return self._links.ringed if self.hasFocus() else None

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        selected = bool(self.selected_text())
        menu.addAction(tr("Copy selection") if selected else tr("Copy all"), self.copy)
        if self._markdown:
            menu.addAction(tr("Copy all as rich text"), self.copy_rich)
        menu.addAction(tr("Select all"), self.select_all)
        if selected and self.quote is not None:
            menu.addAction(tr("Quote in the prompt"), partial(self.quote, self.selected_text()))
        if selected and self.offers:
            menu.addSeparator()
            for title, act in self.offers:
                menu.addAction(title, act)
            menu.addSeparator()
        address = self._link_at(QPointF(event.pos()))
        if address:
            clipboard = QGuiApplication.clipboard()
            menu.addAction(tr("Copy the address"), lambda: clipboard.setText(address))
            menu.addAction(tr("Open…"), lambda: ask_to_open(address, self))
        menu.popup(event.globalPos())

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            show_tip(event, safe(self._link_at(QPointF(event.pos()))), self)
            return True
        return super().event(event)
