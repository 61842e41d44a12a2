"""The scoreboard's widget: what is asked, what is shown as results come in, what is written to files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QColor, QImage
from PySide6.QtWidgets import QAbstractButton, QFileDialog, QSpinBox

from app.design import themes
from app.design.series import pens
from app.design.tokens import DARKROOM, PAPER
from app.state.intervals import wilson
from app.state.sudoku.scores import Request, Result
from app.sudoku.scores.plot import ticks
from app.sudoku.scores.view import ScoreboardView
from app.sudoku.words import heads
from engine.tasks.sudoku import BINS

SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
WRONG = "1" + SOLUTION[1:]
BLANKS = {"easy": 36, "medium": 46, "hard": 54}


def result(name: str, answer: str = SOLUTION, contender: str = "Base", steps: int = 4) -> Result:
    return Result("0" * BLANKS[name] + SOLUTION[BLANKS[name] :], answer, SOLUTION, steps, 0.25, contender)


@pytest.fixture
def view(qtbot):
    made = ScoreboardView()
    qtbot.addWidget(made)
    themes.publish(DARKROOM)
    made.resize(900, 640)
    with qtbot.waitExposed(made):
        made.show()
    return made


def fill(view: ScoreboardView, *results: Result) -> None:
    view.begin(Request(BINS, 2, 0), ["Base"])
    for one in results:
        view.add(one)
    view.refresh()


def test_what_is_chosen_is_what_is_asked(view, qtbot):
    view.bins["easy"].setChecked(False)
    view.count.setValue(7)
    view.seed.setValue(3)
    with qtbot.waitSignal(view.run_asked) as asked:
        qtbot.keyClick(view.run, Qt.Key.Key_Space)
    assert asked.args == [Request(("medium", "hard"), 7, 3)]


def test_nothing_can_be_run_without_a_bin_or_while_busy(view, qtbot):
    view.set_busy("Wait for the answer to end.")
    assert not view.run.isEnabled()
    assert view.run.accessibleDescription() == "Wait for the answer to end."
    view.set_busy("")
    assert view.run.isEnabled()
    for box in view.bins.values():
        box.setChecked(False)
    assert view.request is None
    assert not view.run.isEnabled()
    assert view.run.toolTip()
    with qtbot.assertNotEmitted(view.run_asked):
        view.run.click()


def test_rows_come_as_results_do(view, qtbot):
    view.begin(Request(BINS, 2, 0), ["Base"])
    assert view.pages.currentIndex() == 0
    view.add(result("easy"))
    view.add(result("easy", WRONG, steps=9))
    qtbot.waitUntil(lambda: view.table.rowCount() == 1)
    assert view.pages.currentIndex() == 1
    assert view.table.texts() == [("Easy", "1/2", "50.0 %  (9–91)", "98.6 %", "100.0 %", "6.5  (6.5)", "0.25")]
    view.add(result("hard", "." * 81))
    view.refresh()
    assert [row[:2] for row in view.table.texts()] == [("Easy", "1/2"), ("Hard", "0/1"), ("All", "1/3")]
    assert view.table.texts()[1][3:5] == ("0.0 %", "0.0 %")
    assert view.progress.value() / view.progress.maximum() == 3 / 6
    assert view.message.text() == "3 puzzles of 6 · 1 of 3 solved, 33.3 %"


def test_two_contenders_stand_under_each_other(view):
    fill(view, result("easy"))
    view.ended()
    assert view.table.columnCount() == len(heads(named=False))
    assert view.plot.legend.isHidden()
    view.begin(Request(("easy",), 2, 0), ["Tuned"])
    view.add(result("easy", contender="Tuned"))
    view.ended()
    view.plot.draw()
    assert [row[:3] for row in view.table.texts()] == [("Easy", "Base", "1/1"), ("Easy", "Tuned", "1/1")]
    assert view.table.columnCount() == len(heads(named=True))
    assert not view.plot.legend.isHidden()
    assert view.plot.legend.accessibleName() == "Contenders: Base, Tuned"


def test_a_batch_takes_the_place_of_the_contenders_last_one(view):
    fill(view, result("easy"), result("medium"))
    view.ended()
    view.begin(Request(("easy",), 1, 1), ["Base"])
    assert [row.bin for row in view.scores.rows_to_show()] == ["medium"]
    view.ended()
    view.begin(Request(("hard",), 1, 1))
    assert len(view.scores) == 0


def test_stop_stands_where_run_stood(view, qtbot):
    view.run.setFocus()
    fill(view, result("easy"))
    assert view.stop.isVisible()
    assert view.stop.hasFocus()
    assert not view.run.isVisible()
    assert not any(box.isEnabled() for box in (*view.bins.values(), view.count, view.seed, view.clear_button))
    with qtbot.waitSignal(view.stop_asked):
        qtbot.keyClick(view.stop, Qt.Key.Key_Space)
    view.ended("Stopped after 1 puzzle.")
    assert view.message.text() == "Stopped after 1 puzzle."
    assert view.run.hasFocus()
    assert view.bins["easy"].isEnabled()
    assert view.table.rowCount() == 1


def test_clear_forgets_everything(view):
    fill(view, result("easy"))
    view.clear()
    assert len(view.scores) == 1  # not while a batch runs
    view.ended()
    view.clear_button.click()
    assert len(view.scores) == 0
    assert view.pages.currentIndex() == 0
    assert not view.csv.isEnabled()
    assert view.message.text() == ""


def lines(view: ScoreboardView, name: str) -> list[tuple[list[float], list[float]]]:
    """The running rates that are drawn in a bin."""
    import pyqtgraph

    items = view.plot.plots[name].items
    return [(item.xData.tolist(), item.yData.tolist()) for item in items if isinstance(item, pyqtgraph.PlotDataItem)]


def test_the_plot_draws_running_rates_with_an_interval_at_the_end(view):
    import pyqtgraph

    fill(view, result("easy"), result("easy", WRONG), result("easy"), result("hard"))
    view.plot.draw()
    assert list(view.plot.plots) == ["easy", "hard"]
    assert lines(view, "easy") == [([1, 2, 3], [100, 50, pytest.approx(200 / 3)])]
    (whisker,) = [item for item in view.plot.plots["easy"].items if isinstance(item, pyqtgraph.ErrorBarItem)]
    low, high = wilson(2, 3)
    assert whisker.opts["y"] + whisker.opts["top"] == pytest.approx(100 * high)
    assert whisker.opts["y"] - whisker.opts["bottom"] == pytest.approx(100 * low)
    view.add(result("medium"))
    view.plot.draw()
    assert list(view.plot.plots) == ["easy", "medium", "hard"]


def test_the_plot_says_its_figures(view):
    fill(view, result("easy"), result("easy", WRONG))
    view.plot.draw()
    said = view.plot.accessibleDescription()
    assert "Easy, Base: 1 of 2 solved, 50.0 %, interval 9.5 to 90.5 %." in said


@pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=lambda theme: theme.name)
def test_the_plot_wears_the_theme(view, qtbot, theme):
    themes.publish(theme)
    fill(view, result("easy"), result("easy"))
    view.plot.draw()
    qtbot.waitUntil(lambda: view.plot._graph.isVisible())
    image = view.plot._graph.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    shades = set(np.frombuffer(image.constBits(), dtype=np.uint32).tolist())
    assert QColor(theme.surface).rgb() in shades
    assert QColor(pens(theme)[0].shade).rgb() in shades


def test_contenders_differ_in_more_than_colour():
    for theme in (DARKROOM, PAPER):
        assert len({pen.mark for pen in pens(theme)}) == len({pen.dashes for pen in pens(theme)}) == len(pens(theme))


def test_ticks_are_whole_puzzles():
    assert (ticks(1), ticks(7), ticks(60)) == ([0, 1], [0, 7], [0, 30, 60])


def save(monkeypatch: pytest.MonkeyPatch, pressed: QAbstractButton, path: Path | str) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    pressed.click()


def test_results_are_saved(view, monkeypatch, tmp_path, qtbot):
    fill(view, result("easy"), result("hard", WRONG))
    view.ended()
    save(monkeypatch, view.csv, tmp_path / "scores")
    qtbot.waitUntil(lambda: not view.is_writing)
    table = list(csv.DictReader(io.StringIO((tmp_path / "scores.csv").read_text(encoding="utf-8"))))
    assert [line["bin"] for line in table] == ["easy", "hard"]
    assert str(tmp_path / "scores.csv") in view.message.text()
    save(monkeypatch, view.json, tmp_path / "scores.json")
    qtbot.waitUntil(lambda: not view.is_writing)
    document = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert (document["seed"], document["count"]) == (0, 2)
    assert [row["bin"] for row in document["rows"]] == ["easy", "hard", "all"]


def test_a_file_that_cannot_be_written_is_told_in_a_sentence(view, monkeypatch, tmp_path, qtbot):
    fill(view, result("easy"))
    with qtbot.waitSignal(view.failed) as told:
        save(monkeypatch, view.csv, tmp_path / "nowhere" / "scores.csv")
    assert "there is no folder" in told.args[0]
    with qtbot.assertNotEmitted(view.failed):
        save(monkeypatch, view.csv, "")  # the dialog was left


def test_every_control_has_a_name(view):
    buttons = [made for made in view.findChildren(QAbstractButton) if made.focusPolicy() != Qt.FocusPolicy.NoFocus]
    assert len(buttons) == 8
    for control in (*buttons, *view.findChildren(QSpinBox), view.table, view.plot, view.progress):
        interface = QAccessible.queryAccessibleInterface(control)
        assert interface.text(QAccessible.Text.Name), control
