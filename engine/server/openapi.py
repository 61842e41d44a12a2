"""``/openapi.json`` and ``/docs``: the routes and the fields of their bodies, made from the models that check them.

Neither reveals anything of this server, so neither needs the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from html import escape
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine.server import page
from engine.server.anthropic_request import MessagesRequest
from engine.server.context import ServerContext
from engine.server.decisions_request import DecisionsRequest, SystemoneRequest
from engine.server.infill import InfillRequest
from engine.server.ollama_request import ModelRequest, OllamaChat, OllamaGenerate
from engine.server.responses_request import ResponsesRequest
from engine.server.schemas import ChatRequest, CompletionRequest, DetokenizeRequest, FimRequest, TokenizeRequest

PATHS = ("/openapi.json", "/docs")
SCHEMAS = "#/components/schemas/"
NEEDED = " · needed"


@dataclass(frozen=True)
class Documented:
    """A route; ``body`` is the model of its request's body, if that is described here."""

    path: str
    summary: str
    body: type[BaseModel] | None = None
    needs_key: bool = True
    takes_body: bool = False

    @property
    def method(self) -> str:
        return "get" if self.body is None and not self.takes_body else "post"


ROUTES = (
    Documented("/v1/chat/completions", "OpenAI's chats", ChatRequest),
    Documented("/v1/completions", "OpenAI's completions of a prompt, or of the gap before a suffix", CompletionRequest),
    Documented("/v1/fim/completions", "Mistral's and Inception's: the text of a gap", FimRequest),
    Documented("/infill", "llama-server's: the text of a gap in code", InfillRequest),
    Documented("/v1/responses", "OpenAI's responses, kept in memory for a while", ResponsesRequest),
    Documented("/v1/messages", "Anthropic's messages", MessagesRequest),
    Documented("/v1/messages/count_tokens", "Tokens of a message's prompt", MessagesRequest),
    Documented("/v1/decisions", "Decisions between given answers", DecisionsRequest),
    Documented("/v1/systemone", "The same in vLLM's format", SystemoneRequest),
    Documented("/v1/models", "The loaded model, and its adapters"),
    Documented("/tokenize", "Tokens of a text or a conversation", TokenizeRequest),
    Documented("/detokenize", "The text of tokens", DetokenizeRequest),
    Documented("/api/chat", "Ollama's chats", OllamaChat),
    Documented("/api/generate", "Ollama's completions", OllamaGenerate),
    Documented("/api/show", "Ollama's facts about the model", ModelRequest),
    Documented("/api/tags", "Ollama's list of models"),
    Documented("/api/ps", "Ollama's list of loaded models"),
    Documented("/api/version", "The version of Ollama whose routes these are"),
    Documented("/mcp", "The Model Context Protocol: the model as tools of other programs", takes_body=True),
    Documented("/health", "Answers once a model is loaded", needs_key=False),
    Documented("/metrics", "Counters in Prometheus' format"),
)


def routes(_context: ServerContext) -> list[Route]:
    async def document(_request: Request) -> Response:
        return JSONResponse(openapi())

    async def docs(_request: Request) -> Response:
        return Response(_page(), headers={"Content-Security-Policy": page.POLICY}, media_type=page.TYPES[".html"])

    return [Route("/openapi.json", document), Route("/docs", docs)]


@lru_cache(maxsize=1)
def openapi() -> dict[str, Any]:
    """Returns the document of all routes in OpenAPI 3.1."""
    bodies = [(route.body, "validation") for route in ROUTES if route.body is not None]
    _, schemas = models_json_schema(bodies, ref_template=SCHEMAS + "{model}")  # type: ignore[arg-type]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Safelight", "version": version("safelight")},
        "paths": {route.path: {route.method: _operation(route)} for route in ROUTES},
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Documented) -> dict[str, Any]:
    refused = {"400": "refused, with the field at fault", "401": "no key", "429": "too many wait", "503": "no model"}
    found: dict[str, Any] = {
        "summary": route.summary,
        "security": [{"key": []}] if route.needs_key else [],
        "responses": {"200": {"description": "answered"}}
        | {code: {"description": said} for code, said in refused.items()},
    }
    if route.body is not None:
        schema = {"$ref": SCHEMAS + route.body.__name__}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return found


@lru_cache(maxsize=1)
def _page() -> str:
    """Returns the same as a page to read."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Safelight: routes</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='dark light'><link rel='icon' href='/icon.svg'>"
        "<link rel='stylesheet' href='/page.css'></head><body><header><h1>Safelight</h1></header><main class='docs'>"
        "<p>Send the key as <code>Authorization: Bearer KEY</code>. Unknown fields are passed over, and named in "
        "<code>x-safelight-ignored</code>. For programs: <a href='/openapi.json'>openapi.json</a>.</p>"
    ]
    schemas = openapi()["components"]["schemas"]
    for route in ROUTES:
        parts.append(f"<h2><code>{route.method.upper()} {route.path}</code></h2><p>{escape(route.summary)}</p>")
        if route.body is not None:
            parts.append(_table(schemas[route.body.__name__]))
    return "".join([*parts, "</main></body></html>"])


def _table(schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field))}{NEEDED * (name in required)}</td></tr>"
        for name, field in sorted(schema.get("properties", {}).items(), key=lambda item: item[0] not in required)
    ]
    return f"<table><tr><th>field</th><th>type</th></tr>{''.join(rows)}</table>"


def _kind(schema: dict[str, Any]) -> str:
    """Returns the type of a field in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(SCHEMAS)
    for name in ("anyOf", "oneOf"):
        if name in schema:
            kinds = [_kind(one) for one in schema[name] if one.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
