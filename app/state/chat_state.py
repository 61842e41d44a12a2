"""A conversation as what was asked and what came back, folded from events. Knows neither Qt nor torch nor storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from app.state.canvas_state import CanvasState, before_end
from app.state.run_stats import RunStats
from engine import CanvasCommitted, Event, GenerationConfig, GenerationFinished, PrefillFinished, Trace

Status = Literal["waiting", "developing", "done", "stopped", "failed"]
Decode = Callable[[Iterable[int]], str]

EMPTY_ANSWER = "The model ended without writing anything. Try another seed or a lower entropy bound."


@dataclass
class Answer:
    """One version of an answer. ``text`` is what is read, copied and remembered; empty until the run has ended."""

    model_title: str
    seed: int
    config: GenerationConfig
    stats: RunStats = field(init=False)
    status: Status = "waiting"
    text: str = ""
    error: str = ""
    capped_blocks: int = 0
    trace: Trace | None = None

    def __post_init__(self) -> None:
        self.stats = RunStats(self.config.max_denoising_steps)

    @property
    def canvas(self) -> CanvasState:
        """What its canvases show."""
        return self.stats.canvases

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
        if isinstance(event, PrefillFinished):
            self.status = "developing"
        elif isinstance(event, CanvasCommitted):
            self.capped_blocks += event.reason == "step_cap"
        elif isinstance(event, GenerationFinished):
            stopped = event.reason == "cancelled"
            self.text = decode(self.draft_tokens() if stopped else event.tokens)
            self.status = "stopped" if stopped else "done"

    def draft_tokens(self) -> list[int]:
        """The text so far, up to the end token where there is one."""
        return before_end(self.canvas.draft_tokens(), self.config.eos_token_ids)

    def notices(self) -> list[str]:
        """What went otherwise than one would expect, in sentences."""
        said = [self.error] if self.error else []
        if self.is_empty:
            said.append(EMPTY_ANSWER)
        blocks = len(self.canvas.blocks)
        if self.capped_blocks and blocks == 1:
            said.append("The canvas stopped at the step limit without converging.")
        elif self.capped_blocks:
            said.append(f"{self.capped_blocks} of {blocks} blocks stopped at the step limit without converging.")
        return said


@dataclass
class Turn:
    """A prompt with the versions of its answer."""

    prompt: str
    answers: list[Answer] = field(default_factory=list)
    shown: int = 0

    @property
    def answer(self) -> Answer:
        """The version on show."""
        return self.answers[self.shown]

    def show(self, index: int) -> None:
        """Put a version on show; an index beyond the ends takes the end."""
        self.shown = max(0, min(index, len(self.answers) - 1))


@dataclass
class ChatState:
    """The turns of one conversation. At most one answer is under way, the newest version of the last turn."""

    turns: list[Turn] = field(default_factory=list)

    @property
    def active(self) -> Answer | None:
        """The answer under way."""
        newest = self.turns[-1].answers[-1] if self.turns else None
        return newest if newest is not None and newest.is_active else None

    def ask(self, prompt: str, answer: Answer) -> Turn:
        """Add a turn that waits for its first answer."""
        self._require_idle()
        self.turns.append(Turn(prompt, [answer]))
        return self.turns[-1]

    def ask_again(self, answer: Answer) -> Turn:
        """Add another version to the last turn and put it on show."""
        self._require_idle()
        turn = self.turns[-1]
        turn.answers.append(answer)
        turn.show(len(turn.answers) - 1)
        return turn

    def fold(self, event: Event, decode: Decode) -> None:
        """Take in an event of the run under way; without one, nothing happens."""
        if self.active is not None:
            self.active.fold(event, decode)

    def fail(self, message: str, decode: Decode) -> str | None:
        """The run under way failed.

        Returns:
            The prompt, where the run failed before it began on a new turn: the turn is gone, its text belongs back
            into the composer. None where something stays on show.
        """
        answer = self.active
        if answer is None:
            return None
        turn = self.turns[-1]
        if answer.status == "waiting":
            turn.answers.pop()
            turn.show(len(turn.answers) - 1)
            if not turn.answers:
                self.turns.pop()
                return turn.prompt
            return None
        answer.status = "failed"
        answer.error = message
        answer.text = decode(answer.draft_tokens())
        return None

    def messages(self) -> tuple[dict[str, str], ...]:
        """What the model is told: earlier turns with the versions on show, then the last prompt.

        Turns whose answer is empty are left out, as templates want the roles to take turns.
        """
        told: list[dict[str, str]] = []
        for turn in self.turns[:-1]:
            if turn.answer.text.strip():
                told.append({"role": "user", "content": turn.prompt})
                told.append({"role": "assistant", "content": turn.answer.text})
        told.append({"role": "user", "content": self.turns[-1].prompt})
        return tuple(told)

    def _require_idle(self) -> None:
        if self.active is not None:
            raise RuntimeError("an answer is under way; stop it first")
