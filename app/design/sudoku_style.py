"""The Sudoku page's own rules of the style sheet, for the window to append."""

from __future__ import annotations

from app.design.theme import TEXT_BODY, TEXT_LEAD, TEXT_SMALL, Theme


def style(theme: Theme) -> str:
    """Figures, headings and the buttons of the slider."""
    return f"""
QWidget#sudoku {{ background: {theme.surface}; }}
QWidget#sudoku QPushButton#transport-button {{
    background: transparent; border: 1px solid transparent; border-radius: 4px; padding: 4px 6px;
}}
QWidget#sudoku QPushButton#transport-button:hover {{ background: {theme.line}; }}
QWidget#sudoku QPushButton#transport-button:focus {{ border: 2px solid {theme.focus}; padding: 3px 5px; }}
QWidget#sudoku QPushButton#transport-button:disabled {{ background: transparent; border-color: transparent; }}
QLabel[role="figure"] {{ font-size: {TEXT_LEAD}px; font-weight: 600; }}
QLabel[role="side"] {{ font-size: {TEXT_BODY}px; font-weight: 600; }}
QLabel[role="verdict"] {{ font-size: {TEXT_BODY}px; }}
QLabel[role="section"] {{ font-size: {TEXT_SMALL}px; color: {theme.faint_ink}; letter-spacing: 1px; }}
"""
