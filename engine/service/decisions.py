"""Decisions for clients: what is asked as runs, and their replies as typed answers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from engine.config import GenerationConfig
from engine.errors import SafelightError, quoted
from engine.events import PrefillFinished, SlotsRead
from engine.pictures import BLIND, Picture
from engine.service.deciding import NO_INSTRUCTIONS, Deciding
from engine.service.replies import LoadedModel, RunAdvanced, RunEnded, RunReply
from engine.service.requests import RunRequest, is_remote
from engine.tasks.decisions.answers import LabelRead, TypedAnswer, answer_of
from engine.tasks.decisions.layout import split
from engine.tasks.decisions.questions import MOST_QUESTIONS, Decision, Question, YesNo
from engine.tasks.decisions.wording import CLOSING, asked, user_text

CANNOT = "this model cannot decide; choose one that answers from a canvas"
NOTHING = "the state is empty; give a text or an image that the questions are about"
MARGIN = 64  # tokens: a prompt that comes as close to the context is counted exactly
ALLOWANCE = 32  # tokens of a template that another machine has


def decision_requests(
    model: LoadedModel,
    state: str,
    questions: Sequence[Question],
    *,
    instructions: str = "",
    is_joint: bool = False,
    repeats: int = 0,
    adapter: str | None = None,
    keep: bool = False,
    seed: int = 0,
    pictures: Sequence[Picture] = (),
    image_tokens: int | None = None,
) -> tuple[RunRequest, ...]:
    """The runs that decide questions about a state, which together have all of them in order.

    Of questions asked singly a run each. Asked jointly as many a run as fit the model's canvas and context; one alone
    is asked singly. A model elsewhere whose steps nobody reports gets all in one.

    Args:
        model: that is to decide. instructions: what it is told before the state.
        state: may be empty where there are pictures.
        repeats: reads with fresh noise where an answer is in doubt. seed: of the noise.
        adapter, keep: as of a ``RunRequest``.
        pictures: that the questions are about, too. image_tokens: the most that one may take; None: the model's own.

    Raises:
        SafelightError: the model cannot decide them, or cannot see; neither state nor picture; no question; or what
            does not fit.
    """
    if not state.strip() and not pictures:
        raise SafelightError(NOTHING)
    asked_at_once = Decision(state, tuple(questions), instructions, is_joint, repeats=repeats)  # checks it
    if not model.capabilities.decisions:
        raise SafelightError(CANNOT)
    if pictures and not model.capabilities.images:
        raise SafelightError(BLIND)
    config = model.defaults if image_tokens is None else model.defaults.replace(image_tokens=image_tokens)
    shown = tuple(pictures)
    if model.capabilities.steps:
        if instructions and not model.reads_system:
            raise SafelightError(NO_INSTRUCTIONS)
        decisions = _Room(model, asked_at_once, config, shown).decisions()
    else:
        parts = range(0, len(questions), MOST_QUESTIONS)
        decisions = [
            Decision(state, tuple(questions[start : start + MOST_QUESTIONS]), instructions, is_joint, repeats=repeats)
            for start in parts
        ]
    return tuple(
        RunRequest("decision", (), config, seed, keep=keep, adapter=adapter, decision=decision, pictures=shown)
        for decision in decisions
    )


@dataclass(frozen=True)
class _Known:
    """What is the same for all decisions of a model."""

    deciding: Deciding
    templates: dict[bool, int] = field(default_factory=dict)  # tokens that its template adds, with instructions or not


_KNOWN: WeakKeyDictionary[LoadedModel, _Known] = WeakKeyDictionary()


def _known_of(model: LoadedModel) -> _Known:
    """A model's own, kept as long as it is."""
    known = _KNOWN.get(model)
    if known is None:
        known = _KNOWN[model] = _Known(Deciding.from_tokenizer(model.encode, model.defaults, model.canvas_length))
    return known


class _Room:
    """Whether questions about a state fit a model's canvas and context."""

    def __init__(
        self, model: LoadedModel, decision: Decision, config: GenerationConfig, pictures: tuple[Picture, ...]
    ) -> None:
        self._model, self._whole, self._config, self._pictures = model, decision, config, pictures
        self._known = _known_of(model)
        self._deciding = self._known.deciding
        self._tokens = functools.cache(lambda text: len(model.encode(text)))

    def decisions(self) -> list[Decision]:
        """One for each run.

        Raises:
            SafelightError: a question does not fit.
        """
        questions = self._whole.questions
        for question in questions:
            if not self._fits((question,), 1):
                what = f"the question {quoted(question.name)}" if question.name else "the question"
                raise SafelightError(
                    f"the state and {what} do not fit this model's {self._model.context} positions; shorten the state"
                )
        if not self._whole.is_joint:
            return [self._part((question,), 1) for question in questions]
        return [self._part(run, first) for first, run in split(questions, self._fits)]

    def _part(self, questions: Sequence[Question], first: int) -> Decision:
        is_joint, whole = len(questions) > 1, self._whole
        number = first if is_joint else 1
        return Decision(whole.state, tuple(questions), whole.instructions, is_joint, number, whole.repeats)

    def _fits(self, questions: Sequence[Question], first: int) -> bool:
        if len(questions) > MOST_QUESTIONS:
            return False
        part = self._part(questions, first)
        try:
            width = len(self._deciding.layout(part).canvas)
        except SafelightError:
            if len(questions) == 1:
                raise  # which no other split would mend
            return False
        most = self._model.context - width
        texts = [asked(question, self._deciding.labels) for question in questions]
        numbered = [f"\n\nQuestion {number}: {text}" for number, text in enumerate(texts, start=first)]
        asking = [*numbered, f"\n\n{CLOSING}"] if part.is_joint else [f"\n\nQuestion: {texts[0]}"]
        count = self._frame + sum(map(self._tokens, asking))
        if count <= most - MARGIN or is_remote(self._model.path_or_id):
            return count <= most
        # Text in pieces may have a few tokens more, or fewer, than the whole has.
        return count <= most + MARGIN and len(self._model.prompt_ids(self._request(part))) <= most

    @functools.cached_property
    def _frame(self) -> int:
        """Tokens of a prompt beside those of its questions."""
        texts = self._tokens(self._whole.state) + self._tokens(self._whole.instructions)
        return texts + sum(map(self._cost, self._pictures)) + self._template

    def _cost(self, picture: Picture) -> int:
        """Tokens of a picture; none where it cannot be seen, which was refused before."""
        cost = self._model.image_cost
        return 0 if cost is None else cost(picture.width, picture.height, self._config.image_tokens)

    @functools.cached_property
    def _template(self) -> int:
        """Tokens that a template adds."""
        if is_remote(self._model.path_or_id):
            return ALLOWANCE
        has_system = bool(self._whole.instructions)
        if has_system not in self._known.templates:
            least = Decision(".", (YesNo("?"),), "." if has_system else "")
            text = user_text(least, self._deciding.labels)
            request = RunRequest("decision", (), self._config, 0, decision=least)
            whole = len(self._model.prompt_ids(request))
            self._known.templates[has_system] = whole - self._tokens(text)
        return self._known.templates[has_system]

    def _request(self, decision: Decision) -> RunRequest:
        return RunRequest("decision", (), self._config, 0, decision=decision, pictures=self._pictures)


@dataclass(frozen=True)
class DecisionUsage:
    """What a decision took."""

    prompt_tokens: int = 0
    reused_tokens: int = 0  # of these, how many had been read before
    answer_tokens: int = 0  # one a question and read


class DecisionReads:
    """Collects the replies of one run of a decision."""

    def __init__(self, decision: Decision) -> None:
        self._questions = decision.questions
        self._reads: list[SlotsRead] = []
        self._prefill: PrefillFinished | None = None
        self.is_over = False
        self.message = ""  # why it failed

    def add(self, reply: RunReply) -> None:
        """Take in the next reply."""
        match reply:
            case RunAdvanced(event=SlotsRead() as read):
                self._reads.append(read)
            case RunAdvanced(event=PrefillFinished() as prefill):
                self._prefill = prefill
            case RunEnded():
                self.is_over, self.message = True, reply.message

    @property
    def reads(self) -> int:
        """How many there are so far."""
        return len(self._reads)

    def label_reads(self) -> tuple[tuple[LabelRead, ...], ...]:
        """Of each question, the reads so far.

        Raises:
            SafelightError: the run failed, or was ended before the first read.
        """
        if self.message:
            raise SafelightError(self.message)
        if not self._reads:
            raise SafelightError("the decision was ended before it was read")
        return tuple(
            tuple(LabelRead(tuple(read.logprobs[place].tolist()), read.argmax_is_label[place]) for read in self._reads)
            for place in range(len(self._questions))
        )

    def answers(self, temperature: float = 1.0) -> tuple[TypedAnswer, ...]:
        """The answer to each question, from the reads so far; errors as ``label_reads``."""
        return tuple(
            answer_of(question, reads, temperature)
            for question, reads in zip(self._questions, self.label_reads(), strict=True)
        )

    @property
    def usage(self) -> DecisionUsage:
        """So far."""
        answered = len(self._reads) * len(self._questions)
        if self._prefill is None:
            return DecisionUsage(answer_tokens=answered)
        return DecisionUsage(self._prefill.prompt_tokens, self._prefill.reused_tokens, answered)
