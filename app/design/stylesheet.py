"""The style sheet and the palette. The rules of all standard controls come before those of our own roles.

The sheet belongs to a window: changing the app's sheet when the text size changes takes three times as long.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from app.design import themes
from app.design.fonts import TEXT_BODY, TEXT_DISPLAY, TEXT_LEAD, TEXT_SMALL, TEXT_TITLE, px, sized, ui_font
from app.design.icons import draw_marks
from app.design.tokens import DARKROOM, PAPER, Theme

Rules = Callable[[Theme], str]
CONTROL = 20  # pixels at 100 %, of a control's inside


def system_theme() -> Theme:
    """Returns the theme for the desktop's light or dark setting; Darkroom if that is unknown."""
    light = QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Light
    return PAPER if light else DARKROOM


def palette(theme: Theme) -> QPalette:
    """Returns the theme's colours as a palette, for everything that a style sheet does not cover."""
    colors = QPalette()
    roles = QPalette.ColorRole
    for role, code in {
        roles.Window: theme.surface,
        roles.WindowText: theme.ink,
        roles.Base: theme.surface_raised,
        roles.AlternateBase: theme.surface_sunken,
        roles.Text: theme.ink,
        roles.PlaceholderText: theme.faint_ink,
        roles.Button: theme.surface_raised,
        roles.ButtonText: theme.ink,
        roles.BrightText: theme.conflict,
        roles.ToolTipBase: theme.surface_raised,
        roles.ToolTipText: theme.ink,
        roles.Highlight: theme.selection,
        roles.HighlightedText: theme.ink,
        roles.Link: theme.accent,
        roles.LinkVisited: theme.accent,
        roles.Accent: theme.accent,
        roles.Light: theme.line,
        roles.Midlight: theme.line,
        roles.Mid: theme.line_strong,
        roles.Dark: theme.line_strong,
        roles.Shadow: theme.surface_sunken,
    }.items():
        colors.setColor(role, QColor(code))
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        colors.setColor(QPalette.ColorGroup.Disabled, role, QColor(theme.line_strong))
    return colors


def apply_theme(app: QApplication, theme: Theme) -> None:
    """Gives the whole app a theme's palette and font, and publishes it. May be called again while the app runs."""
    if app.style().objectName() != "fusion":  # setting a style visits every widget
        app.setStyle("Fusion")
    app.setFont(ui_font())
    app.sendPostedEvents(None, QEvent.Type.ApplicationFontChange)  # before anything is measured
    app.setPalette(palette(theme))
    themes.publish(theme)


def stylesheet(theme: Theme, icons: str = "") -> str:
    """Returns the Qt style sheet of all standard controls and our own roles. ``icons`` is a folder with its pictures.

    Buttons take a role by ``setProperty("role", "primary" | "quiet" | "danger")``, labels by
    ``"title" | "display" | "lead" | "caption"``, frames by ``"panel" | "well" | "rule"``.
    """
    text = _SHEET.replace("@icons@", icons)
    if not icons:
        text = re.sub(r"image: url\([^)]*\);", "", text)
    for field in fields(theme):
        text = text.replace(f"@{field.name}@", str(getattr(theme, field.name)))
    sizes = {"small": TEXT_SMALL, "body": TEXT_BODY, "lead": TEXT_LEAD, "title": TEXT_TITLE, "display": TEXT_DISPLAY}
    for name, pixels in sizes.items():
        text = text.replace(f"@text_{name}@", f"{pixels}px")
    text = text.replace("@control@", f"{px(CONTROL)}px")
    text = re.sub(r"@(\d+)@", lambda match: f"{px(int(match[1]))}px", text)  # lengths that go with the text
    return sized(text)


def chrome(theme: Theme, *rules: Rules) -> str:
    """Returns a window's sheet: standard controls, our roles and the pages', then its own ``rules``."""
    return stylesheet(theme, draw_marks(theme)) + sized("".join(part(theme) for part in rules))


_SHEET = """
* { outline: none; }
QWidget { color: @ink@; }
QDialog { background: @surface@; }
QScrollArea, QScrollArea > QWidget > QWidget { background: transparent; border: none; }
QToolTip {
    qproperty-textFormat: PlainText; /* names of a stranger stand in them, and Qt opens files that markup names */
    background: @surface_raised@; color: @ink@; border: 1px solid @line_strong@; padding: 6px 8px;
    font-size: @text_small@;
}

QLabel { background: transparent; }
QLabel[role="display"] { font-size: @text_display@; font-weight: 600; }
QLabel[role="title"] { font-size: @text_title@; font-weight: 600; }
QLabel[role="lead"] { font-size: @text_lead@; }
QLabel[role="caption"] { font-size: @text_small@; color: @faint_ink@; }
QLabel[role="caption"][tone="now"] { color: @ink@; }
QLabel[role="error"] { color: @conflict@; }
QLabel:disabled { color: @faint_ink@; }

QFrame[role="panel"] { background: @surface_raised@; border: 1px solid @line@; border-radius: 6px; }
QFrame[role="well"] { background: @surface_sunken@; border: 1px solid @line@; border-radius: 6px; }
QFrame[role="rule"] { background: @line@; border: none; max-height: 1px; min-height: 1px; }

QPushButton, QToolButton {
    background: @surface_raised@; color: @ink@; border: 1px solid @line_strong@; border-radius: 4px;
    padding: 5px 14px; min-height: @control@;
}
QToolButton { padding: 5px 8px; }
QPushButton:hover, QToolButton:hover { border-color: @faint_ink@; }
QPushButton:pressed, QToolButton:pressed, QPushButton:checked, QToolButton:checked { background: @line@; }
QPushButton[ring="true"], QToolButton[ring="true"] { border: 2px solid @focus@; padding: 4px 13px; }
QToolButton[ring="true"] { padding: 4px 7px; }
QPushButton:disabled, QToolButton:disabled { color: @faint_ink@; border-color: @line@; background: transparent; }
QPushButton[role="primary"] {
    background: @accent@; color: @on_accent@; border: 1px solid @accent@; font-weight: 600;
}
QPushButton[role="primary"]:hover { background: @accent_hover@; border-color: @accent_hover@; }
QPushButton[role="primary"][ring="true"] { border: 2px solid @ink@; }
QPushButton[role="primary"]:disabled { background: @line@; color: @faint_ink@; border-color: @line@; }
QPushButton[role="quiet"], QToolButton[role="quiet"] { background: transparent; border-color: transparent; }
QPushButton[role="quiet"]:hover, QToolButton[role="quiet"]:hover { background: @line@; }
QPushButton[role="quiet"]:checked, QToolButton[role="quiet"]:checked { background: @line@; }
QPushButton[role="quiet"][ring="true"], QToolButton[role="quiet"][ring="true"] { border-color: @focus@; }
QPushButton[role="danger"] { color: @conflict@; border-color: @conflict@; }

QLineEdit, QPlainTextEdit, QTextEdit, QSpinBox, QDoubleSpinBox, QComboBox {
    background: @surface_raised@; color: @ink@; border: 1px solid @line_strong@; border-radius: 4px;
    padding: 5px 8px; min-height: @control@; selection-background-color: @selection@; selection-color: @ink@;
}
QLineEdit, QPlainTextEdit, QTextEdit { placeholder-text-color: @faint_ink@; }
QLineEdit:hover, QPlainTextEdit:hover, QTextEdit:hover, QSpinBox:hover, QDoubleSpinBox:hover, QComboBox:hover {
    border-color: @faint_ink@;
}
QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox[ring="true"] {
    border: 2px solid @focus@; padding: 4px 7px;
}
QLineEdit:disabled, QPlainTextEdit:disabled, QTextEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled,
QComboBox:disabled { color: @faint_ink@; border-color: @line@; background: transparent; }

QSpinBox, QDoubleSpinBox { qproperty-alignment: "AlignRight | AlignVCenter"; }
QSpinBox QLineEdit, QDoubleSpinBox QLineEdit, QComboBox QLineEdit {
    border: none; background: transparent; padding: 0 0 0 8px; min-height: 0;
}
QSpinBox::up-button, QDoubleSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::down-button {
    subcontrol-origin: border; width: @22@; border: none; background: transparent;
}
QSpinBox::up-button, QDoubleSpinBox::up-button { subcontrol-position: top right; margin-top: 3px; }
QSpinBox::down-button, QDoubleSpinBox::down-button { subcontrol-position: bottom right; margin-bottom: 3px; }
QSpinBox::up-arrow, QDoubleSpinBox::up-arrow { image: url(@icons@/up.png); width: @10@; height: @10@; }
QSpinBox::down-arrow, QDoubleSpinBox::down-arrow, QComboBox::down-arrow {
    image: url(@icons@/down.png); width: @10@; height: @10@;
}
QSpinBox::up-arrow:disabled, QDoubleSpinBox::up-arrow:disabled, QSpinBox::up-arrow:off, QDoubleSpinBox::up-arrow:off {
    image: url(@icons@/up-off.png);
}
QSpinBox::down-arrow:disabled, QDoubleSpinBox::down-arrow:disabled, QSpinBox::down-arrow:off,
QDoubleSpinBox::down-arrow:off, QComboBox::down-arrow:disabled { image: url(@icons@/down-off.png); }
QComboBox { padding-right: @26@; combobox-popup: 0; qproperty-maxVisibleItems: 24; }
QComboBox::drop-down { subcontrol-origin: border; subcontrol-position: center right; width: @26@; border: none; }
QComboBox QAbstractItemView {
    background: @surface_raised@; color: @ink@; border: 1px solid @line_strong@; border-radius: 0;
    selection-background-color: @selection@; selection-color: @ink@; outline: none;
}
QComboBox QAbstractItemView:focus { border: 1px solid @line_strong@; border-radius: 0; }

QSlider::groove:horizontal { height: 2px; background: @line_strong@; border-radius: 1px; }
QSlider::sub-page:horizontal { height: 2px; background: @accent@; border-radius: 1px; }
QSlider::handle:horizontal {
    width: 14px; height: 14px; margin: -7px 0; border-radius: 8px; background: @ink@; border: 1px solid @surface@;
}
QSlider::handle:horizontal:hover { background: @accent_hover@; }
QSlider[ring="true"] { border: 2px solid @focus@; border-radius: 4px; }
QSlider:horizontal { min-height: 24px; border: 2px solid transparent; }
QSlider:horizontal[ring="true"] { border: 2px solid @focus@; }
QSlider::sub-page:horizontal:disabled { background: @line@; }
QSlider::handle:horizontal:disabled { background: @line_strong@; }

QCheckBox, QRadioButton { spacing: 8px; padding: 4px; border: 2px solid transparent; border-radius: 4px; }
QCheckBox[ring="true"], QRadioButton[ring="true"] { border-color: @focus@; }
QCheckBox::indicator, QRadioButton::indicator {
    width: @14@; height: @14@; border: 1px solid @line_strong@; background: @surface_raised@;
}
QCheckBox::indicator { border-radius: 3px; }
QRadioButton::indicator { border-radius: @8@; }
QCheckBox::indicator:hover, QRadioButton::indicator:hover { border-color: @faint_ink@; }
QCheckBox::indicator:checked { background: @accent@; border-color: @accent@; image: url(@icons@/check.png); }
QRadioButton::indicator:checked { background: @accent@; border-color: @accent@; image: url(@icons@/dot.png); }
QCheckBox:disabled, QRadioButton:disabled { color: @faint_ink@; }

QListView, QTreeView, QTableView {
    background: transparent; border: none; alternate-background-color: @surface_sunken@;
    selection-background-color: @selection@; selection-color: @ink@;
}
QListView::item, QTreeView::item {
    min-height: 28px; padding: 0 8px; border-radius: 4px; border: 1px solid transparent;
}
QListView::item:hover, QTreeView::item:hover { background: @surface_raised@; }
QListView::item:selected, QTreeView::item:selected { background: @selection@; color: @ink@; }
QTableView { border: 2px solid transparent; border-radius: 4px; }
QListView[ring="true"], QTreeView[ring="true"],
QTableView[ring="true"] { border: 2px solid @focus@; border-radius: 4px; }
QHeaderView::section {
    background: @surface@; color: @faint_ink@; border: none; border-bottom: 1px solid @line@; padding: 6px 8px;
}

QScrollBar:vertical { background: transparent; width: 12px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 12px; margin: 0; }
QScrollBar::handle { background: @line_strong@; border-radius: 3px; margin: 3px; }
QScrollBar::handle:vertical { min-height: 32px; }
QScrollBar::handle:horizontal { min-width: 32px; }
QScrollBar::handle:hover { background: @faint_ink@; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }

QProgressBar {
    background: @line@; border: none; border-radius: 2px; max-height: 4px; min-height: 4px; color: transparent;
}
QProgressBar::chunk { background: @accent@; border-radius: 2px; }
QMenuBar { background: @surface@; }
QMenuBar::item { padding: 6px 10px; background: transparent; border-radius: 4px; }
QMenuBar::item:selected { background: @line@; }
QMenu { background: @surface_raised@; border: 1px solid @line_strong@; padding: 4px; }
QMenu::item { padding: 6px 24px 6px 12px; border-radius: 4px; }
QMenu::item:selected { background: @selection@; }
QMenu::item:disabled { color: @faint_ink@; }
QMenu::separator { height: 1px; background: @line@; margin: 4px 8px; }
QTabWidget::pane { border: none; border-top: 1px solid @line@; }
QTabBar::tab {
    background: transparent; color: @faint_ink@; padding: 8px 10px; border: none; border-bottom: 2px solid transparent;
}
QTabBar::tab:hover { color: @ink@; }
QTabBar::tab:selected { color: @ink@; border-bottom: 2px solid @accent@; }
QTabBar[ring="true"]::tab:focus { border: 2px solid @focus@; padding: 6px 8px 8px; }
QSplitter::handle { background: @line@; }
QSplitter::handle:horizontal { width: 1px; }
QSplitter::handle:vertical { height: 1px; }
QStatusBar { background: @surface@; color: @faint_ink@; border-top: 1px solid @line@; }
QStatusBar::item { border: none; }
QGroupBox { border: none; border-top: 1px solid @line@; margin-top: 20px; padding-top: 8px; }
QGroupBox::title { subcontrol-origin: margin; subcontrol-position: top left; color: @faint_ink@; padding: 0; }

/* the roles of ``app.design.controls`` */
QFrame[role="hairline"] { background: @line@; border: none; }
QLabel[role="wordmark"] { font-size: @text_lead@; font-weight: 600; letter-spacing: 1px; }
QLabel[role="mark"] { font-size: @text_lead@; color: @accent@; }
QLabel[role="speaker"] { font-size: @text_small@; color: @faint_ink@; }
QLabel[role="prose"] { font-size: @text_lead@; }
QLabel[role="setting"] { font-size: @text_body@; }
QLabel[role="remark"] {
    font-size: 13px; color: @ink@; border: none; border-left: 2px solid @accent@;
    padding: 0 0 0 10px;
}
QLabel[role="moment"] {
    font-size: @text_lead@; color: @faint_ink@; border: none; border-left: 2px solid @line@;
    padding: 0 0 0 10px;
}
QLabel[role="moment"][tense="past"] { color: @ink@; }
QLabel[role="moment"][tense="now"] { color: @ink@; border-left-color: @accent@; }
QLabel[role="remark"]:focus, QLabel[role="prose"]:focus { background: @surface_raised@; }
QFrame[role="notice"] {
    background: @surface_raised@; border: none; border-left: 2px solid @conflict@;
}
QFrame[role="notice"][floats="true"] {
    border: 1px solid @line_strong@; border-left: 2px solid @conflict@; border-bottom: none;
}
QFrame[role="guide"] { background: @surface_raised@; border: none; border-left: 2px solid @accent@; }
QFrame[role="notice"][tone="done"] { border-left-color: @faint_ink@; }
QPushButton[role="chip"] {
    background: transparent; border: 1px solid @line_strong@; border-radius: 15px; padding: 4px 12px;
    font-size: 13px;
}
QPushButton[role="chip"]:hover { border-color: @faint_ink@; background: @surface_raised@; }
QPushButton[role="chip"]:checked { border-color: @accent@; }
QPushButton[role="chip"][ring="true"] { border: 2px solid @focus@; padding: 3px 11px; }
QPushButton[role="chip"]:disabled { border-color: @line@; color: @faint_ink@; }
QPushButton[role="link"] {
    background: transparent; border: none; border-bottom: 2px solid transparent; border-radius: 0; padding: 4px 0 2px 0;
    font-size: 13px; color: @faint_ink@;
}
QPushButton[role="link"]:hover { color: @ink@; border-bottom-color: @line_strong@; }
QPushButton[role="link"]:checked { color: @ink@; border-bottom-color: @accent@; }
QPushButton[role="link"][ring="true"] { color: @ink@; border-bottom-color: @focus@; }
QPushButton[role="link"]:disabled { color: @line_strong@; border-bottom-color: transparent; }
QFrame[role="field"] {
    background: @surface_raised@; border: 1px solid @line_strong@; border-radius: 8px;
}
QFrame[role="field"] QPlainTextEdit, QFrame[role="field"] QPlainTextEdit:focus {
    border: none; background: transparent; padding: 0; min-height: 0; font-size: @text_lead@;
}
QFrame[role="field"][active="true"] { border-color: @focus@; }
QScrollBar[ring="true"] { border: 1px solid @focus@; }
QToolButton::menu-indicator, QPushButton::menu-indicator { image: none; width: 0; }
QProgressBar { background: transparent; border: none; max-height: 2px; min-height: 2px; }
QProgressBar::chunk { background: @accent@; }
QToolButton[role="dots"] {
    background: transparent; border: 1px solid transparent; border-radius: 4px; padding: 0; min-height: 0;
    color: @ink@;
}
QToolButton[role="dots"]:hover, QToolButton[role="dots"]:pressed {
    background: @surface_raised@; border-color: @line_strong@;
}
QToolButton[role="dots"][ring="true"] { border: 2px solid @focus@; padding: 0; }
QPushButton[role="card"] {
    background: @surface_raised@; border: 1px solid @line@; border-radius: 6px; padding: 12px 16px;
    text-align: left; font-size: @text_body@;
}
QPushButton[role="card"]:hover { border-color: @line_strong@; }
QPushButton[role="card"][ring="true"] { border: 2px solid @focus@; padding: 11px 15px; }
QLabel[role="card-title"] { font-size: @text_body@; font-weight: 600; }
QLabel[role="card-hint"] { font-size: @text_small@; color: @faint_ink@; }
QWidget#settings, QWidget#topbar { background: @surface@; }

/* the models page: rows, their headings and their bars */
QFrame[role="model"] { background: @surface_raised@; border: 1px solid @line@; border-radius: 6px;
    padding-left: 2px; }
QFrame[role="model"][loaded="true"] { border-left: 3px solid @accent@; padding-left: 0; }
QFrame[role="model"][ring="true"] { border-color: @focus@; }
QLabel[role="model-title"] { font-size: @text_lead@; font-weight: 600; }
QLabel[role="group"] { font-size: @text_small@; color: @faint_ink@; letter-spacing: 1px; }
QLabel[role="fact"] { font-size: 13px; color: @faint_ink@; }
QProgressBar[role="bar"] {
    background: @line@; border: none; border-radius: 2px; max-height: 4px; min-height: 4px;
}
QProgressBar[role="bar"]::chunk { background: @accent@; border-radius: 2px; }

/* the server page: its requests and the texts to copy */
QWidget#server QCheckBox { padding-left: 0; }
QFrame[role="request"] { border: none; border-bottom: 1px solid @line@; }
QLabel[role="request-title"] { font-size: @text_body@; font-weight: 600; }
QLabel[role="request-state"] { font-size: @text_body@; }
QPlainTextEdit[role="code"] {
    background: @surface_sunken@; border: 1px solid @line@; border-radius: 6px;
}

/* the inspector */
QWidget#transport, QWidget#inspector-head { background: @surface@; }
QScrollArea#canvas-scroll, QScrollArea#canvas-scroll > QWidget > QWidget { background: @surface_sunken@; }
QPushButton#transport-button {
    background: transparent; border: 1px solid transparent; border-radius: 4px; padding: 4px 6px;
}
QPushButton#transport-button:hover { background: @line@; }
QPushButton#transport-button:checked { background: @line@; border-color: @accent@; }
QPushButton#transport-button[ring="true"] { border: 2px solid @focus@; padding: 3px 5px; }
QPushButton#transport-button:disabled { background: transparent; border-color: transparent; }
QTableCornerButton::section { background: @surface@; border: none; border-bottom: 1px solid @line@; }
QFrame[role="read-answer"] { border: 1px solid @line@; border-radius: 6px; }
QFrame[role="read-answer"][lit="true"] { border: 2px solid @accent@; background: @surface_raised@; }
QLabel[role="frame"] { font-size: @text_body@; color: @ink@; }
QLabel[role="trace"] { font-size: @text_lead@; font-weight: 600; }
QWidget#inspector QSplitter::handle:horizontal { background: @line@; margin: 0 2px; }
QWidget#inspector QSplitter::handle:vertical { background: @line@; margin: 2px 0; }

/* the Sudoku page: figures and headings */
QWidget#sudoku { background: @surface@; }
QLabel[role="figure"] { font-size: @text_lead@; font-weight: 600; }
QLabel[role="side"] { font-size: @text_body@; font-weight: 600; }
QLabel[role="verdict"] { font-size: @text_body@; }
QLabel[role="section"] { font-size: @text_small@; color: @faint_ink@; letter-spacing: 1px; }

/* the Decisions page: the list of questions and invalid fields */
QWidget#decisions { background: @surface@; }
QFrame[role="question"] {
    border: none; border-top: 1px solid @line@; border-left: 2px solid transparent; border-radius: 0;
}
QFrame[role="question"][chosen="true"] { border-left-color: @accent@; }
QLabel[role="asked"] { font-size: @text_body@; font-weight: 600; }
QWidget#decisions QLineEdit[wrong="true"] { border: 2px solid @conflict@; padding: 4px 7px; }
QWidget#decisions QPushButton[role="quiet"] { padding: 4px 6px; }
"""
