"""The inspector's keys, wherever in it the keyboard is, except where a field needs them. Knows commands by id only."""

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
class Command:
    """What keys do. ``title`` is in English; shown through ``tr``. Held down, only those that repeat do it again."""

    id: str
    title: str
    keys: tuple[str, ...]
    repeats: bool = False


COMMANDS = (
    Command("play", "Play or pause", ("Space",)),
    Command("reverse", "Play backwards, again for faster", ("J",)),
    Command("pause", "Pause", ("K",)),
    Command("forward", "Play, again for faster", ("L",)),
    Command("back", "One step back", ("Left",), repeats=True),
    Command("on", "One step on", ("Right",), repeats=True),
    Command("change-back", "Previous change of the selected cell", ("Shift+Left",), repeats=True),
    Command("change-on", "Next change of the selected cell", ("Shift+Right",), repeats=True),
    Command("event-back", "Previous event, or end of a block", ("Shift+N",), repeats=True),
    Command("event-on", "Next event, or end of a block", ("N",), repeats=True),
    Command("first", "First frame", ("Home",)),
    Command("last", "Last frame", ("End",)),
    Command("loop", "Loop, or no longer", ("O",)),
)


def actions(page: str, run: Callable[[str], object]) -> list[Action]:
    """The commands as actions of a page, which has their keys itself."""
    section = tr("Going through a run")
    return [
        Action(
            f"run-{one.id}",
            tr(one.title),
            section,
            functools.partial(run, one.id),
            one.keys,
            in_palette=False,
            page=page,
        )
        for one in COMMANDS
    ]


class Keys(QObject):
    """Gives a widget, and all that is in it, the keys of ``COMMANDS``. Fields that are typed in come first, as in Qt.

    Space is left to a button or a choice that has the keyboard, the arrows to a row of tabs, all keys to open lists.
    """

    def __init__(self, run: Callable[[str], object], widget: QWidget) -> None:
        super().__init__(widget)
        self.shortcuts: list[QShortcut] = []
        for one in COMMANDS:
            for keys in one.keys:
                made = QShortcut(QKeySequence(keys), widget)
                made.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
                made.setAutoRepeat(one.repeats)
                made.activated.connect(functools.partial(run, one.id))
                self.shortcuts.append(made)

    def set_enabled(self, enabled: bool) -> None:
        """Whether there is a run to go through."""
        for made in self.shortcuts:
            made.setEnabled(enabled)

    def watch(self, widget: QWidget) -> None:
        """Look after the lists of a widget's choices, which are windows of their own."""
        for choice in widget.findChildren(QComboBox):
            choice.view().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        return super().eventFilter(watched, event)


def keeps(event: QEvent) -> bool:
    """Whether what has the keyboard needs a key itself; asked before a shortcut takes it."""
    if not isinstance(event, QKeyEvent) or event.modifiers() & _NO_KEYPAD:
        return False
    focused, key = QApplication.focusWidget(), Qt.Key(event.key())
    if isinstance(focused, QTabBar):
        return key in _ACROSS
    return key == Qt.Key.Key_Space and isinstance(focused, QAbstractButton | QComboBox)
