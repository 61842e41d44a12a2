"""The host of tool servers, with a server by the official SDK and with one that does everything wrong."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from mcp.client import stdio

from engine.errors import SafelightError
from engine.tools import connection
from engine.tools.declared import ToolServer
from engine.tools.host import ToolHost
from engine.tools.tool import LONGEST_DESCRIPTION, LONGEST_RESULT, MAX_TOOLS, Status, Tool, ToolServerState

HERE = Path(__file__).parent
SUMS = ToolServer("sums", sys.executable, (str(HERE / "sdk_server.py"),), env=(("SECRET", "known"),))
PLAIN = ToolServer("plain", sys.executable, ("-S", "-E", str(HERE / "plain_server.py")))
Open = Callable[..., ToolHost]


def hostile(how: str) -> ToolServer:
    return ToolServer(how, sys.executable, ("-S", "-E", str(HERE / "hostile_server.py"), how))


@pytest.fixture
def open_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    for name in ("PROCESS_TERMINATION_TIMEOUT", "FORCE_KILL_TIMEOUT"):
        monkeypatch.setattr(stdio, name, 0.2)
    hosts = list[ToolHost]()

    def open_one(*servers: ToolServer) -> ToolHost:
        hosts.append(ToolHost())
        hosts[-1].declare(servers)
        return hosts[-1]

    yield open_one
    for host in hosts:
        host.close()
    assert not any(thread.name == "safelight-tools" for thread in threading.enumerate())


def reached(host: ToolHost, status: Status = "ready", seconds: float = 20.0, place: int = 0) -> ToolServerState:
    deadline = time.monotonic() + seconds
    while host.states[place].status != status:
        assert time.monotonic() < deadline, host.states[place]
        time.sleep(0.01)
    return host.states[place]


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def named(host: ToolHost, name: str) -> Tool:
    return next(tool for tool in host.tools if tool.name == name)


def test_a_server_of_the_official_library_is_used_from_start_to_end(
    open_host: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTER", "leaked")
    host = open_host(SUMS)
    state = reached(host)
    assert [tool.name for tool in state.tools] == ["add", "wait", "fail", "end", "environment"]
    add = named(host, "add")
    assert (add.title, add.description, add.is_read_only) == ("Add two numbers", "Add two whole numbers.", True)
    assert add.function["function"]["parameters"]["required"] == ["first", "second"]
    result = host.call(add, {"first": 2, "second": 40}).result(10)
    assert (result.text, result.is_error) == ("42", False)
    wrong = host.call(add, {"first": "many"}).result(10)
    assert wrong.is_error
    failed = host.call(named(host, "fail"), {}).result(10)
    assert failed.is_error
    assert "there is no such file" in failed.text
    assert host.call(named(host, "environment"), {}).result(10).text == "known"

    late = host.call(named(host, "wait"), {"seconds": 30}, seconds=0.2).result(10)
    assert (late.text, late.is_error) == ("the tool gave no answer within 0.2 seconds", True)

    gone = host.call(named(host, "end"), {}).result(10)
    assert (gone.text, gone.is_error) == ("has ended: it was asked to end", True)
    assert reached(host, "failed").problem == "has ended: it was asked to end"
    with pytest.raises(SafelightError, match=r"sums has ended: it was asked to end; it is tried again in 1 s"):
        host.call(add, {"first": 1, "second": 1}).result(10)


def test_a_call_that_is_cancelled_holds_up_no_other(open_host: Open) -> None:
    host = open_host(PLAIN)
    reached(host)
    call = host.call(named(host, "wait"), {"seconds": 30})
    time.sleep(0.1)
    call.cancel()
    assert host.call(named(host, "add"), {"first": 1, "second": 2}).result(10).text == "3"
    clock = time.monotonic()
    host.close()
    assert time.monotonic() - clock < 4


def test_a_server_is_reached_by_http_and_tools_of_one_name_are_distinguished(open_host: Open) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    program = subprocess.Popen([sys.executable, str(HERE / "sdk_server.py"), str(port)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not answers(port):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        near = ToolServer("near by", url=f"http://127.0.0.1:{port}/mcp")
        host = open_host(near, PLAIN)
        for place in range(2):
            reached(host, place=place)
        called = [tool.called for tool in host.tools if tool.name == "add"]
        assert called == ["near_by.add", "plain.add"]
        for tool in (tool for tool in host.tools if tool.name == "add"):
            assert host.call(tool, {"first": 3, "second": 4}).result(10).text == "7"
    finally:
        program.terminate()
        program.wait(10)
    gone = host.call(named(host, "add"), {"first": 3, "second": 4}).result(20)
    assert gone.is_error
    assert gone.text == "does not answer any more"
    assert reached(host, "failed").problem == gone.text


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (ToolServer("none", "/no/such/program"), "cannot be started: no such file or directory: /no/such/program"),
        (ToolServer("none", sys.executable, ("-c", "import sys; sys.exit('no database')")), "has ended: no database"),
        (ToolServer("none", url="http://127.0.0.1:9/mcp"), "cannot be reached"),
    ],
)
def test_a_server_that_does_not_start_says_why(open_host: Open, server: ToolServer, said: str) -> None:
    host = open_host(server)
    state = reached(host, "failed")
    assert said in state.problem
    assert host.tools == ()


def test_a_server_that_never_answers_is_given_up(open_host: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "START_SECONDS", 0.2)
    host = open_host(hostile("never"))
    assert reached(host, "failed").problem == "gave no answer within 0 seconds"


@pytest.mark.parametrize(
    ("how", "text", "is_error"),
    [
        ("long", "more characters are left out)", False),
        ("garbage", "still here", False),
        ("malformed", "sent an answer that does not follow the protocol", True),
        ("dies", "has ended: panic: out of  [31mluck", True),
        ("bombs", "boom", False),
    ],
)
def test_hostile_answers_are_bounded_and_end_nothing_else(open_host: Open, how: str, text: str, is_error: bool) -> None:
    host = open_host(hostile(how))
    state = reached(host)
    result = host.call(state.tools[-1], {}, seconds=10).result(20)
    assert text in result.text
    assert result.is_error is is_error
    assert len(result.text) < LONGEST_RESULT + 100


def test_hostile_lists_are_cut(open_host: Open) -> None:
    host = open_host(*(hostile(how) for how in ("many", "names", "bombs", "pages")))
    many, names, bombs, pages = (reached(host, place=place) for place in range(4))
    assert len(many.tools) == MAX_TOOLS
    assert [tool.name for tool in names.tools] == ["../../etc/passwd", "good"]
    assert [tool.name for tool in bombs.tools] == ["pattern"]
    assert len(pages.tools) == 1
    assert len(pages.tools[0].description) == LONGEST_DESCRIPTION


def test_a_program_that_does_not_end_is_ended(open_host: Open) -> None:
    host = open_host(hostile("stays"))
    reached(host)
    clock = time.monotonic()
    host.declare(())
    while host.states:
        time.sleep(0.01)
    host.close()
    assert time.monotonic() - clock < 6


def test_without_servers_there_is_no_thread(open_host: Open) -> None:
    host = open_host(ToolServer("off", "x", is_on=False))
    assert [state.status for state in host.states] == ["off"]
    assert not any(thread.name == "safelight-tools" for thread in threading.enumerate())
    with pytest.raises(SafelightError, match="off is not running"):
        host.call(Tool("off", "x", "x"), {}).result(1)


def test_a_list_that_changes_all_the_time_is_read_now_and_then(
    open_host: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LIST_PAUSE", 1_000)
    host = open_host(hostile("changes"))
    while [tool.name for tool in reached(host).tools] == ["list1"]:
        time.sleep(0.01)
    for _ in range(20):
        host.call(host.tools[0], {}).result(10)
    assert [tool.name for tool in host.tools] == ["list2"]


def test_the_tools_of_a_server_that_has_failed_stay_and_a_call_starts_it_again(
    open_host: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = open_host(hostile("dies"))
    reached(host)
    past = 0.0  # seconds that are skipped
    monkeypatch.setattr(connection, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + past))
    for _ in range(2):
        assert host.call(host.tools[0], {}).result(20).text.startswith("has ended: ")
        assert [tool.name for tool in reached(host, "failed").tools] == ["one"]
        with pytest.raises(SafelightError, match="it is tried again in 1 s"):
            host.call(host.tools[0], {}).result(10)
        past += connection.PAUSE
