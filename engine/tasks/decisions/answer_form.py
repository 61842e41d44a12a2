"""Typed answers as JSON, in the form of ``/v1/systemone``, together with what it calls diagnostics."""

from __future__ import annotations

from typing import Any

from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.questions import OneOf, Score, YesNo


def systemone_answer(answer: TypedAnswer) -> dict[str, Any]:
    """Returns an answer in the format of TypeSafe and vLLM, without its question's name."""
    question = answer.question
    names = [option.name for option in question.options]
    written: dict[str, Any]
    match question:
        case YesNo():
            written = {"type": "noul", "noul": answer.probabilities[0]}
        case OneOf():
            written = {"type": "choice", "choice": names[answer.best]}
        case Score():
            legend = {str(level): name for level, name in enumerate(names)}
            written = {"type": "score", "score": answer.score, "legend": legend}
            names = list(legend)
    probabilities = dict(zip(names, answer.probabilities, strict=True))
    return written | {"probabilities": probabilities, "confidence": answer.confidence}


def spread_of(answer: TypedAnswer) -> dict[str, float]:
    """Returns the standard error of each probability, with the names of ``systemone_answer``."""
    return dict(zip(systemone_answer(answer)["probabilities"], answer.spread, strict=True))


def answer_to_json(answer: TypedAnswer) -> dict[str, Any]:
    """Returns ``systemone_answer`` with its diagnostics, and the agreement of its reads if there are several."""
    written = systemone_answer(answer) | {
        "label_mass": answer.label_mass,
        "argmax_is_label": answer.argmax_is_label,
        "reads": answer.reads,
    }
    if answer.reads > 1:
        written |= {"spread": spread_of(answer), "agreement": answer.agreement}
    return written
