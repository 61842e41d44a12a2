"""The list of conversations next to the chat."""

from __future__ import annotations

from app.window.sidebar.sidebar import WIDTH, Sidebar, style

__all__ = ["WIDTH", "Sidebar", "style"]
