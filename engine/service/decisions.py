"""Decisions for clients: makes runs of questions, and typed answers of their replies."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from engine.config import GenerationConfig
from engine.decoders import BLOCK_DIFFUSION
from engine.errors import SafelightError
from engine.events import PrefillFinished, SlotsRead
from engine.pictures import BLIND, Picture
from engine.service.replies import LoadedModel, RunAdvanced, RunEnded, RunReply
from engine.service.requests import DecisionRun
from engine.tasks.decisions.answers import LabelRead, TypedAnswer, answer_of
from engine.tasks.decisions.layout import CANVAS_UNIT, CanvasTokens, Layout, layout_of, split
from engine.tasks.decisions.questions import MAX_QUESTIONS, Decision, Question
from engine.tasks.decisions.wording import CLOSING, Encode, Labels, asked, user_text
from engine.text.message import Message, message_of

CANNOT = "this model cannot decide; choose one that answers from a canvas"
NOTHING = "the state is empty; give a text or an image that the questions are about"
ALLOWANCE = 32  # tokens of a template


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
) -> tuple[DecisionRun, ...]:
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
    parts = [_part(asked_at_once, (question,)) for question in questions]
    if is_joint:
        parts = _together(model, asked_at_once, config, shown)
    return tuple(DecisionRun(config, seed, decision, keep=keep, adapter=adapter, pictures=shown) for decision in parts)


def _part(whole: Decision, questions: Sequence[Question], first: int = 1) -> Decision:
    is_joint = len(questions) > 1
    number = first if is_joint else 1
    return Decision(whole.state, tuple(questions), whole.instructions, is_joint, number, whole.repeats)


def _together(
    model: LoadedModel, whole: Decision, config: GenerationConfig, pictures: tuple[Picture, ...]
) -> list[Decision]:
    """Splits joint questions into decisions that fit the model's canvas and, counted piece by piece, its context.

    Raises:
        SafelightError: a question does not fit the canvas.
    """
    length = canvas_of(model.canvas_length, next(iter(model.decoders), ""))
    deciding = Deciding.from_tokenizer(model.encode, model.defaults, length)
    tokens = functools.cache(lambda text: len(model.encode(text)))
    frame = ALLOWANCE + tokens(whole.state) + tokens(whole.instructions)
    if (cost := model.image_cost) is not None:
        frame += sum(cost(picture.width, picture.height, config.image_tokens) for picture in pictures)

    def fits(questions: Sequence[Question], first: int) -> bool:
        if len(questions) > MAX_QUESTIONS:
            return False
        try:
            width = len(deciding.layout(_part(whole, questions, first)).canvas)
        except SafelightError:
            if len(questions) == 1:
                raise  # no other split can help
            return False
        if len(questions) == 1:
            return True  # the run counts exactly
        texts = [asked(question, deciding.labels) for question in questions]
        numbered = [f"\n\nQuestion {number}: {text}" for number, text in enumerate(texts, start=first)]
        return frame + sum(map(tokens, [*numbered, f"\n\n{CLOSING}"])) <= model.context - width

    return [_part(whole, run, first) for first, run in split(whole.questions, fits)]


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
        self.message = ""  # why it failed

    def add(self, reply: RunReply) -> None:
        match reply:
            case RunAdvanced(event=SlotsRead() as read):
                self._reads.append(read)
            case RunAdvanced(event=PrefillFinished() as prefill):
                self._prefill = prefill
            case RunEnded():
                self.message = reply.message

    def answers(self, temperature: float = 1.0) -> tuple[TypedAnswer, ...]:
        """Returns the answer to each question, from the reads so far.

        Raises:
            SafelightError: the run failed, or was ended before the first read.
        """
        if self.message:
            raise SafelightError(self.message)
        if not self._reads:
            raise SafelightError("the decision was stopped before it was read")
        answers = []
        for place, question in enumerate(self._questions):
            reads = [LabelRead(tuple(one.logprobs[place].tolist()), one.argmax_is_label[place]) for one in self._reads]
            answers.append(answer_of(question, reads, temperature))
        return tuple(answers)

    @property
    def usage(self) -> DecisionUsage:
        answered = len(self._reads) * len(self._questions)
        if self._prefill is None:
            return DecisionUsage(answer_tokens=answered)
        return DecisionUsage(self._prefill.prompt_tokens, self._prefill.reused_tokens, answered)


TURN_END = "<turn|>"
NO_INSTRUCTIONS = "this model reads no system message; put the instructions into the state or the questions"
MASKED_CANVAS = 256  # tokens of a canvas of masks; models that write over them were trained with any number
MAX_KEPT_TEXTS = 1_024  # short texts whose tokens are in memory


@dataclass(frozen=True)
class Deciding:
    """The labels and canvas tokens of decisions in a model's tokenizer."""

    labels: Labels
    tokens: CanvasTokens

    @staticmethod
    def from_tokenizer(encode: Encode, defaults: GenerationConfig, canvas_length: int) -> Deciding:
        """Returns the labels and canvas tokens of a model.

        Raises:
            SafelightError: it has no single tokens for yes and no, no token that ends a turn, or too short a canvas.
        """
        if canvas_length < CANVAS_UNIT:
            raise SafelightError(f"this model's canvas has {canvas_length} tokens; decisions take {CANVAS_UNIT}")
        if not defaults.eos_token_ids:
            raise SafelightError("this model has no token that ends a turn; it cannot decide")
        turn = list(encode(TURN_END))
        is_end = len(turn) == 1 and turn[0] in defaults.eos_token_ids
        end = turn[0] if is_end else defaults.eos_token_ids[0]
        kept = functools.lru_cache(MAX_KEPT_TEXTS)(lambda text: tuple(encode(text)))  # labels and numbers come again
        return Deciding(Labels.from_tokenizer(kept), CanvasTokens(kept, end, defaults.pad_token_id, canvas_length))

    def layout(self, decision: Decision) -> Layout:
        return layout_of(decision, self.labels, self.tokens)

    def messages(self, decision: Decision, pictures: Sequence[Picture] = ()) -> tuple[Message, ...]:
        """Returns the messages that the model reads; pictures stand before the text."""
        system = ({"role": "system", "content": decision.instructions},) if decision.instructions else ()
        return (*system, message_of(user_text(decision, self.labels), pictures))


def canvas_of(canvas_length: int, decoder: str) -> int:
    """Returns the most tokens that a decision's canvas may have, in a model by its canvas and default decoder."""
    return canvas_length if decoder in ("", BLOCK_DIFFUSION) else MASKED_CANVAS


def reading_config(config: GenerationConfig, width: int, decoder: str) -> GenerationConfig:
    """Returns the settings of one read-only step on a canvas of ``width`` tokens."""
    return config.replace(
        decoder=decoder,
        token_thoughts=False,
        canvas_length=width,
        max_new_tokens=width,
        max_denoising_steps=1,
        t_min=1.0,
        t_max=1.0,
        stability_threshold=0,
        confidence_threshold=0.0,
        pinned=(),
        banned_tokens=(),
    )
