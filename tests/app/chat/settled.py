"""Says if a text is drawn to its end, read from the parts that do the work."""

from __future__ import annotations

from PySide6.QtWidgets import QPushButton

from app.chat.markdown_view.widget import MarkdownView


def is_settled(prose: MarkdownView) -> bool:
    """True if all of the text is laid out, with all pictures and colours."""
    is_quiet = not (prose._working.isActive() or prose._finished)
    documents = [section._document for section in prose.sections]
    return prose._sheet.is_done and is_quiet and not any(made is not None and made.waiting for made in documents)


def copy_buttons(prose: MarkdownView) -> list[QPushButton]:
    """The copy buttons, one for each program."""
    return [made for _, made in prose._controls._buttons]
