"""The model's thinking before its answer, folded by default."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QWidget

from app.chat.markdown_view.widget import PAD, MarkdownView
from app.design.controls import button
from app.design.layouts import column_of
from app.system.i18n import tr, trn


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
        head = column_of(self.fold, margins=(PAD, 0, PAD, 0))
        self.setLayout(column_of(head, self.prose, spacing=4))
        self.hide()

    def set_thoughts(self, thoughts: str) -> None:
        """Shows thoughts; folds them if they are new ones rather than a continuation."""
        if thoughts != self._thoughts:
            if not self._thoughts or not thoughts.startswith(self._thoughts):
                self.fold.setChecked(False)
                self.prose.set_text("")
            self._thoughts = thoughts
        self._show()

    def tab_stops(self) -> list[QWidget]:
        return [self.fold, *self.prose.tab_stops()]

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
