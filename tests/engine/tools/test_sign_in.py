"""Signing in to servers of tools: with a server and an authorization server by the official SDK, and hostile ones."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.errors import SafelightError
from engine.tools import redirect_page
from engine.tools.declared import ToolServer
from engine.tools.host import ToolHost
from engine.tools.state import SIGN_IN_NEEDED, ToolServerState
from engine.tools.tokens import PassingTokens
from engine.tools.tool import Tool
from tests.engine.tools.oauth_server import Accounts, running, serving
from tests.engine.tools.test_tool_host import answers, reached

NUMBERS = {"first": 40, "second": 2}


class Browser:
    """Opens addresses like a browser whose user has agreed before; ``visits`` are what it was asked to open."""

    def __init__(self, *, is_used: bool = True) -> None:
        self.visits, self.pages, self._is_used = list[str](), list[str](), is_used
        self._threads = list[threading.Thread]()

    def __call__(self, address: str) -> None:
        self.visits.append(address)
        if self._is_used:
            self._threads.append(threading.Thread(target=self._visit, args=(address,)))
            self._threads[-1].start()

    def _visit(self, address: str) -> None:
        self.pages.append(httpx.get(address, follow_redirects=True).text)

    @property
    def last_page(self) -> str:
        for thread in self._threads:
            thread.join(10)
        return self.pages[-1]

    @property
    def port(self) -> int:
        """Of the page to which the browser is to come back."""
        return urlsplit(httpx.URL(self.visits[-1]).params["redirect_uri"]).port or 0


class Place:
    """A server with accounts, and hosts that use it with the same store of tokens."""

    def __init__(self, url: str, accounts: Accounts) -> None:
        self.server, self.accounts, self.tokens = ToolServer("sums", url=url), accounts, PassingTokens()
        self.browser = Browser()
        self.hosts = list[ToolHost]()

    def open(self) -> ToolHost:
        self.hosts.append(ToolHost(tokens=self.tokens))
        self.hosts[-1].declare((self.server,))
        return self.hosts[-1]

    def signed_in(self) -> ToolHost:
        host = self.open()
        reached(host, "sign-in")
        host.sign_in("sums", self.browser)
        reached(host)
        return host

    @property
    def add(self) -> Tool:
        """The server's tool, also while it is not listed."""
        return Tool("sums", "add", "add", identity=self.server.identity)

    def stored(self) -> str:
        return self.tokens.read(self.server.identity)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Accounts]]:
    with serving() as found:
        yield found


@pytest.fixture
def place(served: tuple[str, Accounts]) -> Iterator[Place]:
    url, accounts = served
    accounts.clear()
    made = Place(url, accounts)
    yield made
    for host in made.hosts:
        host.close()


def wait_for(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def failed(host: ToolHost, said: str) -> None:
    """Waits until a sign-in has failed for a reason."""
    wait_for(lambda: host.states[0].problem not in ("", SIGN_IN_NEEDED))
    assert host.states[0].status == "sign-in"
    assert host.states[0].problem.startswith(said)


def add(host: ToolHost) -> str:
    return host.call(host.tools[0], NUMBERS).result(10).text


def test_the_user_signs_in_once(place: Place) -> None:
    host = place.open()
    reached(host, "sign-in")
    assert (place.accounts.clients, place.stored()) == ({}, "")  # nobody is registered before the user asks
    with pytest.raises(SafelightError, match="sums needs a sign-in; choose Sign in in the settings, under Tools"):
        host.call(place.add, NUMBERS).result(5)
    host.sign_in("sums", place.browser)
    assert [tool.name for tool in reached(host).tools] == ["add"]
    assert "You can close this tab" in place.browser.last_page
    assert not answers(place.browser.port)
    assert add(host) == "42"
    host.close()
    again = place.open()
    reached(again)
    assert add(again) == "42"
    assert len(place.browser.visits) == len(place.accounts.clients) == 1


@pytest.mark.parametrize(
    ("fault", "value", "said"),
    [
        ("state", "another", "got an answer that does not belong to this sign-in; sign in again"),
        ("denies", True, "refused the sign-in: access_denied"),
        ("is_closed", True, "lets no new program sign in; add a key as a header under Edit. It answered: "),
    ],
)
def test_a_sign_in_that_fails_gives_no_token(place: Place, fault: str, value: object, said: str) -> None:
    fine = getattr(place.accounts, fault)
    setattr(place.accounts, fault, value)
    host = place.open()
    reached(host, "sign-in")
    host.sign_in("sums", place.browser)
    failed(host, said)
    assert (place.stored(), place.accounts.access) == ("", {})
    assert not (place.browser.visits and answers(place.browser.port))
    setattr(place.accounts, fault, fine)
    host.sign_in("sums", place.browser)  # it can be tried again
    reached(host)


def test_a_sign_in_ends_by_itself_and_when_it_is_cancelled(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.browser = Browser(is_used=False)
    host = place.open()
    reached(host, "sign-in")
    host.sign_in("sums", place.browser)
    reached(host, "signing-in")
    wait_for(lambda: bool(place.browser.visits))
    assert answers(place.browser.port)
    for path, status in (("/", 404), ("/callback", 404), ("/callback?x=1", 404), ("/callback?" + "&a=1" * 40, 404)):
        assert httpx.get(f"http://127.0.0.1:{place.browser.port}{path}").status_code == status
    with pytest.raises(SafelightError, match="sums needs a sign-in; choose Sign in in the settings"):
        host.call(place.add, NUMBERS).result(5)
    host.restart("sums")
    reached(host, "sign-in")
    assert not answers(place.browser.port)
    monkeypatch.setattr(redirect_page, "SIGN_IN_SECONDS", 0.1)
    host.sign_in("sums", place.browser)
    failed(host, "was not signed in to within 0 minutes")
    assert not answers(place.browser.port)


def test_a_token_is_renewed_without_the_user(place: Place) -> None:
    host = place.signed_in()
    place.accounts.access.clear()  # the server has forgotten a token that has time left
    assert (add(host), place.accounts.renewed) == ("42", 1)
    host.close()
    expired = json.loads(place.stored()) | {"expires_at": 5.0}
    place.accounts.access.clear()
    place.tokens.write(place.server.identity, json.dumps(expired))
    later = place.open()
    reached(later)
    assert (add(later), place.accounts.renewed) == ("42", 2)
    assert len(place.browser.visits) == 1
    place.accounts.access.clear()
    place.accounts.renewals.clear()
    result = later.call(later.tools[0], NUMBERS).result(10)
    assert (result.text, result.is_error) == (SIGN_IN_NEEDED, True)
    reached(later, "sign-in")
    assert len(place.browser.visits) == 1
    later.sign_in("sums", place.browser)
    reached(later)
    assert add(later) == "42"


def test_a_token_that_another_process_has_renewed_is_taken_over(place: Place) -> None:
    window = place.signed_in()
    server = place.open()
    reached(server)
    place.accounts.access.clear()
    assert [add(host) for host in (window, server, window)] == ["42"] * 3
    assert place.accounts.renewed == 1
    assert len(place.browser.visits) == 1


def test_tokens_are_kept_while_they_cannot_be_renewed(place: Place) -> None:
    place.signed_in().close()
    stored = json.loads(place.stored()) | {"expires_at": 5.0}
    stored["metadata"]["token_endpoint"] = "http://127.0.0.1:9/token"
    place.tokens.write(place.server.identity, json.dumps(stored))
    problem = reached(place.open(), "failed").problem
    assert problem.startswith("cannot be signed in to at 127.0.0.1: ")
    assert json.loads(place.stored()) == stored


def test_a_token_of_too_few_rights_needs_a_sign_in(place: Place) -> None:
    host = place.signed_in()
    for token in place.accounts.access.values():
        token.scopes = []
    assert host.call(host.tools[0], NUMBERS).result(10).is_error
    reached(host, "sign-in")
    host.sign_in("sums", place.browser)
    reached(host)
    assert httpx.URL(place.browser.visits[-1]).params["scope"] == "sums"


def test_signing_out_removes_the_tokens(place: Place) -> None:
    host = place.signed_in()
    assert place.stored()
    host.sign_out(place.server)
    reached(host, "sign-in")
    assert place.stored() == ""
    host.close()
    reached(place.open(), "sign-in")


def test_tokens_that_cannot_be_read_count_as_none(place: Place) -> None:
    place.tokens.write(place.server.identity, '{"tokens": 3}')
    reached(place.open(), "sign-in")


Answer = Callable[[Request], Response]


class OddServer:
    """A server that answers everything with one function, which tests exchange."""

    def __init__(self) -> None:
        self.url, self.answer = "", refusing()

    def state(self, answer: Answer, may_ask: Callable[[str], bool] = bool, **more: object) -> ToolServerState:
        """The state of the server after its start has failed."""
        self.answer = answer
        host = ToolHost(may_ask=may_ask)
        try:
            host.declare((ToolServer("odd", url=self.url, **more),))  # type: ignore[arg-type]
            return reached(host, "failed")
        finally:
            host.close()


@pytest.fixture(scope="module")
def odd() -> Iterator[OddServer]:
    made = OddServer()

    async def answer(request: Request) -> Response:
        return made.answer(request)

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        made.url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        with running(Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"])]), listening):
            yield made


def refusing(found: bytes = b"", challenge: str = "", **headers: str) -> Answer:
    """Refuses all requests to ``/mcp``, and answers others with ``found``, or not at all."""

    def answer(request: Request) -> Response:
        if request.url.path == "/mcp":
            return Response(status_code=401, headers={"WWW-Authenticate": challenge} if challenge else {})
        return Response(found, 200 if found else 404, headers)

    return answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (refusing(), "asks for a key (401), and offers no sign-in; add the key as a header under Edit"),
        (refusing(b"{}"), "asks for a key (401), and offers no sign-in; add the key as a header under Edit"),
        (refusing(b"[" * 200_000), "asks for a key (401), and offers no sign-in; add the key as a header under Edit"),
        (refusing(b" " * 400_000, content_type="text/event-stream"), "it sent a message of more than 256 kB"),
        (refusing(b" " * 400_000), "cannot be signed in to at 127.0.0.1: it sent a message of more than 256 kB"),
        (
            refusing(b"x", **{"content-encoding": "gzip"}),
            "cannot be signed in to at 127.0.0.1: it sent a packed answer",
        ),
        (refusing(challenge='Bearer resource_metadata="http://192.0.2.1/x"'), "'http://192.0.2.1/x' is not https"),
        (refusing(challenge='Bearer resource_metadata="file:///etc/passwd"'), "'file:/etc/passwd' is not https"),
        (refusing(challenge='Bearer resource_metadata="http://[x"'), "cannot be signed in to"),
        (
            refusing(challenge='Bearer resource_metadata="https://127.0.0.1:9/"'),
            "cannot be signed in to at 127.0.0.1: ",
        ),
        (
            refusing(b'{"resource": "https://other.example/", "authorization_servers": ["https://a.example"]}'),
            "cannot be signed in to: 'Protected resource https://other.example/ does not match",
        ),
    ],
)
def test_a_server_that_asks_for_a_key_or_offers_an_odd_sign_in_says_so(
    odd: OddServer, answer: Answer, said: str
) -> None:
    assert said in odd.state(answer).problem


def test_a_packed_answer_is_not_unpacked(odd: OddServer) -> None:
    bomb = gzip.compress(b" " * 2**26)
    asked: list[str] = []

    def answer(request: Request) -> Response:
        asked.append(request.headers["accept-encoding"])
        return Response(bomb, 200, {"content-encoding": "gzip", "content-type": "application/json"})

    assert "it sent a packed answer" in odd.state(answer).problem
    assert set(asked) == {"identity"}


def test_a_refused_key_is_said_and_offline_asks_no_other_machine(odd: OddServer) -> None:
    keyed = odd.state(refusing(), headers=(("authorization", "Bearer 1"),))
    assert keyed.problem == "refuses the key in its headers (401); change it under Edit"
    far = refusing(challenge='Bearer resource_metadata="https://auth.example/x"')
    offline = odd.state(far, lambda host: host == "127.0.0.1")
    assert offline.problem == "cannot be signed in to: Safelight is offline, and auth.example is elsewhere"
