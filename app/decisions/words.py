"""Texts about questions and answers, for labels and assistive technology. Has no widgets."""

from __future__ import annotations

from app.session.session import cannot_see
from app.state.decisions.drafts import Kind, QuestionDraft
from app.state.decisions.sheet import QuestionSheet
from app.state.decisions.vocabulary import unknown_words
from app.state.run.answers import share_words
from app.state.unlearned import unlearned_line
from app.system.i18n import tr, trn
from engine import DECIDER
from engine.catalog import EMBEDDED
from engine.service import LoadedModel
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.questions import LETTERS, Question, Score

UNKNOWN = "–"
LITTLE_MASS = 0.5  # with less probability on the options, none of them is the answer

KIND_TITLES: dict[Kind, str] = {"yes-no": "Yes or no", "choice": "Choice", "score": "Score"}  # shown through ``tr``


def mark_of(kind: Kind, place: int) -> str:
    """Returns the mark in front of an option: its letter or its level; empty for yes and no."""
    return {"yes-no": "", "choice": LETTERS[place], "score": str(place)}[kind]


def option_title(kind: Kind, name: str) -> str:
    """Returns an option's title; yes and no are translated."""
    return tr(name.capitalize()) if kind == "yes-no" else name


def answer_name(question: Question, place: int) -> str:
    """Returns the title of a question's option, by index."""
    draft = QuestionDraft.from_question(question)
    return option_title(draft.kind, draft.options[place].name)


def is_answer(answer: TypedAnswer) -> bool:
    """Returns True if at least half of all probability is on the options; else none of them is the answer."""
    return answer.label_mass >= LITTLE_MASS


def shares(answer: TypedAnswer) -> tuple[float, ...]:
    """Returns the options' probabilities; of all probability, if little of it is on them."""
    return tuple(share * (1.0 if is_answer(answer) else answer.label_mass) for share in answer.probabilities)


def facts(answer: TypedAnswer) -> str:
    """Returns one line about an answer's certainty: mean level, confidence, share on the options, reads."""
    parts = []
    if isinstance(answer.question, Score):
        most = len(answer.probabilities) - 1
        parts.append(tr("mean level {level} of 0 to {most}", level=f"{answer.score:.2f}", most=most))
    parts.append(tr("confidence {share}", share=share_words(answer.confidence)))
    parts.append(tr("{share} on the options", share=share_words(answer.label_mass)))
    if answer.reads > 1:
        reads = trn("{count} read", "{count} reads", answer.reads)
        spread = f"±{100 * answer.spread[answer.best]:.1f}"
        agreement = f"{100 * answer.agreement:.0f} %"
        parts.append(tr("{reads}, {agreement} agree, {spread} points", reads=reads, agreement=agreement, spread=spread))
    line = " · ".join(parts)
    return line[:1].upper() + line[1:]


def facts_meaning() -> str:
    """Returns the explanation of the line that ``facts`` returns."""
    return tr(
        "On the options: their share of all probability; the rest is on other tokens. Confidence: the chosen option's "
        "probability times that share. Unsure answers are re-checked with new noise. Then you see the mean, how many "
        "reads agree, and the standard error."
    )


def warning(answer: TypedAnswer) -> str:
    """Returns a sentence that warns about an unreliable answer; empty if there is no reason to."""
    if not is_answer(answer):
        return tr(
            "No answer. Of all probability, {share} is on the options: the model wanted to say something else.",
            share=share_words(answer.label_mass),
        )
    if not answer.argmax_is_label:
        return tr("The likeliest token is not one of the options.")
    return ""


def spoken(answer: TypedAnswer) -> str:
    """Returns an answer as sentences, for assistive technology."""
    listed = ", ".join(
        f"{answer_name(answer.question, place)} {share_words(share)}" for place, share in enumerate(shares(answer))
    )
    said = tr("Answer: {answer}. {shares}.", answer=answer_name(answer.question, answer.best), shares=listed)
    said = said if is_answer(answer) else f"{listed}."
    return " ".join(filter(None, (said, f"{facts(answer)}.", warning(answer))))


def obstacle(model: LoadedModel) -> str:
    """Returns why a model cannot decide, and what to do; empty if it can."""
    if model.capabilities.decisions:
        return ""
    return tr("{model} cannot decide: it gives no probabilities. Load another model.", model=model.title)


def blindness(model: LoadedModel | None) -> str:
    """Returns why a model takes no pictures, and what to do; empty if it does, or if there is no model."""
    return "" if model is None or model.capabilities.images else cannot_see(model.title)


def advice(model: LoadedModel, *, has_pictures: bool) -> str:
    """Returns a caution if an embedded model was not trained for such decisions; empty for all other models."""
    known = next((one for one in EMBEDDED if one.id == model.path_or_id), None)
    if known is None or known.decides_about == ("drawings" if has_pictures else "texts"):
        return ""
    if has_pictures:
        return tr("{model} was not trained to decide; do not trust it.", model=model.title)
    return tr("{model} was not trained to decide; Safelight Decisions was.", model=model.title)


def unlearned(model: LoadedModel, text: str, sheet: QuestionSheet) -> str:
    """Returns a caution about words that the small decider was not trained on; empty for all other models."""
    return unlearned_line(unknown_words(text, sheet)) if model.path_or_id == DECIDER else ""
