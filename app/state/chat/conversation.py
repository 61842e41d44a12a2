"""Folds a conversation's events into what is on show. Knows neither Qt nor torch.

A conversation is a tree: a prompt has versions of its answer, and an answer has versions of the prompt after it. What
is on show is one path through it, the ``turns``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from app.state.chat.attachment import AttachedPicture, Attachment, with_attachments
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
from engine.trace import Draft

Status = Literal["waiting", "developing", "done", "stopped", "failed"]
Decode = Callable[[Iterable[int]], Reply]


@dataclass(eq=False, repr=False)
class Answer:
    """One version of an answer. ``text`` is what is read, copied and remembered; empty until the run has ended."""

    model_title: str
    seed: int
    config: GenerationConfig
    model: str = ""  # an embedded one's id or a folder; empty where it is not known
    adapter: str | None = None  # on that model
    is_text: bool = False  # what runs the model reports no steps
    stats: RunStats = field(init=False)
    status: Status = "waiting"
    text: str = ""
    thinking: str = ""
    settled: list[Reply] = field(default_factory=list)  # what there is to read after each committed block of the run
    error: str = ""
    kept: RunFigures | None = None  # of an answer that was read from the library
    trace: Recording | None = None  # of a run of this session
    trace_id: str = ""  # of its file
    following: Versions[Turn] = field(default_factory=Versions)
    id: int | None = None  # in the library

    def __post_init__(self) -> None:
        self.stats = RunStats(self.config.max_denoising_steps, CanvasState.under(self.config))
        self._draft = Draft(self.config.eos_token_ids)

    @property
    def canvas(self) -> CanvasState:
        """What its canvases show; empty for an answer that was read from the library."""
        return self.stats.canvases

    @property
    def figures(self) -> RunFigures:
        """What the run came to so far."""
        return self.kept or self.stats.figures

    @property
    def has_trace(self) -> bool:
        """Whether it can be looked into how it came about."""
        return (self.trace is not None or bool(self.trace_id)) and not self.is_plain

    @property
    def is_plain(self) -> bool:
        """Whether it came as text alone, from a backend that reports no steps."""
        ended = self.status == "done" or bool(self.text)  # a run that was stopped early has no block either
        return self.is_text or (self.kept is not None and ended and not self.kept.blocks)

    @property
    def is_active(self) -> bool:
        """Whether its run is under way."""
        return self.status in ("waiting", "developing")

    @property
    def is_empty(self) -> bool:
        """Whether the run ended by itself without a visible character."""
        return self.status == "done" and not self.text.strip()

    def fold(self, event: Event, decode: Decode) -> None:
        """Take in one event of the run."""
        self.stats.fold(event)
        self._draft.fold(event)
        if isinstance(event, PrefillFinished | TextArrived):
            self.status = "developing"
        elif isinstance(event, CanvasCommitted):
            self.settled.append(self.draft(decode))
        elif isinstance(event, GenerationFinished):
            self._read(self.draft(decode))
            self.status = "stopped" if event.reason == "cancelled" else "done"

    def fail(self, message: str, decode: Decode) -> None:
        """The run ended early; what it had so far stands."""
        self.status = "failed"
        self.error = message
        self._read(self.draft(decode))

    def stop(self, decode: Decode) -> None:
        """The run is given up; what it had so far stands."""
        self.status = "stopped"
        self._read(self.draft(decode))

    def _read(self, reply: Reply) -> None:
        self.text, self.thinking = reply

    def draft_tokens(self) -> list[int]:
        """The text so far, up to the end token where there is one."""
        return self._draft.tokens()

    @property
    def so_far(self) -> Reply:
        """What there is to read while it develops: the committed blocks, or what has arrived as text."""
        if self._draft.is_text:
            return self._draft.arrived
        return self.settled[-1] if self.settled else Reply("")

    def draft(self, decode: Decode) -> Reply:
        """The same as it reads."""
        return self._draft.reply(decode)

    def notices(self) -> list[str]:
        """What went otherwise than one would expect, in sentences."""
        said = [self.error] if self.error else []
        if self.is_empty and self.thinking:
            said.append(tr("The model only thought and wrote no answer. Regenerate, or allow more new tokens."))
        elif self.is_empty and (self.is_plain or not self.config.is_block_diffusion):
            said.append(tr("The model ended without writing anything. Regenerate, or ask otherwise."))
        elif self.is_empty:
            said.append(tr("The model ended without writing anything. Try another seed or a lower entropy bound."))
        elif self.status == "done" and self.figures.is_cut:
            said.append(tr("The answer is cut off at the limit of new tokens. Allow more of them, and regenerate."))
        capped, blocks = self.figures.capped_blocks, self.figures.blocks
        if capped and self.config.rescue:
            said.append(
                trn(
                    "{count} block did not converge and was written on token by token.",
                    "{count} blocks did not converge and were written on token by token.",
                    capped,
                )
            )
        elif capped and blocks == 1:
            said.append(tr("The canvas stopped at the step limit without converging."))
        elif capped:
            said.append(
                trn(
                    "{count} of {blocks} blocks stopped at the step limit without converging.",
                    "{count} of {blocks} blocks stopped at the step limit without converging.",
                    capped,
                    blocks=blocks,
                )
            )
        return said


def user_message(
    prompt: str, attachments: tuple[Attachment, ...] = (), pictures: tuple[AttachedPicture, ...] = ()
) -> Message:
    """What a prompt is to the model: its files and its text, its pictures before them."""
    message = {"role": "user", "content": with_attachments(prompt, attachments)}
    return message | {"images": tuple(picture.image for picture in pictures)} if pictures else message


@dataclass(eq=False, repr=False)
class Turn:
    """A prompt with the versions of its answer; there is always one."""

    prompt: str
    attachments: tuple[Attachment, ...] = ()
    pictures: tuple[AttachedPicture, ...] = ()
    answers: Versions[Answer] = field(default_factory=Versions)
    id: int | None = None  # in the library

    @property
    def message(self) -> Message:
        """What the model is told of it."""
        return user_message(self.prompt, self.attachments, self.pictures)

    @property
    def answer(self) -> Answer:
        """The version on show."""
        answer = self.answers.current
        assert answer is not None
        return answer


@dataclass(frozen=True)
class _Asked:
    """What is being answered, wherever the path on show goes meanwhile."""

    turn: Turn
    answer: Answer
    branch: Versions[Turn]  # that the turn is in


@dataclass(eq=False)
class ChatState:
    """The tree of one conversation. At most one answer is under way."""

    first: Versions[Turn] = field(default_factory=Versions)
    system_prompt: str = ""
    preset: str = ""  # its id
    id: int | None = None  # in the library
    _asked: _Asked | None = None

    @property
    def turns(self) -> list[Turn]:
        """The path on show."""
        path: list[Turn] = []
        branch = self.first
        while branch.current is not None:
            path.append(branch.current)
            branch = branch.current.answer.following
        return path

    @property
    def active(self) -> Answer | None:
        """The answer under way."""
        return self._asked.answer if self._asked is not None and self._asked.answer.is_active else None

    @property
    def active_turn(self) -> Turn | None:
        """The turn of the answer under way."""
        return self._asked.turn if self._asked is not None and self.active is not None else None

    def alternatives(self, turn: Turn) -> Versions[Turn]:
        """The versions of a prompt on the path, itself included."""
        branch = self.first
        while branch.current is not None and branch.current is not turn:
            branch = branch.current.answer.following
        return branch

    # --- asking ------------------------------------------------------------------------------------------------------

    def ask(
        self,
        prompt: str,
        answer: Answer,
        attachments: tuple[Attachment, ...] = (),
        pictures: tuple[AttachedPicture, ...] = (),
    ) -> Turn:
        """Add a turn at the end of the path, which waits for its first answer."""
        turns = self.turns
        branch = turns[-1].answer.following if turns else self.first
        return self._begin(branch, Turn(prompt, attachments, pictures), answer)

    def ask_again(self, turn: Turn, answer: Answer) -> None:
        """Add another version to a turn's answers and put it on show; what followed the others stays with them."""
        self._require_idle()
        turn.answers.add(answer)
        self._asked = _Asked(turn, answer, self.alternatives(turn))

    def edit(self, turn: Turn, prompt: str, answer: Answer) -> Turn:
        """Ask another version of a prompt, beside it: the conversation branches there."""
        return self._begin(self.alternatives(turn), Turn(prompt, turn.attachments, turn.pictures), answer)

    def _begin(self, branch: Versions[Turn], turn: Turn, answer: Answer) -> Turn:
        self._require_idle()
        turn.answers.add(answer)
        branch.add(turn)
        self._asked = _Asked(turn, answer, branch)
        return turn

    # --- the run under way -------------------------------------------------------------------------------------------

    def fold(self, event: Event, decode: Decode) -> None:
        """Take in an event of the run under way; without one, nothing happens."""
        if self.active is not None:
            self.active.fold(event, decode)

    def fail(self, message: str, decode: Decode) -> Turn | None:
        """The run under way failed.

        Returns:
            The turn, where the run failed before it began and there was no other answer: the turn is gone, its text
            belongs back into the composer. None where something stays on show.
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

    # --- what the model is told --------------------------------------------------------------------------------------

    def messages(self, turn: Turn) -> tuple[Message, ...]:
        """What the model is told to answer a turn on the path: all before it, then its prompt."""
        turns = self.turns
        place = next(index for index, other in enumerate(turns) if other is turn)
        return self._told(turns[:place], turn.message)

    def messages_with(self, message: Message) -> tuple[Message, ...]:
        """What the model would be told if this were asked next."""
        return self._told(self.turns, message)

    def _told(self, earlier: list[Turn], asked: Message) -> tuple[Message, ...]:
        """The system prompt, earlier turns, what is asked.

        Turns whose answer is empty are left out, as templates want the roles to take turns. Thinking is not told.
        """
        told: list[Message] = []
        if self.system_prompt.strip():
            told.append({"role": "system", "content": self.system_prompt})
        for turn in earlier:
            if turn.answer.text.strip():
                told.append(turn.message)
                told.append({"role": "assistant", "content": turn.answer.text})
        return (*told, asked)

    def _require_idle(self) -> None:
        if self.active is not None:
            raise RuntimeError("an answer is under way; stop it first")
