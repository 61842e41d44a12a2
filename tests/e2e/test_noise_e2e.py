"""The thought of a run becomes noise, in the real window with the real embedded model, and the answers are counted.

The embedded models do not think: two of the letters of a real answer are written as the tokens around a thought.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.inspector.controller import InspectorController
from app.state.run.noising import answer_of
from app.window.main_window import MainWindow
from engine import SKILLS, Recording, Trace

RUN_MS = 120_000


@pytest.fixture
def window(window_with: Callable[[str], MainWindow]) -> MainWindow:
    return window_with(SKILLS)


@pytest.fixture
def inspector(window: MainWindow) -> InspectorController:
    return window.pages.inspector()


def with_thought(run: Recording) -> Trace:
    """The run with its first token opening a thought, and its third one closing it."""
    tokens = run.result.tokens.tolist()
    pieces = {tokens[0]: "<|channel>", tokens[2]: "<channel|>"}
    trace = Trace(header=run.header, piece=lambda token: pieces.get(token) or run.piece(token))
    for event in run.events:
        trace.append(event)
    return trace


def test_the_thought_becomes_noise_and_the_answers_are_counted(
    qtbot: QtBot, window: MainWindow, inspector: InspectorController
) -> None:
    window.pages.chat().send("Repeat the word robot.")
    qtbot.waitUntil(lambda: window.context.session.active is None, timeout=RUN_MS)
    run = window.context.session.chat.turns[-1].answer.trace
    page, view = inspector.page, inspector.page.answer.thought
    inspector.inspect(run)
    page.overview.finish()
    assert not view.run.isEnabled()
    assert view.reason.text().startswith("This run has no thought")

    source = with_thought(run)
    inspector.inspect(source)
    page.overview.finish()
    assert view.run.isEnabled()
    made: list[Recording] = []
    inspector.noising.made.connect(made.append)
    view.share.setValue(100)
    view.tries.setValue(3)
    view.run.click()
    assert view.result.text() == "Try 1 of 3…"
    assert "tested in the inspector" in window.context.reason_to_wait()
    qtbot.waitUntil(lambda: not window.context.is_busy, timeout=RUN_MS)

    assert page.player.trace is source
    assert len(made) == 3
    tokens = source.result.tokens
    answers = [answer_of(one.result.tokens, source.piece) for one in made]
    turned = sum(answer != answer_of(tokens, source.piece) for answer in answers)
    assert view.result.text() == f"{turned} of 3 answers changed."
    for one in made:
        assert one.header.parent.id == source.header.id
        pins = dict(one.header.changes[-1].pinned)
        assert sorted(pins) == [0, 1, 2]
        assert (pins[0], pins[2]) == (tokens[0], tokens[2])
        assert one.result.tokens[:3].tolist() == [pins[place] for place in range(3)]
    assert len({one.header.changes for one in made}) > 1
    assert inspector.forks.tree.topLevelItemCount()

    view.tries.setValue(50)
    view.run.click()
    qtbot.waitUntil(lambda: len(made) == 5, timeout=RUN_MS)
    view.stop.click()
    qtbot.waitUntil(lambda: not window.context.is_busy, timeout=RUN_MS)
    assert view.result.text().startswith("Stopped after ")
    assert view.run.isEnabled()
