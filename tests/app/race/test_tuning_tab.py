"""The Tuning tab: the latest result, its plot in both themes and scales, the button that uses the choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QImage, QPainter
from pytestqt.qtbot import QtBot

from app.batch.panel import RESULTS, TEACHING
from app.context import AppContext
from app.design.series import pens
from app.design.tokens import DARKROOM, PAPER, Theme
from app.race.controller import RaceController
from app.race.tuning.painting import Axis, paint_result
from app.settings.decoders import DecodingChoice
from app.state.tuning.candidates import HOTTER, STALLING, Candidate, reference_of
from app.state.tuning.result import FILE, FOLDER, TuningResult
from app.state.tuning.scores import TuningRow
from engine import GenerationConfig
from tests.fake_engine import FakeEngine


def row(candidate: Candidate, exact: int, steps: float, better: int, worse: int, count: int = 1000) -> TuningRow:
    return TuningRow(candidate, count, exact, steps, better, worse, steps / 3, (steps / 3.1, steps / 2.9))


USUAL = row(reference_of(GenerationConfig()), 980, 3.0, 0, 0)
KEPT = row(Candidate("entropy_bound_kept", 0.2), 980, 1.5, 2, 2)
HOT = row(Candidate("entropy_bound_kept", 0.8, HOTTER), 985, 2.2, 7, 2)
BOLD = row(Candidate("margin", 5.0), 900, 1.0, 0, 80)
DROPPED = row(Candidate("confidence_threshold", 0.7), 20, 1.2, 0, 5, 25)
RESULT = TuningResult("Small", "held-out skills", 3, 0.01, (USUAL, KEPT, BOLD, DROPPED))


@pytest.fixture
def page(qtbot: QtBot, fake: FakeEngine, open_context: Callable[..., AppContext]) -> RaceController:
    fake.decoders = ("autoregressive", "block_diffusion")
    made = RaceController(open_context())
    qtbot.addWidget(made.page)
    made.page.resize(1000, 800)
    made.page.show()
    return made


def keep(page: RaceController, result: TuningResult) -> None:
    folder = page._context.folders.data / FOLDER / "one"
    folder.mkdir(parents=True, exist_ok=True)
    result.write(folder / FILE)


def show(qtbot: QtBot, page: RaceController) -> None:
    page.page.show_part("one")
    page.page.show_part("tuning")
    qtbot.waitUntil(lambda: not page.tuning.is_reading)


def test_the_latest_result_is_shown_and_used(qtbot: QtBot, page: RaceController) -> None:
    view, context = page.page.tuning, page._context
    show(qtbot, page)
    assert view.pages.currentIndex() == TEACHING
    keep(page, RESULT)
    show(qtbot, page)
    assert view.pages.currentIndex() == RESULTS
    assert view.heading.text() == (
        "Small, held-out skills, 1,000 prompts: “The surest, for good; Boldness 0.2” takes 1.50 steps in place of "
        "3.00, with 98.0 % right in place of 98.0 %."
    )
    texts = view.table.texts()
    assert [text[0] for text in texts[:2]] == [
        "The surest of each step; Boldness 0.1\nthe model's own",
        "The surest, for good; Boldness 0.2\nchosen",
    ]
    assert texts[1][-1] == "yes"
    assert texts[2][-2:] == ("-8.0\n(-9.8 to -6.5)", "no")
    said = []
    context.done.connect(lambda *done: said.append(done))
    before = DecodingChoice(rescue=True, verify=True, acceptance="margin")
    context.values.overrides, context.values.decoding = {"t_max": 0.7}, before
    view.use.click()
    assert context.values.overrides == {"t_max": 0.7, "entropy_bound": 0.2}
    assert context.values.decoding == replace(before, acceptance="entropy_bound_kept")
    (text, _, put_back), *_ = said
    assert text == "Set: The surest, for good; Boldness 0.2"
    put_back()
    assert (context.values.overrides, context.values.decoding) == ({"t_max": 0.7}, before)


def test_what_cannot_be_used(qtbot: QtBot, page: RaceController) -> None:
    view, context = page.page.tuning, page._context
    for result in (replace(RESULT, rows=(USUAL, BOLD)), replace(RESULT, is_finished=False)):
        keep(page, result)
        show(qtbot, page)
        assert not view.use.isEnabled()
    keep(page, RESULT)
    show(qtbot, page)
    assert view.use.isEnabled()
    for decoding, decoders, why in (
        (DecodingChoice("autoregressive"), ("block_diffusion", "autoregressive"), "Choose it as decoding first"),
        (DecodingChoice(), ("autoregressive",), "does not write by block diffusion"),
    ):
        context.values.decoding, context.values.decoders = decoding, decoders
        context.settings_changed.emit()
        context.model_changed.emit()
        assert not view.use.isEnabled()
        assert why in view.reason.text()
    (context.folders.data / FOLDER / "one" / FILE).write_text("{")
    show(qtbot, page)
    qtbot.waitUntil(lambda: view.problem.isVisible())
    assert "\n" not in view.problem.text()


def test_a_hotter_setting_is_named_and_used_whole(qtbot: QtBot, page: RaceController) -> None:
    view, context = page.page.tuning, page._context
    hot = replace(KEPT, candidate=Candidate("entropy_bound_kept", 0.8, (*HOTTER, *STALLING)))
    keep(page, replace(RESULT, rows=(USUAL, hot, BOLD)))
    show(qtbot, page)
    name = (
        "The surest, for good; Boldness 0.8; Temperature 1; Temperature at the end 0.8; Stalled after 6; "
        "Least progress 0.2"
    )
    assert view.table.texts()[1][0] == f"{name}\nchosen"
    view.use.click()
    assert context.values.overrides == {"entropy_bound": 0.8, **dict(HOTTER), **dict(STALLING)}
    keep(page, replace(RESULT, rows=(USUAL, KEPT, hot)))  # the cooler one is chosen now: its steps are as few
    show(qtbot, page)
    view.use.click()
    assert context.values.overrides == {"entropy_bound": 0.2}


def test_pointing_at_a_mark_names_its_rule(qtbot: QtBot, page: RaceController) -> None:
    keep(page, RESULT)
    show(qtbot, page)
    plot = page.page.tuning.plot
    plot.grab()
    assert plot._placed is not None
    at = plot._placed.place(KEPT)
    assert plot.text_at(at.x() + 2, at.y() - 2).startswith("The surest, for good; Boldness 0.2: 98.0 % right")
    assert plot.text_at(at.x() + 60, at.y()) == ""
    assert "80" not in plot.accessibleDescription().partition("Lead")[0]


@pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=["dark", "light"])
@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.usefixtures("qapp")
def test_each_rule_is_painted_in_its_colour(theme: Theme, scale: int) -> None:
    size = QSize(600, 360)
    picture = QImage(size * scale, QImage.Format.Format_RGB32)
    picture.setDevicePixelRatio(scale)
    painter = QPainter(picture)
    placed = paint_result(painter, size, replace(RESULT, rows=(*RESULT.rows, HOT)), theme)
    painter.end()

    def shade(one: TuningRow) -> str:
        at = placed.place(one)
        return QColor(picture.pixel(round(at.x() * scale), round(at.y() * scale))).name()

    known = [pen.shade for pen in pens(theme)]
    assert shade(HOT) == QColor(theme.surface).name()  # an open mark
    assert [shade(USUAL), shade(KEPT), shade(BOLD)] == [known[0], known[1], known[3]]
    assert placed.place(USUAL).x() > placed.place(KEPT).x() > placed.place(BOLD).x()
    assert placed.place(USUAL).y() == placed.place(KEPT).y() < placed.place(BOLD).y()


@pytest.mark.parametrize("span", [(0.0, 0.0), (1.0, 3.2), (97.1, 99.9), (3.0, 100.0), (11.2, 48.0), (1e-4, 2e-4)])
def test_an_axis_has_round_ticks_around_its_figures(span: tuple[float, float]) -> None:
    low, high = span
    axis = Axis.around(low, high)
    assert 2 <= len(axis.ticks) <= 8
    assert axis.ticks[0] <= low + 1e-9
    assert axis.ticks[-1] >= high - 1e-9
    step = axis.ticks[1] - axis.ticks[0]
    assert all(
        math.isclose(two - one, step, rel_tol=1e-6) for one, two in zip(axis.ticks, axis.ticks[1:], strict=False)
    )
