"""Renames and deletes the user's recorded runs, after a question. Files are deleted in a thread."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QDialog

from app.bridge.background import Background
from app.design.question import ask, ask_name
from app.inspector.run_cards import RunCards
from app.system.i18n import tr, trn
from app.system.memory_use import size
from engine import SafelightError
from engine.trace import name_of, name_trace, removing, trace_files


class RunKeeping(QObject):
    """Serves the menus of cards; ``changed`` follows each change, and ``say`` gets why something stays."""

    changed = Signal()

    def __init__(self, runs: RunCards, folder: Path, say: Callable[[str], object]) -> None:
        super().__init__(runs)
        self._runs, self._folder, self._say = runs, folder, say
        self.question: QDialog | None = None
        self._counting = Background(self, self._ask_all)
        self._deleting = Background(self, self._deleted)
        runs.rename_asked.connect(self._ask_name)
        runs.delete_asked.connect(self._ask_one)
        runs.delete_all_asked.connect(self._count)

    @Slot(str)
    def _ask_name(self, key: str) -> None:
        text = tr("Name of the run; empty for its prompt:")
        self.question = ask_name(self._runs, text, name_of(Path(key)), functools.partial(self._name, Path(key)))

    def _name(self, path: Path, name: str) -> None:
        try:
            name_trace(path, name)
        except SafelightError as error:
            self._say(str(error))
        self.changed.emit()

    @Slot(str)
    def _ask_one(self, key: str) -> None:
        title = next((card.offer.title for card in self._runs.cards if card.offer.key == key), "")
        text = tr("Delete the recorded run “{title}”?", title=title)
        self.question = ask(self._runs, f"{text} {_consequence()}", functools.partial(self._delete, [Path(key)]))

    @Slot()
    def _count(self) -> None:
        self._counting.ask(lambda: [(path, status.st_size) for path, status in trace_files(self._folder)])

    @Slot(object)
    def _ask_all(self, found: list[tuple[Path, int]]) -> None:
        text = trn(
            "Delete your recorded run ({size})?",
            "Delete all {count} recorded runs ({size})?",
            len(found),
            size=size(sum(bytes for _, bytes in found)),
        )
        paths = [path for path, _ in found]
        self.question = ask(self._runs, f"{text} {_consequence()}", functools.partial(self._delete, paths))

    def _delete(self, paths: Sequence[Path]) -> None:
        self._deleting.ask(lambda: _delete(paths))

    @Slot(object)
    def _deleted(self, kept: list[str]) -> None:
        if len(kept) == 1:
            self._say(kept[0])
        elif kept:
            self._say(
                tr("{count} runs are open or still running, so they were kept. Try again later.", count=len(kept))
            )
        self.changed.emit()


def _consequence() -> str:
    return tr("Chats keep their texts, but can no longer show how they were written. This cannot be undone.")


def _delete(paths: Sequence[Path]) -> list[str]:
    """Deletes runs, each with its name; returns why some were kept."""
    kept = []
    for path in paths:
        try:
            with removing([path]):
                pass
        except SafelightError as error:
            kept.append(str(error))
    return kept
