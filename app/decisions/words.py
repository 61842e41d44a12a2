"""Texts about questions and answers, for labels and assistive technology. Has no widgets."""

from __future__ import annotations

from app.session.session import cannot_see
from app.state.decisions.board import LITTLE_MASS, RowBoard
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

KIND_TITLES: dict[Kind, str] = {"yes-no": "Yes or no", "choice": "Choice", "score": "Score"}  # shown through ``tr``


def percent(share: float) -> str:
    """Returns a share of 0 to 1 as a text like "97.3 %"."""
    return f"{100 * share:.1f} %"


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


def asked_line(sheet: QuestionSheet) -> str:
    """Returns one line about the questions that are asked about each row of a table."""
    asked = trn("Asks {count} question", "Asks {count} questions", len(sheet))
    together = tr("in one canvas") if sheet.is_joint and len(sheet) > 1 else ""
    names = ", ".join(draft.name for draft in sheet.questions)
    again = ""
    if sheet.repeats:
        again = trn("unsure answers re-checked once", "unsure answers re-checked {count} times", sheet.repeats)
    heat = tr("temperature {temperature}", temperature=f"{sheet.temperature:g}")
    first = " ".join(filter(None, (asked, together)))
    return " · ".join(filter(None, (f"{first}: {names}" if names else first, again, heat)))


def progress_words(board: RowBoard, seconds: float, *, is_on: bool) -> str:
    """Returns a table's progress, speed and accuracy, in one line."""
    done = trn("{count} row of {total} decided", "{count} rows of {total} decided", board.done, total=f"{len(board):,}")
    parts = [done]
    if is_on and seconds > 0.5 and board.done:
        parts.append(tr("{rate} rows a second", rate=f"{board.done / seconds:,.0f}"))
    if board.failed:
        parts.append(trn("{count} row without an answer", "{count} rows without an answer", board.failed))
    doubtful = int(board.in_doubt.any(axis=1).sum())
    if doubtful and not is_on:
        parts.append(trn("{count} row unsure", "{count} rows unsure", doubtful))
    for place in board.labelled if not is_on else ():
        right, known = board.accuracy(place)
        if known:
            name = board.questions[place].name
            parts.append(tr("{name}: {share} right", name=name, share=percent(right / known)))
    return " · ".join(parts)
