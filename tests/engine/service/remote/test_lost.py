"""Servers that stop: behind a balancer another one answers, a silent one is asked, and the text so far stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from engine.service import LoadFailed, LoadRequest, ModelLoaded, RunRequest
from engine.service.remote import RemoteBackend
from tests.engine.hub.rude_server import Request
from tests.engine.service.remote.servers import (
    SHORT,
    ask,
    bodies,
    chunk,
    events,
    in_json,
    loaded,
    models,
    question,
    serving,
    streamed,
    words,
)

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
BAD_GATEWAY = b"<html><head><title>502 Bad Gateway</title></head><body><center>nginx</center></body></html>"


def bad_gateway(request: Request) -> None:
    request.reply(BAD_GATEWAY, "Content-Type: text/html", status="502 Bad Gateway")


def hung_up(request: Request) -> None:
    request.send(b"")


def cut_before_any_text(request: Request) -> None:
    request.send(HEAD + events(chunk({"role": "assistant", "content": ""}), end=b""))


def reset(request: Request) -> None:
    request.send(HEAD[:20])


@pytest.mark.parametrize("first", [bad_gateway, hung_up, cut_before_any_text, reset])
def test_an_answer_that_has_shown_nothing_is_asked_for_again_once(first: Callable[[Request], None]) -> None:
    answers = iter([first, streamed(*words(["Hello."]))])
    with serving(v1_models=models("m"), v1_chat_completions=lambda request: next(answers)(request)) as server:
        ran = ask(loaded(server))
        asked = bodies(server)
    assert (ran.text, ran.ended.message) == ("Hello.", "")
    assert len(asked) == 2
    assert asked[0] == asked[1]


def test_it_is_not_asked_for_a_third_time_and_the_balancer_is_named() -> None:
    with serving(v1_models=models("m"), v1_chat_completions=bad_gateway) as server:
        ran = ask(loaded(server))
        assert len(bodies(server)) == 2
    assert ran.ended.message == (
        f"{server.endpoint} passes requests on to a server that does not answer (502). Check that the server behind it "
        "is running, then try again."
    )


def test_an_answer_that_has_begun_is_not_asked_for_again() -> None:
    def broken(request: Request) -> None:
        request.send(HEAD + events(chunk({"content": "so"}), end=b""))

    with serving(v1_models=models("m"), v1_chat_completions=broken) as server:
        ran = ask(loaded(server))
        assert len(bodies(server)) == 1
    assert (ran.text, ran.ended.message) == (
        "so",
        "The connection to the server was lost during the answer. Try again.",
    )


def silent(request: Request) -> None:
    """Begins an answer, and says nothing more."""
    request.send(HEAD + events(chunk({"content": "so far"}), end=b""))
    request.wait(60)


def silence(answer: Callable[[Request], None]) -> tuple[str, str, int]:
    """The text, the problem and the number of questions for models, of a silent answer and a server that so answers."""
    listed = iter([models("m")])  # for the load; then as ``answer`` has it
    backend: RemoteBackend
    with serving(v1_models=lambda request: next(listed, answer)(request), v1_chat_completions=silent) as server:
        backend = loaded(server, patience=replace(SHORT, silence=0.1, stall=0.5))
        ran = ask(backend)
        asked = sum(request.path == "/v1/models" for request in server.requests)
    return ran.text, ran.ended.message.replace(server.endpoint, "…"), asked - 1


@pytest.mark.parametrize("answer", [bad_gateway, hung_up])
def test_a_silent_answer_of_a_server_that_is_gone_ends_with_its_text(answer: Callable[[Request], None]) -> None:
    assert silence(answer) == ("so far", "The server at … has stopped. The text so far is kept.", 1)


@pytest.mark.parametrize("status", ["200 OK", "429 Too Many Requests", "503 Service Unavailable"])
def test_a_silent_answer_of_a_server_that_runs_goes_on(status: str) -> None:
    text, problem, asked = silence(in_json({"error": "later"}, status))
    assert (text, problem) == ("so far", "The server at … stopped sending. The text so far is kept.")
    assert asked >= 2


def test_text_is_read_while_the_question_whether_it_runs_has_no_answer() -> None:
    listed = iter([models("m")])

    def hung(request: Request) -> None:
        request.wait(60)

    def paused(request: Request) -> None:
        request.send(HEAD + events(chunk({"content": "so far"}), end=b""))
        while not any(request.path == "/v1/models" for request in server.requests[1:]):
            request.wait(0.05)
        request.send(events(*words([" and on"])))

    with serving(v1_models=lambda request: next(listed, hung)(request), v1_chat_completions=paused) as server:
        ran = ask(loaded(server, patience=replace(SHORT, silence=0.2, short=8.0, stall=4.0)))
    assert (ran.text, ran.ended.message) == ("so far and on", "")


def test_a_seed_that_nobody_set_is_not_sent_and_not_recorded() -> None:
    def plain(request: Request) -> None:  # vLLM, which says by this that it is no diffusion model
        refused = {"error": {"message": "thinking_token_budget needs a parser", "code": 400}}
        is_probe = json.loads(request.body)["max_tokens"] == 1
        (in_json(refused, "400 Bad Request") if is_probe else streamed(*words(["Hello."])))(request)

    with serving(v1_models=models("m", owner="vllm"), v1_chat_completions=plain) as server:
        backend = loaded(server)
        drawn, chosen = (ask(backend, question(seed=5, is_seed_set=is_set)) for is_set in (False, True))
    assert [body.get("seed") for body in bodies(server)] == [None, 5]
    assert [ran.trace.header.seed for ran in (drawn, chosen)] == [None, 5]


def load(address: str) -> ModelLoaded | LoadFailed:
    replies: list[object] = []
    RemoteBackend(patience=SHORT).load(LoadRequest(address, "A model"), replies.append)
    last = replies[-1]
    assert isinstance(last, ModelLoaded | LoadFailed)
    return last


def test_an_address_without_a_model_takes_the_only_one() -> None:
    with serving(v1_models=models("qwen")) as server:
        reply = load(server.endpoint)
    assert isinstance(reply, ModelLoaded)
    assert reply.model.path_or_id == f"{server.endpoint}/v1#qwen"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "The server at … lists no model. Load one there."),
        (["a", "b"], "The server at … has several models: a, b. Add one to the address, as in …/v1#a."),
        (list("abcdef"), "The server at … has several models: a, b, c, d, e, …. Add one to the address, as in …/v1#a."),
    ],
)
def test_an_address_without_a_model_lists_those_there_are(names: list[str], message: str) -> None:
    with serving(v1_models=models(*names)) as server:
        reply = load(f"{server.endpoint}/v1")
    assert isinstance(reply, LoadFailed)
    assert str(reply.message).replace(server.endpoint, "…") == message


def test_a_prompt_over_the_context_says_by_how_much() -> None:
    listed = models("m", owner="vllm", max_model_len=100)
    counted = in_json({"count": 130, "max_model_len": 100, "tokens": []})
    with serving(v1_models=listed, tokenize=counted) as server:
        backend = loaded(server)
        alone = ask(backend, question())
        first: RunRequest = question()
        kept = ask(backend, replace(first, reserve=20, run_id="other"))
    assert alone.ended.message == (
        "The prompt takes 130 tokens, 30 more than the context of 100. Shorten it, or remove a file or an image."
    )
    assert "takes 130 tokens and the answer up to 20, 50 more than the context of 100" in kept.ended.message
