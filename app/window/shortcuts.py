"""The shortcut sheet: the keys of the current page, then those of every page. Knows only the list of actions."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QDialog, QFrame, QGridLayout, QPushButton, QScrollArea, QWidget

from app.design.action import Action, Actions, key_text
from app.design.controls import button, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.tokens import Theme
from app.system.i18n import tr


def style(theme: Theme) -> str:
    """Returns the sheet's rules, for the window's style sheet."""
    return f"""
QLabel[role="key"] {{
    background: {theme.surface_raised}; border: 1px solid {theme.line_strong}; border-radius: 4px; padding: 2px 8px;
    font-size: 12px;
}}
QLabel[role="section"] {{ font-size: 14px; font-weight: 600; }}
"""


class ShortcutSheet(QDialog):
    """Lists titles on the left and keys on the right. Esc closes it; the arrow keys scroll.

    The actions whose ids are ``offered`` also have a button.
    """

    def __init__(
        self, actions: Actions, page: str = "", parent: QWidget | None = None, offered: Sequence[str] = ()
    ) -> None:
        super().__init__(parent, modal=True)
        self.setWindowTitle(tr("Keyboard shortcuts"))
        self.setAccessibleName(tr("Keyboard shortcuts"))
        inside = QWidget()
        self._grid = QGridLayout(inside)
        self._grid.setContentsMargins(24, 8, 24, 16)
        self._grid.setHorizontalSpacing(24)
        self._grid.setVerticalSpacing(8)
        self._grid.setColumnStretch(0, 1)
        for section, members in actions.sections(page):
            shown = [action for action in members if action.keys]
            if shown:
                self._grid.setRowMinimumHeight(self._grid.rowCount(), 8)
                self._grid.addWidget(label(section, "section"), self._grid.rowCount(), 0, 1, 2)
            for action in shown:
                self._add(action)
        self._grid.setRowStretch(self._grid.rowCount(), 1)
        self.area = QScrollArea(widgetResizable=True)
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.area.setAccessibleName(tr("Shortcuts by section"))
        self.area.setWidget(inside)
        self.done_button = button(tr("Close"), tr("Close the shortcuts"), role="plain", clicked=self.accept)
        self.done_button.setDefault(True)
        self.offers = [self._offer(actions[action]) for action in offered]
        foot = row_of(*self.offers, STRETCH, self.done_button, margins=(24, 0, 24, 16))
        heading = label(tr("Keyboard shortcuts"), "title")
        heading.setContentsMargins(24, 0, 24, 0)
        self.setLayout(column_of(heading, (self.area, 1), foot, margins=(0, 16, 0, 0), spacing=8))
        self._fit()

    def _offer(self, action: Action) -> QPushButton:
        made = button(action.title, clicked=self.accept)
        made.setEnabled(not action.enabled())
        made.setToolTip(action.enabled())
        made.clicked.connect(action.run)
        return made

    def _add(self, action: Action) -> None:
        row = self._grid.rowCount()
        self._grid.addWidget(label(action.title, wrap=True), row, 0)
        keys = row_of(STRETCH, spacing=4)
        for sequence in action.keys:
            made = label(key_text(sequence), "key")
            made.setMinimumHeight(px(24))
            made.setAccessibleName(f"{action.title}, {key_text(sequence)}")
            keys.addWidget(made)
        self._grid.addLayout(keys, row, 1)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        room = self.screen().availableSize()
        self.resize(min(px(520), room.width() - 32), min(px(560), room.height() - 64))
