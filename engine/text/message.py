"""One message of a conversation, as chat templates take it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Message = Mapping[str, Any]
"""``{"role": "system" | "user" | "assistant" | "tool", "content": text}``; both are always strings.

An assistant's may have "tool_calls", a list as OpenAI writes it with the arguments as an object, and
"reasoning_content"; a tool's has "name" and "tool_call_id".
"""
