"""Counts the tokens of a conversation as the server does, or estimates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.config import MOST_POSITIONS
from engine.service.remote.calls import Calls, Check, no_check
from engine.service.remote.chat import plain_message
from engine.service.remote.discovery import ServerKind
from engine.service.remote.problems import RemoteError
from engine.text.message import Message, with_images

BYTES_PER_TOKEN = 3.5  # of prose in UTF-8, a low estimate
TOKENS_PER_MESSAGE = 5  # turn marks
TOKENS_PER_IMAGE = 1_000  # of most models, a high estimate


def estimate(messages: Sequence[Message]) -> int:
    """Estimates the number of tokens, without the network."""
    size = sum(len(str(message.get("content", "")).encode("utf-8", "replace")) for message in messages)
    return round(size / BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE * (len(messages) + 1) + _of_images(messages)


def count(calls: Calls, kind: ServerKind, messages: Sequence[Message], *, check: Check = no_check) -> int:
    """Returns the number of tokens by vLLM; an estimate for images, other servers, and without an answer."""
    if kind != "vllm":
        return estimate(messages)
    body: dict[str, Any] = {
        "model": calls.address.model,
        "messages": [plain_message(with_images(message, ()), {}) for message in messages],
        "add_generation_prompt": True,
    }
    try:
        raw = calls.post_json(calls.address.root + "/tokenize", body, check)
    except RemoteError:
        return estimate(messages)
    found = raw.get("count") if isinstance(raw, dict) else None
    if type(found) is not int or not 0 <= found <= MOST_POSITIONS:
        return estimate(messages)
    return found + _of_images(messages)


def _of_images(messages: Sequence[Message]) -> int:
    return TOKENS_PER_IMAGE * sum(len(message.get("images", ())) for message in messages)
