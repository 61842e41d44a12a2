"""``/v1/systemone`` of other servers: finds out if they have it, sends a decision, and turns the answer into a read.

These servers report probabilities only: there is one read, without a canvas.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.events import Event, GenerationFinished, PrefillFinished, SlotsRead
from engine.pictures import Picture
from engine.service.remote import problems
from engine.service.remote.calls import Calls, Check, count_of, field_of, no_check
from engine.service.remote.chat import url_of
from engine.service.remote.problems import RemoteError
from engine.tasks.decisions.forms import question_to_json
from engine.tasks.decisions.questions import Decision, Option, Question, Score, YesNo

LEAST = -1000.0  # nats
LONGEST_NAME = 64  # characters of a question's name in a request
OFFERS = (400, 422)  # the answer to a request without questions, of a server that has the route
JOINT = b"body.joint"  # vLLM's name of the field in such an answer
SLACK = 0.02  # the most that a sum of rounded probabilities may differ from 1


@dataclass(frozen=True)
class DecisionOffer:
    """A server's offer for a model: to decide, and to read questions jointly on request."""

    decides: bool = False
    joint: bool = False


def offer_of(calls: Calls, check: Check = no_check) -> DecisionOffer:
    """Asks a server for its offer. vLLM 0.32 ignores ``joint``; a server that knows it refuses a wrong value."""
    body = {"model": calls.address.model, "state": "", "questions": {}, "joint": "?"}
    try:
        status, said = calls.refusal(_url(calls), body, check)
    except RemoteError:
        return DecisionOffer()
    return DecisionOffer(status in OFFERS, status in OFFERS and JOINT in said)


def decide(calls: Calls, decision: Decision, pictures: Sequence[Picture], check: Check) -> Iterator[Event]:
    """Yields the events of a decision, which may be about pictures.

    Raises:
        RemoteError: the server does not decide it.
    """
    asked, names = time.monotonic(), _names(decision.questions)
    body = _body(decision, names, calls.address.model)
    if pictures:
        body["images"] = [url_of(picture) for picture in pictures]
    raw = calls.json(_url(calls), body, check, calls.patience.answer)
    seconds = time.monotonic() - asked
    found = [_logprobs(raw, name, question) for name, question in zip(names, decision.questions, strict=True)]
    if None in found:
        raise problems.strange(calls.address)
    usage = count_of(raw, "usage", "input_tokens")
    if usage is not None:
        yield PrefillFinished(usage, 0, seconds)
    is_label = tuple(field_of(raw, "diagnostics", name, "argmax_is_label") is not False for name in names)
    logprobs = tuple(np.array(one, dtype=np.float32) for one in found)
    yield SlotsRead(0, logprobs, is_label)
    yield GenerationFinished("eos", np.zeros(0, dtype=np.int32), 0, 0, seconds)


def _url(calls: Calls) -> str:
    return calls.address.base + "/systemone"


def _body(decision: Decision, names: Sequence[str], model: str) -> dict[str, Any]:
    questions = zip(names, decision.questions, strict=True)
    body: dict[str, Any] = {
        "model": model,
        "state": decision.state,
        "questions": {name: question_to_json(_plain(question)) for name, question in questions},
        "chat_template_kwargs": {"enable_thinking": False},
    }
    if decision.instructions:
        body["instructions"] = decision.instructions
    if decision.is_joint and len(names) > 1:
        body["joint"] = True
    return body


def _plain(question: Question) -> Question:
    """Returns a score's levels as names, the form that other servers take."""
    if not isinstance(question, Score):
        return question
    levels = (f"{level.name} - {level.description}" if level.description else level.name for level in question.levels)
    return Score(question.instructions, tuple(map(Option, levels)), question.name)


def _names(questions: Sequence[Question]) -> list[str]:
    """Returns a name for each question, its own if possible: some servers write it into the prompt."""
    own = [question.name for question in questions]
    fits = all(0 < len(name) <= LONGEST_NAME and name.isprintable() and ":" not in name for name in own)
    return own if fits and len(set(own)) == len(own) else [f"q{number}" for number, _ in enumerate(own, start=1)]


def _logprobs(raw: Any, name: str, question: Question) -> list[float] | None:
    """Returns the log-probability of each option over the whole vocabulary; None if the answer has none."""
    shares, mass = (
        _shares(field_of(raw, "answers", name), question),
        _number(field_of(raw, "diagnostics", name, "label_mass")),
    )
    if shares is None:
        return None
    mass = 1.0 if mass is None else mass
    return [max(LEAST, math.log(share * mass)) if share * mass > 0 else LEAST for share in shares]


def _shares(answer: Any, question: Question) -> list[float] | None:
    """Returns the probability of each option, summing to 1."""
    given = field_of(answer, "probabilities")
    match question:
        case YesNo():
            keys = ["yes", "no"]
            yes = _number(field_of(answer, "noul"))
            if given is None and yes is not None:
                given = {"yes": yes, "no": 1.0 - yes}
        case Score():
            keys = [str(level) for level, _ in enumerate(question.levels)]
        case _:
            keys = [option.name for option in question.options]
    values = [_number(field_of(given, key)) for key in keys]
    shares = [value for value in values if value is not None]
    whole = math.fsum(shares)
    if len(shares) < len(keys) or abs(whole - 1.0) > SLACK:
        return None
    return [share / whole for share in shares]


def _number(raw: Any) -> float | None:
    """Returns a probability."""
    is_one = isinstance(raw, int | float) and not isinstance(raw, bool) and 0.0 <= raw <= 1.0 + SLACK
    return min(1.0, float(raw)) if is_one else None
