"""The state of a conversation, folded from the events of its runs. Knows neither Qt nor torch.

A conversation is a tree: a prompt has versions of its answer, and an answer has versions of the prompt after it. One
path through the tree is shown, the ``turns``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from app.state.chat.attachment import AttachedPicture, Attachment, with_attachments
from app.state.chat.calls import ToolRound
from app.state.chat.rewriting import Rewriting
from app.state.chat.versions import Versions
from app.state.run.canvas import CanvasState
from app.state.run.stats import RunFigures, RunStats
from app.system.i18n import tr, trn
from engine import (
    CanvasCommitted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    Recording,
    Reply,
    TextArrived,
)
from engine.text.message import Message
from engine.text.repeating import repeats
from engine.trace import Draft

Status = Literal["waiting", "developing", "calling", "done", "stopped", "failed"]
Decode = Callable[[Iterable[int]], Reply]


@dataclass(eq=False, repr=False)
class Answer:
    """One version of an answer. ``text`` is shown, copied and stored; it is empty until the run has ended."""

    model_title: str
    seed: int
    config: GenerationConfig
    model: str = ""  # the id of an embedded model, or a folder; empty if it is not known
    adapter: str | None = None
    is_text: bool = False  # True if the backend reports no steps
    stats: RunStats = field(init=False)
    status: Status = "waiting"
    text: str = ""
    thinking: str = ""
    settled: list[Reply] = field(default_factory=list)  # the reply after each committed block of the run
    read: tuple[int, int] | None = None  # tokens of a long prompt that are read, and all of them
    is_stopping: bool = False  # the user has asked for its end
    error: str = ""
    kept: RunFigures | None = None  # of an answer from the library
    trace: Recording | None = None  # of a run of this session
    trace_id: str = ""  # of the trace's file
    following: Versions[Turn] = field(default_factory=Versions)
    id: int | None = None  # in the library
    rewriting: Rewriting | None = None  # of this session: how it is written, if not by the prompt alone
    is_reviewed: bool = False  # the changes of a revision were accepted or rejected
    rounds: list[ToolRound] = field(default_factory=list)  # of tool calls, before the text

    def __post_init__(self) -> None:
        self._begin_run()

    def _begin_run(self) -> None:
        self.stats = RunStats(CanvasState.under(self.config))
        self._draft = Draft(self.config.eos_token_ids)

    def begin_calls(self, tool_round: ToolRound) -> None:
        """Turns the finished run into a round of calls; the next run goes on behind their results."""
        tool_round.trace, tool_round.trace_id = self.trace, self.trace_id
        self.rounds.append(tool_round)
        self.settled, self.text, self.thinking, self.trace, self.trace_id, self.read = [], "", "", None, "", None
        self.status = "calling"
        self._begin_run()

    @property
    def canvas(self) -> CanvasState:
        """The canvases of the run; empty for an answer from the library."""
        return self.stats.canvases

    @property
    def figures(self) -> RunFigures:
        """The figures of the run so far, or the stored ones."""
        return self.kept or self.stats.figures

    @property
    def has_trace(self) -> bool:
        """True if the run was recorded step by step, so that it can be inspected."""
        return (self.trace is not None or bool(self.trace_id)) and not self.is_plain

    @property
    def is_plain(self) -> bool:
        """True if the answer came as text only, from a backend that reports no steps."""
        ended = self.status == "done" or bool(self.text)  # a run that was stopped early has no blocks either
        return self.is_text or (self.kept is not None and ended and not self.kept.blocks)

    @property
    def is_active(self) -> bool:
        return self.status in ("waiting", "developing", "calling")

    @property
    def is_empty(self) -> bool:
        """True if the run ended by itself without a visible character."""
        return self.status == "done" and not self.text.strip()

    @property
    def revised(self) -> str:
        """The text that this one is a revision of, while its changes are to be accepted; else empty."""
        how = self.rewriting
        is_open = how is not None and how.noise > 0 and self.status == "done" and not self.is_reviewed
        return str(how.outline[0]) if is_open and how is not None and self.text.strip() else ""

    def with_text(self, text: str) -> Answer:
        """Returns a further version with another text, which a person made of this one."""
        answer = Answer(self.model_title, self.seed, self.config, self.model, self.adapter, self.is_text)
        answer.status, answer.text, answer.kept = "done", text, RunFigures()
        answer.rewriting, answer.is_reviewed = self.rewriting, True
        return answer

    def fold(self, event: Event, decode: Decode) -> None:
        self.canvas.fold(event)
        self.stats.count(event)
        self._draft.fold(event)
        if isinstance(event, PrefillFinished | TextArrived):
            self.status = "developing"
        elif isinstance(event, CanvasCommitted):
            self.settled.append(self.draft(decode))
        elif isinstance(event, GenerationFinished):
            self.text, self.thinking = self.draft(decode)
            self.status = "stopped" if event.reason == "cancelled" else "done"

    def fail(self, message: str, decode: Decode) -> None:
        """Ends the answer with an error; its text so far is kept."""
        self.status = "failed"
        self.error = message
        self.text, self.thinking = self.draft(decode)

    def stop(self, decode: Decode) -> None:
        """Ends the answer as stopped; its text so far is kept."""
        self.status = "stopped"
        self.text, self.thinking = self.draft(decode)

    @property
    def tokens(self) -> list[int]:
        """The tokens of the run so far; none if it came as text."""
        return self._draft.tokens()

    @property
    def is_growing(self) -> bool:
        """True if the last block holds a part of growing text: the text says all that it would."""
        return self.canvas.current is not None and self.canvas.current.grows

    def so_far(self, decode: Decode | None) -> Reply:
        """Returns the text to show during the run: the committed blocks, all of growing text, or what has arrived."""
        if self._draft.is_text:
            return self._draft.arrived
        block = self.canvas.current
        if decode is None or block is None or not block.grows or block.committed:
            return self.settled[-1] if self.settled else Reply("")
        written = block.shown[np.logical_and.accumulate(block.accepted_mask)].tolist()
        text, thinking = decode([*self._draft.committed, *written])
        return Reply(text.rstrip("\ufffd"), thinking.rstrip("\ufffd"))  # of a character that is not whole yet

    def draft(self, decode: Decode) -> Reply:
        """Returns the draft's tokens decoded to text and thinking."""
        return self._draft.reply(decode)

    @property
    def _repeats(self) -> bool:
        text = self.text or self.thinking
        return repeats(text) or repeats(f"{text}\n")

    def notices(self) -> list[str]:
        """Returns sentences about an error, an empty or cut answer, and blocks that did not converge."""
        said = [self.error] if self.error else []
        if self.is_empty and self.thinking:
            said.append(tr("The model only thought and wrote no answer. Regenerate, or allow more new tokens."))
        elif self.is_empty and (self.is_plain or not self.config.is_block_diffusion):
            said.append(tr("The model ended without writing anything. Regenerate, or ask in other words."))
        elif self.is_empty:
            said.append(tr("The model ended without writing anything. Regenerate to try another seed."))
        elif self.status == "done" and self.figures.is_cut and self._repeats:
            said.append(tr("The answer repeated itself: it was ended when the same line stood there five times."))
        elif self.status == "done" and self.figures.is_cut:
            said.append(tr("The answer is cut off at the limit of new tokens. Allow more of them, and regenerate."))
        capped, blocks = self.figures.capped_blocks, self.figures.blocks
        if capped and blocks == 1:
            said.append(tr("The model ran out of steps; this text is unfinished."))
        elif capped:
            said.append(
                trn(
                    "The model ran out of steps in {count} of {blocks} blocks; the text may be unfinished.",
                    "The model ran out of steps in {count} of {blocks} blocks; the text may be unfinished.",
                    capped,
                    blocks=blocks,
                )
            )
        return said + self._stalled()

    def _stalled(self) -> list[str]:
        """Returns a sentence about blocks that had become no surer; none without such blocks."""
        stalled, blocks = self.figures.stalled_blocks, self.figures.blocks
        if not stalled:
            return []
        if blocks == 1:
            return [tr("The model became no surer of this text, and was stopped. It may be wrong or unfinished.")]
        said = "The model became no surer of {count} of {blocks} blocks, and was stopped there; the text may be wrong."
        return [trn(said, said, stalled, blocks=blocks)]


def user_message(
    prompt: str, attachments: tuple[Attachment, ...] = (), pictures: tuple[AttachedPicture, ...] = ()
) -> Message:
    """Returns a prompt as a message for the model: its pictures, then its files, then its text."""
    message = {"role": "user", "content": with_attachments(prompt, attachments)}
    return message | {"images": tuple(picture.image for picture in pictures)} if pictures else message


@dataclass(eq=False, repr=False)
class Turn:
    """A prompt with one or more versions of its answer."""

    prompt: str
    attachments: tuple[Attachment, ...] = ()
    pictures: tuple[AttachedPicture, ...] = ()
    answers: Versions[Answer] = field(default_factory=Versions)
    id: int | None = None  # in the library

    @property
    def message(self) -> Message:
        """The prompt as a message for the model."""
        return user_message(self.prompt, self.attachments, self.pictures)

    @property
    def answer(self) -> Answer:
        """The version that is shown."""
        answer = self.answers.current
        assert answer is not None
        return answer


@dataclass(frozen=True)
class _Asked:
    """The turn that is being answered, even if another path is shown meanwhile."""

    turn: Turn
    answer: Answer
    branch: Versions[Turn]  # contains the turn


@dataclass(eq=False)
class ChatState:
    """The tree of one conversation. At most one answer is running."""

    first: Versions[Turn] = field(default_factory=Versions)
    system_prompt: str = ""
    preset: str = ""  # its id
    id: int | None = None  # in the library
    _asked: _Asked | None = None

    @property
    def turns(self) -> list[Turn]:
        """The path that is shown."""
        path: list[Turn] = []
        branch = self.first
        while branch.current is not None:
            path.append(branch.current)
            branch = branch.current.answer.following
        return path

    @property
    def active(self) -> Answer | None:
        return self._asked.answer if self._asked is not None and self._asked.answer.is_active else None

    def path_to(self, message: int) -> list[tuple[Versions[Any], int]]:
        """Returns the choices of versions that show a message, by its id; empty if there is no such message."""
        waiting: list[tuple[Versions[Turn], list[tuple[Versions[Any], int]]]] = [(self.first, [])]
        while waiting:
            branch, before = waiting.pop()
            for place, turn in enumerate(branch.items):
                path = [*before, (branch, place)]
                if turn.id == message:
                    return path
                for version, answer in enumerate(turn.answers.items):
                    further = [*path, (turn.answers, version)]
                    if answer.id == message:
                        return further
                    waiting.append((answer.following, further))
        return []

    def alternatives(self, turn: Turn) -> Versions[Turn]:
        """Returns all versions of a prompt on the path."""
        branch = self.first
        while branch.current is not None and branch.current is not turn:
            branch = branch.current.answer.following
        return branch

    def ask(
        self,
        prompt: str,
        answer: Answer,
        attachments: tuple[Attachment, ...] = (),
        pictures: tuple[AttachedPicture, ...] = (),
    ) -> Turn:
        """Adds a turn at the end of the path, with a first answer that is waiting."""
        turns = self.turns
        branch = turns[-1].answer.following if turns else self.first
        return self._ask(branch, Turn(prompt, attachments, pictures), answer)

    def ask_again(self, turn: Turn, answer: Answer) -> None:
        """Adds a version to a turn's answers and shows it; the turns after the other versions stay with them."""
        self._require_idle()
        turn.answers.add(answer)
        self._asked = _Asked(turn, answer, self.alternatives(turn))

    def edit(self, turn: Turn, prompt: str, answer: Answer) -> Turn:
        """Asks another version of a prompt: the conversation branches there."""
        return self._ask(self.alternatives(turn), Turn(prompt, turn.attachments, turn.pictures), answer)

    def _ask(self, branch: Versions[Turn], turn: Turn, answer: Answer) -> Turn:
        self._require_idle()
        turn.answers.add(answer)
        branch.add(turn)
        self._asked = _Asked(turn, answer, branch)
        return turn

    def fold(self, event: Event, decode: Decode) -> None:
        """Applies an event of the current run, if there is one."""
        if self.active is not None:
            self.active.fold(event, decode)

    def fail(self, message: str, decode: Decode) -> Turn | None:
        """Ends the current run with an error.

        Returns:
            The removed turn if the run failed before it began and there was no other answer; its text belongs back
            into the composer. None if the turn stays.
        """
        asked = self._asked
        if asked is None or not asked.answer.is_active:
            return None
        self._asked = None
        if asked.answer.status == "developing":
            asked.answer.fail(message, decode)
            return None
        if len(asked.turn.answers) > 1:
            asked.turn.answers.remove(asked.answer)
            return None
        asked.branch.remove(asked.turn)
        return asked.turn

    def messages(self, turn: Turn, *, with_tools: bool = False) -> tuple[Message, ...]:
        """Returns the model's messages for a turn on the path: all turns before it, then its prompt.

        Calls of tools are left out unless ``with_tools``: not every template writes them.
        """
        return self.messages_with(turn.message, turn, with_tools=with_tools)

    def messages_with(self, asked: Message, at: Turn | None = None, *, with_tools: bool = False) -> tuple[Message, ...]:
        """Returns the model's messages if this one is asked next, or in place of the turn ``at``.

        Turns with an empty answer are left out, as templates require alternating roles. Thinking is not included.
        """
        turns = self.turns
        earlier = turns if at is None else turns[: next(place for place, turn in enumerate(turns) if turn is at)]
        messages: list[Message] = []
        if self.system_prompt.strip():
            messages.append({"role": "system", "content": self.system_prompt})
        for turn in earlier:
            if turn.answer.text.strip():
                messages.append(turn.message)
                if with_tools:
                    messages += (message for made in turn.answer.rounds for message in made.messages)
                messages.append({"role": "assistant", "content": turn.answer.text})
        return (*messages, asked)

    def _require_idle(self) -> None:
        if self.active is not None:
            raise RuntimeError("an answer is being written; stop it first")
