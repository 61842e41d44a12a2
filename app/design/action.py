"""Every named action of the app, declared once. Shortcuts, the shortcut sheet and the command palette are derived from
it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QApplication, QWidget

from app.design.text_field import TextField


def always() -> str:
    """Returns no reason: the action is always enabled."""
    return ""


def page_keys(page: str, section: str, run: Callable[[], object], *keys: tuple[str, tuple[str, ...]]) -> list[Action]:
    """Lists the keys that a page handles itself, for the shortcut sheet only.

    Args:
        run: goes to the place where the keys work.
        keys: the title and the keys of each."""
    return [
        Action(f"{page}-{section}-{place}", title, section, run, held, in_palette=False, page=page)
        for place, (title, held) in enumerate(keys)
    ]


@dataclass(frozen=True)
class Action:
    """A named action. ``title`` and ``section`` are in the user's language; each of ``keys``, as in "Ctrl+K", triggers
    it.

    ``enabled`` returns a sentence on why the action is impossible now; empty if it is possible.
    """

    id: str
    title: str
    section: str
    run: Callable[[], object]
    keys: tuple[str, ...] = ()
    enabled: Callable[[], str] = always
    in_palette: bool = True  # False for actions that are useful by key only
    is_quiet: bool = False  # if the action is impossible, its keys show no message
    page: str = ""  # the page that binds these keys itself, while it has the focus


def key_text(keys: str) -> str:
    """Returns a key sequence as the platform writes it."""
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)


class Actions:
    """The actions in the order in which they were added, with unique ids."""

    def __init__(self, actions: Iterable[Action] = ()) -> None:
        self._actions: dict[str, Action] = {}
        self.add(*actions)

    def __iter__(self) -> Iterator[Action]:
        return iter(self._actions.values())

    def __len__(self) -> int:
        return len(self._actions)

    def __getitem__(self, action_id: str) -> Action:
        return self._actions[action_id]

    def add(self, *actions: Action) -> None:
        """Adds actions, whose ids are new."""
        for action in actions:
            assert action.id not in self._actions, action.id
            self._actions[action.id] = action

    def sections(self, page: str = "") -> list[tuple[str, list[Action]]]:
        """Returns the actions of a page by section: its own first, then those available on every page."""
        by_section: dict[str, list[Action]] = {}
        for action in sorted(self, key=lambda action: not action.page):
            if action.page in (page, ""):
                by_section.setdefault(action.section, []).append(action)
        return list(by_section.items())

    def run(self, action_id: str) -> str:
        """Runs an action, or returns why it is impossible now."""
        action = self._actions[action_id]
        reason = action.enabled()
        if not reason:
            focused = QApplication.focusWidget()
            if isinstance(focused, TextField):
                focused.commit()
            action.run()
        return reason

    def bind(self, window: QWidget, refused: Callable[[str], object]) -> list[QShortcut]:
        """Binds the keys to a window; ``refused`` is called with the reason when the action of a key is impossible.

        A key without Ctrl or Alt, such as "?", goes to a focused text field first, which takes it as text.
        """
        shortcuts = []
        for action in self:
            for keys in () if action.page else action.keys:
                shortcut = QShortcut(QKeySequence(keys), window)
                shortcut.activated.connect(functools.partial(self._by_key, action.id, refused))
                shortcuts.append(shortcut)
        return shortcuts

    def _by_key(self, action_id: str, refused: Callable[[str], object]) -> None:
        reason = self.run(action_id)
        if reason and not self[action_id].is_quiet:
            refused(reason)
