"""Texts about questions and answers, for labels and assistive technology. Has no widgets."""

from __future__ import annotations

from app.state.decisions.drafts import Kind, QuestionDraft
from app.state.run.answers import share_words
from app.system.i18n import tr
from engine.catalog import EMBEDDED
from engine.service import LoadedModel
from engine.tasks.decisions.answers import TypedAnswer

LITTLE_MASS = 0.5  # with less probability on the options, none of them is the answer

KIND_TITLES: dict[Kind, str] = {"yes-no": "Yes or no", "choice": "Choice", "score": "Score"}  # shown through ``tr``


def option_titles(draft: QuestionDraft) -> tuple[str, ...]:
    """Returns the titles of a question's options; yes and no are translated."""
    names = (option.name for option in draft.options)
    return tuple(tr(name.capitalize()) if draft.kind == "yes-no" else name for name in names)


def warning(answer: TypedAnswer) -> str:
    """Returns a sentence that warns about an unreliable answer; empty if there is no reason to."""
    if answer.label_mass >= LITTLE_MASS:
        return ""
    return tr(
        "No answer. Of all probability, {share} is on the options: the model wanted to say something else.",
        share=share_words(answer.label_mass),
    )


def obstacle(model: LoadedModel) -> str:
    """Returns why a model cannot decide, and what to do; empty if it can."""
    if model.capabilities.decisions:
        return ""
    return tr("{model} cannot decide: it gives no probabilities. Load another model.", model=model.title)


def advice(model: LoadedModel) -> str:
    """Returns a caution if an embedded model was not trained to decide about texts; empty for all other models."""
    known = next((one for one in EMBEDDED if one.id == model.path_or_id), None)
    if known is None or known.decides_about == "texts":
        return ""
    return tr("{model} was not trained to decide.", model=model.title)
