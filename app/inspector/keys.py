"""The inspector's keys. They work in all of the inspector, except in fields that need them. Actions are run by id."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QTabBar, QWidget

from app.design.action import Action
from app.system.i18n import tr

_NO_KEYPAD = ~Qt.KeyboardModifier.KeypadModifier
_ACROSS = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End)


@dataclass(frozen=True)
class KeyAction:
    """An action of a key. ``title`` is English, shown through ``tr``. If ``repeats``, a held key repeats it."""

    id: str
    title: str
    key: str
    icon: str = ""  # of its button in the transport; without one it has none there
    repeats: bool = False


KEY_ACTIONS = (
    KeyAction("first", "To the beginning", "Home", "skip-backward"),
    KeyAction("change-back", "Previous change of the selected cell", "Shift+Left", "chevron-double-left", True),
    KeyAction("back", "One step back", "Left", "step-backward", True),
    KeyAction("play", "Play or pause", "Space", "play"),
    KeyAction("on", "One step on", "Right", "step-forward", True),
    KeyAction("change-on", "Next change of the selected cell", "Shift+Right", "chevron-double-right", True),
    KeyAction("last", "To the end", "End", "skip-forward"),
    KeyAction("event-back", "Previous event, or end of a block", "Shift+N", repeats=True),
    KeyAction("event-on", "Next event, or end of a block", "N", repeats=True),
)


def actions(page: str, run: Callable[[str], object]) -> list[Action]:
    """Returns the key actions as actions of a page that binds their keys itself."""
    section = tr("Going through a run")
    return [
        Action(
            f"run-{one.id}",
            tr(one.title),
            section,
            functools.partial(run, one.id),
            (one.key,),
            in_palette=False,
            page=page,
        )
        for one in KEY_ACTIONS
    ]


class Keys(QObject):
    """Binds the keys of ``KEY_ACTIONS`` in a widget and its children. Text fields take their keys first, as in Qt.

    A focused button or choice box keeps Space, a tab bar keeps the arrows, and an open list keeps all keys.
    """

    def __init__(self, run: Callable[[str], object], widget: QWidget) -> None:
        super().__init__(widget)
        self.shortcuts: list[QShortcut] = []
        for one in KEY_ACTIONS:
            shortcut = QShortcut(
                QKeySequence(one.key),
                widget,
                context=Qt.ShortcutContext.WidgetWithChildrenShortcut,
                autoRepeat=one.repeats,
            )
            shortcut.activated.connect(functools.partial(run, one.id))
            self.shortcuts.append(shortcut)

    def set_enabled(self, enabled: bool) -> None:
        """Enables the keys if a run is open."""
        for shortcut in self.shortcuts:
            shortcut.setEnabled(enabled)

    def watch(self, widget: QWidget) -> None:
        """Lets the lists of a widget's choice boxes keep their keys: they are windows of their own."""
        for choice in widget.findChildren(QComboBox):
            choice.view().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        return super().eventFilter(watched, event)


def keeps(event: QEvent) -> bool:
    """True if the focused widget needs a key itself. Called before a shortcut takes the key."""
    if not isinstance(event, QKeyEvent) or event.modifiers() & _NO_KEYPAD:
        return False
    focused, key = QApplication.focusWidget(), Qt.Key(event.key())
    if isinstance(focused, QTabBar):
        return key in _ACROSS
    return key == Qt.Key.Key_Space and isinstance(focused, QAbstractButton | QComboBox)
