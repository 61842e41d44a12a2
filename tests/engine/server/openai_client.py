"""OpenAI's own client of a server in this process."""

from __future__ import annotations

import openai

from tests.engine.server.served import KEY, Served


def client_of(served: Served, key: str = KEY, *, is_strict: bool = True) -> openai.OpenAI:
    """Returns a client; a strict one checks the shape of each answer."""
    url = f"{served.server.url}/v1"
    return openai.OpenAI(base_url=url, api_key=key, max_retries=0, _strict_response_validation=is_strict)
