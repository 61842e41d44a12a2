"""The server's own document: it names each route and each field, and needs no key."""

from __future__ import annotations

from typing import Any

import httpx2

from engine.server import openapi
from engine.server.app import ROUTES
from engine.server.schemas import ChatRequest
from tests.engine.server.served import ScriptedEngine, serving

UNDOCUMENTED = (
    "/safelight/v1",
    "/v1/embeddings",
    "/embeddings",
    "/v1/health",
    "/v1/models/{",
    "/v1/responses/{",
    "/fonts/",
    "/openapi",
    "/docs",
)


def test_every_route_is_in_it_and_every_field_of_its_body() -> None:
    with serving(ScriptedEngine()) as served, httpx2.Client(base_url=served.server.url) as stranger:
        found: Any = stranger.get("/openapi.json").json()
        routes = {route.path for make in ROUTES for route in make(served.server._context)}
        pages = {path for path in routes if path == "/" or "." in path.rpartition("/")[2]}
        assert set(found["paths"]) == {path for path in routes - pages if not path.startswith(UNDOCUMENTED)}
        chat = found["components"]["schemas"]["ChatRequest"]
        assert set(chat["properties"]) == set(ChatRequest.model_fields)
        assert chat["additionalProperties"] is True
        assert found["components"]["schemas"]["Prediction"]["additionalProperties"] is False
        page = stranger.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        for route in openapi.ROUTES:
            assert f" {route.path}</code>" in page.text
        assert "<code>max_completion_tokens</code></td><td>integer" in page.text
