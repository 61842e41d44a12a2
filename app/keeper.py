"""Keeps a conversation in the library as it is on screen: its tree to rows, and rows to its tree. Knows no Qt."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import lru_cache

from app.library import Library, NewMessage, StoredMessage
from app.library.rows import details_of
from app.settings.values import SETTING_NAMES
from app.state.chat_state import Answer, ChatState, Decode, Status, Turn
from app.state.figures import Figures
from app.state.versions import Versions
from engine import GenerationConfig, SafelightError
from engine.files import is_bare_name

TRACE = "trace"  # among a message's settings
STATUSES: dict[str, Status] = {"done": "done", "stopped": "stopped", "failed": "failed"}


class Keeper:
    """Writes through to one library. Every method may raise ``LibraryError``; the tree in memory stands then too."""

    def __init__(self, library: Library) -> None:
        self.library = library

    # --- reading -----------------------------------------------------------------------------------------------------

    def open(self, conversation: int) -> ChatState:
        """The whole tree of a conversation, the path on show as it was left."""
        children: dict[int | None, list[StoredMessage]] = defaultdict(list)
        for message in self.library.messages(conversation):
            children[message.parent].append(message)
        chat = ChatState(system_prompt=self.library.conversation(conversation).system_prompt)
        pending: list[tuple[Versions[Turn], int | None]] = [(chat.first, None)]
        while pending:  # a loop, since a conversation may be deeper than Python's stack
            branch, parent = pending.pop()
            for row in children[parent]:
                turn = Turn(row.content, row.attachments, id=row.id)
                for reply in children[row.id]:
                    answer = _answer(reply)
                    turn.answers.items.append(answer)
                    pending.append((answer.following, reply.id))
                if not turn.answers.items:  # it was stored, and the app ended before its answer was
                    turn.answers.items.append(Answer(row.model, 0, GenerationConfig(), status="stopped"))
                turn.answers.show(_place_shown(children[row.id]))
                branch.items.append(turn)
            branch.show(_place_shown(children[parent]))
        return chat

    # --- writing -----------------------------------------------------------------------------------------------------

    def ask(self, conversation: int, chat: ChatState, turn: Turn) -> None:
        """Store a turn on the path on show: its prompt and its answers as they stand.

        What could not be stored of the turns before it, as when the disk was full, is stored as well.
        """
        parent = None
        for earlier in chat.turns:
            self._store(conversation, parent, earlier)
            if earlier is turn:
                return
            parent = earlier.answer.id

    def _store(self, conversation: int, parent: int | None, turn: Turn) -> None:
        if turn.id is None:
            turn.id = self.library.add(
                conversation, NewMessage(parent, "user", turn.prompt, attachments=turn.attachments)
            )
        for answer in turn.answers.items:
            if answer.id is None:
                answer.id = self.library.add(conversation, _row(turn.id, answer))

    def keep(self, answer: Answer, decode: Decode) -> None:
        """Store an answer as it stands: its draft while it develops, its text and figures when it has ended."""
        if answer.id is None:
            return
        text, thinking = decode(answer.draft_tokens()) if answer.is_active else (answer.text, answer.thinking)
        self.library.update(
            answer.id,
            content=text,
            thinking=thinking,
            status=answer.status,
            error=answer.error,
            figures=answer.figures.to_json(),
            settings=_settings(answer),
        )

    def show(self, item: Turn | Answer) -> None:
        """This version is on show."""
        if item.id is not None:
            self.library.show(item.id)

    def remove(self, item: Turn | Answer) -> None:
        """Take it out, with all that follows it."""
        if item.id is not None:
            self.library.remove(item.id)

    def put_back(self, item: Turn | Answer) -> None:
        """Undo ``remove``."""
        if item.id is not None:
            self.library.put_back(item.id)


def _settings(answer: Answer) -> str:
    """What the run was asked with, and which trace it left."""
    settings: dict[str, object] = {name: getattr(answer.config, name) for name in SETTING_NAMES}
    return json.dumps(settings | {TRACE: answer.trace_id})


def _row(parent: int, answer: Answer) -> NewMessage:
    return NewMessage(
        parent,
        "assistant",
        answer.text,
        answer.thinking,
        answer.status,
        answer.model_title,
        answer.seed,
        _settings(answer),
        answer.figures.to_json(),
        answer.error,
    )


def _answer(row: StoredMessage) -> Answer:
    config, trace_id = _read_settings(row.settings)
    answer = Answer(row.model, row.seed or 0, config, trace_id=trace_id, id=row.id)
    answer.status = STATUSES.get(row.status, "stopped")
    answer.text, answer.thinking, answer.error = row.content, row.thinking, row.error
    answer.kept = Figures.from_json(row.figures)
    return answer


def _read_settings(settings: str) -> tuple[GenerationConfig, str]:
    """The settings of a stored run, as far as they can be read (they are for reading only), and its trace's id."""
    try:
        stored = details_of(settings, "settings")
    except SafelightError:
        return GenerationConfig(), ""
    trace_id = stored.get(TRACE)
    values = tuple(stored.get(name) for name in SETTING_NAMES)
    known = all(value is None or type(value) in (int, float) for value in values)
    return _config(*values) if known else GenerationConfig(), trace_id if is_bare_name(trace_id) else ""


@lru_cache(256, typed=True)
def _config(*values: float | None) -> GenerationConfig:
    """The settings of those values, in the order of ``SETTING_NAMES``; a long conversation has most of them often."""
    given = {name: value for name, value in zip(SETTING_NAMES, values, strict=True) if value is not None}
    try:
        return GenerationConfig().replace(**given)
    except SafelightError:
        return GenerationConfig()


def _place_shown(rows: list[StoredMessage]) -> int:
    return next((index for index, row in enumerate(rows) if row.shown), len(rows) - 1)
