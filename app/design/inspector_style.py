"""The inspector's own rules of the style sheet, for the window to append."""

from __future__ import annotations

from app.design.theme import TEXT_BODY, TEXT_LEAD, TEXT_SMALL, Theme


def style(theme: Theme) -> str:
    """Transport, headings and cards."""
    return f"""
QWidget#transport, QWidget#inspector-head {{ background: {theme.surface}; }}
QScrollArea#canvas-scroll, QScrollArea#canvas-scroll > QWidget > QWidget {{ background: {theme.surface_sunken}; }}
QPushButton#transport-button {{
    background: transparent; border: 1px solid transparent; border-radius: 4px; padding: 4px 6px;
}}
QPushButton#transport-button:hover {{ background: {theme.line}; }}
QPushButton#transport-button:checked {{ background: {theme.line}; border-color: {theme.accent}; }}
QPushButton#transport-button:focus {{ border: 2px solid {theme.focus}; padding: 3px 5px; }}
QPushButton#transport-button:disabled {{ background: transparent; border-color: transparent; }}
QTableCornerButton::section {{ background: {theme.surface}; border: none; border-bottom: 1px solid {theme.line}; }}
QLabel[role="frame"] {{ font-size: {TEXT_BODY}px; color: {theme.ink}; }}
QLabel[role="trace"] {{ font-size: {TEXT_LEAD}px; font-weight: 600; }}
QWidget#inspector QSplitter::handle:horizontal {{ background: {theme.line}; margin: 0 2px; }}
QWidget#inspector QSplitter::handle:vertical {{ background: {theme.line}; margin: 2px 0; }}
QPushButton[role="card"] {{
    background: {theme.surface_raised}; border: 1px solid {theme.line}; border-radius: 6px; padding: 12px 16px;
    text-align: left; font-size: {TEXT_BODY}px;
}}
QPushButton[role="card"]:hover {{ border-color: {theme.line_strong}; }}
QPushButton[role="card"]:focus {{ border: 2px solid {theme.focus}; padding: 11px 15px; }}
QLabel[role="card-title"] {{ font-size: {TEXT_BODY}px; font-weight: 600; }}
QLabel[role="card-hint"] {{ font-size: {TEXT_SMALL}px; color: {theme.faint_ink}; }}
"""
