"""Chats that are killed in the middle, and how one sees afterwards whether anything was lost."""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

# Imported before the forks, so that none of them pays for it.
from PySide6.QtCore import QCoreApplication, QObject, QTimer, Slot

from app.bridge.engine_thread import EngineLink
from app.library import Library
from app.library.conversations import ConversationStore
from app.session.model_slot import ModelSlot
from app.session.session import Session
from app.settings.values import SettingsValues
from app.state.chat.attachment import AttachedPicture
from engine import MINI, StepFinished
from engine.trace import open_trace
from tests.engine.drawn import picture
from tests.fake_engine import FakeEngine

Facts = list[dict[str, Any]]


class Report(Protocol):
    """Sends a fact to the process that kills; what is sent is safe from the kill."""

    def __call__(self, **facts: object) -> None: ...


class Chat:
    """Conversations that are asked in, renamed and deleted from, their pictures, and the traces of their runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def work(self, report: Report) -> None:
        """Begin, or go on; report each fact once it is on screen."""
        app = QCoreApplication([])
        library = Library.open(self.folder)
        desk = _Desk(library, self.folder, random.Random(os.getpid()), report)
        desk.finished = app.quit
        app.exec()
        desk.link.shutdown()
        desk.session.close()

    def lost(self, facts: Facts) -> list[str]:
        """List what was reported since the round began and is not there."""
        library = Library.open(self.folder)
        try:
            if library.notice:
                return [library.notice]
            return [*self._lost_turns(library, facts), *self._lost_titles(library, facts)]
        finally:
            library.close()

    def _lost_turns(self, library: Library, facts: Facts) -> Iterator[str]:
        found: dict[str, Any] = {}
        for summary in library.summaries():
            chat = ConversationStore(library).open(summary.id)
            for turn in chat.turns:
                found[turn.prompt] = turn
        gone = {fact["removing"] for fact in facts if "removing" in fact}
        for fact in facts:
            if fact.get("removed") in found:
                yield f"deleted and back: {fact['removed']}"
            if "asked" in fact and fact["asked"] not in found and fact["asked"] not in gone:
                yield f"asked and not there: {fact['asked']}"
            for digest, width, height in fact.get("shown", ()) if fact.get("asked") in found else ():
                is_named = digest in {picture.digest for picture in found[fact["asked"]].pictures}
                if not is_named or library.pictures.get(digest, width, height) is None:
                    yield f"a picture of: {fact['asked']}"
        drafts = {fact["prompt"]: fact for fact in facts if "draft" in fact}  # the last of each
        for prompt, fact in drafts.items():
            if prompt in gone or prompt not in found:
                continue
            answer = found[prompt].answer
            if fact["done"] and (answer.status, answer.text) != ("done", fact["draft"]):
                yield f"finished: {fact['draft']!r}; on the disk, {answer.status}: {answer.text!r}"
            steps = answer.figures.steps
            if not fact["done"] and steps < fact["steps"]:
                yield f"on screen: step {fact['steps']}; on the disk: {steps}"
            if not fact["done"] and steps == fact["steps"] and answer.text != fact["draft"]:
                yield f"on screen: {fact['draft']!r}; on the disk: {answer.text!r}"
            if fact["trace"] and fact["steps"] and (kept := _steps_of(Path(fact["trace"]))) < fact["steps"]:
                yield f"on screen: step {fact['steps']}; its trace has {kept}"

    def _lost_titles(self, library: Library, facts: Facts) -> Iterator[str]:
        titles = {summary.id: summary.title for summary in library.summaries()}
        wanted: dict[int, set[str]] = {}
        for fact in facts:
            if "renaming" in fact:
                wanted.setdefault(fact["conversation"], set()).add(fact["renaming"])
            if "renamed" in fact:
                wanted[fact["conversation"]] = {fact["renamed"]}
        for conversation, names in wanted.items():
            first_kept = next((f["title"] for f in facts if f.get("conversation") == conversation and "title" in f), "")
            if titles.get(conversation) not in names | {first_kept}:
                yield f"renamed to one of {sorted(names)}; on the disk: {titles.get(conversation)!r}"


def _steps_of(path: Path) -> int:
    trace = open_trace(path)
    return sum(isinstance(trace.event(index), StepFinished) for index in range(len(trace.entries)))


class _Desk(QObject):
    """A user who asks, renames and deletes, and reports what is on screen."""

    finished: Callable[[], None]

    def __init__(self, library: Library, folder: Path, draw: random.Random, report: Report) -> None:
        super().__init__()
        fake = FakeEngine(folder / "traces")
        fake.able = dataclasses.replace(fake.able, images=True)
        fake.steps, fake.blocks = 5, 3
        self.link = EngineLink(fake)
        self.session = Session(library, self.link, SettingsValues(seed=draw.randrange(1000)))
        self.library, self.draw, self.report, self.left = library, draw, report, 12
        self.slot = ModelSlot(self.link)
        self.slot.changed.connect(self._arrived)
        self.session.progressed.connect(self._progressed)
        self.session.settled.connect(self._progressed)
        self.session.ended.connect(self._ended)
        self.slot.load(MINI)

    @property
    def model(self) -> Any:
        return self.slot.model

    @Slot()
    def _arrived(self) -> None:
        if self.model is not None:
            QTimer.singleShot(0, self._act)

    def _act(self) -> None:
        """Ask something, in a new conversation or the open one."""
        self.left -= 1
        if self.left < 0:
            self.finished()
            return
        if self.draw.random() < 0.3:
            self.session.open_new()
        prompt, shown = f"prompt {self.draw.getrandbits(48):x}", ()
        if self.draw.random() < 0.5:  # few pictures, so that several prompts show one
            drawn = picture(self.draw.choice(("red", "green", "blue")))
            self.library.pictures.keep(drawn)
            shown = (AttachedPicture("", drawn.digest, drawn.width, drawn.height),)
        self.session.ask(prompt, (), self.model, shown)
        self.report(asked=prompt, shown=[(one.digest, one.width, one.height) for one in shown])

    @Slot()
    def _progressed(self) -> None:
        turn = self.session.chat.turns[-1]
        answer = turn.answer
        decoded = answer.draft(self.model.decode).text if answer.is_active else answer.text
        path = getattr(answer.trace, "path", None)
        self.report(
            prompt=turn.prompt, draft=decoded, steps=answer.figures.steps, done=answer.status == "done",
            trace="" if path is None else str(path),
        )  # fmt: skip

    @Slot()
    def _ended(self) -> None:
        conversation = self.session.conversation
        assert conversation is not None
        if self.draw.random() < 0.5:
            name = f"title {self.draw.getrandbits(48):x}"
            title = self.library.conversation(conversation).title
            self.report(conversation=conversation, title=title, renaming=name)
            self.library.describe(conversation, title=name)
            self.report(conversation=conversation, renamed=name)
        if len(self.session.chat.turns) > 1 and self.draw.random() < 0.3:
            turn = self.session.chat.turns[-1]
            self.report(removing=turn.prompt)
            self.session.remove(turn)
            self.report(removed=turn.prompt)
        QTimer.singleShot(0, self._act)
