"""How everything looks: colours by meaning, type, spacing, the style sheet. Knows no screen and no state of a run."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cache

from PySide6.QtCore import QPointF, Qt, QTemporaryDir
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QImage, QPainter, QPalette, QPen, QPolygonF
from PySide6.QtWidgets import QApplication

# Spacing on a 4 px grid, in logical pixels.
SPACE_1, SPACE_2, SPACE_3, SPACE_4, SPACE_6, SPACE_8 = 4, 8, 12, 16, 24, 32
RADIUS = 4
FADE_MS = 150
"""How long a change stays tinted."""

# One type scale, in logical pixels at 100 %; ``px`` and ``sized`` bring it to the size the user reads at.
TEXT_SMALL, TEXT_BODY, TEXT_LEAD, TEXT_TITLE, TEXT_DISPLAY = 12, 14, 16, 20, 28
TEXT_CANVAS = 18
TEXT_PERCENT_LOW, TEXT_PERCENT_HIGH = 80, 200
LEAST_TEXT = 8  # pixels; below this letters run together

MONO_CHAIN = ("JetBrains Mono", "Cascadia Mono", "SF Mono", "Menlo", "Consolas", "DejaVu Sans Mono", "Noto Sans Mono")


@dataclass(frozen=True)
class Theme:
    """Colours by meaning, as ``#rrggbb``."""

    name: str
    dark: bool
    surface: str  # the window
    surface_raised: str  # panels, fields, menus
    surface_sunken: str  # wells: the canvas, code
    ink: str
    faint_ink: str  # captions, hints
    line: str  # hairlines
    line_strong: str  # edges of controls
    accent: str  # what is being developed now, the primary action
    accent_hover: str
    on_accent: str
    focus: str  # ring around what has the keyboard
    selection: str  # behind selected text
    noise: str
    candidate: str
    accepted: str
    remelted: str
    settled: str
    given: str
    padding: str  # nearly invisible on purpose: there is no text there
    conflict: str


DARKROOM = Theme(
    name="Darkroom",
    dark=True,
    surface="#171310",
    surface_raised="#211c18",
    surface_sunken="#110e0c",
    ink="#f2eadf",
    faint_ink="#a99e90",
    line="#352d27",
    line_strong="#57493f",
    accent="#f0573a",
    accent_hover="#ff7355",
    on_accent="#1b0a05",
    focus="#ffab91",
    selection="#5c2a1e",
    noise="#7d7064",
    candidate="#bfb2a2",
    accepted="#f0b96b",
    remelted="#7fbbe0",
    settled="#f2eadf",
    given="#ffe3b0",
    padding="#463c34",
    conflict="#ff7591",
)

PAPER = Theme(
    name="Paper",
    dark=False,
    surface="#f8f3ea",
    surface_raised="#fffcf6",
    surface_sunken="#fdf9f2",
    ink="#231c16",
    faint_ink="#6d6254",
    line="#e0d6c7",
    line_strong="#b7a996",
    accent="#bf3a1d",
    accent_hover="#a52e14",
    on_accent="#fffaf3",
    focus="#8f2a12",
    selection="#f3cdbf",
    noise="#8d8070",
    candidate="#665b4e",
    accepted="#8a5500",
    remelted="#1d6493",
    settled="#231c16",
    given="#4b3510",
    padding="#d8cdbd",
    conflict="#b2143f",
)

# Magma of the viridis family (matplotlib, CC0), sixteen even samples: black to cream, perceptually uniform.
_MAGMA = tuple(
    tuple(code.to_bytes(3))
    for code in (
        *(0x000004, 0x0B0924, 0x20114B, 0x3B0F70, 0x57157E, 0x721F81, 0x8C2981, 0xA8327D),
        *(0xC43C75, 0xDE4968, 0xF1605D, 0xFA7F5E, 0xFE9F6D, 0xFEBF84, 0xFDDEA0, 0xFCFDBF),
    )
)


_text_percent = 100


def set_text_percent(percent: int) -> None:
    """Take all text at this size from now on; what is shown already follows when it is dressed again."""
    global _text_percent
    _text_percent = min(max(percent, TEXT_PERCENT_LOW), TEXT_PERCENT_HIGH)


def text_percent() -> int:
    """The size of text, 100 for the type scale as it is written."""
    return _text_percent


def px(pixels: int) -> int:
    """A size of the type scale, or a length that goes with it, at the size the user reads at."""
    return max(min(pixels, LEAST_TEXT), round(pixels * _text_percent / 100))


def sized(sheet: str) -> str:
    """A style sheet with all its font sizes in pixels at the size the user reads at."""
    return re.sub(r"(font-size:\s*)(\d+)px", lambda found: f"{found[1]}{px(int(found[2]))}px", sheet)


@cache
def color(code: str) -> QColor:
    """The QColor of a ``#rrggbb`` token; shared, so never change it."""
    return QColor(code)


def entropy_color(value01: float, theme: Theme) -> QColor:
    """Colour of a share of the entropy scale; clamped to 0..1.

    Certainty recedes into the surface: it is dark in a dark theme, and the map runs backwards in a light one.
    """
    value = min(max(float(value01), 0.0), 1.0)
    place = (value if theme.dark else 1.0 - value) * (len(_MAGMA) - 1)
    low = min(int(place), len(_MAGMA) - 2)
    share = place - low
    channels = (round(a + (b - a) * share) for a, b in zip(_MAGMA[low], _MAGMA[low + 1], strict=True))
    return QColor(*channels)


def luminance(shade: QColor) -> float:
    """Relative luminance as WCAG 2 defines it, 0 to 1."""

    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(shade.redF()) + 0.7152 * linear(shade.greenF()) + 0.0722 * linear(shade.blueF())


def readable_on(background: QColor) -> QColor:
    """Near-black or near-white, whichever stands out more."""
    # 0.179 is where the contrast to black equals that to white.
    return color("#000000") if luminance(background) > 0.179 else color("#ffffff")


def canvas_font(pixels: int = TEXT_CANVAS) -> QFont:
    """The monospace face of canvas and code: the system's own, then well-known ones that are installed.

    ``pixels`` is a size of the type scale; the font's own follows the size the user reads at.
    """
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    installed = set(QFontDatabase.families())  # asking for a missing family costs a slow search and a warning
    families = [font.family(), *(family for family in MONO_CHAIN if family in installed)]
    font.setFamilies(list(dict.fromkeys(families)))
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPixelSize(px(pixels))
    return font


def ui_font() -> QFont:
    """The system's general face at body size."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    font.setPixelSize(px(TEXT_BODY))
    return font


def system_theme() -> Theme:
    """The theme that fits the desktop's light or dark setting; Darkroom where it does not say."""
    light = QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Light
    return PAPER if light else DARKROOM


def palette(theme: Theme) -> QPalette:
    """The same colours for what a style sheet does not reach."""
    made = QPalette()
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
        made.setColor(role, QColor(code))
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(theme.line_strong))
    return made


def apply_theme(app: QApplication, theme: Theme) -> None:
    """Dress the whole app. May be called again to change the theme while it runs."""
    if not app.styleSheet():  # the first time; setting a style, or a sheet, goes through every widget there is
        app.setStyle("Fusion")
    app.setFont(ui_font())
    app.setPalette(palette(theme))
    sheet = stylesheet(theme, _draw_icons(theme))
    if sheet != app.styleSheet():
        app.setStyleSheet(sheet)


_STROKES = {
    "up": ((2, 6.5), (5, 3.5), (8, 6.5)),
    "down": ((2, 3.5), (5, 6.5), (8, 3.5)),
    "check": ((2, 5.2), (4.2, 7.4), (8, 2.8)),
    "dot": ((5, 5), (5, 5)),
}
_icon_folders: dict[str, QTemporaryDir] = {}


def _draw_icons(theme: Theme) -> str:
    """Draw the arrows and marks, which a style sheet takes from files only. The folder goes when the app does.

    Returns an empty text where no temporary folder can be made.
    """
    folder = _icon_folders.setdefault(theme.name, QTemporaryDir())
    if not folder.isValid():
        return ""
    shades = {"": theme.faint_ink, "-off": theme.line_strong}
    for name, points in _STROKES.items():
        for suffix, shade in shades.items():
            for scale in (1, 2):
                image = QImage(10 * scale, 10 * scale, QImage.Format.Format_ARGB32_Premultiplied)
                image.fill(Qt.GlobalColor.transparent)
                painter = QPainter(image)
                painter.setRenderHint(QPainter.RenderHint.Antialiasing)
                painter.scale(scale, scale)
                stroke = QPen(
                    QColor(theme.on_accent if name in ("check", "dot") else shade), 4 if name == "dot" else 1.6
                )
                stroke.setCapStyle(Qt.PenCapStyle.RoundCap)
                stroke.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
                painter.setPen(stroke)
                if name == "dot":
                    painter.drawPoint(QPointF(*points[0]))
                else:
                    painter.drawPolyline(QPolygonF([QPointF(*point) for point in points]))
                painter.end()
                image.save(folder.filePath(f"{name}{suffix}{'@2x' if scale == 2 else ''}.png"))
    return folder.path()


def stylesheet(theme: Theme, icons: str = "") -> str:
    """Qt style sheet of all standard controls. ``icons`` is a folder with the small pictures it shows.

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
    return sized(text)


_SHEET = """
* { outline: none; }
QWidget { color: @ink@; }
QDialog { background: @surface@; }
QScrollArea, QScrollArea > QWidget > QWidget { background: transparent; border: none; }
QToolTip {
    background: @surface_raised@; color: @ink@; border: 1px solid @line_strong@; padding: 6px 8px;
    font-size: @text_small@;
}

QLabel { background: transparent; }
QLabel[role="display"] { font-size: @text_display@; font-weight: 600; }
QLabel[role="title"] { font-size: @text_title@; font-weight: 600; }
QLabel[role="lead"] { font-size: @text_lead@; }
QLabel[role="caption"] { font-size: @text_small@; color: @faint_ink@; }
QLabel[role="error"] { color: @conflict@; }
QLabel:disabled { color: @faint_ink@; }

QFrame[role="panel"] { background: @surface_raised@; border: 1px solid @line@; border-radius: 6px; }
QFrame[role="well"] { background: @surface_sunken@; border: 1px solid @line@; border-radius: 6px; }
QFrame[role="rule"] { background: @line@; border: none; max-height: 1px; min-height: 1px; }

QPushButton, QToolButton {
    background: @surface_raised@; color: @ink@; border: 1px solid @line_strong@; border-radius: 4px;
    padding: 5px 14px; min-height: 20px;
}
QToolButton { padding: 5px 8px; }
QPushButton:hover, QToolButton:hover { border-color: @faint_ink@; }
QPushButton:pressed, QToolButton:pressed, QPushButton:checked, QToolButton:checked { background: @line@; }
QPushButton:focus, QToolButton:focus { border: 2px solid @focus@; padding: 4px 13px; }
QToolButton:focus { padding: 4px 7px; }
QPushButton:disabled, QToolButton:disabled { color: @faint_ink@; border-color: @line@; background: transparent; }
QPushButton[role="primary"] {
    background: @accent@; color: @on_accent@; border: 1px solid @accent@; font-weight: 600;
}
QPushButton[role="primary"]:hover { background: @accent_hover@; border-color: @accent_hover@; }
QPushButton[role="primary"]:focus { border: 2px solid @ink@; }
QPushButton[role="primary"]:disabled { background: @line@; color: @faint_ink@; border-color: @line@; }
QPushButton[role="quiet"], QToolButton[role="quiet"] { background: transparent; border-color: transparent; }
QPushButton[role="quiet"]:hover, QToolButton[role="quiet"]:hover { background: @line@; }
QPushButton[role="quiet"]:checked, QToolButton[role="quiet"]:checked { background: @line@; }
QPushButton[role="quiet"]:focus, QToolButton[role="quiet"]:focus { border-color: @focus@; }
QPushButton[role="danger"] { color: @conflict@; border-color: @conflict@; }

QLineEdit, QPlainTextEdit, QTextEdit, QSpinBox, QDoubleSpinBox, QComboBox {
    background: @surface_raised@; color: @ink@; border: 1px solid @line_strong@; border-radius: 4px;
    padding: 5px 8px; min-height: 20px; selection-background-color: @selection@; selection-color: @ink@;
}
QLineEdit, QPlainTextEdit, QTextEdit { placeholder-text-color: @faint_ink@; }
QLineEdit:hover, QPlainTextEdit:hover, QTextEdit:hover, QSpinBox:hover, QDoubleSpinBox:hover, QComboBox:hover {
    border-color: @faint_ink@;
}
QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus {
    border: 2px solid @focus@; padding: 4px 7px;
}
QLineEdit:disabled, QPlainTextEdit:disabled, QTextEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled,
QComboBox:disabled { color: @faint_ink@; border-color: @line@; background: transparent; }

QSpinBox, QDoubleSpinBox { qproperty-alignment: "AlignRight | AlignVCenter"; }
QSpinBox QLineEdit, QDoubleSpinBox QLineEdit, QComboBox QLineEdit {
    border: none; background: transparent; padding: 0 0 0 8px; min-height: 0;
}
QSpinBox::up-button, QDoubleSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::down-button {
    subcontrol-origin: border; width: 22px; border: none; background: transparent;
}
QSpinBox::up-button, QDoubleSpinBox::up-button { subcontrol-position: top right; margin-top: 3px; }
QSpinBox::down-button, QDoubleSpinBox::down-button { subcontrol-position: bottom right; margin-bottom: 3px; }
QSpinBox::up-arrow, QDoubleSpinBox::up-arrow { image: url(@icons@/up.png); width: 10px; height: 10px; }
QSpinBox::down-arrow, QDoubleSpinBox::down-arrow, QComboBox::down-arrow {
    image: url(@icons@/down.png); width: 10px; height: 10px;
}
QSpinBox::up-arrow:disabled, QDoubleSpinBox::up-arrow:disabled, QSpinBox::up-arrow:off, QDoubleSpinBox::up-arrow:off {
    image: url(@icons@/up-off.png);
}
QSpinBox::down-arrow:disabled, QDoubleSpinBox::down-arrow:disabled, QSpinBox::down-arrow:off,
QDoubleSpinBox::down-arrow:off, QComboBox::down-arrow:disabled { image: url(@icons@/down-off.png); }
QComboBox { padding-right: 26px; }
QComboBox::drop-down { subcontrol-origin: border; subcontrol-position: center right; width: 26px; border: none; }
QComboBox QAbstractItemView {
    background: @surface_raised@; color: @ink@; border: 1px solid @line_strong@; padding: 4px;
    selection-background-color: @selection@; selection-color: @ink@; outline: none;
}

QSlider::groove:horizontal { height: 2px; background: @line_strong@; border-radius: 1px; }
QSlider::sub-page:horizontal { height: 2px; background: @accent@; border-radius: 1px; }
QSlider::handle:horizontal {
    width: 14px; height: 14px; margin: -7px 0; border-radius: 8px; background: @ink@; border: 1px solid @surface@;
}
QSlider::handle:horizontal:hover { background: @accent_hover@; }
QSlider:focus { border: 2px solid @focus@; border-radius: 4px; }
QSlider:horizontal { min-height: 24px; border: 2px solid transparent; }
QSlider:horizontal:focus { border: 2px solid @focus@; }
QSlider::sub-page:horizontal:disabled { background: @line@; }
QSlider::handle:horizontal:disabled { background: @line_strong@; }

QCheckBox, QRadioButton { spacing: 8px; padding: 4px; border: 2px solid transparent; border-radius: 4px; }
QCheckBox:focus, QRadioButton:focus { border-color: @focus@; }
QCheckBox::indicator, QRadioButton::indicator {
    width: 14px; height: 14px; border: 1px solid @line_strong@; background: @surface_raised@;
}
QCheckBox::indicator { border-radius: 3px; }
QRadioButton::indicator { border-radius: 8px; }
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
QListView:focus, QTreeView:focus, QTableView:focus { border: 2px solid @focus@; border-radius: 4px; }
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
    background: transparent; color: @faint_ink@; padding: 8px 14px; border: none; border-bottom: 2px solid transparent;
}
QTabBar::tab:hover { color: @ink@; }
QTabBar::tab:selected { color: @ink@; border-bottom: 2px solid @accent@; }
QTabBar::tab:focus { border: 2px solid @focus@; }
QSplitter::handle { background: @line@; }
QSplitter::handle:horizontal { width: 1px; }
QSplitter::handle:vertical { height: 1px; }
QStatusBar { background: @surface@; color: @faint_ink@; border-top: 1px solid @line@; }
QStatusBar::item { border: none; }
QGroupBox { border: none; border-top: 1px solid @line@; margin-top: 20px; padding-top: 8px; }
QGroupBox::title { subcontrol-origin: margin; subcontrol-position: top left; color: @faint_ink@; padding: 0; }
"""
