"""The fork panel: changes at a frame, spans to write anew, and the tree of runs. It emits what is asked for."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt

from app.inspector.forks import spans as spans_module
from app.inspector.forks.panel import ForkPanel, RunItem
from app.inspector.forks.spans import merged
from app.player.player import NOTHING, Player
from engine import Fork, Mark
from engine.config import LARGEST_SEED
from tests.app.canvas.pointing import shown
from tests.app.inspector.made_up import LENGTH, STEPS, Recorded, asked, recorded, run


@pytest.fixture
def player(player: Player) -> Player:
    player.open(Recorded(run()), 2)  # step 1 of the first block
    return player


@pytest.fixture
def panel(qtbot, player) -> ForkPanel:
    panel = shown(qtbot, ForkPanel(player), 400, 900)
    for part in (panel.spans, panel.versions):
        shown(qtbot, part, 400, 900)
    player.opened.emit()
    return panel


def listed(panel: ForkPanel) -> list[str]:
    return [panel.changes.item(row).text() for row in range(panel.changes.count())]


def spans(panel: ForkPanel) -> list[str]:
    return [panel.spans.list.item(row).text() for row in range(panel.spans.list.count())]


def add(panel: ForkPanel, first: int, last: int) -> None:
    panel.spans.first.setValue(first)
    panel.spans.last.setValue(last)
    panel.spans.add.click()


def test_recorded_candidates_are_offered_and_become_changes(panel, player, qtbot):
    player.select(6)
    token = int(player.block.top_tokens[2, 6, 1])
    assert panel.token.count() == 2
    assert panel.token.itemData(1) == token
    panel.token.setCurrentIndex(1)
    panel.pin.click()
    panel.token.setCurrentIndex(0)
    panel.ban.click()
    first = int(player.block.top_tokens[2, 6, 0])
    assert listed(panel) == [f"Position 6 pinned to {player.piece(token)!r}", f"{player.piece(first)!r} banned"]
    with qtbot.waitSignal(panel.fork_asked) as asked_for:
        panel.run.click()
    assert asked_for.args == [Fork(0, 2, pinned=((6, token),), banned=(first,))]


def test_a_later_change_of_a_cell_takes_the_place_of_an_earlier_one(panel, player):
    player.select(6)
    panel.token.setCurrentIndex(0)
    panel.pin.click()
    panel.token.setCurrentIndex(1)
    panel.put.click()
    assert len(listed(panel)) == 1
    assert "put into position 6" in listed(panel)[0]
    panel.changes.setCurrentRow(0)
    panel.remove.click()
    assert panel.draft() == Fork(0, 2)
    assert not panel.changes.isVisible()


def test_settings_and_seed_are_reported_only_where_they_differ(panel):
    assert panel.draft().is_empty
    panel.boxes["entropy_bound"].setValue(0.4)
    panel.boxes["max_denoising_steps"].setValue(6)
    changed = (("entropy_bound", 0.4), ("max_denoising_steps", 6))
    panel.seed.setValue(LARGEST_SEED)
    assert panel.draft() == Fork(0, 2, seed=LARGEST_SEED, settings=changed)


def test_over_masks_only_what_applies_is_shown_and_changed(panel, player):
    for config, names, rewrites in (
        ({"decoder": "bidirectional"}, {"sampling_temperature"}, False),
        ({"decoder": "block_causal", "edit_probability": 0.5}, {"sampling_temperature", "accept_probability"}, True),
        ({"decoder": "sub_blocks", "accept_probability": 0.955}, {"sampling_temperature", "accept_probability"}, False),
        ({}, {"entropy_bound", "t_max", "max_denoising_steps"}, True),
    ):
        player.open(Recorded(run(), header=asked(12, **config)))
        assert {name for name, box in panel.boxes.items() if box.isVisible()} == names, config
        assert panel.put.isVisible() == rewrites
        player.go(1)
        assert panel.draft().is_empty


def test_typed_text_must_be_one_token(panel, player):
    player.select(6)
    panel.token.setEditText("xy")
    panel.pin.click()
    assert "Load the model of this run" in panel.problem.text()
    panel.token.encode = lambda text: [ord(letter) - 97 for letter in text]
    panel.pin.click()
    assert panel.problem.text() == "'xy' is 2 tokens; it must be one."
    panel.token.setEditText("x")
    panel.pin.click()
    assert not panel.problem.isVisible()
    assert panel.draft().pinned == ((6, 23),)


def test_several_spans_in_several_blocks(panel, player, qtbot):
    panel.spans.first.setValue(9)
    panel.spans.last.setValue(4)
    assert panel.spans.marks() == (Mark(0, 4, 10),)  # one needs no list
    add(panel, 4, 6)
    player.go_to_block(1)
    add(panel, 0, 0)
    text = "".join(player.piece(token) for token in player.replay.record(0).final[4:7].tolist())
    assert spans(panel)[0] == f"Block 1, positions 4 to 6: {text!r}"
    assert spans(panel)[1].startswith("Block 2, position 0: ")
    with qtbot.waitSignal(panel.infill_asked) as asked_for:
        panel.spans.run.click()
    assert asked_for.args == [(Mark(0, 4, 7), Mark(1, 0, 1))]
    for _ in range(2):
        panel.spans.list.setCurrentRow(0)
        panel.spans.remove.click()
        assert panel.spans.marks() == (Mark(1, 0, 1),)  # at last that of the fields
    assert not panel.spans.list.isVisible()


def test_spans_that_touch_become_one():
    marks = [Mark(0, 8, 9), Mark(0, 2, 4), Mark(1, 4, 6), Mark(0, 4, 6), Mark(0, 3, 5)]
    assert merged(marks) == [Mark(0, 2, 6), Mark(0, 8, 9), Mark(1, 4, 6)]


def test_a_selected_cell_is_the_span_and_shift_takes_its_other_end(panel, player, monkeypatch):
    player.select(5)
    assert (panel.spans.first.value(), panel.spans.last.value()) == (5, 5)
    monkeypatch.setattr(
        spans_module.QApplication, "keyboardModifiers", staticmethod(lambda: Qt.KeyboardModifier.ShiftModifier)
    )
    player.select(9)
    assert (panel.spans.first.value(), panel.spans.last.value()) == (5, 9)
    player.select(NOTHING)
    assert (panel.spans.first.value(), panel.spans.last.value()) == (5, 9)


def test_only_settled_blocks_are_written_anew(panel, player):
    player.open(Recorded(run(1)[: STEPS + 1]))  # without the commit
    assert not panel.spans.add.isEnabled()
    assert not panel.spans.run.isEnabled()
    assert panel.spans.text.text().endswith("this block is not finished")
    assert panel.spans.last.maximum() == LENGTH - 1
    for part in (panel, panel.spans):
        part.block("Load a model.")
        assert not part.run.isEnabled()
    assert panel.run.toolTip() == panel.reason.text() == "Load a model."


def test_runs_are_a_tree_that_is_walked(panel, qtbot):
    items = [RunItem("a", "", "1", "Sort"), RunItem("b", "a", "2", "Forked"), RunItem("c", "gone", "", "Alone")]
    panel.show_runs(items, "b")
    assert panel.tree.topLevelItemCount() == 2
    child = panel.tree.topLevelItem(0).child(0)
    assert panel.tree.currentItem() is child
    with qtbot.waitSignal(panel.run_chosen) as asked_for:
        panel.tree.itemActivated.emit(child, 0)
    assert asked_for.args == ["2"]


def test_a_cell_of_a_sudoku_is_named_by_its_row_and_column(panel, player):
    player.open(recorded("sudoku-hard"), 5)
    player.select(54)
    assert panel.place.accessibleName() == "From step 6 on: row 6, column 5"
    panel.token.setCurrentIndex(0)
    panel.pin.click()
    assert listed(panel)[0].startswith("Row 6, column 5 pinned to ")
