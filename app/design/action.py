"""Everything the app can do by name, declared once: shortcuts, their sheet and the command palette are derived."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget


def always() -> str:
    """Nothing stands against it."""
    return ""


def page_keys(page: str, section: str, run: Callable[[], object], *keys: tuple[str, tuple[str, ...]]) -> list[Action]:
    """Keys that a page has itself, for the shortcut sheet alone: titles and keys; ``run`` goes to where they work."""
    return [
        Action(f"{page}-key-{place}", title, section, run, held, in_palette=False, page=page)
        for place, (title, held) in enumerate(keys)
    ]


@dataclass(frozen=True)
class Action:
    """``title`` and ``section`` are in the user's language; ``keys`` as in "Ctrl+K", any of which will do.

    ``enabled`` returns why it cannot be done now, in a sentence; empty if it can.
    """

    id: str
    title: str
    section: str
    run: Callable[[], object]
    keys: tuple[str, ...] = ()
    enabled: Callable[[], str] = always
    in_palette: bool = True  # False for what only makes sense as a key
    is_quiet: bool = False  # by its keys it says nothing where it cannot be done
    page: str = ""  # whose keys these are: that page binds them itself, for as long as the keyboard is in it


def key_text(keys: str) -> str:
    """A key sequence as the platform writes it."""
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)


class Actions:
    """The actions in the order in which they were added, with unique ids and keys."""

    def __init__(self, actions: Iterable[Action] = ()) -> None:
        self._actions: dict[str, Action] = {}
        self._owner_of_key: dict[tuple[str, str], str] = {}  # page and key
        self.add(*actions)

    def __iter__(self) -> Iterator[Action]:
        return iter(self._actions.values())

    def __len__(self) -> int:
        return len(self._actions)

    def __getitem__(self, action_id: str) -> Action:
        return self._actions[action_id]

    def add(self, *actions: Action) -> None:
        """Declare further actions.

        Raises:
            ValueError: an id or a key is taken, or a key is none. A fault of the program, not of its user.
        """
        for action in actions:
            if action.id in self._actions:
                raise ValueError(f"there are two actions {action.id!r}")
            for keys in action.keys:
                written = QKeySequence(keys).toString(QKeySequence.SequenceFormat.PortableText)
                if not written:
                    raise ValueError(f"{keys!r} of {action.id!r} is no key")
                for (page, known), owner in self._owner_of_key.items():
                    if known == written and (page == action.page or not page or not action.page):
                        raise ValueError(f"{keys!r} is a key of {owner!r} and of {action.id!r}")
                self._owner_of_key[action.page, written] = action.id
            self._actions[action.id] = action

    def sections(self, page: str = "") -> list[tuple[str, list[Action]]]:
        """What can be done on a page, by section: those of the page alone first, then what can be done anywhere."""
        found: dict[str, list[Action]] = {}
        for action in sorted(self, key=lambda action: not action.page):
            if action.page in (page, ""):
                found.setdefault(action.section, []).append(action)
        return list(found.items())

    def run(self, action_id: str) -> str:
        """Do it, or return why it cannot be done now."""
        action = self._actions[action_id]
        reason = action.enabled()
        if not reason:
            action.run()
        return reason

    def bind(self, window: QWidget, refused: Callable[[str], object]) -> list[QShortcut]:
        """Give the window their keys; ``refused`` takes why a key does nothing now.

        A key without Ctrl or Alt, such as "?", goes to a text field first, which takes it as text.
        """
        made = []
        for action in self:
            for keys in () if action.page else action.keys:
                shortcut = QShortcut(QKeySequence(keys), window)
                shortcut.activated.connect(functools.partial(self._by_key, action.id, refused))
                made.append(shortcut)
        return made

    def _by_key(self, action_id: str, refused: Callable[[str], object]) -> None:
        reason = self.run(action_id)
        if reason and not self[action_id].is_quiet:
            refused(reason)
