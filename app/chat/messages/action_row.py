"""The small parts of a message: its buttons, its figures, the thinking before it, and the switch of its versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Slot
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QProgressBar, QPushButton, QWidget

from app.chat.markdown_view.widget import PAD, MarkdownView
from app.design.controls import FlowLayout, FocusGroup, button, introduce, label, show_line
from app.design.icons import set_icon
from app.design.layouts import STRETCH, column_of, row_of
from app.system.i18n import tr, trn

_FOCUS = (QEvent.Type.FocusIn, QEvent.Type.FocusOut)


class ActionRow(QWidget):
    """Buttons that keep their space and their place in the tab order while they are invisible.

    They appear while the pointer is over ``message``; ``keep`` shows them at all times. Widgets given by ``also``
    appear and disappear with them.
    """

    def __init__(
        self, message: QWidget, *buttons: QPushButton, wraps: bool = True, also: Sequence[QWidget] = ()
    ) -> None:
        super().__init__()
        self._message = message
        self._controls = [*buttons, *(part for widget in also for part in _parts(widget))]
        self._is_pointed = self._is_kept = False
        row = FlowLayout(gap=16) if wraps else row_of(spacing=16)
        for each in buttons:
            row.addWidget(each)
        self.setLayout(row)
        for control in self._controls:
            control.installEventFilter(self)
        message.installEventFilter(self)

    @property
    def is_seen(self) -> bool:
        return self._is_kept or self._is_pointed or any(control.hasFocus() for control in self._controls)

    def keep(self, kept: bool) -> None:
        """Sets whether all are visible without the pointer."""
        if kept != self._is_kept:
            self._is_kept = kept
            self._repaint()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        kind = event.type()
        if watched is self._message:
            if kind in (QEvent.Type.Enter, QEvent.Type.Leave):
                self._is_pointed = kind == QEvent.Type.Enter
                self._repaint()
        elif kind in _FOCUS:
            self._repaint()
        return kind == QEvent.Type.Paint and watched is not self._message and not self.is_seen

    def _repaint(self) -> None:
        for control in self._controls:
            control.update()


def _parts(widget: QWidget) -> list[QWidget]:
    """Returns a widget and all that is painted in its window, without the lists that open from it."""
    return [widget, *(part for part in widget.findChildren(QWidget) if part.window() is widget.window())]


class FiguresLine(QWidget):
    """The line of figures; ``show_figures`` updates it. The second line is shown while the button is checked."""

    def __init__(self) -> None:
        super().__init__()
        self.line = label("", "caption", name=tr("Progress"))
        self.line.setMinimumWidth(1)  # so that it does not widen a narrow column
        self.more = button("", tr("More figures"), tip=tr("Entropy, temperature, speed and seed"), checkable=True)
        self.details = label("", "caption", wrap=True, selectable=True, name=tr("More figures"))
        self.details.hide()
        set_icon(self.more, "information-outline", "faint_ink")
        self.bar = introduce(QProgressBar(textVisible=False), tr("Tokens of the prompt that are read"), role="bar")
        self.bar.hide()
        first = row_of(self.line, self.more, STRETCH, spacing=8)
        self.setLayout(column_of(first, self.bar, self.details, spacing=4))
        self.more.toggled.connect(self.details.setVisible)

    def show_figures(self, line: str, details: str, read: tuple[int, int] | None = None) -> None:
        """Shows a line and the technical figures; either may be empty. ``read`` of all tokens of a prompt are a bar."""
        self.bar.setVisible(read is not None)
        if read is not None:
            self.bar.setRange(0, read[1])
            self.bar.setValue(read[0])
        show_line(self.line, line)
        self.details.setText(details)
        self.more.setVisible(bool(details))
        self.details.setVisible(bool(details) and self.more.isChecked())


class Thinking(QWidget):
    """A foldable text, hidden without thoughts. It is laid out when first unfolded."""

    def __init__(self, rebuilt: Callable[[], object]) -> None:
        super().__init__()
        self._thoughts = ""
        self.fold = button("", "", checkable=True)
        self.fold.toggled.connect(self._show)
        self.prose = MarkdownView(tr("Thinking"), markdown=False, quoted=True)
        self.prose.hide()
        self.prose.rebuilt.connect(rebuilt)
        self.setLayout(column_of(column_of(self.fold, margins=(PAD, 0, PAD, 0)), self.prose, spacing=4))
        self.hide()

    def set_thoughts(self, thoughts: str) -> None:
        """Shows thoughts; folds them if they are new ones rather than a continuation."""
        if thoughts != self._thoughts:
            if not self._thoughts or not thoughts.startswith(self._thoughts):
                self.fold.setChecked(False)
                self.prose.set_text("")
            self._thoughts = thoughts
        self._show()

    @Slot()
    def _show(self) -> None:
        is_open = self.fold.isChecked()
        number = len(self._thoughts.split())
        said = trn("Thinking, {count} word", "Thinking, {count} words", number)
        self.fold.setText(f"{said} {'▾' if is_open else '▸'}")
        name = tr("Fold the thinking. {said}", said=said) if is_open else tr("Show the thinking. {said}", said=said)
        self.fold.setAccessibleName(name)
        if is_open:
            self.prose.set_text(self._thoughts)
        self.prose.setVisible(is_open)
        self.updateGeometry()


class VersionSwitch(QWidget):
    """Two arrows and a label. ``choose`` is called with the index of the requested version."""

    def __init__(self, earlier: str, later: str, choose: Callable[[int], object]) -> None:
        super().__init__()
        self._shown = 0
        self.before = button("‹", earlier, clicked=lambda: choose(self._shown - 1))
        self.place = label("", "caption")
        self.after = button("›", later, clicked=lambda: choose(self._shown + 1))
        self.setLayout(row_of(self.before, self.place, self.after, spacing=4))
        for arrow in (self.before, self.after):
            arrow.setMinimumWidth(24)
        self._focus = FocusGroup(self.before, self.after)
        self.hide()

    def show_versions(self, shown: int, versions: int, *, can_switch: bool) -> None:
        """Shows the index of the shown version, counted from 0, and the number of versions."""
        self._shown = shown
        self.place.setText(f"{shown + 1}/{versions}")
        self.place.setAccessibleName(tr("Version {shown} of {versions}", shown=shown + 1, versions=versions))
        with self._focus:
            self.before.setEnabled(can_switch and shown > 0)
            self.after.setEnabled(can_switch and shown < versions - 1)
            self.setVisible(versions > 1)


def version_step(event: QKeyEvent, *, on_text: bool) -> int:
    """Returns how many versions a key goes on, or back below 0; 0 for other keys."""
    if event.matches(QKeySequence.StandardKey.Undo):
        return -1
    if event.matches(QKeySequence.StandardKey.Redo):
        return 1
    is_plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0) if on_text and is_plain else 0
