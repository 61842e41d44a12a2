"""How many tokens a conversation has, as a server says, or about, where it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.config import MOST_POSITIONS
from engine.service.remote.calls import Calls, Check, no_check
from engine.service.remote.chat import plain_message
from engine.service.remote.discovery import ServerKind
from engine.service.remote.problems import RemoteError
from engine.text.message import Message

BYTES_PER_TOKEN = 3.5  # of prose in UTF-8, rather too few than too many
TOKENS_PER_MESSAGE = 5  # turn marks


def estimate(messages: Sequence[Message]) -> int:
    """About how many tokens these have; nobody is asked."""
    size = sum(len(str(message.get("content", "")).encode("utf-8", "replace")) for message in messages)
    return round(size / BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE * (len(messages) + 1)


def count(calls: Calls, kind: ServerKind, messages: Sequence[Message], *, check: Check = no_check) -> int:
    """As vLLM counts them; about, with any other server, and where it does not answer."""
    if kind != "vllm":
        return estimate(messages)
    body: dict[str, Any] = {
        "model": calls.address.model,
        "messages": [plain_message(message) for message in messages],
        "add_generation_prompt": True,
    }
    try:
        raw = calls.post_json(calls.address.root + "/tokenize", body, check)
    except RemoteError:
        return estimate(messages)
    found = raw.get("count") if isinstance(raw, dict) else None
    return found if type(found) is int and 0 <= found <= MOST_POSITIONS else estimate(messages)
