"""Contrast, colour maps and the style sheet, by arithmetic written out here rather than taken from the theme."""

from __future__ import annotations

import itertools
import re
from dataclasses import fields

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFontInfo
from PySide6.QtWidgets import QApplication, QLineEdit, QVBoxLayout, QWidget

from app.design.fonts import canvas_font, px, set_text_percent, sized, text_percent, ui_font
from app.design.stylesheet import apply_theme, chrome, stylesheet, system_theme
from app.design.tokens import DARKROOM, PAPER, Theme, entropy_color, readable_on

THEMES = pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=lambda theme: theme.name)


def linear(code: str) -> list[float]:
    channels = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def luminance(code: str) -> float:
    red, green, blue = linear(code)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def lightness(code: str) -> float:
    """CIE L*, 0 to 100."""
    y = luminance(code)
    return 116 * (y ** (1 / 3) if y > 0.008856 else 7.787 * y + 16 / 116) - 16


@THEMES
@pytest.mark.parametrize("surface", ["surface", "surface_raised", "surface_sunken"])
def test_text_can_be_read(theme, surface):
    ground = getattr(theme, surface)
    wanted = {"ink": 4.5, "faint_ink": 4.5, "candidate": 4.5, "accepted": 4.5, "settled": 4.5, "conflict": 4.5}
    wanted |= {"given": 4.5, "taken_back": 4.5, "noise": 3.0, "accent": 3.0, "focus": 3.0}
    weak = {name: round(contrast(getattr(theme, name), ground), 2) for name in wanted}
    assert {name: ratio for name, ratio in weak.items() if ratio < wanted[name]} == {}
    for text, colour in (("on_accent", "accent"), ("on_accent", "accent_hover"), ("ink", "selection"), ("ink", "line")):
        assert contrast(getattr(theme, text), getattr(theme, colour)) >= 4.5


@THEMES
def test_the_entropy_map_is_even_and_monotonic(theme):
    levels = [lightness(entropy_color(step / 60, theme).name()) for step in range(61)]
    steps = [after - before for before, after in itertools.pairwise(levels)]
    if not theme.dark:
        steps = [-step for step in steps]
    assert min(steps) > 0
    assert max(steps) < 2.2 * sum(steps) / len(steps)
    assert abs(levels[-1] - levels[0]) > 90
    assert entropy_color(-3, theme) == entropy_color(0, theme)
    assert entropy_color(7, theme) == entropy_color(1, theme)
    sure, unsure = (contrast(entropy_color(share, theme).name(), theme.surface) for share in (0, 1))
    assert sure < unsure
    for shade in (entropy_color(step / 100, theme) for step in range(101)):
        assert contrast(readable_on(shade).name(), shade.name()) >= 4.5


@THEMES
def test_stylesheet_is_complete(theme):
    for sheet in (stylesheet(theme), stylesheet(theme, "/some/where")):
        assert "@" not in sheet
        assert sheet.count("{") == sheet.count("}")
        used = set(re.findall(r"#[0-9a-f]{6}\b", sheet))
        assert used <= {getattr(theme, field.name) for field in fields(Theme)}
    assert "url(" not in stylesheet(theme)


@pytest.fixture
def restored(qapp: QApplication):
    """The look of the test app, put back."""
    before = qapp.style().objectName(), qapp.font(), qapp.palette()
    yield qapp
    qapp.setStyle(before[0])
    qapp.setPalette(before[2])
    qapp.setFont(before[1])
    set_text_percent(100)


@THEMES
def test_focus_can_be_seen(theme, restored, qtbot):
    apply_theme(restored, theme)
    window = QWidget()
    qtbot.addWidget(window)
    window.setStyleSheet(chrome(theme))
    column = QVBoxLayout(window)
    first, second = QLineEdit(), QLineEdit()
    column.addWidget(first)
    column.addWidget(second)
    window.show()
    qtbot.waitExposed(window)
    window.activateWindow()
    second.setFocus()
    qtbot.waitUntil(second.hasFocus)

    def has_ring(edit: QLineEdit) -> bool:
        image = edit.grab().toImage()
        return image.pixelColor(image.width() // 2, 1) == QColor(theme.focus)

    assert has_ring(second)
    assert not has_ring(first)


def test_theme_of_the_system(qapp):
    hints = qapp.styleHints()
    before = hints.colorScheme()
    try:
        for scheme, theme in ((Qt.ColorScheme.Light, PAPER), (Qt.ColorScheme.Dark, DARKROOM)):
            hints.setColorScheme(scheme)
            if hints.colorScheme() == scheme:  # not every platform lets an app choose
                assert system_theme() is theme
    finally:
        hints.setColorScheme(before)
    assert system_theme() in (DARKROOM, PAPER)


# ---------------------------------------------------------------- size of text


def test_sizes_at_a_percentage(restored):  # noqa: ARG001
    set_text_percent(150)
    assert (px(14), px(12)) == (21, 18)
    assert sized("a { font-size: 14px; width: 14px; }") == "a { font-size: 21px; width: 14px; }"
    assert (ui_font().pixelSize(), canvas_font(18).pixelSize()) == (21, 27)
    assert QFontInfo(canvas_font(18)).fixedPitch()
    assert QFontInfo(canvas_font(18)).family() == "JetBrains Mono"
    set_text_percent(80)
    assert px(9) == 8  # smaller runs together
    for given, taken in ((10, 80), (900, 200)):
        set_text_percent(given)
        assert text_percent() == taken


@THEMES
def test_every_size_of_the_sheets_follows(theme, restored):  # noqa: ARG001
    def own(theme: Theme) -> str:
        return f"QLabel#own {{ font-size: 13px; color: {theme.ink}; }}"

    def sizes() -> list[int]:
        return [int(size) for size in re.findall(r"font-size: (\d+)px", chrome(theme, own))]

    before = sizes()
    set_text_percent(200)
    assert before
    assert sizes() == [2 * size for size in before]
