"""A position's history: its data, its words, and the chart that follows the player."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from app.canvas.words import token_words
from app.design.tokens import color, luminance
from app.inspector.cell.history import CellHistory
from app.inspector.cell.rank_paths import line_colors
from app.inspector.words import history_in_words, moment_in_words
from app.player.player import Player
from app.state.run.answers import share_words
from app.state.run.canvas import CellState
from app.state.run.cell_history import OUTSIDE, Ranked, history_of
from app.state.run.replay import Replay
from engine import Fork
from tests.app.canvas.pointing import THEMES, shown
from tests.app.inspector import made_up

A, B, C, D, E = 10, 11, 12, 13, 14  # k l m n o
LIFE = [  # argmax, sampled, accepted, top three, their shares: of position 0
    (A, B, False, (A, B, C), (0.5, 0.3, 0.1)),
    (B, B, True, (B, A, C), (0.6, 0.3, 0.05)),
    (B, D, False, (B, C, A), (0.5, 0.2, 0.1)),
    (A, A, True, (A, B, C), (0.7, 0.2, 0.1)),
    (A, A, True, (A, E, B), (0.9, 0.05, 0.01)),
]


def life(top: bool = True, commit: bool = True) -> list:
    """Five steps of two positions; the second is the end from the start."""
    events = [made_up.started(2)]
    for step, (argmax, sampled, accepted, tokens, shares) in enumerate(LIFE):
        tops = ([tokens, (1, A, B)], [shares, (0.98, 0.01, 0.01)]) if top else None
        entropy = (1.0 - 0.2 * step, 0.01)
        events.append(made_up.step_event(step, (argmax, 1), (sampled, 1), (accepted, True), entropy=entropy, top=tops))
    return [*events, made_up.committed((A, 1), 1, 5)] if commit else events


def bio_of(events: list, position: int = 0):
    return history_of(Replay(made_up.Recorded(events)).record(0), position)


def letter(token: int) -> str:
    return chr(ord("a") + token % 26)


@pytest.fixture
def player(player: Player) -> Player:
    player.open(made_up.Recorded(life()))
    return player


@pytest.fixture
def view(qtbot: QtBot, player: Player) -> CellHistory:
    return shown(qtbot, CellHistory(player), 480, 760)


def test_ranks_are_those_of_each_step():
    bio = bio_of(life())
    assert (bio.steps, bio.depth, bio.position) == (5, 3, 0)
    ranks = {line.token: [(point.step, point.rank) for point in line.points] for line in bio.lines}
    assert list(ranks.items()) == [  # by probability over all steps
        (A, [(0, 0), (1, 1), (2, 2), (3, 0), (4, 0)]),
        (B, [(0, 1), (1, 0), (2, 0), (3, 1), (4, 2)]),
        (C, [(0, 2), (1, 2), (2, 1), (3, 2)]),
        (E, [(4, 1)]),
    ]
    assert [point.share for point in bio.lines[0].points] == pytest.approx([0.5, 0.3, 0.1, 0.7, 0.9])
    assert bio.lines[0].weight == pytest.approx(2.5)
    assert bio.argmax_ranks.tolist() == [0] * 5
    assert bio.candidate_ranks.tolist() == [1, 0, OUTSIDE, 0, 0]
    assert bio.samples_outside
    assert bio.top(1) == [Ranked(B, pytest.approx(0.6)), Ranked(A, pytest.approx(0.3)), Ranked(C, pytest.approx(0.05))]


def test_a_line_is_cut_where_its_token_is_not_recorded():
    again = made_up.step_event(5, (A, 1), (A, 1), (True, True), top=([(A, C, B), (1, A, B)], [(1, 0, 0), (1, 0, 0)]))
    for events, stretches in ((life(), [[0, 1, 2, 3]]), ([*life()[:-1], again], [[0, 1, 2, 3], [5]])):
        line = next(line for line in bio_of(events).lines if line.token == C)
        assert [[point.step for point in stretch] for stretch in line.stretches] == stretches


def test_counts_what_was_taken_back_and_where_it_settled():
    bio = bio_of(life())
    assert (bio.accepted_count, bio.taken_back_count, bio.settled_at, bio.final) == (3, 1, 3, A)
    assert bio.taken_back.tolist() == [False, False, True, False, False]
    assert bio.argmax_runs == ((0, 1, A), (1, 3, B), (3, 5, A))
    assert not bio.padding
    assert bio_of(life(), 1).padding
    with pytest.raises(IndexError, match="outside the canvas of 2"):
        bio_of(life(), 2)
    bare = bio_of(life(top=False))
    assert (bare.depth, bare.lines, bare.samples_outside) == (0, (), True)
    assert bare.candidate_ranks.tolist() == [OUTSIDE] * 5
    assert bare.taken_back_count == 1


@pytest.mark.parametrize(
    ("events", "position", "said"),
    [
        (life(), 0, "Accepted at 3 of 5 steps, taken back once, settled at step 4 as 'k'."),
        (life(commit=False), 0, "Accepted at 3 of 5 steps, taken back once, best guess since step 4: 'k'."),
        (life(), 1, "settled at step 1 as 'b'. It is padding after the end of the block's text."),
        ([made_up.started(2, pinned=[0]), *life()[1:]], 0, "Given: pinned as 'k' from the start."),
    ],
)
def test_the_history_in_words(events, position, said):
    assert history_in_words(bio_of(events, position), letter).endswith(said)


def test_a_fork_marks_what_it_pins_from_its_step_on():
    header = replace(made_up.asked(), changes=(Fork(0, 3, pinned=((0, 12), (99, 2))),))
    record = Replay(made_up.Recorded(life(), header=header)).record(0)
    assert record.held[:, 0].tolist() == [False, False, False, True, True]
    states = [int(snapshot.states(calm=True)[0]) for snapshot in record.snapshots]
    assert [state == CellState.GIVEN for state in states] == [False, False, False, False, True, True, True]
    bio = history_of(record, 0)
    assert "pinned from step 4 on" in history_in_words(bio, letter)
    assert "given" in moment_in_words(bio, 3, letter)
    assert history_of(record, 1).held_from is None
    released = replace(header, changes=(*header.changes, Fork(0, 4, edits=((0, 3),))))
    assert Replay(made_up.Recorded(life(), header=released)).record(0).held[:, 0].tolist()[-2:] == [True, False]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (-1, "Before the first step: a random token."),
        (0, "Step 1: best guess 'k', sampled 'l', not accepted; entropy 1.000 nats."),
        (1, "Step 2: best guess and sampled 'l', accepted; entropy 0.800 nats."),
        (2, "Step 3: best guess 'l', sampled 'n', taken back; entropy 0.600 nats."),
        (5, "Finished as 'k'."),
    ],
)
def test_a_moment_in_words(step, said):
    assert moment_in_words(bio_of(life()), step, letter) == said


def test_no_probability_is_rounded_to_certainty():
    said = [share_words(share) for share in (0, 0.0004, 0.25, 0.9996, 1)]
    assert said == ["0.0 %", "under 0.1 %", "25.0 %", "over 99.9 %", "100.0 %"]


@THEMES
def test_line_colours_have_contrast_and_differ(theme):
    ground = luminance(color(theme.surface_sunken))
    shades = line_colors(theme)
    assert len({shade.name() for shade in shades}) == len(shades)
    for shade in shades:
        high, low = sorted((luminance(shade), ground), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, shade.name()


def test_a_hovered_cell_is_shown_lightly_and_the_selected_one_before_it(view, player):
    assert "Select a cell" in view.accessibleDescription()
    assert not view.table.isVisible()
    player.point(1)
    assert view.title.text() == "Position 1, under the pointer"
    player.select(0)
    assert view.title.text() == "Position 0"
    player.point(1)
    assert view.chart.bio.position == 0
    player.select(-1)
    assert view.chart.bio.position == 1
    player.point(-1)
    assert view.chart.bio is None
    player.open(None)
    assert "Open a run" in view.accessibleDescription()


def test_words_and_table_follow_the_frame(view, player):
    player.select(0)
    player.go(3)  # step 2
    assert view.sentence.text().startswith("Accepted at 3 of 5 steps")
    assert view.now.text().startswith("Step 3: best guess 'l', sampled 'n'")
    assert view.table.rows() == [
        ("1", "'l'", "50.0 %", "best guess"),
        ("2", "'m'", "20.0 %", ""),
        ("3", "'k'", "10.0 %", ""),
        (">3", "'n'", "not recorded", "sampled, not accepted"),
    ]
    player.go(4)
    assert view.table.rows()[0] == ("1", "'k'", "70.0 %", "best guess, accepted")
    assert len(view.table.rows()) == 3
    assert view.chart.accessibleDescription().count("Step 4: best guess and sampled 'k', accepted") == 1
    player.go(0)
    assert view.table.rows() == []
    player.open(made_up.Recorded(life(top=False)))
    player.select(0)
    assert "were not recorded" in view.note.text()
    assert "were not recorded" in view.accessibleDescription()
    assert not view.table.isVisible()
    assert view.chart.plot().rows == 1  # of what was sampled
    view.grab()


def test_small_probabilities_have_their_logarithm_and_tokens_their_number(view, player):
    event = made_up.step_event(
        0, [A, A], [A, A], [True, True], top=([[A, B, C]] * 2, [[0.99995, 3.2e-5, 0.0]] * 2), entropy=[0.0, 0.0]
    )
    player.open(made_up.Recorded([made_up.started(2), event]))
    player.select(0)
    assert [row[2] for row in view.table.rows()] == ["over 99.9 %", "log p −10.35", "0.0 %"]
    assert view.table.item(1, 1).toolTip() == f"{token_words(letter(B))}, token {B}: p 3.2e-05, log p −10.35"
    assert view.table.item(2, 2).toolTip() == f"{token_words(letter(C))}, token {C}: p 0"


def test_a_click_goes_to_the_step(view, player, qtbot):
    player.select(0)
    for step in (1, 3, 0):
        place = QPoint(view.chart.x_of(step) + view.chart.column // 2, 60)
        qtbot.mouseClick(view.chart.viewport(), Qt.MouseButton.LeftButton, pos=place)
        assert player.frame.step == step
    qtbot.mouseClick(view.chart.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(4, 60))  # left of the columns
    assert player.frame.step == 0


def test_a_long_block_scrolls_to_the_cursor(view, player):
    player.open(made_up.Recorded(made_up.run(1, top=False, steps=48)), 0)
    player.select(3)
    bar = view.chart.horizontalScrollBar()
    assert bar.maximum() > 0
    assert bar.value() == 0
    for place in (*range(49), 1):
        player.go(place)
        rect = view.chart.cursor_rect()
        assert view.chart.gutter() - 3 <= rect.left() <= rect.right() <= view.chart.viewport().width()
    assert bar.value() < bar.maximum()
