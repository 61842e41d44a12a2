"""One message of a conversation, as chat templates take it."""

from __future__ import annotations

from collections.abc import Mapping

Message = Mapping[str, str]
"""``{"role": "system" | "user" | "assistant", "content": text}``."""
