"""The sentences of the server page. Knows no Qt."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from app.state.run.stats import seconds_text
from app.state.run.task_words import kind_words
from app.system.i18n import tr, trn

if TYPE_CHECKING:
    from app.bridge.server_link import ServerState
    from engine.server.live import LiveRequest

MAX_IGNORED = 6  # fields that a request's line names


def state_line(state: ServerState) -> str:
    """Says if the server is off, starting or on, or could not be started."""
    if state.problem:
        return tr("✕ Not started")
    return {"off": tr("○ Off"), "starting": tr("○ Starting…"), "on": tr("● On")}[state.phase]


def served_line(*, is_on: bool, model: str, loading: str, is_elsewhere: bool = False) -> str:
    """Says which model answers.

    Args:
        loading: a sentence about the model that is being loaded.
        is_elsewhere: another server runs the model.
    """
    if loading:
        return tr("{loading}. Until then, requests are answered with “loading”.", loading=loading)
    if not model:
        return tr("No model is loaded. Choose one at the top; until then, requests are refused.")
    if is_elsewhere:
        return tr("{model} runs on another server. Send requests to that server; this one refuses them.", model=model)
    if is_on:
        return tr("{model} answers this window and several requests at once.", model=model)
    return tr("Once it is on, {model} answers.", model=model)


def reach_line(*, is_open: bool, offline: bool) -> str:
    """Says who can reach the server, if that needs a remark."""
    if offline:
        return tr("Offline is on: only programs on this computer reach the server.")
    if is_open:
        return tr(
            "⚠ Any machine in your network that has the key can use the model. The connection is not encrypted: use it "
            "only in a network that you trust."
        )
    return ""


def key_line(state: ServerState) -> str:
    """Says where the key is stored."""
    if not state.key:
        return tr("Created when the server is first switched on, and kept in the system's keyring.")
    if state.key_place == "session":
        return tr("There is no keyring here, so this key lasts until Safelight is closed.")
    return tr("Kept in the system's keyring. Give it only to programs that may use the model.")


def endpoint_name(endpoint: str) -> str:
    known = {
        "/v1/chat/completions": tr("Chat"),
        "/v1/completions": tr("Completion"),
        "/v1/fim/completions": tr("Gap"),
        "/infill": tr("Gap"),
        "/v1/responses": tr("Response"),
        "/v1/messages": tr("Message"),
        "/api/chat": tr("Chat"),
        "/api/generate": tr("Completion"),
        "/v1/decisions": tr("Decision"),
        "/mcp": tr("Tool"),
    }
    return known.get(endpoint, endpoint)


def request_state(request: LiveRequest) -> str:
    """Returns the state of a request, with a symbol."""
    return {
        "waiting": tr("○ Waiting"),
        "running": tr("● Running"),
        "finished": tr("✓ Finished"),
        "failed": tr("✕ Failed"),
        "cancelled": tr("– Cancelled"),
    }[request.state]


def request_facts(request: LiveRequest) -> str:
    """Lists a request's figures in one line."""
    parts = [request.model]
    if request.trace is not None and request.trace.header.output_format is not None:
        parts.insert(0, kind_words(request.trace.header))
    if request.prompt_tokens:
        parts.append(trn("{count} prompt token", "{count} prompt tokens", request.prompt_tokens))
    if request.tokens or request.state != "waiting":
        parts.append(trn("{count} answer token", "{count} answer tokens", request.tokens))
    parts.append(seconds_text(request.seconds))
    if request.ignored:
        more = " …" if len(request.ignored) > MAX_IGNORED else ""
        parts.append(tr("not used: {fields}", fields=", ".join(request.ignored[:MAX_IGNORED]) + more))
    return " · ".join(part for part in parts if part)


def clock(request: LiveRequest) -> str:
    """Returns the time at which a request arrived."""
    return time.strftime("%H:%M:%S", time.localtime(request.started))


def status_text(running: int) -> str:
    """Returns the text for the status bar while the server is on; ``running`` is the number of requests."""
    if not running:
        return tr("Server on")
    return trn("Server on · {count} request", "Server on · {count} requests", running)
