"""The user's tools in ``/v1/responses``: OpenAI's own client, and a tool server by the official SDK."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import openai
import pytest
from openai.types.responses import Response

from engine import TOOLS
from engine.server import UserTools, chat
from engine.server.hosted_request import ServerTools
from engine.service import LocalBackend
from engine.tools import connection
from engine.tools.declared import EXAMPLES, ToolServer
from engine.tools.host import ToolHost
from engine.tools.tool import Tool, ToolResult
from tests.engine.server.served import KEY, ScriptedEngine, Served, refused, serving, within

SERVERS = Path(__file__).parents[1] / "tools"
SUMS = ToolServer("sums", sys.executable, (str(SERVERS / "sdk_server.py"),))
PLAIN = ToolServer("plain one", sys.executable, ("-S", "-E", str(SERVERS / "plain_server.py")))
FREE: Any = {"type": "mcp", "server_label": "sums", "require_approval": "never"}
FORECAST: Any = {"type": "function", "name": "forecast", "parameters": {"type": "object"}, "strict": False}
ADD = "<|tool_call>call:add{first:2,second:40}<tool_call|>"


class InTurn(ScriptedEngine):
    """Writes one text after the other, then the last one again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = ["Done."]
        self.context = 20_000

    def generate(self, *given: Any) -> Iterator[Any]:  # type: ignore[override]
        self.says = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        yield from super().generate(*given)


class NotedHost(ToolHost):
    """Notes the calls that are made."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = list[Future[ToolResult]]()

    def call(self, tool: Tool, arguments: dict[str, Any], seconds: float = 120.0) -> Future[ToolResult]:
        self.calls.append(super().call(tool, arguments, seconds))
        return self.calls[-1]


@contextmanager
def hosting(*servers: ToolServer) -> Iterator[NotedHost]:
    """A host whose threads all run from the start."""
    made = NotedHost()
    made.declare(servers)
    try:
        for server in servers:
            made.reach(server.name).result(20)
        pool = ThreadPoolExecutor(1)
        pool.submit(int).result()
        assert made._loop is not None
        made._loop.call_soon_threadsafe(made._loop.set_default_executor, pool)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def host() -> Iterator[NotedHost]:
    with hosting(SUMS, PLAIN) as made:
        yield made


@pytest.fixture(scope="module")
def served(host: NotedHost) -> Iterator[Served]:
    with serving(InTurn(), tools=UserTools(host, lambda _server, tool: tool != "environment")) as found:
        yield found


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{served.server.url}/v1", api_key=KEY, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


@pytest.fixture
def engine(served: Served) -> InTurn:
    engine: InTurn = served.engine
    engine.requests.clear()
    return engine


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the tools of each forced call; the scripted model follows no format."""
    found = list[list[str]]()
    monkeypatch.setattr(chat, "read_calls", lambda tools: found.append([one["function"]["name"] for one in tools]))
    return found


def ask(client: openai.OpenAI, engine: InTurn, *texts: str, is_streamed: bool = False, **asked: Any) -> Response:
    """The response to a request for which the model writes the texts."""
    engine.texts = list(texts)
    asked = {"model": "scripted", "input": "How much is it?", "tools": [FREE]} | asked
    if not is_streamed:
        return client.responses.create(**asked)
    return cast(Response, list(client.responses.create(**asked, stream=True))[-1].response)


def kinds(response: Response) -> list[str]:
    return [item.type for item in response.output]


def test_a_tool_is_listed_called_and_its_result_read(client: openai.OpenAI, engine: InTurn) -> None:
    whole = ask(client, engine, f"I add.{ADD}", "It is 42.")
    listed, _, call, _ = whole.output
    assert kinds(whole) == ["mcp_list_tools", "message", "mcp_call", "message"]
    assert listed.type == "mcp_list_tools"
    assert [tool.name for tool in listed.tools] == ["add", "wait", "fail", "end"]  # one is not offered
    assert (listed.tools[0].description, listed.tools[0].annotations) == ("Add two whole numbers.", {"read_only": True})
    assert cast(Any, listed.tools[0].input_schema)["required"] == ["first", "second"]
    assert call.type == "mcp_call"
    assert (call.name, call.server_label, call.output, call.error, call.status) == (
        *("add", "sums", "42", None, "completed"),
    )
    assert (call.arguments, whole.output_text) == ('{"first": 2, "second": 40}', "I add.It is 42.")
    assert whole.tools[0].type == "mcp"
    first, second = engine.requests
    assert [tool["function"]["name"] for tool in first.tools] == ["add", "wait", "fail", "end"]
    assert [message["role"] for message in second.messages] == ["user", "assistant", "tool"]
    assert (second.messages[2]["name"], second.messages[2]["content"]) == ("add", "42")
    assert first.seed == second.seed
    assert whole.usage is not None
    assert whole.usage.output_tokens > len("I add.It is 42.")  # of both runs


def test_a_stream_has_the_events_of_tools(client: openai.OpenAI, engine: InTurn) -> None:
    engine.texts = [ADD, "It is 42."]
    with client.responses.create(model="scripted", input="2 + 40?", tools=[FREE], stream=True) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    names = [event.type.removeprefix("response.") for event in events]
    assert names[:15] == [
        "created", "in_progress",
        "output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done",
        "output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done",
        "mcp_call.completed", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta",
    ]  # fmt: skip
    deltas = [event.delta for event in events if event.type == "response.mcp_call_arguments.delta"]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output == done
    assert "".join(deltas) == cast(Any, done[1]).arguments
    assert client.responses.retrieve(last.response.id).output == done


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_call_waits_for_approval_which_is_the_default(
    client: openai.OpenAI, engine: InTurn, host: NotedHost, forced: list[list[str]], is_kept: bool, is_streamed: bool
) -> None:
    tool: Any = {"type": "mcp", "server_label": "sums"}
    more: Any = {"tools": [tool], "is_streamed": is_streamed}
    made = len(host.calls)
    first = ask(client, engine, ADD, **more, tool_choice="required", store=is_kept)
    assert kinds(first) == ["mcp_list_tools", "mcp_approval_request"]
    asked: Any = first.output[1]
    assert (asked.name, asked.arguments, asked.server_label) == ("add", '{"first": 2, "second": 40}', "sums")
    assert (len(host.calls), len(forced)) == (made, 1)

    def go_on(before: Any, *texts: str, **answer: Any) -> Response:
        item = {"type": "mcp_approval_response", "approval_request_id": asked.id, **answer}
        back: Any = {"input": [item], "previous_response_id": before.id}
        if not is_kept:
            sent = [one.model_dump(exclude_none=True) for one in before.output]
            back = {"input": [{"role": "user", "content": "How much is it?"}, *sent, item]}
        return ask(client, engine, *texts, **more, **back, tool_choice="required")

    second = go_on(first, "It is 42.", approve=True)
    assert kinds(second) == ["mcp_call", "message"]  # the client has the list
    call: Any = second.output[0]
    assert (call.output, call.approval_request_id, second.output_text) == ("42", asked.id, "It is 42.")
    assert engine.requests[-1].messages[2]["content"] == "42"
    assert len(forced) == 1  # no further call is
    denied = go_on(first, "Then not.", approve=False, reason="Too dear.")
    assert kinds(denied) == ["message"]
    assert engine.requests[-1].messages[2]["content"] == "The user did not allow this call. Too dear."
    assert (len(host.calls), len(forced)) == (made + 1, 1)
    if is_kept:
        third = ask(client, engine, "Still 42.", **more, input="Sure?", previous_response_id=second.id)
        assert kinds(third) == ["message"]
        roles = [message["role"] for message in engine.requests[-1].messages]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]


def test_calls_that_fail_are_read_by_the_model(client: openai.OpenAI, engine: InTurn) -> None:
    calls = '<|tool_call>call:fail{}<tool_call|><|tool_call>call:add{first:<|"|>many<|"|>}<tool_call|>'
    found = ask(client, engine, calls, "I cannot.")
    failed, misfit = cast(Any, found.output[1:3])
    assert (failed.status, failed.output, failed.error.type) == ("failed", None, "mcp_tool_execution_error")
    assert "there is no such file" in failed.error.content[0]["text"]
    assert misfit.error.content[0]["text"].startswith("The arguments do not fit: ")
    results = [message["content"] for message in engine.requests[-1].messages if message["role"] == "tool"]
    assert results == [one.error.content[0]["text"] for one in (failed, misfit)]
    engine.texts = ["Indeed."]
    back: Any = [{"role": "user", "content": "x"}, *(one.model_dump(exclude_none=True) for one in found.output)]
    client.responses.create(model="scripted", input=back)  # without tools, too
    assert [m["content"] for m in engine.requests[-1].messages if m["role"] == "tool"] == results


def test_a_function_of_the_client_ends_the_response(client: openai.OpenAI, engine: InTurn) -> None:
    other = "<|tool_call>call:forecast{}<tool_call|>"
    tools = [FORECAST, FREE, {**FREE, "server_label": "plain one", "allowed_tools": ["add"]}]
    found = ask(client, engine, ADD.replace("add", "plain_one.add") + other, tools=tools)
    assert kinds(found) == ["mcp_list_tools", "mcp_list_tools", "mcp_call", "function_call"]
    call, function = cast(Any, found.output[2:])
    assert (call.server_label, call.name, call.output, function.name) == ("plain one", "add", "42", "forecast")
    names = [tool["function"]["name"] for tool in engine.requests[0].tools]
    assert names == ["forecast", "sums.add", "wait", "fail", "end", "plain_one.add"]
    rain: Any = {"type": "function_call_output", "call_id": function.call_id, "output": "rain"}
    last = ask(client, engine, "Rain.", tools=tools, input=[rain], previous_response_id=found.id)
    assert kinds(last) == ["message"]
    contents = [message["content"] for message in engine.requests[-1].messages if message["role"] == "tool"]
    assert contents == ["42", "rain"]


def test_a_tool_has_another_name_where_the_client_has_a_function_of_its_own(
    client: openai.OpenAI, engine: InTurn
) -> None:
    found = ask(client, engine, ADD.replace("add", "add_2"), "42.", tools=[{**FORECAST, "name": "add"}, FREE])
    assert (kinds(found)[1], cast(Any, found.output[1]).name) == ("mcp_call", "add")


def test_a_call_of_a_server_or_of_its_tool_can_be_forced_once(
    client: openai.OpenAI, engine: InTurn, forced: list[list[str]]
) -> None:
    choice: Any = {"type": "mcp", "server_label": "sums"}
    add = {**choice, "name": "add"}
    for asked, names in (
        (choice, ["add", "wait", "fail", "end"]),
        (add, ["add"]),
        ({"type": "allowed_tools", "mode": "required", "tools": [add]}, ["add"]),
    ):
        ask(client, engine, ADD, "42.", tool_choice=asked)
        assert forced.pop() == names
    assert not forced
    with pytest.raises(openai.BadRequestError, match="There is no such tool"):
        ask(client, engine, ADD, tool_choice={"type": "mcp", "server_label": "sums", "name": "other"})


def test_rounds_and_calls_are_bounded(client: openai.OpenAI, engine: InTurn, host: NotedHost) -> None:
    made = len(host.calls)
    found = ask(client, engine, ADD)
    calls = [item for item in found.output if item.type == "mcp_call"]
    assert [call.status for call in calls] == ["completed"] * 8 + ["failed"]
    assert len(host.calls) == made + 8
    many = ask(client, engine, ADD * 17, "Done.", is_streamed=True)
    assert [item.status for item in many.output if item.type == "mcp_call"] == ["completed"] * 16 + ["failed"]
    assert many.output_text == "Done."
    few = ask(client, engine, ADD * 2, "Done.", max_tool_calls=1)
    assert [item.status for item in few.output if item.type == "mcp_call"] == ["completed", "failed"]


def test_a_call_of_an_answer_that_is_cut_is_not_made(client: openai.OpenAI, engine: InTurn, host: NotedHost) -> None:
    made = len(host.calls)
    for is_streamed in (False, True):
        cut = ask(client, engine, ADD, max_output_tokens=20, is_streamed=is_streamed)
        assert (cut.status, cast(Any, cut.output[-1]).status) == ("incomplete", "incomplete")
        asked = ask(client, engine, ADD, max_output_tokens=20, tools=[{**FREE, "require_approval": "always"}])
        assert (asked.status, kinds(asked)) == ("incomplete", ["mcp_list_tools"])
    assert len(host.calls) == made
    short = ask(client, engine, ADD, "It is 42, I would say.", max_output_tokens=40)
    assert (short.status, len(host.calls)) == ("incomplete", made + 1)
    assert cast(Any, short.usage).output_tokens == 40


def test_a_client_that_leaves_ends_the_call(served: Served, engine: InTurn, host: NotedHost) -> None:
    engine.texts = ["<|tool_call>call:wait{seconds:30}<tool_call|>"]
    asked = {"input": "x", "tools": [FREE], "stream": True}
    made = len(host.calls)
    with served.http.stream("POST", "/v1/responses", json=asked):
        assert within(lambda: len(host.calls) > made)
    assert within(host.calls[-1].cancelled)
    with pytest.raises(httpx2.TimeoutException):
        served.http.post("/v1/responses", json={**asked, "stream": False}, timeout=0.5)
    assert within(lambda: len(host.calls) == made + 2)
    assert within(host.calls[-1].cancelled)


def test_a_failure_after_a_call_is_not_for_trying_again(served: Served, engine: InTurn) -> None:
    engine.texts = ["<|tool_call>call:wait{seconds:0}<tool_call|>", "x"]
    began = threading.Event()
    fail_at, failure = engine.fail_at, engine.failure

    def generate(*given: Any) -> Iterator[Any]:
        engine.fail_at = 0 if began.is_set() else None
        began.set()
        yield from InTurn.generate(engine, *given)

    engine.generate = generate  # type: ignore[method-assign]
    try:
        said = served.http.post("/v1/responses", json={"input": "x", "tools": [FREE]})
    finally:
        del engine.generate  # type: ignore[attr-defined]
        engine.fail_at, engine.failure = fail_at, failure
    assert (said.status_code, said.headers["x-should-retry"]) == (500, "false")


def test_a_server_that_has_ended_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.0)
    dies = ToolServer("dies", sys.executable, ("-S", "-E", str(SERVERS / "hostile_server.py"), "dies"))
    engine, tools = InTurn(), [{**FREE, "server_label": "dies"}]
    engine.texts = ["<|tool_call>call:one{}<tool_call|>", "It ended.", "All is well."]
    with hosting(dies) as host, serving(engine, tools=UserTools(host, lambda *_: True)) as served:
        first, second = (served.http.post("/v1/responses", json={"input": "x", "tools": tools}).json() for _ in "ab")
    assert first["output"][1]["error"]["content"][0]["text"].startswith("has ended: panic: out of")
    assert [item["type"] for item in second["output"]] == ["mcp_list_tools", "message"]
    assert len(second["output"][0]["tools"]) == 1


def test_what_cannot_be_done_is_refused(served: Served, host: NotedHost) -> None:
    approval = {"type": "mcp_approval_response", "approval_request_id": "r", "approve": True}
    request = {
        "type": "mcp_approval_request",
        "id": "r",
        "server_label": "sums",
        "name": "environment",
        "arguments": "{}",
    }
    user = {"role": "user", "content": "x"}
    for tool, more, param, said in (
        ({"server_url": "http://127.0.0.1:9/mcp"}, {}, "tools.0.server_url", "is not taken from clients"),
        ({"connector_id": "connector_gmail"}, {}, "tools.0.connector_id", "is not taken from clients"),
        ({"authorization": "x"}, {}, "tools.0.authorization", "is not taken from clients"),
        ({"headers": {}}, {}, "tools.0.headers", "is not taken from clients"),
        (
            {"server_label": "other"},
            {},
            "tools",
            "There is no tool server called 'other'; there is 'sums', 'plain one'",
        ),
        ({"require_approval": {"never": {}}}, {}, "tools.0.require_approval.never", "name tools in tool_names"),
        ({"require_approval": "sometimes"}, {}, "tools.0.require_approval", "'always' or 'never'"),
        ({}, {"tools": [FREE, FREE]}, "tools", "Two tools have the same server_label"),
        ({}, {"input": [user, approval]}, "input", "There is no such request"),
        ({}, {"input": [user, request, approval]}, "tools", "'environment' of 'sums' is approved, but is not among"),
        ({}, {"input": [user, request, {**approval, "approve": 1}]}, "input", "approve must be true or false"),
        ({}, {"input": [user, {"type": "mcp_call", "id": "c"}]}, "input", "server_label must be a text"),
    ):
        asked = {"input": "x", "tools": [{**FREE, **tool}], **more}
        status, where, sentence = refused(served.http.post("/v1/responses", json=asked))
        assert (status, where) == (400, param), sentence
        assert said in sentence
    assert not any(call.running() for call in host.calls)


def test_a_server_without_tools_names_the_command_that_has_them() -> None:
    with serving(ScriptedEngine()) as plain:
        status, param, said = refused(plain.http.post("/v1/responses", json={"input": "x", "tools": [FREE]}))
    assert (status, param) == (400, "tools")
    assert "safelight serve --mcp" in said


def test_a_server_that_does_not_run_or_has_too_many_tools_says_so() -> None:
    none = ToolServer("none", "/no/such/program")
    many = ToolServer("many", sys.executable, ("-S", "-E", str(SERVERS / "hostile_server.py"), "many"))
    with hosting(none, many) as host, serving(InTurn(), tools=UserTools(host, lambda *_: True)) as served:

        def ask(label: str, *others: Any) -> tuple[int, str | None, str]:
            body = {"input": "x", "tools": [{**FREE, "server_label": label}, *others]}
            return refused(served.http.post("/v1/responses", json=body))

        status, param, said = ask("none")
        assert (status, param) == (424, "tools")
        assert said == "The tool server 'none' cannot be started: no such file or directory: /no/such/program."
        status, param, said = ask("many", FORECAST)
        assert (status, param) == (400, "tools")
        assert said.startswith("There are 129 tools, and 128 are the most.")


READS, WRITES = Tool("s", "reads", "reads", is_read_only=True), Tool("s", "writes", "writes")


@pytest.mark.parametrize(
    ("asked", "reads", "writes"),
    [
        (None, True, True),
        ("always", True, True),
        ("never", False, False),
        ({"never": {"tool_names": ["reads"]}}, False, True),
        ({"never": {"read_only": True}}, False, True),
        ({"never": {"read_only": True, "tool_names": ["writes"]}}, True, True),
        ({"always": {"tool_names": ["writes"]}}, True, True),
        ({"never": {"tool_names": ["reads", "writes"]}, "always": {"read_only": False}}, False, True),
    ],
)
def test_approval_is_needed_unless_it_is_waived(asked: Any, reads: bool, writes: bool) -> None:
    tool = ServerTools(type="mcp", server_label="s", require_approval=None)
    tool = ServerTools.model_validate({**tool.model_dump(), "require_approval": asked})
    assert (tool.needs_approval(READS), tool.needs_approval(WRITES)) == (reads, writes)


def test_tools_are_chosen_by_name_or_by_what_they_do() -> None:
    for allowed, expected in (
        (None, (True, True)),
        ([], (False, False)),
        (["reads"], (True, False)),
        ({"read_only": False}, (False, True)),
        ({"tool_names": ["writes"]}, (False, True)),
    ):
        tool = ServerTools.model_validate({"type": "mcp", "server_label": "s", "allowed_tools": allowed})
        assert (tool.allows(READS), tool.allows(WRITES)) == expected


def test_a_real_model_calls_and_answers_from_the_result() -> None:
    table = ToolServer("examples", EXAMPLES)
    with (
        hosting(table) as host,
        serving(LocalBackend(), TOOLS, tools=UserTools(host, lambda *_: True)) as served,
        openai.OpenAI(base_url=f"{served.server.url}/v1", api_key=KEY, max_retries=0) as client,
    ):
        tool: Any = {**FREE, "server_label": "examples"}
        found = client.responses.create(model=TOOLS, input="What is the capital of Peru?", tools=[tool])
    call: Any = found.output[1]
    assert (call.type, call.name, call.output) == ("mcp_call", "look_up", "Lima")
    assert call.arguments == '{"column": "capital", "name": "Peru"}'
    assert found.output_text == "The capital of Peru is Lima."
