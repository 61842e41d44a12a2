"""Stores a conversation's tree as rows of the library, and reads rows back as a tree. Knows no Qt."""

from __future__ import annotations

import contextlib
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from app.library import Library, LibraryError, NewMessage, StoredMessage, Summary, Whole, title_of
from app.library.records import LONGEST_DETAILS, ROUNDS, details_of
from app.library.records import Status as StoredStatus
from app.settings.values import OWN_DECODING, SAMPLER, DecodingChoice
from app.state.chat.calls import rounds_from_json, rounds_to_json
from app.state.chat.conversation import Answer, ChatState, Decode, Status, Turn
from app.state.chat.versions import Versions
from app.state.run.stats import RunFigures
from engine import GenerationConfig, SafelightError
from engine.files import is_bare_name

TRACE, MODEL, ADAPTER = "trace", "model", "adapter"  # keys in a message's settings
LONGEST_PLACE = 4096  # characters of a path
TurnPath = Sequence[tuple[Turn, Answer]]
"""Turns from the first on, each with the answer that the next turn follows."""

STATUSES: dict[str, Status] = {"done": "done", "stopped": "stopped", "failed": "failed"}


class ConversationStore:
    """Writes the changes of conversations to one library.

    Every method may raise ``LibraryError`` and can then be called again: nothing is stored twice, even if the failure
    came after the data was written. The tree in memory stays valid.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self._begun: dict[object, float] = {}  # when storing an unstored item was first tried
        self._begun_last = 0.0

    def open(self, conversation: int) -> ChatState:
        """Returns the whole tree of a conversation, with the path that was shown last."""
        children: dict[int | None, list[StoredMessage]] = defaultdict(list)
        for message in self.library.messages(conversation):
            children[message.parent].append(message)
        summary = self.library.conversation(conversation)
        chat = ChatState(system_prompt=summary.system_prompt, preset=summary.preset, id=conversation)
        pending: list[tuple[Versions[Turn], int | None]] = [(chat.first, None)]
        while pending:  # a loop, since a conversation may be deeper than Python's stack
            branch, parent = pending.pop()
            for row in children[parent]:
                turn = Turn(row.content, row.attachments, row.pictures, id=row.id)
                for reply in children[row.id]:
                    answer = _answer(reply)
                    turn.answers.items.append(answer)
                    pending.append((answer.following, reply.id))
                if not turn.answers.items:  # the app ended before the answer was stored
                    turn.answers.items.append(Answer(row.model, 0, GenerationConfig(), status="stopped"))
                turn.answers.show(_place_shown(children[row.id]))
                branch.items.append(turn)
            branch.show(_place_shown(children[parent]))
        return chat

    def ask(self, chat: ChatState, path: TurnPath, model: str) -> None:
        """Stores the turn at the end of a path, unstored turns before it, and a new conversation.

        ``model`` is a path or an id.
        """
        if chat.id is None:
            created = self._begun_at(chat)
            chat.id = self.library.create(
                title=title_of(path[0][0].prompt),
                system_prompt=chat.system_prompt,
                preset=chat.preset,
                model=model,
                created=created,
            )
            del self._begun[chat]
        parent = None
        for turn, answer in path:
            if turn.id is None:
                turn.id = self._add(chat.id, turn, _prompt_row(parent, turn))
            if answer.id is None:
                answer.id = self._add(chat.id, answer, _row(turn.id, answer))
            parent = answer.id

    def _add(self, conversation: int, item: Turn | Answer, row: NewMessage) -> int:
        id = self.library.add(conversation, row, self._begun_at(item))
        del self._begun[item]
        return id

    def _begun_at(self, item: object) -> float:
        """Returns the time at which storing an item was first tried, which is unique and so identifies it later."""
        if item not in self._begun:
            self._begun[item] = self._begun_last = max(self.library.now(), math.nextafter(self._begun_last, math.inf))
        return self._begun[item]

    def describe(self, chat: ChatState) -> None:
        """Stores a conversation's system prompt and preset."""
        if chat.id is not None:
            self.library.describe(chat.id, system_prompt=chat.system_prompt, preset=chat.preset)

    def keep(self, answer: Answer, decode: Decode) -> None:
        """Stores an answer in its present state: the draft while it is generated, else its text and figures."""
        if answer.id is None:
            return
        text, thinking = answer.draft(decode) if answer.is_active else (answer.text, answer.thinking)
        self.library.update(
            answer.id,
            content=text,
            thinking=thinking,
            status=_status(answer),
            error=answer.error,
            figures=answer.figures.to_json(),
            settings=_settings(answer),
        )

    def show(self, item: Turn | Answer) -> None:
        """Stores that this version is shown."""
        if item.id is not None:
            self.library.show(item.id)

    def remove(self, item: Turn | Answer) -> None:
        """Removes an item and everything that follows it, until ``put_back``."""
        if item.id is not None:
            self.library.remove(item.id)

    def forget(self, chat: ChatState) -> None:
        """Deletes a conversation that nobody would restore; the next prompt in it begins a new one."""
        if chat.id is not None:
            self.library.lapse(chat.id)
            chat.id = None

    def put_back(self, item: Turn | Answer) -> None:
        """Undoes ``remove``."""
        if item.id is not None:
            self.library.put_back(item.id)

    def whole(self, chat: ChatState) -> Whole:
        """Returns a conversation as it is in memory, for export even if the library cannot be written."""
        now = self.library.now()
        messages = tuple(_messages(chat, now))
        summary = Summary(0, title_of(messages[0].content) if messages else "", now, now)
        if chat.id is not None:
            with contextlib.suppress(LibraryError):
                summary = self.library.conversation(chat.id)
        summary = replace(summary, system_prompt=chat.system_prompt, preset=chat.preset)
        return Whole(summary, messages, self.library.pictures.of(messages))


def _status(answer: Answer) -> StoredStatus:
    return "developing" if answer.status == "calling" else answer.status


def _settings(answer: Answer) -> str:
    """Returns a run's settings, its model and adapter, and the id of its trace, as JSON."""
    names = (*SAMPLER, *asdict(OWN_DECODING))
    settings: dict[str, object] = {name: getattr(answer.config, name) for name in names}
    rounds = {ROUNDS: rounds_to_json(answer.rounds, LONGEST_DETAILS // 2)} if answer.rounds else {}
    return json.dumps(settings | {TRACE: answer.trace_id, MODEL: answer.model, ADAPTER: answer.adapter} | rounds)


def _messages(chat: ChatState, now: float) -> Iterator[StoredMessage]:
    """Yields the tree as messages, parents before their children."""
    pending: list[tuple[Versions[Turn], int | None]] = [(chat.first, None)]
    count = 0
    while pending:
        branch, parent = pending.pop()
        for turn in branch.items:
            count += 1
            prompt = count
            yield _stored(_prompt_row(parent, turn), prompt, now, turn is branch.current)
            for answer in turn.answers.items:
                count += 1
                yield _stored(_row(prompt, answer), count, now, answer is turn.answers.current)
                pending.append((answer.following, count))


def _stored(row: NewMessage, id: int, created: float, shown: bool) -> StoredMessage:
    return StoredMessage(**vars(row), id=id, created=created, shown=shown)


def _prompt_row(parent: int | None, turn: Turn) -> NewMessage:
    return NewMessage(parent, "user", turn.prompt, attachments=turn.attachments, pictures=turn.pictures)


def _row(parent: int, answer: Answer) -> NewMessage:
    return NewMessage(
        parent,
        "assistant",
        answer.text,
        answer.thinking,
        _status(answer),
        answer.model_title,
        answer.seed,
        _settings(answer),
        answer.figures.to_json(),
        answer.error,
    )


def _answer(row: StoredMessage) -> Answer:
    try:
        stored = details_of(row.settings, "settings")
    except SafelightError:
        stored = {}
    trace_id, model, adapter = stored.get(TRACE), _place(stored.get(MODEL)), _place(stored.get(ADAPTER))
    answer = Answer(row.model, row.seed or 0, _read_config(stored), model=model, adapter=adapter or None, id=row.id)
    answer.trace_id = trace_id if is_bare_name(trace_id) else ""
    answer.rounds = rounds_from_json(stored.get(ROUNDS))
    answer.status = STATUSES.get(row.status, "stopped")
    answer.text, answer.thinking, answer.error = row.content, row.thinking, row.error
    answer.kept = RunFigures.from_json(row.figures)
    return answer


def _place(raw: object) -> str:
    """Returns the stored id or folder of a model; empty if it is not a valid text."""
    return raw if isinstance(raw, str) and len(raw) <= LONGEST_PLACE and "\0" not in raw else ""


def _read_config(stored: dict[str, Any]) -> GenerationConfig:
    """Returns the settings of a stored run, for display only; the defaults if they cannot be read."""
    values = tuple(stored.get(name) for name in SAMPLER)
    known = all(value is None or type(value) in (int, float) for value in values)
    return _config(DecodingChoice.read(stored), *values) if known else GenerationConfig()


@lru_cache(256, typed=True)
def _config(decoding: DecodingChoice, *values: float | None) -> GenerationConfig:
    """Returns settings from values in the order of ``SAMPLER``.

    Cached, since most answers of a long conversation have the same settings.
    """
    overrides = {name: value for name, value in zip(SAMPLER, values, strict=True) if value is not None}
    try:
        return GenerationConfig().replace(**overrides, **decoding.changes)
    except SafelightError:
        return GenerationConfig()


def _place_shown(rows: list[StoredMessage]) -> int:
    return next((index for index, row in enumerate(rows) if row.shown), len(rows) - 1)
