"""Decisions for clients: makes runs of questions, and typed answers of their replies."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from engine.config import GenerationConfig
from engine.errors import SafelightError, quoted
from engine.events import PrefillFinished, SlotsRead
from engine.pictures import BLIND, Picture
from engine.service.deciding import NO_INSTRUCTIONS, Deciding, canvas_of
from engine.service.replies import LoadedModel, RunAdvanced, RunEnded, RunReply
from engine.service.requests import RunRequest, is_remote
from engine.tasks.decisions.answers import LabelRead, TypedAnswer, answer_of
from engine.tasks.decisions.layout import split
from engine.tasks.decisions.questions import MOST_QUESTIONS, Decision, Question, YesNo
from engine.tasks.decisions.wording import CLOSING, asked, user_text

CANNOT = "this model cannot decide; choose one that answers from a canvas"
NOTHING = "the state is empty; give a text or an image that the questions are about"
MARGIN = 64  # tokens: a prompt this close to the context is counted exactly
ALLOWANCE = 32  # tokens for the template of a remote model


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
    """Returns the runs that decide questions about a state; together they have all questions in order.

    Single questions have a run each. Joint questions share a run as far as they fit the model's canvas and context; one
    question alone is asked singly.

    Args:
        model: that is to decide.
        instructions: the model's system message.
        state: may be empty if there are pictures.
        repeats: reads with fresh noise where an answer is in doubt.
        seed: of the noise.
        adapter, keep: as of a ``RunRequest``.
        pictures: that the questions are about, too.
        image_tokens: the most that a picture may take; None: the model's own.

    Raises:
        SafelightError: the model cannot decide them, or cannot see; neither state nor picture; no question; or a
            question that does not fit.
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
    if instructions and not model.reads_system:
        raise SafelightError(NO_INSTRUCTIONS)
    return tuple(
        RunRequest("decision", (), config, seed, keep=keep, adapter=adapter, decision=decision, pictures=shown)
        for decision in _Room(model, asked_at_once, config, shown).decisions()
    )


@dataclass(frozen=True)
class _Known:
    """The facts that all decisions of a model share."""

    deciding: Deciding
    templates: dict[bool, int] = field(default_factory=dict)  # tokens that its template adds, with instructions or not


_KNOWN: WeakKeyDictionary[LoadedModel, _Known] = WeakKeyDictionary()


def _known_of(model: LoadedModel) -> _Known:
    """Returns the shared facts of a model; they are kept as long as the model is."""
    known = _KNOWN.get(model)
    if known is None:
        length = canvas_of(model.canvas_length, next(iter(model.decoders), ""))
        known = _KNOWN[model] = _Known(Deciding.from_tokenizer(model.encode, model.defaults, length))
    return known


class _Room:
    """Fits questions about a state into a model's canvas and context."""

    def __init__(
        self, model: LoadedModel, decision: Decision, config: GenerationConfig, pictures: tuple[Picture, ...]
    ) -> None:
        self._model, self._whole, self._config, self._pictures = model, decision, config, pictures
        self._known = _known_of(model)
        self._deciding = self._known.deciding
        self._tokens = functools.cache(lambda text: len(model.encode(text)))

    def decisions(self) -> list[Decision]:
        """Returns one decision for each run.

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
                raise  # no other split can help
            return False
        most = self._model.context - width
        texts = [asked(question, self._deciding.labels) for question in questions]
        numbered = [f"\n\nQuestion {number}: {text}" for number, text in enumerate(texts, start=first)]
        asking = [*numbered, f"\n\n{CLOSING}"] if part.is_joint else [f"\n\nQuestion: {texts[0]}"]
        count = self._frame + sum(map(self._tokens, asking))
        if count <= most - MARGIN or is_remote(self._model.path_or_id):
            return count <= most
        # The pieces of a text may have a few tokens more, or fewer, than the whole text.
        return count <= most + MARGIN and len(self._model.prompt_ids(self._request(part))) <= most

    @functools.cached_property
    def _frame(self) -> int:
        """The number of a prompt's tokens without those of its questions."""
        texts = self._tokens(self._whole.state) + self._tokens(self._whole.instructions)
        return texts + sum(map(self._cost, self._pictures)) + self._template

    def _cost(self, picture: Picture) -> int:
        """Returns the tokens of a picture; 0 for a model that cannot see, which was refused before."""
        cost = self._model.image_cost
        return 0 if cost is None else cost(picture.width, picture.height, self._config.image_tokens)

    @functools.cached_property
    def _template(self) -> int:
        """The number of tokens that the template adds."""
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
    prompt_tokens: int = 0
    reused_tokens: int = 0  # prompt tokens that had been read before
    answer_tokens: int = 0  # one for each question and read


class DecisionReads:
    """Collects the replies of one run of a decision."""

    def __init__(self, decision: Decision) -> None:
        self._questions = decision.questions
        self._reads: list[SlotsRead] = []
        self._prefill: PrefillFinished | None = None
        self.is_over = False
        self.message = ""  # why it failed

    def add(self, reply: RunReply) -> None:
        """Adds the next reply."""
        match reply:
            case RunAdvanced(event=SlotsRead() as read):
                self._reads.append(read)
            case RunAdvanced(event=PrefillFinished() as prefill):
                self._prefill = prefill
            case RunEnded():
                self.is_over, self.message = True, reply.message

    @property
    def reads(self) -> int:
        """The number of reads so far."""
        return len(self._reads)

    def label_reads(self) -> tuple[tuple[LabelRead, ...], ...]:
        """Returns the reads so far of each question.

        Raises:
            SafelightError: the run failed, or was ended before the first read.
        """
        if self.message:
            raise SafelightError(self.message)
        if not self._reads:
            raise SafelightError("the decision was stopped before it was read")
        return tuple(
            tuple(LabelRead(tuple(read.logprobs[place].tolist()), read.argmax_is_label[place]) for read in self._reads)
            for place in range(len(self._questions))
        )

    def answers(self, temperature: float = 1.0) -> tuple[TypedAnswer, ...]:
        """Returns the answer to each question, from the reads so far; raises as ``label_reads``."""
        return tuple(
            answer_of(question, reads, temperature)
            for question, reads in zip(self._questions, self.label_reads(), strict=True)
        )

    @property
    def usage(self) -> DecisionUsage:
        """The usage so far."""
        answered = len(self._reads) * len(self._questions)
        if self._prefill is None:
            return DecisionUsage(answer_tokens=answered)
        return DecisionUsage(self._prefill.prompt_tokens, self._prefill.reused_tokens, answered)
