"""Turns the reads of a decision into answers and short texts. Knows neither Qt nor a canvas."""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.system.i18n import tr, trn
from engine import SlotsRead
from engine.tasks.decisions.answers import LabelRead, TypedAnswer, answer_of
from engine.tasks.decisions.questions import Decision, Question, Score

MAX_WORDS = 80  # characters of a question or an option in a short text


def label_reads(read: SlotsRead) -> tuple[LabelRead, ...]:
    """Splits one read by question."""
    slots = zip(read.logprobs, read.argmax_is_label, strict=True)
    return tuple(LabelRead(tuple(own.tolist()), is_label) for own, is_label in slots)


def answers_of(decision: Decision, reads: Sequence[SlotsRead]) -> tuple[TypedAnswer, ...]:
    """Returns the answer to each question after these reads; empty before the first read."""
    if not reads:
        return ()
    by_question = zip(*map(label_reads, reads), strict=True)
    return tuple(answer_of(question, own) for question, own in zip(decision.questions, by_question, strict=True))


def question_words(question: Question) -> str:
    """Returns a question in one line, shortened if it is long."""
    return _short(question.instructions)


def answer_words(answer: TypedAnswer) -> str:
    """Returns an answer with its probability; for a score, with its mean level."""
    name = _short(answer.question.options[answer.best].name)
    if isinstance(answer.question, Score):
        last = len(answer.probabilities) - 1
        return tr("{score} of {last}, {name}", score=f"{answer.score:.1f}", last=last, name=name)
    return tr("{name} {share}", name=name, share=share_words(answer.probabilities[answer.best]))


def share_words(share: float) -> str:
    """Returns a probability in per cent; 0 % and 100 % only if it is exactly that."""
    if 0 < share < 0.001:
        return tr("under 0.1 %")
    if 0.999 < share < 1:
        return tr("over 99.9 %")
    return tr("{share} %", share=f"{100 * share:.1f}")


def decision_words(answers: Sequence[TypedAnswer]) -> str:
    """Returns each question with its answer, in one line."""
    parts = (f"{question_words(answer.question)} {answer_words(answer)}" for answer in answers)
    return tr(" · ").join(parts)


def fact_words(answer: TypedAnswer, reads: Sequence[LabelRead]) -> str:
    """Returns the figures of an answer: label mass, confidence, entropy, and how its reads agree."""
    entropy = -math.fsum(share * math.log(share) for share in answer.probabilities if share > 0)
    facts = [
        tr("{share} of all probability on the options", share=share_words(answer.label_mass)),
        tr("confidence {share}", share=share_words(answer.confidence)),
        tr("entropy {entropy} nats", entropy=f"{entropy:.3f}"),
    ]
    text = tr("{facts}.", facts=" · ".join(facts))
    if not answer.argmax_is_label:
        text += " " + tr("The likeliest token of all is none of the options.")
    if answer.reads > 1:
        each = tr(", ").join(_read_words(answer, read) for read in reads)
        agreeing = round(answer.agreement * answer.reads)
        text += " " + trn(
            "{count} of {reads} reads agrees: {each}.",
            "{count} of {reads} reads agree: {each}.",
            agreeing,
            reads=answer.reads,
            each=each,
        )
    return text


def _read_words(answer: TypedAnswer, read: LabelRead) -> str:
    """Returns the likeliest option of a single read with its probability."""
    shares = read.probabilities()
    best = max(range(len(shares)), key=shares.__getitem__)
    return tr("{name} {share}", name=_short(answer.question.options[best].name), share=share_words(shares[best]))


def _short(text: str) -> str:
    line = " ".join(text[: 4 * MAX_WORDS].split())
    return line if len(line) <= MAX_WORDS else f"{line[: MAX_WORDS - 1]}…"
