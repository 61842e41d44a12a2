"""The list of conversations next to the chat."""

from __future__ import annotations

from app.window.sidebar.sidebar import SIDEBAR_WIDTH, Sidebar, style

__all__ = ["SIDEBAR_WIDTH", "Sidebar", "style"]
