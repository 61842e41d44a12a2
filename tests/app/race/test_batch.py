"""The Batch tab with a stand-in engine: what is asked, Stop, a lane that fails, files; the plot and the answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.design import themes
from app.design.series import pens
from app.design.text_field import LONGEST
from app.design.tokens import DARKROOM, PAPER, Theme
from app.race.batch.lane_plot import ticks
from app.race.batch.rate_plot import MOST_POINTS, RatePlot
from app.race.batch.source import PromptSource
from app.race.batch.speed_plot import SPEEDS, SpeedPlot
from app.race.controller import RaceController
from app.state.race.lanes import LaneSpec
from app.state.race.prompts import OWN, BatchRequest, own_prompts
from app.state.race.scores import LaneScore, RaceResult
from engine import BASE, SKILLS
from engine.tasks.skills import SKILLS as TASKS
from tests.fake_engine import FakeEngine

LINES = "What is 1 + 1?\nWhy is the sky blue?\nReverse the word robot."


@pytest.fixture
def page(qtbot: QtBot, fake: FakeEngine, open_context: Callable[..., AppContext]) -> RaceController:
    """With two lanes that are told apart by a setting, and own prompts written."""
    fake.decoders = ("autoregressive", "block_diffusion")
    made = RaceController(open_context())
    qtbot.addWidget(made.page)
    made.page.resize(1000, 800)
    made.page.show()
    made.page.show_part("batch")
    made.lanes.change(1, LaneSpec(SKILLS, changes={"max_denoising_steps": 2}))
    source = made.page.batch.source
    source.source.setCurrentIndex(3)
    source.own.setPlainText(LINES)
    return made


def idle(qtbot: QtBot, page: RaceController) -> None:
    qtbot.waitUntil(lambda: not page.is_busy and not page.batch.is_measuring)


def test_what_is_asked_is_chosen_and_bounded(qtbot: QtBot, tmp_path: Path) -> None:
    source = PromptSource()
    qtbot.addWidget(source)
    assert source.request == BatchRequest("skills", tuple(TASKS), 20, 0)
    source.which.click()
    for name in list(TASKS)[1:]:
        source.skills[name].click()
    source.count.setValue(3)
    source.seed.setValue(7)
    assert source.request == BatchRequest("skills", (next(iter(TASKS)),), 3, 7)
    assert source.which.text() == "1 skill…"
    assert {prompt.group for prompt in source.request.prompts()} == {next(iter(TASKS))}
    source.skills[next(iter(TASKS))].click()
    assert (source.request, source.problem) == (None, "Choose a skill.")
    source.source.setCurrentIndex(1)
    source.bins["easy"].click()
    assert source.request == BatchRequest("sudoku", ("medium", "hard"), 3, 7)
    assert next(source.request.prompts()).group == "medium"
    source.source.setCurrentIndex(2)
    assert source.request == BatchRequest("drawings", (), 3, 7)
    assert [(prompt.group, len(prompt.pictures)) for prompt in source.request.prompts()] == [
        ("count", 1), ("count of a colour", 1), ("colour", 1),
    ]  # fmt: skip
    source.source.setCurrentIndex(3)
    assert source.problem == "Write a prompt on each line, or open a file."
    (tmp_path / "prompts.txt").write_text("one\n\n two \n")
    source.read(tmp_path / "prompts.txt")
    qtbot.waitUntil(lambda: source.request is not None)
    assert source.request == BatchRequest("own", seed=7, own=tuple(own_prompts("one\ntwo")))
    assert len(source.request) == 2
    for name, content in (("long", b"x" * (LONGEST + 1)), ("binary", b"\xff\xfe\xff"), ("large", b"x" * (5 * LONGEST))):
        (tmp_path / name).write_bytes(content)
        source.read(tmp_path / name)
        qtbot.waitUntil(lambda: source.request is None)
        assert "prompts" not in source.problem
        source.own.setPlainText("again")
        assert source.problem == ""
    source.read(tmp_path / "nowhere")
    qtbot.waitUntil(lambda: "nowhere" in source.problem)


def test_a_batch_fills_table_and_answers(
    qtbot: QtBot, page: RaceController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = page.page.batch
    page.enter()
    assert view.source.source.hasFocus()
    view.run.setFocus()
    qtbot.keyClick(view.run, Qt.Key.Key_Space)
    assert page.is_busy
    assert not view.source.own.isEnabled()
    assert not page.page.lanes.bar.chips[0].isEnabled()
    idle(qtbot, page)
    assert view.run.isEnabled()
    assert view.run.hasFocus()
    assert view.message.text() == "3 prompts of 3, seed 0; intervals of 95 %"
    assert [row[0] for row in view.table.texts()] == [
        "1  Safelight Skills · Block diffusion",
        "2  Safelight Skills · Block diffusion · Steps: 2",
    ]
    assert [row[1] for row in view.table.texts()] == ["0.0 %\n(0–66)", "0.0 %\n(0–66)"]  # of two that can be checked
    page.page.resize(800, 600)
    qtbot.waitUntil(lambda: view.table.horizontalScrollBar().maximum() == 0)
    model = view.answers.answers
    marks = [[model.index(row, lane).data() for lane in (1, 2)] for row in range(3)]
    assert marks == [["✗", "✗"], ["–", "–"], ["✗", "✗"]]
    view.answers.selectRow(1)
    shown = [text.text() for text in view.detail.texts]
    assert shown[0] == "Why is the sky blue?"
    assert len(shown) == 3
    assert all(shown[1:])
    assert page.page.one.shown is None
    for button, name in ((view.csv, "a.csv"), (view.json, "a.json"), (view.png, "a.png")):
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, name=name: (str(tmp_path / name), ""))
        button.click()
        qtbot.waitUntil(lambda: not view.is_writing)
        assert view.message.text() == f"Written: {tmp_path / name}"
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 7
    told = json.loads((tmp_path / "a.json").read_text())
    assert list(told) == [
        *("lanes", "seed", "device", "dtype", "quantization", "threads", "finished", "rows", "groups", "results")
    ]
    assert (told["finished"], len(told["results"]), told["groups"]) == (True, 6, {})
    assert not QImage(str(tmp_path / "a.png")).isNull()
    page.run_batch(BatchRequest("own", own=tuple(own_prompts("Why?"))))
    idle(qtbot, page)
    assert view.by_speed.isHidden()
    assert view.unchecked.isVisible()
    assert [row[1] for row in view.table.texts()] == ["–", "–"]


def test_stopping_keeps_what_is_done(qtbot: QtBot, page: RaceController) -> None:
    view = page.page.batch
    view.source.own.setPlainText("one more\n" * 40)
    page.batch.answered.connect(lambda _found: view.stop.click())
    view.run.click()
    idle(qtbot, page)
    done = page.batch.scores.count
    assert 1 <= done < 40
    assert view.message.text().startswith("Stopped: ")
    assert view.fault.isHidden()
    assert not page.batch.is_finished
    assert view.answers.answers.rowCount() == done
    assert view.table.rowCount() == 2
    assert view.run.isEnabled()


def test_a_lane_that_fails_is_said_and_ends_the_batch(qtbot: QtBot, fake: FakeEngine, page: RaceController) -> None:
    view = page.page.batch
    view.run.click()
    idle(qtbot, page)
    fake.fail_at = 1
    view.run.click()
    idle(qtbot, page)
    assert view.fault.text().startswith("Lane 1: ")
    assert "the graphics card" in view.fault.text()
    assert not view.csv.isVisible()
    assert "0 prompts of 3" in view.message.text()
    page.lanes.change(1, page.lanes.specs[0])
    assert not view.run.isEnabled()
    assert view.reason.text().startswith("Lanes 1 and 2 are the same.")


def row(lane: str, exact: int, tokens: int) -> LaneScore:
    results = [RaceResult(n, 0, OWN, "p", "t", "eos", n < exact, tokens + n, 5, 5, 0.5, 1.0) for n in range(10)]
    return LaneScore.from_results(lane, results)


@pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=["darkroom", "paper"])
def test_the_plot_has_a_mark_for_each_lane_where_it_belongs(qtbot: QtBot, theme: Theme) -> None:
    plot = SpeedPlot()
    qtbot.addWidget(plot)
    plot.resize(400, 300)
    themes.publish(theme)
    plot.show_rows([(0, "slow", row("slow", 9, 10)), (1, "fast", row("fast", 2, 40))], SPEEDS[0])
    assert "Lane" not in plot.accessibleName()
    assert plot.accessibleDescription().startswith("1, slow: 90.0 % right, interval 59.6 to 98.2 %; ")
    picture = plot.grab().toImage()
    places = []
    for pen in pens(theme)[:2]:
        shade = QColor(pen.shade).rgb()
        found = [(x, y) for x in range(400) for y in range(300) if picture.pixel(x, y) == shade]
        places.append((sum(x for x, _ in found) / len(found), sum(y for _, y in found) / len(found)))
    (slow_x, slow_y), (fast_x, fast_y) = places
    assert slow_x < fast_x - 50
    assert slow_y < fast_y - 50  # higher up


@pytest.mark.parametrize("theme", [DARKROOM, PAPER], ids=["darkroom", "paper"])
def test_the_share_of_right_answers_is_drawn_after_each_answer(qtbot: QtBot, theme: Theme) -> None:
    plot = RatePlot()
    qtbot.addWidget(plot)
    plot.resize(400, 300)
    themes.publish(theme)
    plot.show_verdicts([(0, "good", [True] * 9 * MOST_POINTS), (2, "bad", [True, False]), (3, "unchecked", [])])
    assert plot.accessibleDescription() == (
        "1, good: 1800 of 1800 right, interval 99.8 to 100.0 %. 3, bad: 1 of 2 right, interval 9.5 to 90.5 %."
    )
    picture = plot.grab().toImage()
    good = QColor(pens(theme)[0].shade).rgb()
    heights = {y for x in range(100, 400) for y in range(300) if picture.pixel(x, y) == good}
    assert heights
    assert max(heights) < 100  # it stays at the top


def test_puzzles_are_counted_by_kind_and_their_rate_is_plotted(qtbot: QtBot, page: RaceController) -> None:
    view = page.page.batch
    page.run_batch(BatchRequest("sudoku", ("easy", "hard"), 4, 1))
    idle(qtbot, page)
    assert [view.groups.itemData(place) for place in range(view.groups.count())] == ["", "easy", "hard"]
    view.choice.setCurrentIndex(view.choice.findData("so-far"))
    assert view.so_far.isVisible()
    assert not view.by_speed.isVisible()
    assert "0 of 4 right, interval 0.0 to 49.0 %" in view.so_far.accessibleDescription()
    view.groups.setCurrentIndex(2)
    assert "0 of 2 right" in view.so_far.accessibleDescription()


@pytest.mark.parametrize("most", [1e-9, 0.37, 1.0, 4.2, 99.0, 1_234.5])
def test_marks_of_an_axis_are_few_and_reach_the_largest_figure(most: float) -> None:
    found = ticks(most)
    assert 3 <= len(found) <= 7
    assert found[0] == 0
    assert found[-2] < most <= found[-1] * (1 + 1e-9)


def test_lanes_of_other_models_are_named_once_they_are_known(qtbot: QtBot, page: RaceController) -> None:
    page.lanes.change(1, LaneSpec(BASE))
    view = page.page.batch
    view.run.click()
    idle(qtbot, page)
    qtbot.waitUntil(lambda: page.facts.of(BASE) is not None)
    assert [row[0] for row in view.table.texts()][1] == "2  Safelight Base · Block diffusion"
    assert view.legend.accessibleName().endswith("Safelight Base · Block diffusion")


def test_a_batch_of_drawings_shows_them_with_the_answers(qtbot: QtBot, page: RaceController, fake: FakeEngine) -> None:
    fake.able = replace(fake.able, images=True)
    page._context.load(SKILLS)  # as one that sees
    qtbot.waitUntil(lambda: page._context.model is not None and page._context.model.capabilities.images)
    view = page.page.batch
    view.source.source.setCurrentIndex(2)
    view.source.count.setValue(2)
    view.run.click()
    idle(qtbot, page)
    assert page.batch.is_finished
    view.answers.selectRow(1)
    (thumb,) = view.detail.pictures.thumbs
    qtbot.waitUntil(lambda: thumb.image is not None)
    assert "pictures" not in page.batch.scores.to_csv()
