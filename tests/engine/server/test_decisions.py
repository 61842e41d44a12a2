"""Decisions over a made-up model: the format to the letter, what is refused by name, and requests that end early."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import numpy as np
import pytest

from engine.events import CanvasCommitted, CanvasStarted, GenerationFinished, PrefillFinished, SlotsRead, StepFinished
from engine.tasks.decisions.questions import Decision
from tests.engine.server.served import ScriptedEngine, Served, refused, serving, within

DECISIONS = "/v1/decisions"
MASS = 0.9
PREDICATE = {"type": "predicate", "instructions": "Is it so?", "name": "so"}
CHOICE = {
    "type": "choice",
    "instructions": [{"type": "input_text", "text": "Which?"}],
    "choices": [{"value": "true"}, {"value": True, "description": "the value"}, {"value": "ü"}],
}
LEVELS = [{"label": "low"}, {"label": "high", "description": "!"}]
SCORE = {"type": "score", "instructions": "How much?", "levels": LEVELS}


class DecidingEngine(ScriptedEngine):
    """Finds each of a question's options half as likely as the one before it; the other reads say the same.

    Under ``hold`` a read waits for ``gate``. ``broken`` is the state that it fails at.
    """

    def __init__(self) -> None:
        super().__init__()
        self.able = dataclasses.replace(self.able, decisions=True)
        self.decided: list[Decision] = []
        self.broken = ""
        self.reads_all = True  # also a system message

    def render(self, messages: Any, tools: Any = (), **options: Any) -> str:
        return super().render(messages if self.reads_all else messages[-1:], tools, **options)

    def decode(self, _model: Any, task: Any, _cache: Any) -> Iterator[Any]:
        decision, layout, cancel = task.request.decision, task.layout, task.request.cancel
        self.decided.append(decision)
        canvas = np.array(layout.canvas, dtype=np.int32).clip(0)
        yield PrefillFinished(len(task.ids), len(decision.state), 0.01)
        for read in range(1 + decision.repeats):
            yield CanvasStarted(read, canvas, np.ones(len(canvas), dtype=np.bool_))
            if self.hold:
                self.gate.acquire()
            if cancel.is_set():
                yield GenerationFinished("cancelled", canvas[:0], read, read, 0.0)
                return
            if decision.state == self.broken:
                raise self.failure
            sure, none = np.ones(len(canvas), dtype=np.bool_), np.zeros(len(canvas), dtype=np.float32)
            yield StepFinished(read, 0, 1.0, canvas, canvas, none, sure, canvas, 0.01)
            shares = [np.array([2.0**-n for n, _ in enumerate(slot.labels)], dtype=np.float32) for slot in layout.slots]
            logs = tuple(np.log(MASS * share / share.sum()) for share in shares)
            yield SlotsRead(read, logs, tuple(True for _ in logs))
            yield CanvasCommitted(read, canvas, 1, 1, "converged")
        yield GenerationFinished("eos", canvas[:1], read + 1, read + 1, 0.01)


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving(DecidingEngine()) as served:
        yield served


@pytest.fixture
def served(server: Served) -> Served:
    server.engine.decided.clear()
    return server


def near(value: Any) -> Any:
    """Numbers in JSON, as near as floats of 32 bits are."""
    match value:
        case float():
            return pytest.approx(value, abs=1e-6)
        case dict():
            return {name: near(one) for name, one in value.items()}
        case list():
            return [near(one) for one in value]
    return value


def decide(served: Served, **fields: Any) -> httpx2.Response:
    return served.http.post(DECISIONS, json={"input": "It is so.", "questions": [PREDICATE], **fields})


def test_decisions_are_written_as_openai_has_them(served: Served) -> None:
    answer = decide(served, model="scripted", questions=[PREDICATE, CHOICE, SCORE], safety_identifier="me").json()
    prompts = answer["usage"].pop("input_tokens")
    assert prompts > 3 * len("It is so.")
    assert answer["usage"].pop("total_tokens") == prompts + 3
    assert answer == near({
        "model": "scripted",
        "answers": [
            {"type": "predicate", "name": "so", "probability": 2 / 3},
            {
                "type": "choice", "name": None, "choice": "true", "confidence": MASS * 4 / 7,
                "probabilities": [
                    {"value": "true", "probability": 4 / 7}, {"value": True, "probability": 2 / 7},
                    {"value": "ü", "probability": 1 / 7},
                ],
            },
            {
                "type": "score", "name": None, "score": 1 / 3, "confidence": MASS * 2 / 3,
                "probabilities": [
                    {"value": 0, "label": "low", "probability": 2 / 3},
                    {"value": 1, "label": "high", "probability": 1 / 3},
                ],
            },
        ],
        "usage": {
            "input_tokens_details": {"cached_tokens": 27, "cache_write_tokens": 0},
            "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 0},
        },
    })  # fmt: skip
    assert [len(decision.questions) for decision in served.engine.decided] == [1, 1, 1]
    assert [option.name for option in served.engine.decided[1].questions[0].options] == ['"true"', "true", '"ü"']


@pytest.mark.parametrize(
    ("sent", "state", "instructions"),
    [
        ([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}], "one\n\ntwo", ""),
        (
            [
                {"role": "developer", "content": [{"type": "input_text", "text": "Mind."}]},
                {"type": "message", "role": "user", "content": [{"type": "input_json", "data": {"a": "ü"}}]},
                {"role": "assistant", "content": [{"type": "output_text", "text": "So."}], "phase": "final_answer"},
            ],
            'user: {"a": "ü"}\n\nassistant: So.',
            "Mind.",
        ),
    ],
)
def test_messages_become_a_state(served: Served, sent: Any, state: str, instructions: str) -> None:
    assert decide(served, input=sent).status_code == 200
    [decision] = served.engine.decided
    assert (decision.state, decision.instructions) == (state, instructions)


def choice_of(count: int) -> dict[str, Any]:
    return {**CHOICE, "choices": [{"value": str(number)} for number in range(count)]}


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"input": " "}, "input", "empty"),
        ({"input": [{"role": "system", "content": "Mind."}]}, "input", "empty"),
        ({"input": [{"role": "wizard", "content": "x"}]}, "input.0.role", None),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input.0.type", "Only messages"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input.0.content.0", "no image_url"),
        ({"questions": []}, "questions", None),
        ({"questions": [PREDICATE] * 65}, "questions", "65 questions; at most 64"),
        ({"questions": [PREDICATE, choice_of(27)]}, "questions.1.choices", "27 options; give 2 to 26"),
        ({"questions": [choice_of(1)]}, "questions.0.choices", "give 2 to 26"),
        ({"questions": [{**CHOICE, "choices": [{"value": "a"}] * 2}]}, "questions.0.choices", "twice"),
        ({"questions": [{**CHOICE, "choices": [{"value": 1}, {"value": 2}]}]}, "questions.0.choices.0.value", None),
        ({"questions": [{**SCORE, "levels": LEVELS * 6}]}, "questions.0.levels", "12 levels"),
        ({"questions": [{**PREDICATE, "instructions": " "}]}, "questions.0", "asks nothing"),
        ({"questions": [{**PREDICATE, "type": "guess"}]}, "questions.0", None),
        ({"questions": [{**PREDICATE, "mood": 1}]}, "questions.0.mood", "not known"),
        ({"questions": [{**PREDICATE, "instructions": [{"type": "x"}]}]}, "questions.0.instructions.0", "supported"),
        ({"input": "x" * 2_000}, "input", "Shorten the state"),
        ({"stream": True}, "stream", "not known"), ({"joint": True}, "joint", "not known"),
        ({"model": "gpt-6-luna"}, "model", "not loaded"),
    ],
)  # fmt: skip
def test_what_cannot_be_decided_is_refused_by_name(
    served: Served, fields: dict[str, Any], param: str, said: str | None
) -> None:
    status, where, sentence = refused(decide(served, **fields))
    assert (status, where) == (404 if param == "model" else 400, param)
    assert (said or "") in sentence
    assert not served.engine.decided


def test_a_model_that_cannot_decide_says_so() -> None:
    with serving(ScriptedEngine()) as plain:
        status, _, sentence = refused(decide(plain))
        assert (status, sentence) == (501, "The model scripted cannot decide; load another one.")


def test_one_that_reads_no_system_message_takes_no_instructions() -> None:
    engine = DecidingEngine()
    engine.reads_all = False
    with serving(engine) as deaf:
        assert decide(deaf).status_code == 200
        messages = [{"role": "system", "content": "Mind."}, {"role": "user", "content": "x"}]
        assert refused(decide(deaf, input=messages))[:2] == (400, "input")


def test_a_request_that_fails_ends_all_of_its_runs(served: Served) -> None:
    served.engine.broken = "broken"
    status, _, sentence = refused(decide(served, input="broken", questions=[PREDICATE] * 20))
    assert status == 500
    assert "fell out" in sentence
    assert within(lambda: served.scheduler.running + served.scheduler.waiting == 0)
    assert served.server.live.snapshot()[0].state == "failed"


def test_a_request_waits_as_one_however_many_questions_it_has() -> None:
    engine = DecidingEngine()
    engine.hold = True
    engine.able = dataclasses.replace(engine.able, parallel_runs=1)
    with serving(engine, most_waiting=2) as served, ThreadPoolExecutor() as pool:
        first = pool.submit(decide, served, questions=[PREDICATE] * 5)
        assert within(lambda: served.scheduler.waiting == 4)  # whose client is one, of which there may be two
        second = pool.submit(decide, served, questions=[PREDICATE] * 5)
        assert within(lambda: served.scheduler.waiting == 9)
        status, _, sentence = refused(decide(served))
        assert (status, sentence) == (429, "2 requests are already waiting; try again in a moment.")
        engine.hold = False
        engine.gate.release(20)
        assert [len(asked.result(20).json()["answers"]) for asked in (first, second)] == [5, 5]
