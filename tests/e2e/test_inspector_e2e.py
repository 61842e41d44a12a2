"""The inspector in the real window with the real embedded model: open, fork, write anew, measure, compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.inspector.controller import InspectorController
from app.state.run.canvas import CanvasState
from app.window.main_window import MainWindow
from engine import MINI, CanvasCommitted, StepFinished, load_model

RUN_MS = 120_000
CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def window(window_with: Callable[[str], MainWindow]) -> MainWindow:
    return window_with(MINI)


@pytest.fixture
def inspector(window: MainWindow) -> InspectorController:
    return window.pages.inspector()


def ask(qtbot: QtBot, window: MainWindow, text: str) -> Any:
    window.pages.chat().sending.send(text)
    qtbot.waitUntil(lambda: window.context.session.active is None, timeout=RUN_MS)
    return window.context.session.chat.turns[-1].answer.trace


def steps(trace: Any) -> list[StepFinished]:
    return [event for event in trace.events if isinstance(event, StepFinished)]


def run_fork(qtbot: QtBot, inspector: InspectorController) -> Any:
    """Press the button, and wait for the end."""
    before = inspector.page.player.trace
    inspector.forks.run.click()
    qtbot.waitUntil(
        lambda: not inspector.continuations.is_forking and inspector.page.player.trace is not before,
        timeout=RUN_MS,
    )
    return inspector.page.player.trace


def test_an_answer_is_opened_and_shows_what_was_shown(
    qtbot: QtBot, window: MainWindow, inspector: InspectorController
) -> None:
    trace = ask(qtbot, window, "Count from 4 to 43.")
    qtbot.keyClick(window, Qt.Key.Key_I, CONTROL)
    page = inspector.page
    assert window.pages.stack.currentWidget() is page
    live = CanvasState()
    shown = []
    for event in trace.events:
        live.fold(event)
        if type(event).__name__ in ("CanvasStarted", "StepFinished", "CanvasCommitted") and live.current is not None:
            shown.append(live.current.tokens(calm=False).copy())
    replay = page.player.replay
    assert replay is not None
    assert len(shown) == len(replay.frames)
    assert all(np.array_equal(replay.snapshot(i).tokens(calm=False), tokens) for i, tokens in enumerate(shown))
    path = trace.path
    assert path is not None
    inspector.open_key(str(path))  # and from its file, without a model
    kept = page.player.replay
    assert kept is not None
    assert all(np.array_equal(kept.snapshot(i).tokens(calm=False), tokens) for i, tokens in enumerate(shown))


def test_a_fork_without_a_change_is_the_run_itself(
    qtbot: QtBot, window: MainWindow, inspector: InspectorController
) -> None:
    trace = ask(qtbot, window, "Count from 4 to 43.")
    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer)
    player = inspector.page.player
    assert player.replay is not None
    player.go(player.replay.first_of(1) + 1)
    fork = run_fork(qtbot, inspector)
    assert fork.header.parent.id == trace.header.id
    pairs = list(zip(steps(trace), steps(fork), strict=True))
    for was, now in pairs:
        assert np.array_equal(was.next_canvas, now.next_canvas)
        assert np.array_equal(was.entropy, now.entropy)
    inspector.page.show_view(1)
    qtbot.waitUntil(lambda: "same throughout" in inspector.compare.facts.text())
    assert "The right run goes on from the left one at block 2, step 2" in inspector.compare.asked.text()
    tree = inspector.forks.tree
    assert tree.topLevelItemCount() >= 1
    root = tree.topLevelItem(0)
    assert root is not None
    assert root.childCount() == 1


def test_a_pinned_cell_and_a_banned_token(qtbot: QtBot, window: MainWindow, inspector: InspectorController) -> None:
    ask(qtbot, window, "Reverse the word robot.")
    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer)
    player, forks = inspector.page.player, inspector.forks
    player.go(0)
    player.select(0)
    forks.token.setEditText("x")
    forks.pin.click()
    forks.token.setEditText("o")
    forks.ban.click()
    assert window.context.model is not None
    (pinned,), (banned,) = window.context.model.encode("x"), window.context.model.encode("o")
    fork = run_fork(qtbot, inspector)
    for step in steps(fork):
        assert step.argmax_canvas[0] == step.next_canvas[0] == pinned
        assert banned not in step.next_canvas
        assert banned not in step.argmax_canvas
    assert "o" not in window.context.model.decode(fork.result.tokens).text
    forks.token.setEditText("two tokens")
    forks.ban.click()
    assert "must be one" in forks.problem.text()


def test_spans_are_written_anew_and_the_rest_stays(
    qtbot: QtBot, window: MainWindow, inspector: InspectorController
) -> None:
    trace = ask(qtbot, window, "Count from 4 to 43.")
    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer)
    player, forks = inspector.page.player, inspector.forks
    player.go_to_block(1)
    for first, last in ((4, 6), (8, 9)):
        forks.spans.first.setValue(first)
        forks.spans.last.setValue(last)
        forks.spans.add.click()
    forks.spans.run.click()
    qtbot.waitUntil(lambda: not inspector.continuations.is_forking and player.trace is not trace, timeout=RUN_MS)
    (before,) = [e for e in trace.events if isinstance(e, CanvasCommitted) and e.block_index == 1]
    first, after, last = [e for e in player.trace.events if isinstance(e, CanvasCommitted)]
    old = [e for e in trace.events if isinstance(e, CanvasCommitted)]
    assert np.array_equal(first.tokens, old[0].tokens)
    assert np.array_equal(last.tokens, old[2].tokens)
    kept = np.r_[0:4, 7, 10 : len(before.tokens)]
    assert np.array_equal(before.tokens[kept], after.tokens[kept])
    qtbot.waitUntil(lambda: player.replay is not None and player.replay.blocks == 3)
    player.go_to_block(1)
    forks.run.click()
    assert "rewritten" in forks.problem.text()


def test_a_second_opinion_on_a_finished_text(qtbot: QtBot, window: MainWindow, inspector: InspectorController) -> None:
    trace = ask(qtbot, window, "Reverse the word stone.")
    qtbot.keyClick(window, Qt.Key.Key_I, CONTROL)
    page = inspector.page
    assert page.player.block.causal is None
    page.change.opinion.read.click()
    assert inspector.continuations.reason_to_wait() == "A text is being read in the inspector; Esc stops it"
    qtbot.waitUntil(lambda: page.player.block.causal is not None, timeout=RUN_MS)
    qtbot.waitUntil(lambda: inspector.continuations.reason_to_wait() == "", timeout=RUN_MS)
    assert page.player.trace is trace
    assert page.canvas.layer == "causal"
    found, text = page.player.block.causal, trace.committed[0].text_length
    assert np.isfinite(found[: text + 1]).all()
    assert np.isnan(found[text + 1 :]).all()
    model = load_model(MINI)
    ids = [*trace.header.prompt_ids, *trace.committed[0].tokens[: text + 1].tolist()]
    shares = model.decode(ids, model.new_cache(), 0).softmax(-1)[len(trace.header.prompt_ids) - 1 : -1]
    wanted = [float(row[token]) for row, token in zip(shares, ids[len(trace.header.prompt_ids) :], strict=True)]
    np.testing.assert_allclose(found[: text + 1], wanted, rtol=1e-3, atol=1e-9)
    page.player.select(0)
    assert "Causal probability" in page.cell.history.accessibleDescription()


def test_influence_is_measured(qtbot: QtBot, window: MainWindow, inspector: InspectorController) -> None:
    ask(qtbot, window, "Reverse the word robot.")
    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer)
    player, view = inspector.page.player, inspector.page.change.influence
    assert player.replay is not None
    player.go(len(player.replay.frames) - 1)
    inspector.page.side.setCurrentWidget(inspector.page.change)
    player.select(1)
    inspector.forks.token.setEditText("x")
    view.measure.setFocus()
    qtbot.keyClick(view.measure, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: view.influence is not None, timeout=RUN_MS)
    assert window.focusWidget() is view.measure  # it stays where the work is
    assert view.influence is not None
    assert view.influence.kl[1] == 0
    assert view.influence.kl.max() > 0


def test_two_seeds_of_a_prompt_are_compared_in_two_clicks(
    qtbot: QtBot, window: MainWindow, inspector: InspectorController
) -> None:
    first = ask(qtbot, window, "Reverse the word robot.")
    window.sidebar.new_asked.emit()
    window.context.values.seed = 4
    ask(qtbot, window, "Reverse the word robot.")
    window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer)
    page, compare = inspector.page, inspector.compare
    page.view_buttons[1].click()
    qtbot.waitUntil(lambda: any("seed 3" in card.offer.title for card in compare.chooser.runs.cards))
    (card,) = [card for card in compare.chooser.runs.cards if "seed 3" in card.offer.title]
    assert card.offer.section == "The same prompt"
    card.click()
    assert compare.currentWidget() is compare.both
    assert "seed: 4 and 3" in compare.asked.text()
    assert compare.trace.header.id == first.header.id


def test_a_damaged_file_is_said(window: MainWindow, inspector: InspectorController, tmp_path: Any) -> None:
    foreign = tmp_path / "foreign.sltrace"
    foreign.write_bytes(b"no trace at all")
    window.show_page("inspector")
    inspector.open_key(str(foreign))
    assert window.notices.notice.isVisible()
    assert "foreign.sltrace" in window.notices.notice.message.text()
    window.show_page("chat")
    assert not window.notices.notice.isVisible()
