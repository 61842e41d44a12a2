"""Decisions and formats of other servers: what is sent, what comes back, and what is no answer."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from engine.events import GenerationFinished, PrefillFinished, SlotsRead
from engine.service import DecisionReads, RunRequest, decision_requests
from engine.service.remote import RemoteBackend
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.questions import OneOf, Option, Question, Score, YesNo
from engine.text.output_format import OutputFormat
from engine.trace import open_trace
from tests.engine.hub.rude_server import Request, Rude
from tests.engine.service.remote import test_vllm as vllm
from tests.engine.service.remote.servers import ask, bodies, in_json, loaded, models, question, serving, streamed, words

QUESTIONS: tuple[Question, ...] = (
    YesNo("Is it so?", yes="it is", name="so"),
    OneOf("Which?", (Option("a"), Option("ü", "the second")), "which"),
    Score("How much?", (Option("low"), Option("high", "very")), "much"),
)
ANSWERS: dict[str, Any] = {
    "so": {"type": "noul", "noul": 0.9, "probabilities": {"yes": 0.9, "no": 0.1}, "confidence": 0.45},
    "which": {"type": "choice", "choice": "ü", "probabilities": {"a": 0.25, "ü": 0.75}, "confidence": 0.75},
    "much": {"type": "score", "score": 0.0, "legend": {"0": "low"}, "probabilities": {"0": 1.0, "1": 0.0}},
}
ANSWER: dict[str, Any] = {
    "id": "decision-1",
    "object": "structured_decision",
    "answers": ANSWERS,
    "usage": {"input_tokens": 42, "output_tokens": 3},
    "diagnostics": {"so": {"label_mass": 0.5, "argmax_is_label": False}},
    "joint": None,
}


# What vLLM 0.32 answered to a field of the wrong type that it knows; with ``joint``, which it does not know, it
# answered ``NO_QUESTIONS``.
COMPLAINT = (
    "1 validation error:\n  {'type': 'bool_parsing', 'loc': 'body.joint', "
    "'msg': 'Input should be a valid boolean, unable to interpret input', 'input': '?'}"
)
NO_QUESTIONS = "questions: needs at least one question"


def server(
    answer: Any = ANSWER,
    status: str = "200 OK",
    empty: str = "400 Bad Request",
    complaint: str = NO_QUESTIONS,
) -> Any:
    """It refuses a request without questions with ``empty`` and a ``complaint``."""
    refusal = {"error": {"message": complaint, "type": "BadRequestError", "param": None, "code": 400}}

    def systemone(request: Request) -> None:
        has_questions = bool(json.loads(request.body)["questions"])
        in_json(answer if has_questions else refusal, status if has_questions else empty)(request)

    return serving(v1_models=models("m", owner="vllm", max_model_len=4096), v1_systemone=systemone)


def requests_of(backend: RemoteBackend, **how: Any) -> tuple[RunRequest, ...]:
    model = backend._model
    assert model is not None
    return decision_requests(model.loaded, "It is so.", QUESTIONS, **how)


def decided(backend: RemoteBackend, **how: Any) -> tuple[TypedAnswer, ...]:
    [request] = requests_of(backend, **how)
    assert request.decision is not None
    reads = DecisionReads(request.decision)
    for reply in ask(backend, request).replies:
        reads.add(reply)
    return reads.answers()


def sent(server: Rude) -> dict[str, Any]:
    return bodies(server, "/v1/systemone")[-1]


def test_a_decision_is_one_request_and_one_read(tmp_path: Path) -> None:
    with server() as other:
        backend = loaded(other, traces=tmp_path)
        [request] = requests_of(backend, instructions="Mind.", repeats=2, keep=True)
        ran = ask(backend, request)
        asked = sent(other)
    assert asked == {
        "model": "m",
        "state": "It is so.",
        "instructions": "Mind.",
        "chat_template_kwargs": {"enable_thinking": False},
        "questions": {
            "so": {"type": "noul", "instructions": "Is it so?", "criteria": {"true": "it is"}},
            "which": {"type": "choice", "instructions": "Which?", "criteria": {"a": None, "ü": "the second"}},
            "much": {"type": "score", "instructions": "How much?", "criteria": ["low", "high - very"]},
        },
    }
    assert [type(event) for event in ran.events] == [PrefillFinished, SlotsRead, GenerationFinished]
    assert ran.events[0].prompt_tokens == 42
    assert ran.events[1].argmax_is_label == (False, True, True)
    assert ran.events[1].logprobs[0].tolist() == pytest.approx([math.log(0.45), math.log(0.05)], rel=1e-6)
    stored = open_trace(next(tmp_path.iterdir()), check=True)
    assert stored.header.decision == request.decision
    assert [type(event) for event in stored.events] == [type(event) for event in ran.events]


def test_its_probabilities_become_answers() -> None:
    with server() as other:
        so, which, much = decided(loaded(other))
    assert (so.probabilities, so.label_mass) == (pytest.approx((0.9, 0.1)), pytest.approx(0.5))
    assert (which.best, which.label_mass, which.confidence) == (1, pytest.approx(1), pytest.approx(0.75))
    assert (much.score, much.probabilities) == (pytest.approx(0), pytest.approx((1, 0)))


@pytest.mark.parametrize(("complaint", "is_known"), [(COMPLAINT, True), (NO_QUESTIONS, False)])
def test_questions_without_names_are_numbered_and_asked_jointly_where_the_server_can(
    complaint: str, is_known: bool
) -> None:
    answers = {f"q{number}": ANSWERS["which"] for number in (1, 2)}
    asked = (OneOf("Which?", (Option("a"), Option("ü"))),) * 2
    with server({"answers": answers}, complaint=complaint) as other:
        backend = loaded(other)
        assert backend._model is not None
        [request] = decision_requests(backend._model.loaded, "x", asked, is_joint=True)
        ran = ask(backend, request)
        assert not ran.ended.message
        assert list(sent(other)["questions"]) == ["q1", "q2"]
        assert sent(other).get("joint", False) is is_known
        recorded = ran.trace.header.decision
        assert recorded is not None
        assert recorded.is_joint is is_known


def test_the_hosted_one_gives_a_number_for_yes_alone() -> None:
    with server({"answers": ANSWERS | {"so": {"type": "noul", "noul": 0.25}}}) as other:
        assert decided(loaded(other))[0].probabilities == pytest.approx((0.25, 0.75))


@pytest.mark.parametrize(
    "answers",
    [
        None, {}, {"so": None}, ANSWERS | {"much": {"probabilities": {"0": 1.0}}},
        ANSWERS | {"which": {"probabilities": {"a": 0.25, "ü": 0.25}}},
        ANSWERS | {"which": {"probabilities": {"a": -1.0, "ü": 2.0}}},
        ANSWERS | {"which": {"probabilities": {"a": True, "ü": 0.0}}},
        ANSWERS | {"which": {"probabilities": {"a": "0.5", "ü": 0.5}}}, ANSWERS | {"so": {"noul": 10**400}},
    ],
)  # fmt: skip
def test_what_is_no_answer_is_said_in_a_line(answers: Any) -> None:
    with server({"answers": answers}) as other:
        backend = loaded(other)
        ran = ask(backend, requests_of(backend)[0])
    assert "no OpenAI-compatible server" in ran.ended.message
    assert not ran.ended.details
    assert ran.events == []


def test_what_it_refuses_is_said_in_its_words() -> None:
    error = {"error": {"message": "questions: at most 2 for this model", "code": 400}}
    with server(error, "400 Bad Request") as other:
        backend = loaded(other)
        message = ask(backend, requests_of(backend)[0]).ended.message
        assert message == f"The server at {other.endpoint} refuses the request: questions: at most 2 for this model"


@pytest.mark.parametrize("empty", ["404 Not Found", "405 Method Not Allowed", "501 Not Implemented", "200 OK"])
def test_a_server_without_them_is_not_asked_to_decide(empty: str) -> None:
    with server(empty=empty) as other:
        backend = loaded(other)
        assert not backend.capabilities.decisions
        with server() as able:
            [request] = requests_of(loaded(able))
        assert "has no /v1/systemone" in ask(backend, request).ended.message


# --- formats ---------------------------------------------------------------------------------------------------------

SCHEMA = {"type": "object"}
TOOLS = tuple({"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("look", "go"))


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        (
            OutputFormat("json_schema", SCHEMA),
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
                }
            },
        ),
        (OutputFormat("json_object"), {"response_format": {"type": "json_object"}}),
        (OutputFormat("regex", pattern="a+"), {"structured_outputs": {"regex": "a+"}}),
        (OutputFormat("choices", choices=("a", "b")), {"structured_outputs": {"choice": ["a", "b"]}}),
        (
            OutputFormat("tool_calls", tools=({"name": "go", "parameters": SCHEMA},)),
            {"tools": [TOOLS[1]], "tool_choice": "required"},
        ),
    ],
)
def test_a_format_is_asked_for_as_openai_has_it(asked: OutputFormat, fields: dict[str, Any]) -> None:
    tools = TOOLS if asked.kind == "tool_calls" else ()
    request = dataclasses.replace(question(), output_format=asked, tools=tools)
    with serving(v1_models=models("m", owner="vllm"), v1_chat_completions=streamed(*words(["{}"]))) as other:
        ran = ask(loaded(other), request)
        [body] = bodies(other)
    assert (ran.text, ran.ended.message, ran.trace.header.output_format) == ("{}", "", asked)
    assert {name: body[name] for name in fields} == fields
    with serving(v1_models=models("m"), v1_chat_completions=streamed(*words(["{}"]))) as other:
        message = ask(loaded(other), request).ended.message
        assert ("only supports JSON" in message) == ("structured_outputs" in fields)


def test_a_model_that_cannot_be_held_to_a_format_says_so_in_its_words() -> None:
    with vllm.vllm() as other:
        message = ask(loaded(other, vllm.NAME), question(output_format=OutputFormat("json_object"))).ended.message
    assert message.endswith("supports no format with this model.")
