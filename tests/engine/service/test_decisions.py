"""Decisions of the embedded model by the local backend: how questions become runs, and runs answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from engine import MINI, SafelightError, SlotsRead
from engine.service import (
    Capabilities,
    DecisionReads,
    DecisionRun,
    LoadedModel,
    LoadRequest,
    LocalBackend,
    ModelLoaded,
    RunAdvanced,
    RunRequest,
    RunStarted,
    decision_requests,
    run_alone,
)
from engine.tasks.decisions.questions import Decision, OneOf, Option, Question, Score, YesNo
from tests.engine.seeing import picture
from tests.engine.traces import read_whole

STATE = "There are 12 apples and 7 pears in the box."
QUESTIONS: tuple[Question, ...] = (
    YesNo("Are there more apples than pears?", name="more"),
    OneOf("What is there most of?", (Option("apples"), Option("pears", "green ones")), "most"),
    Score("How full is it?", (Option("empty"), Option("half"), Option("full")), "full"),
)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def backend(traces: Path) -> LocalBackend:
    return LocalBackend(traces)


@pytest.fixture(scope="module")
def model(backend: LocalBackend) -> LoadedModel:
    replies: list[Any] = []
    backend.load(LoadRequest(MINI, "Skills"), replies.append)
    assert isinstance(replies[-1], ModelLoaded)
    return replies[-1].model


def ran(backend: LocalBackend, request: RunRequest) -> tuple[DecisionReads, list[Any]]:
    assert request.decision is not None
    reads, replies = DecisionReads(request.decision), list(run_alone(backend, request))
    for reply in replies:
        reads.add(reply)
    return reads, replies


@pytest.mark.parametrize("is_joint", [False, True])
def test_each_question_is_answered_and_its_state_read_once(
    backend: LocalBackend, model: LoadedModel, is_joint: bool
) -> None:
    requests = decision_requests(model, STATE, QUESTIONS, is_joint=is_joint, repeats=2)
    assert len(requests) == (1 if is_joint else 3)
    backend._caches.clear()
    reads = [ran(backend, request)[0] for request in requests]
    reused = [one.usage.reused_tokens > len(STATE) for one in reads]
    assert reused == ([False] if is_joint else [False, True, True])
    answers = [answer for one in reads for answer in one.answers()]
    assert [answer.question for answer in answers] == list(QUESTIONS)
    assert [len(answer.probabilities) for answer in answers] == [2, 2, 3]
    assert all(sum(answer.probabilities) == pytest.approx(1) for answer in answers)
    assert {answer.reads for answer in answers} <= {1, 3}


def test_a_decision_is_recorded_with_its_questions_and_slots(
    backend: LocalBackend, model: LoadedModel, traces: Path
) -> None:
    [request] = decision_requests(model, STATE, QUESTIONS, is_joint=True, keep=True)
    reads, replies = ran(backend, request)
    trace = next(reply.trace for reply in replies if isinstance(reply, RunStarted))
    assert trace.path is not None
    assert trace.path.parent == traces
    stored = read_whole(trace.path)
    assert (stored.notice, stored.header) == ("", trace.header)
    header = stored.header
    assert (header.decision, header.canvas_length) == (request.decision, 32)
    assert [slot.position for slot in header.slots] == [3, 8, 13]
    assert header.prompt.startswith(f"{STATE}\n\nQuestion 1: Are there more apples")
    assert header.prompt_ids == tuple(model.prompt_ids(request))
    assert [type(event) for event in stored.events] == [type(event) for event in trace.events]
    kept = next(event for event in stored.events if isinstance(event, SlotsRead))
    seen = next(reply.event for reply in replies if isinstance(getattr(reply, "event", None), SlotsRead))
    assert [row.tolist() for row in kept.logprobs] == [row.tolist() for row in seen.logprobs]
    best = ["yn"[reads.answers()[0].best], "AB"[reads.answers()[1].best], str(reads.answers()[2].best)]
    assert stored.text == trace.text == "".join(f"{number}: {one}\n" for number, one in enumerate(best, start=1))
    usage = reads.usage
    assert (usage.prompt_tokens, usage.answer_tokens) == (len(header.prompt_ids), 3)


def test_as_many_questions_as_fit_are_asked_together(model: LoadedModel) -> None:
    """12 on a canvas of 64, and fewer where the context is short; one that is left over is asked singly."""
    questions = [YesNo(f"Is {number} odd?", name=str(number)) for number in range(25)]
    wide = dataclasses.replace(model, context=10_000)
    decisions = [request.decision for request in decision_requests(wide, "-", questions, is_joint=True)]
    assert [(one.first, len(one.questions)) for one in decisions if one] == [(1, 8), (9, 8), (17, 9)]
    parts = [request.decision for request in decision_requests(model, "-", questions, is_joint=True)]
    assert [question for one in parts if one for question in one.questions] == questions
    assert len(parts) > 3
    tight = dataclasses.replace(model, context=60)
    alone = [request.decision for request in decision_requests(tight, "-" * 99, questions[:2], is_joint=True)]
    assert [(one.first, one.is_joint) for one in alone if one] == [(1, False)] * 2


@pytest.mark.parametrize(
    ("decision", "says"),
    [
        (Decision(STATE, QUESTIONS), "ask one at a time"),
        (Decision(STATE, QUESTIONS[:1], "Be strict."), "reads no system message"),
        (Decision("x" * 600, QUESTIONS[:1]), "this model has 512 positions. Shorten the state"),
        (Decision(STATE, QUESTIONS * 5, is_joint=True), "15 questions take a canvas of 96 tokens; the model's has 64"),
    ],
)
def test_what_cannot_be_decided_is_one_sentence_before_anything_runs(
    backend: LocalBackend, model: LoadedModel, decision: Decision, says: str
) -> None:
    request = DecisionRun(model.defaults, 0, decision)
    reads, replies = ran(backend, request)
    assert says in reads.message
    assert len(replies) == 1
    with pytest.raises(SafelightError, match=says.replace(".", r"\.")):
        reads.answers()


def test_what_cannot_be_asked_is_said_at_once(model: LoadedModel) -> None:
    unable = dataclasses.replace(model, capabilities=Capabilities(steps=True))
    for asked, says in (
        (lambda: decision_requests(unable, STATE, QUESTIONS), "cannot decide"),
        (lambda: decision_requests(model, STATE, QUESTIONS, instructions="Be strict."), "no system message"),
        (lambda: decision_requests(model, " ", QUESTIONS), "state is empty"),
        (lambda: decision_requests(model, STATE, QUESTIONS, pictures=(picture(4, 4),)), "cannot see images"),
        (lambda: decision_requests(model, STATE, ()), "no question"),
    ):
        with pytest.raises(SafelightError, match=says):
            asked()


def test_a_stopped_decision_has_no_answer(backend: LocalBackend, model: LoadedModel) -> None:
    [request] = decision_requests(model, STATE, QUESTIONS[:1])
    request.cancel.set()
    reads, replies = ran(backend, request)
    assert not any(isinstance(reply, RunAdvanced) and isinstance(reply.event, SlotsRead) for reply in replies)
    with pytest.raises(SafelightError, match="stopped before"):
        reads.answers()
