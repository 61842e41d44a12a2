"""The style sheet of what is Safelight's own in the window, on top of the theme's. Knows no state."""

from __future__ import annotations

from collections.abc import Callable

from app.design.theme import TEXT_BODY, TEXT_LEAD, TEXT_SMALL, Theme, sized

Style = Callable[[Theme], str]


def chrome(theme: Theme, *styles: Style) -> str:
    """Rules for the roles that ``app.design.controls`` and the window's parts give, then the parts' own ``styles``."""
    return sized("".join([_roles(theme), *(style(theme) for style in styles)]))


def _roles(theme: Theme) -> str:
    return f"""
QFrame[role="hairline"] {{ background: {theme.line}; border: none; }}
QLabel[role="wordmark"] {{ font-size: {TEXT_LEAD}px; font-weight: 600; letter-spacing: 1px; }}
QLabel[role="mark"] {{ font-size: {TEXT_LEAD}px; color: {theme.accent}; }}
QLabel[role="speaker"] {{ font-size: {TEXT_SMALL}px; color: {theme.faint_ink}; }}
QLabel[role="prose"] {{ font-size: {TEXT_LEAD}px; }}
QLabel[role="setting"] {{ font-size: {TEXT_BODY}px; }}
QLabel[role="remark"] {{
    font-size: {TEXT_SMALL + 1}px; color: {theme.ink}; border: none; border-left: 2px solid {theme.accent};
    padding: 0 0 0 10px;
}}
QLabel[role="remark"]:focus, QLabel[role="prose"]:focus {{ background: {theme.surface_raised}; }}
QFrame[role="notice"] {{
    background: {theme.surface_raised}; border: none; border-left: 2px solid {theme.conflict};
}}
QPushButton[role="chip"] {{
    background: transparent; border: 1px solid {theme.line_strong}; border-radius: 15px; padding: 4px 12px;
    font-size: {TEXT_SMALL + 1}px;
}}
QPushButton[role="chip"]:hover {{ border-color: {theme.faint_ink}; background: {theme.surface_raised}; }}
QPushButton[role="chip"]:checked {{ border-color: {theme.accent}; }}
QPushButton[role="chip"]:focus {{ border: 2px solid {theme.focus}; padding: 3px 11px; }}
QPushButton[role="chip"]:disabled {{ border-color: {theme.line}; color: {theme.faint_ink}; }}
QPushButton[role="link"] {{
    background: transparent; border: none; border-bottom: 2px solid transparent; border-radius: 0; padding: 4px 0 2px 0;
    font-size: {TEXT_SMALL + 1}px; color: {theme.faint_ink};
}}
QPushButton[role="link"]:hover {{ color: {theme.ink}; border-bottom-color: {theme.line_strong}; }}
QPushButton[role="link"]:checked {{ color: {theme.ink}; border-bottom-color: {theme.accent}; }}
QPushButton[role="link"]:focus {{ color: {theme.ink}; border-bottom-color: {theme.focus}; }}
QPushButton[role="link"]:disabled {{ color: {theme.line_strong}; border-bottom-color: transparent; }}
QFrame[role="field"] {{
    background: {theme.surface_raised}; border: 1px solid {theme.line_strong}; border-radius: 8px;
}}
QFrame[role="field"] QPlainTextEdit, QFrame[role="field"] QPlainTextEdit:focus {{
    border: none; background: transparent; padding: 0; min-height: 0; font-size: {TEXT_LEAD}px;
}}
QFrame[role="field"][active="true"] {{ border-color: {theme.focus}; }}
QScrollBar:focus {{ border: 1px solid {theme.focus}; }}
QToolButton::menu-indicator {{ image: none; width: 0; }}
QProgressBar {{ background: transparent; border: none; max-height: 2px; min-height: 2px; }}
QProgressBar::chunk {{ background: {theme.accent}; }}
QWidget#settings, QWidget#topbar {{ background: {theme.surface}; }}
"""
