"""Which way round KL is in the plots: that of a step *from* the step before, and of the last step *from* each step."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from pytestqt.qtbot import QtBot

from app.design import themes
from app.design.tokens import DARKROOM
from app.inspector.timeline.overview import Overview, figures_of
from app.inspector.timeline.plots import Plots
from app.player.player import Player
from app.state.run.replay import Replay
from engine import Event
from tests.app.inspector.made_up import Recorded, committed, started, step_event

SHARES = (0.5, 0.9, 0.6, 0.99)  # of one of two tokens, step by step: all that there is, so that KL is known exactly
FIRST, SECOND = 3, 4  # the tokens


def kl(p: float, q: float) -> float:
    """KL(p || q) of two distributions over two tokens, in nats."""
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def events() -> list[Event]:
    """A block of one position."""
    steps = [
        step_event(step, [FIRST], [FIRST], [True], top=([[FIRST, SECOND]], [[share, 1 - share]]))
        for step, share in enumerate(SHARES)
    ]
    return [started(1), *steps, committed([FIRST], 1, len(SHARES))]


TO_PREVIOUS = [0.0] + [kl(now, before) for before, now in pairwise(SHARES)]
TO_FINAL = [kl(SHARES[-1], share) for share in SHARES]


def test_the_pairs_tell_one_direction_from_the_other() -> None:
    turned = [0.0] + [kl(before, now) for before, now in pairwise(SHARES)]
    assert all(abs(one - other) > 0.02 for one, other in zip(TO_PREVIOUS[1:], turned[1:], strict=True))
    turned = [kl(share, SHARES[-1]) for share in SHARES]
    assert all(abs(one - other) > 0.02 for one, other in zip(TO_FINAL[:-1], turned[:-1], strict=True))


def test_kl_is_of_the_later_step_from_the_earlier() -> None:
    record = Replay(Recorded(events())).record(0)
    for found in (record, figures_of(record)):
        assert found.kl_to_previous is not None
        assert found.kl_to_final is not None
        assert found.kl_to_previous.tolist() == pytest.approx(TO_PREVIOUS, abs=1e-5)
        assert found.kl_to_final.tolist() == pytest.approx(TO_FINAL, abs=1e-5)


def test_the_plot_draws_and_says_it_the_same_way_round(qtbot: QtBot) -> None:
    player = Player()
    overview = Overview(player, player)
    plots = Plots(player, overview)
    themes.publish(DARKROOM)
    qtbot.addWidget(plots)
    plots.resize(700, 260)
    plots.show()
    player.open(Recorded(events()))
    overview.finish()
    plots.draw()
    previous, final = plots._rows[2].listDataItems()
    assert previous.yData[: len(SHARES)].tolist() == pytest.approx(TO_PREVIOUS, abs=1e-5)
    assert final.yData[: len(SHARES)].tolist() == pytest.approx(TO_FINAL, abs=1e-5)
    names = [name for name, _colour, _dashed in plots.legend()[2]]
    assert names == ["KL to the step before", "KL to the last step"]
    for step in range(len(SHARES)):
        lines = plots.words_at(step + 1)  # the first frame is the noise
        assert f"KL to the step before: {TO_PREVIOUS[step]:.3f} nats or more" in lines
        assert f"KL to the last step: {TO_FINAL[step]:.3f} nats or more" in lines
