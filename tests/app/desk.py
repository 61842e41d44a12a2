"""A session with a stand-in engine and no window, what it has reported, and what is stored of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Slot

from app.bridge.engine_thread import EngineLink
from app.library import Library
from app.library.conversations import ConversationStore
from app.session import saving
from app.session.model_slot import ModelSlot
from app.session.session import Session
from app.settings.values import SettingsValues
from app.state.chat.conversation import ChatState, Turn
from engine.service import LoadedModel


class Desk(QObject):
    """Does for a session what the window does."""

    def __init__(self, fake: Any, library: Library, **link: Any) -> None:
        super().__init__()
        self.link = EngineLink(fake, **link)
        self.session = Session(library, self.link, SettingsValues(seed=5))
        self.slot = ModelSlot(self.link)
        self.failures: list[str] = []
        self.problems: list[str] = []
        self.returned: list[tuple[str, object, str]] = []
        self.session.failed.connect(self.note)
        self.session.saving.problem_changed.connect(self.note_problem)
        self.session.returned.connect(self.give_back)

    @property
    def model(self) -> LoadedModel | None:
        return self.slot.model

    @Slot(str, str)
    def note(self, text: str, _details: str) -> None:
        self.failures.append(text)

    @Slot(str)
    def note_problem(self, text: str) -> None:
        self.problems.append(text)

    @Slot(object, str)
    def give_back(self, turn: Turn, why: str) -> None:
        self.returned.append((turn.prompt, turn.attachments, why))

    @property
    def loaded(self) -> LoadedModel:
        assert self.model is not None
        return self.model


def shape(chat: ChatState) -> list[Any]:
    """The whole tree in plain values."""

    def turns(versions: Any) -> list[Any]:
        return [
            (
                turn.prompt,
                turn.attachments,
                turn is versions.current,
                [
                    (a.text, a.status, a.seed, a.model_title, a is turn.answer, turns(a.following))
                    for a in turn.answers.items
                ],
            )
            for turn in versions.items
        ]

    return turns(chat.first)


def stored(folder: Path) -> dict[str, list[Any]]:
    """All conversations as a start of the app would find them, by title."""
    library = Library.open(folder)
    assert saving.bring_in(library) == "" or library.summaries()
    found = [(summary.title, shape(ConversationStore(library).open(summary.id))) for summary in library.summaries()]
    library.close()
    assert len(dict(found)) == len(found)
    return dict(found)


class Lock:
    """Another program's hold of a library's file."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "library.sqlite", isolation_level=None)

    def hold(self) -> None:
        self._connection.execute("BEGIN EXCLUSIVE")

    def let_go(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()
