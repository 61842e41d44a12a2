"""The Race page with a stand-in engine: which lanes there are, what is wrong with them, Stop, models beside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtWidgets import QLayout
from pytestqt.qtbot import QtBot

from app.context import AppContext
from app.race.controller import RaceController
from app.race.lanes.editor import LaneEditor
from app.race.lanes.facts import ModelFacts
from app.race.lanes.lane_store import NAME, read_lanes, write_lanes
from app.race.words import changes_words
from app.state.race.lanes import LaneSpec
from engine import BASE, MASKED, SIGHT, SKILLS, WEDLM
from engine.catalog import TALK
from tests.engine.drawn import picture
from tests.fake_engine import FakeEngine

Open = Callable[..., AppContext]
SHORT = LaneSpec(SKILLS, changes={"max_denoising_steps": 2})


@pytest.fixture
def page(qtbot: QtBot, fake: FakeEngine, open_context: Open) -> RaceController:
    """With two lanes that are told apart by a setting."""
    fake.decoders = ("autoregressive", "block_diffusion")
    return opened(qtbot, open_context())


def opened(qtbot: QtBot, context: AppContext) -> RaceController:
    made = RaceController(context)
    qtbot.addWidget(made.page)
    made.page.resize(1000, 800)
    made.page.show()
    return made


def idle(qtbot: QtBot, page: RaceController) -> None:
    qtbot.waitUntil(lambda: not page.is_busy and not page.page.one.is_reading)


def test_lanes_are_added_changed_removed_and_remembered(qtbot: QtBot, page: RaceController, open_context: Open) -> None:
    chooser = page.page.lanes
    bar, editor = chooser.bar, chooser.editor
    assert [chip.text() for chip in bar.chips if chip.isVisible()] == [
        "1  Safelight Skills · Block diffusion",
        "2  Safelight WeDLM · Autoregressive",
    ]
    page.lanes.change(1, LaneSpec(SKILLS, "autoregressive"))
    page.lanes.duplicate(1)
    chooser.open(2)
    assert len(page.page.one.cards) == 3
    assert chooser.note.text().startswith("Lanes 2 and 3 are the same.")
    page.page.one.prompt.field.setPlainText("abc")
    assert not page.page.one.prompt.race.isEnabled()
    assert editor.isVisible()
    assert editor.boxes["sampling_temperature"].isVisible()
    assert not editor.boxes["entropy_bound"].isVisible()
    editor.ticks["sampling_temperature"].click()
    editor.boxes["sampling_temperature"].setValue(0.5)
    assert page.lanes.specs[2] == LaneSpec(SKILLS, "autoregressive", {"sampling_temperature": 0.5})
    assert chooser.note.text() == ""
    assert page.page.one.prompt.race.isEnabled()
    editor.decoding.decoder.setCurrentIndex(0)
    assert page.lanes.specs[2] == LaneSpec(SKILLS, "block_diffusion")  # that setting is not of this decoder
    rules = editor.decoding.acceptance
    rules.setCurrentIndex(rules.findData("confidence_threshold"))
    assert page.lanes.specs[2].changes == {"acceptance": "confidence_threshold"}
    assert editor.boxes["accept_probability"].isVisible()
    assert bar.chips[2].toolTip() == "Tokens to keep All likely ones, for good"
    editor.duplicate.click()
    assert not bar.add.isVisible()
    assert not editor.duplicate.isEnabled()
    editor.remove.click()
    assert not editor.isVisible()
    qtbot.keyClick(bar.chips[0], Qt.Key.Key_Space)
    assert editor.isVisible()
    editor.close_button.click()
    assert not bar.chips[0].isChecked()
    page.lanes.change(2, replace(SHORT, changes={"token_thoughts": True, "max_denoising_steps": 4}))
    page.lanes.remember()
    again = opened(qtbot, open_context())
    assert again.lanes.specs == page.lanes.specs


def test_a_lane_bounds_thoughts(qtbot: QtBot, tmp_path: Path) -> None:
    editor = LaneEditor()
    qtbot.addWidget(editor)
    editor.changed.connect(lambda lane: editor.show_lane(lane, [], [], facts, ""))
    found: list[LaneSpec] = []
    editor.changed.connect(found.append)
    facts = ModelFacts(("block_causal",))
    editor.show_lane(LaneSpec("sdar"), [], [], facts, "")
    editor.ticks["thinking_tokens"].click()
    lane = LaneSpec("sdar", "block_causal", {"thinking_tokens": 256})
    assert found[-1] == lane
    assert changes_words(lane) == "Thinking: 256 tokens"
    write_lanes(tmp_path, [lane, lane])
    assert read_lanes(tmp_path) == (lane, lane)
    editor.boxes["thinking_tokens"].stepDown()  # no bound, as without a tick
    assert found[-1] == replace(lane, changes={})
    assert not editor.ticks["thinking_tokens"].isChecked()


def test_a_new_lane_decodes_in_another_way_and_races_at_once(page: RaceController) -> None:
    page.lanes.set_all((LaneSpec(BASE), LaneSpec(SKILLS)))
    page.page.lanes.bar.add.click()
    assert page.lanes.specs[2] == LaneSpec(SKILLS, "autoregressive")  # its model's next one
    page.page.lanes.bar.add.click()
    assert page.lanes.specs[3].model not in (BASE, SKILLS)
    assert not page.page.lanes.is_open
    page.page.one.prompt.field.setPlainText("abc")
    assert page.page.one.prompt.race.isEnabled()


def test_one_model_of_each_kind_races(qtbot: QtBot, page: RaceController) -> None:
    """Their files are read first; one that writes token by token comes last."""
    page.page.lanes.bar.kinds.click()
    qtbot.waitUntil(lambda: len(page.lanes.specs) > 2)
    assert [lane.model for lane in page.lanes.specs] == [SKILLS, WEDLM, MASKED, TALK.id][: 3 + TALK.is_here]


def test_fields_lie_over_the_results_and_esc_closes_them(qtbot: QtBot, page: RaceController) -> None:
    chooser, race = page.page.lanes, page.page.one
    page.page.layout().setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)  # as within a window
    before = race.geometry()
    chooser.bar.chips[0].click()
    done = chooser.editor.close_button
    assert race.geometry() == before
    assert done.visibleRegion().boundingRect() == done.rect()
    page.page.resize(600, 480)
    assert race.isVisible()
    assert chooser.fields.geometry().bottom() < 480  # what is below scrolls
    qtbot.keyClick(chooser.editor.boxes["t_max"], Qt.Key.Key_Escape)
    assert not chooser.fields.isVisible()
    assert page.page.focusWidget() is chooser.bar.chips[0]
    chooser.bar.chips[1].click()
    assert chooser.fields.isVisible()
    qtbot.keyClick(chooser.bar.chips[1], Qt.Key.Key_Escape)
    assert not chooser.fields.isVisible()


def test_a_race_fills_its_lanes_and_earlier_ones_are_shown_again(
    qtbot: QtBot, page: RaceController, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = page.page.one
    page.lanes.change(1, SHORT)
    for prompt in ("first", "second"):
        one.prompt.field.setPlainText(prompt)
        one.prompt.race.click()
        idle(qtbot, page)
        assert one.clock.is_playing  # it was too short to be watched
        one.clock.go(one.clock.end)
        one.clock.pause()
    idle(qtbot, page)
    assert [card.figures.tokens.text() for card in one.cards] == ["5", "5"]
    assert one.cards[1].figures.agreement.text() == "100.0 %"
    assert "same text" in one.headline.text()
    assert [one.prompt.history.itemText(place) for place in range(2)] == ["second", "first"]
    seen = one.shown
    one.prompt.history.setCurrentIndex(1)
    one.prompt.history.activated.emit(1)
    assert one.shown is not seen
    assert one.shown is not None
    assert one.shown.prompt == "first"
    monkeypatch.setattr("app.race.controller.MOST_FRAMES", 1)  # what is kept in memory has an end
    page.race("third")
    idle(qtbot, page)
    assert one.shown.prompt == "third"
    assert not one.prompt.history.isVisible()
    page.lanes.duplicate(0)
    assert one.shown is None
    assert one.cards[0].canvas.block is None


def test_a_race_can_be_stopped(qtbot: QtBot, fake: FakeEngine, page: RaceController) -> None:
    fake.hold = True
    one = page.page.one
    page.lanes.change(1, SHORT)
    one.prompt.field.setPlainText("a long one")
    qtbot.keyClick(one.prompt.field, Qt.Key.Key_Return)
    assert page.reason_to_wait() != ""
    assert not page.page.lanes.bar.chips[0].isEnabled()
    one.prompt.stop.click()
    fake.hold = False
    fake.gate.release(10)
    idle(qtbot, page)
    assert one.prompt.message.text() == "Stopped before the end."
    assert one.prompt.fault.isHidden()
    assert one.prompt.race.isEnabled()


def test_other_models_are_loaded_beside_and_what_fails_is_said(qtbot: QtBot, page: RaceController) -> None:
    one, chooser = page.page.one, page.page.lanes
    page.lanes.change(1, LaneSpec(BASE))
    qtbot.waitUntil(lambda: page.facts.of(BASE) is not None)
    assert chooser.note.text().startswith("The race also loads Safelight Base (")
    assert chooser.titles[1] == "Safelight Base · Block diffusion"
    said: list[str] = []
    page.racer.changed.connect(lambda: said.append(one.prompt.message.text()))
    one.prompt.field.setPlainText("abc")
    one.prompt.race.click()
    idle(qtbot, page)
    assert one.prompt.fault.text() == ""
    assert one.shown is not None
    assert [lane.reason for lane in one.shown.run.lanes] == ["eos", "eos"]
    page.lanes.change(1, LaneSpec("missing"))
    qtbot.waitUntil(lambda: page.facts.of("missing") is not None)
    assert chooser.note.text().startswith("Lane 2: there is no model at missing")
    assert not one.prompt.race.isEnabled()


def test_a_lane_that_fails_says_so_in_its_card(qtbot: QtBot, fake: FakeEngine, page: RaceController) -> None:
    one = page.page.one
    page.lanes.change(1, SHORT)
    page.race("once")
    idle(qtbot, page)
    fake.fail_at = 1
    page.race("again")
    idle(qtbot, page)
    assert "the graphics card" in one.cards[0].problem.text()
    assert one.prompt.fault.text() == ""


@pytest.mark.parametrize(
    "written",
    [
        "",
        "[]",
        '{"lanes": 7}',
        '{"lanes": [{"model": "a"}]}',
        '{"lanes": [{"model": "http://x/v1"}, {"model": "a"}]}',
        '{"lanes": [{"model": 3}, null, {"model": "a\\u0000b"}, {"model": "a"}]}',
    ],
)
def test_lanes_that_cannot_be_read_are_left_alone(written: str, open_context: Open) -> None:
    folder = open_context(None).folders.data
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(written)
    assert read_lanes(folder) == ()
    settings = '{"max_denoising_steps": 4, "t_max": 99, "max_new_tokens": 1.5, "top_k": 3, "t_min": true, "rescue": 1}'
    lane = f'{{"model": "a", "decoder": "No!", "adapter": [], "settings": {settings}}}'
    (folder / NAME).write_text(f'{{"lanes": [{lane}, {lane}]}}')
    assert read_lanes(folder) == (LaneSpec("a", changes={"max_denoising_steps": 4}),) * 2


def test_lanes_are_shown_the_picture_and_it_is_shown_with_its_race(
    qtbot: QtBot, fake: FakeEngine, open_context: Open, tmp_path: Path
) -> None:
    fake.decoders, fake.able = ("autoregressive", "block_diffusion"), replace(fake.able, images=True)
    page = opened(qtbot, open_context())
    page.lanes.change(1, SHORT)
    one, red = page.page.one, picture("red", 60, 20)
    (tmp_path / "red.png").write_bytes(red.data)
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / "red.png"))])
    one.prompt.field.insertFromMimeData(data)
    one.prompt.field.setPlainText("What is it?")
    one.prompt.race.click()
    assert "still being read" in one.prompt.noted.text()
    qtbot.waitUntil(lambda: not one.prompt.pictures.is_reading)
    assert (one.prompt.noted.text(), one.prompt.message.text()) == ("", "")
    one.prompt.race.click()
    idle(qtbot, page)
    assert one.shown is not None
    assert [lane.trace.pictures for lane in one.shown.run.lanes if lane.trace is not None] == [(red,), (red,)]
    assert not one.pictures.isVisible()  # it is in the field
    one.prompt.pictures.chips[0].remove.click()
    assert [thumb.shown.name for thumb in one.pictures.thumbs] == ["red.png"]
    qtbot.waitUntil(lambda: one.pictures.thumbs[0].image is not None)
    one.prompt.race.click()
    idle(qtbot, page)
    assert one.shown.run.request.pictures == ()
    assert not one.pictures.isVisible()
    one.prompt.history.activated.emit(1)
    assert one.pictures.isVisible()
    (tmp_path / "no.png").write_bytes(red.data[:50])
    one.prompt.frame.add([str(tmp_path / "no.png")])
    qtbot.waitUntil(lambda: "no.png" in one.prompt.noted.text())


def test_a_lane_that_cannot_see_says_so(qtbot: QtBot, page: RaceController, tmp_path: Path) -> None:
    (tmp_path / "red.png").write_bytes(picture().data)
    page.lanes.change(1, SHORT)
    one = page.page.one
    one.prompt.frame.add([str(tmp_path / "red.png")])
    qtbot.waitUntil(lambda: bool(one.prompt.pictures.chips))
    assert one.prompt.message.text() == "Lane 1 only reads text: it cannot answer about a picture."
    page.race()
    assert one.prompt.fault.text() == "Write what to do with the picture."
    one.prompt.field.setPlainText("What is it?")
    page.race()
    idle(qtbot, page)
    assert [card.problem.text() for card in one.cards] == 2 * [
        "Safelight Skills only reads text: it cannot answer about a picture."
    ]


def test_a_suggestion_about_a_drawing_brings_it(qtbot: QtBot, page: RaceController) -> None:
    page.lanes.change(0, LaneSpec(SIGHT))
    prompt = page.page.one.prompt
    for chip in prompt.suggestions.chips[:2]:
        chip.click()
        qtbot.waitUntil(lambda: not prompt.pictures.is_reading)
        assert prompt.text == chip.text()
        assert len(prompt.pictures.pictures) == 1
    assert not page.is_busy
