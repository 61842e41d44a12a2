"""The list of conversations beside the chat: a view that asks and is told. Knows no database."""

from __future__ import annotations

from app.window.sidebar.sidebar import WIDTH, Sidebar, style

__all__ = ["WIDTH", "Sidebar", "style"]
