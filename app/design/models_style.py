"""The models page's own rules of the style sheet, for ``chrome`` to append."""

from __future__ import annotations

from app.design.theme import TEXT_LEAD, TEXT_SMALL, Theme


def style(theme: Theme) -> str:
    """Rows, their headings and their bars."""
    return f"""
QFrame[role="model"] {{ background: {theme.surface_raised}; border: 1px solid {theme.line}; border-radius: 6px;
    padding-left: 2px; }}
QFrame[role="model"][loaded="true"] {{ border-left: 3px solid {theme.accent}; padding-left: 0; }}
QLabel[role="model-title"] {{ font-size: {TEXT_LEAD}px; font-weight: 600; }}
QLabel[role="group"] {{ font-size: {TEXT_SMALL}px; color: {theme.faint_ink}; letter-spacing: 1px; }}
QLabel[role="fact"] {{ font-size: {TEXT_SMALL + 1}px; color: {theme.faint_ink}; }}
QProgressBar[role="bar"] {{
    background: {theme.line}; border: none; border-radius: 2px; max-height: 4px; min-height: 4px;
}}
QProgressBar[role="bar"]::chunk {{ background: {theme.accent}; border-radius: 2px; }}
"""
