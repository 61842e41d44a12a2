"""The inspector in the real window with the real embedded model: open, fork, write anew, measure, compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.inspector.controller import InspectorController
from app.player.player import Player
from app.state.chat.conversation import Answer
from app.state.run.canvas import CanvasState
from app.window.main_window import MainWindow
from engine import MINI, CanvasCommitted, CanvasStarted, StepFinished
from tests.e2e.asking import RUN_MS, ask
from tests.loaded import embedded

WORD = "Reverse the word robot."
CONTROL = Qt.KeyboardModifier.ControlModifier


def inspect(window: MainWindow, answer: Answer) -> Any:
    """Opens the run of an answer in the inspector, and returns its record."""
    window.pages.chat().commands.inspect(answer)
    return answer.trace


def shows(player: Player, frames: list[Any]) -> bool:
    """Says if each frame of the open run has these tokens."""
    replay = player.replay
    assert replay is not None
    assert len(replay.frames) == len(frames)
    return all(np.array_equal(replay.snapshot(at).tokens(calm=False), frame) for at, frame in enumerate(frames))


def open_it(qtbot: QtBot, window: MainWindow, answer: Answer) -> None:
    """The inspector shows what was shown, from memory and from the file."""
    inspector, trace = window.pages.inspector(), answer.trace
    qtbot.keyClick(window, Qt.Key.Key_I, CONTROL)
    assert window.pages.stack.currentWidget() is inspector.page
    live, shown = CanvasState(), []
    assert trace is not None
    for event in trace.events:
        live.fold(event)
        if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted) and live.current is not None:
            shown.append(live.current.tokens(calm=False).copy())
    assert shows(inspector.page.player, shown)
    assert trace.path is not None
    inspector.open_key(str(trace.path))  # without a model
    assert shows(inspector.page.player, shown)


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


def fork_without_a_change(qtbot: QtBot, window: MainWindow, answer: Answer) -> None:
    """The fork is the run itself, bit for bit."""
    inspector, trace = window.pages.inspector(), inspect(window, answer)
    player = inspector.page.player
    assert player.replay is not None
    player.go(player.replay.first_of(1) + 1)
    fork = run_fork(qtbot, inspector)
    assert fork.header.parent.id == trace.header.id
    for was, now in zip(steps(trace), steps(fork), strict=True):
        assert np.array_equal(was.next_canvas, now.next_canvas)
        assert np.array_equal(was.entropy, now.entropy)
    inspector.page.show_view(1)
    qtbot.waitUntil(lambda: "same throughout" in inspector.compare.facts.text())
    assert "The right run goes on from the left one at block 2, step 2" in inspector.compare.asked.text()
    root = inspector.forks.tree.topLevelItem(0)
    assert root is not None
    assert root.childCount() == 1


def pin_a_cell_and_ban_a_token(qtbot: QtBot, window: MainWindow, answer: Answer) -> None:
    inspector = window.pages.inspector()
    inspect(window, answer)
    player, forks, model = inspector.page.player, inspector.forks, window.context.model
    assert model is not None
    player.go(0)
    player.select(0)
    forks.token.setEditText("x")
    forks.pin.click()
    forks.token.setEditText("o")
    forks.ban.click()
    (pinned,), (banned,) = model.encode("x"), model.encode("o")
    fork = run_fork(qtbot, inspector)
    for step in steps(fork):
        assert step.argmax_canvas[0] == step.next_canvas[0] == pinned
        assert banned not in step.next_canvas
        assert banned not in step.argmax_canvas
    assert "o" not in model.decode(fork.result.tokens).text


def write_spans_again(qtbot: QtBot, window: MainWindow, answer: Answer) -> None:
    inspector, trace = window.pages.inspector(), inspect(window, answer)
    player, forks = inspector.page.player, inspector.forks
    player.go_to_block(1)
    for first, last in ((4, 6), (8, 9)):
        forks.spans.first.setValue(first)
        forks.spans.last.setValue(last)
        forks.spans.add.click()
    forks.spans.run.click()
    qtbot.waitUntil(lambda: not inspector.continuations.is_forking and player.trace is not trace, timeout=RUN_MS)
    old, new = ([event.tokens for event in run.committed] for run in (trace, player.trace))
    assert np.array_equal(new[0], old[0])
    assert np.array_equal(new[2], old[2])
    kept = np.r_[0:4, 7, 10 : len(old[1])]
    assert np.array_equal(new[1][kept], old[1][kept])
    qtbot.waitUntil(lambda: player.replay is not None and player.replay.blocks == 3)
    player.go_to_block(1)
    forks.run.click()
    assert "rewritten" in forks.problem.text()


def read_it_once_more(qtbot: QtBot, window: MainWindow, answer: Answer) -> None:
    """The second opinion is what the model says of the finished text by itself."""
    inspector, trace = window.pages.inspector(), inspect(window, answer)
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
    model = embedded(MINI)
    ids = [*trace.header.prompt_ids, *trace.committed[0].tokens[: text + 1].tolist()]
    shares = model.decode(ids, model.new_cache(), 0).softmax(-1)[len(trace.header.prompt_ids) - 1 : -1]
    wanted = [float(row[token]) for row, token in zip(shares, ids[len(trace.header.prompt_ids) :], strict=True)]
    np.testing.assert_allclose(found[: text + 1], wanted, rtol=1e-3, atol=1e-9)
    page.player.select(0)
    assert "Causal probability" in page.cell.history.accessibleDescription()


def measure_influence(qtbot: QtBot, window: MainWindow, answer: Answer) -> None:
    inspector = window.pages.inspector()
    inspect(window, answer)
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


def compare_two_seeds(qtbot: QtBot, window: MainWindow, first: Answer) -> None:
    window.sidebar.new_asked.emit()
    window.context.values.seed = 4
    inspect(window, ask(qtbot, window, WORD))
    inspector = window.pages.inspector()
    compare = inspector.compare
    inspector.page.view_buttons[1].click()
    qtbot.waitUntil(lambda: any("seed 3" in card.offer.title for card in compare.chooser.runs.cards))
    (card,) = [card for card in compare.chooser.runs.cards if "seed 3" in card.offer.title]
    assert card.offer.section == "The same prompt"
    card.click()
    assert compare.currentWidget() is compare.both
    assert "seed: 4 and 3" in compare.asked.text()
    assert compare.trace is not None
    assert first.trace is not None
    assert compare.trace.header.id == first.trace.header.id


@pytest.mark.parametrize(
    ("prompt", "walks"),
    [
        ("Count from 4 to 43.", (open_it, fork_without_a_change, write_spans_again)),
        (WORD, (measure_influence, compare_two_seeds, pin_a_cell_and_ban_a_token, read_it_once_more)),
    ],
    ids=["blocks", "word"],
)
def test_an_answer_is_opened_changed_measured_and_compared(
    qtbot: QtBot, window_with: Callable[[str], MainWindow], prompt: str, walks: tuple[Callable[..., None], ...]
) -> None:
    window = window_with(MINI)
    answer = ask(qtbot, window, prompt)
    for walk in walks:
        walk(qtbot, window, answer)
