"""The library of conversations on disk: storing, searching, grouping, exporting, importing. Knows no Qt, no torch."""

from __future__ import annotations

from app.library.errors import GoneError, LibraryError
from app.library.library import Library
from app.library.listing import title_of
from app.library.records import NewMessage, Role, StoredMessage, Summary, Whole
from app.state.chat.attachment import Attachment

__all__ = [
    "Attachment",
    "GoneError",
    "Library",
    "LibraryError",
    "NewMessage",
    "Role",
    "StoredMessage",
    "Summary",
    "Whole",
    "title_of",
]
