"""Runs that are slow, given up, or wait for each other; a server that is stopped in the middle of them."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine import SafelightError
from engine.server import LiveRequest, RunningServer, ServerOptions
from engine.service import LoadRequest, ModelLoaded, ModelUnloaded, Scheduler
from tests.engine.server.served import CHAT, Arrivals, ScriptedEngine, Served, refused, serving, within

BODY = {"messages": [{"role": "user", "content": "secret words"}], "stream": True}


@pytest.fixture
def engine() -> ScriptedEngine:
    engine = ScriptedEngine()
    engine.hold = True
    return engine


@pytest.fixture
def served(engine: ScriptedEngine) -> Iterator[Served]:
    with serving(engine, most_waiting=1, comment_seconds=0.02) as served:
        yield served


def newest(served: Served) -> LiveRequest:
    return served.server.live.snapshot()[0]


def state(served: Served) -> str:
    found = served.server.live.snapshot()
    return found[0].state if found else ""


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_a_stream_shows_that_it_is_alive_and_what_it_is(served: Served) -> None:
    changes: list[str] = []
    end = served.server.live.subscribe(lambda: changes.append(state(served)))
    with served.http.stream("POST", CHAT, json=BODY) as response:
        lines = response.iter_lines()
        assert '"role":"assistant"' in next(lines)
        assert any(line == ": developing" for line in lines)
        assert within(lambda: state(served) == "running")  # a line may come before, where all else is slow
        live = newest(served)
        assert (live.endpoint, live.model, live.prompt_tokens) == (CHAT, "scripted", len("secret words"))
        assert live.trace is not None
        for _ in range(served.engine.steps):
            served.engine.gate.release()
        assert list(lines)[-2:] == ["data: [DONE]", ""]
    assert within(lambda: state(served) == "finished")
    assert newest(served).tokens == len(served.engine.says)
    end()
    assert {"waiting", "running", "finished"} <= {*changes, "waiting"}


def test_a_request_can_be_cancelled_from_here(served: Served, pool: ThreadPoolExecutor) -> None:
    asked = pool.submit(served.chat)
    assert within(lambda: state(served) == "running")
    newest(served).stop()
    served.engine.gate.release()
    answer = asked.result(20)
    assert refused(answer)[0] == 503
    assert answer.headers["x-should-retry"] == "false"
    assert state(served) == "cancelled"


def test_more_than_may_wait_are_sent_away(served: Served, pool: ThreadPoolExecutor) -> None:
    served.engine.able = served.engine.able.__class__(steps=True, parallel_runs=1)
    first = pool.submit(served.chat)
    assert within(lambda: served.scheduler.running == 1)
    second = pool.submit(served.chat)
    assert within(lambda: served.scheduler.waiting == 1)
    third = served.chat()
    assert refused(third)[0] == 429
    assert int(third.headers["retry-after"]) > 0
    for _ in range(2 * served.engine.steps):
        served.engine.gate.release()
    assert [asked.result(20).status_code for asked in (first, second)] == [200, 200]


def test_a_model_that_goes_midway_is_said_to_be_gone(served: Served, pool: ThreadPoolExecutor) -> None:
    asked = pool.submit(served.chat)
    assert within(lambda: state(served) == "running")
    arrivals = Arrivals()
    served.scheduler.unload(arrivals)
    served.engine.gate.release()
    arrivals.wait_for(ModelUnloaded)
    assert refused(asked.result(20))[0] == 503
    assert refused(served.http.get("/health"))[2].startswith("No model is loaded")
    assert served.http.get("/v1/models").json()["data"] == []
    assert refused(served.chat())[0] == 503
    served.engine.hold = False
    served.scheduler.load(LoadRequest("scripted", "scripted"), arrivals)
    arrivals.wait_for(ModelLoaded)
    assert served.chat().status_code == 200


def test_an_answer_may_take_so_long(engine: ScriptedEngine, pool: ThreadPoolExecutor) -> None:
    with serving(engine, request_seconds=0.05) as served:
        asked = pool.submit(served.chat)
        assert within(lambda: bool(served.server.live.snapshot()) and newest(served).cancel.is_set())
        served.engine.gate.release()
        answer = asked.result(20)
        assert refused(answer)[0] == 503
        assert answer.json()["error"]["code"] == "timeout"
        assert state(served) == "failed"


def test_a_server_that_was_stopped_does_not_start(engine: ScriptedEngine) -> None:
    scheduler = Scheduler(engine)
    server = RunningServer(scheduler, ServerOptions())
    server.stop()
    with pytest.raises(SafelightError, match="has been stopped"):
        server.start()
    assert not server.is_running
    assert scheduler.close()


def test_while_a_model_loads_the_server_says_so(engine: ScriptedEngine) -> None:
    gate, usual = threading.Event(), engine.load_model

    def load_slowly(*args: Any) -> Any:
        assert gate.wait(20)
        return usual(*args)

    engine.load_model = load_slowly  # type: ignore[method-assign]
    with serving(engine, model="") as served:
        assert refused(served.http.get("/health"))[0] == 503
        arrivals = Arrivals()
        served.scheduler.load(LoadRequest("scripted", "scripted"), arrivals)
        assert within(lambda: served.scheduler.loading is not None)
        for response in (served.http.get("/health"), served.chat()):
            assert response.status_code == 503
            error = response.json()["error"]
            assert (error["code"], error["message"]) == ("loading", "Loading model")
        gate.set()
        arrivals.wait_for(ModelLoaded)
        assert served.http.get("/health").json() == {"status": "ok"}


def test_nothing_of_a_prompt_is_written_down(
    served: Served, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("secret words")

    log = io.StringIO()
    monkeypatch.setattr(logging.getLogger("safelight.server"), "handlers", [logging.StreamHandler(log)])
    served.engine.hold = False
    served.engine.failure, served.engine.fail_at = ValueError("secret words"), 0
    served.http.post(CHAT, json=BODY)
    monkeypatch.setattr("engine.server.chat.read_messages", fail)
    assert refused(served.http.post(CHAT, json=BODY))[::2] == (500, "Something went wrong in the server (ValueError).")
    served.http.get("/secret%20words")
    served.http.post(CHAT, json={"secret words": 1})
    assert "secret" not in "".join(capfd.readouterr()) + log.getvalue()
    assert "a request failed: ValueError in test_running.py" in log.getvalue()
