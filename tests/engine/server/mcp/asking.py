"""The protocol's own client, asking a server in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.engine.server.served import KEY, Served


@asynccontextmanager
async def asking(served: Served, mode: str = "auto") -> AsyncIterator[Client]:
    """Yields a client of today's revision of the protocol, or of the one with sessions ("legacy")."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=30) as http,
        Client(streamable_http_client(f"{served.server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def texts(result: Any) -> list[str]:
    """The texts of a result."""
    return [part.text for part in result.content]


def refusal(result: Any) -> str:
    """The one line of a result that is an error."""
    assert result.is_error
    [line] = texts(result)
    assert "\n" not in line
    return str(line)
