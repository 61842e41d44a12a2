"""Who won a race, in words: counted from figures, and honest about ties, other texts and failures."""

from __future__ import annotations

import pytest

from app.state.race.running import LaneFigures
from app.state.race.scores import LaneEnd, headline, short_names


def lane(name: str, seconds: float, forwards: int = 10, *, tokens: int = 20, **more: object) -> LaneEnd:
    return LaneEnd(name, LaneFigures(tokens, forwards, forwards, seconds), **{"text": "abc", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lanes", "said"),
    [
        (
            [lane("Diffusion", 0.1, 8), lane("Autoregressive", 0.6, 153)],
            "Diffusion: 6.0× faster, same text, 8 passes instead of 153.",
        ),
        ([lane("A", 1.9), lane("B", 0.1)], "B: 19× faster, same text."),
        ([lane("A", 1.0), lane("B", 1.05)], "A tie: A and B are equally fast, same text."),
        (
            [lane("A", 1.0, tokens=100), lane("B", 0.5, tokens=10, text="x")],
            "A: 5.0× as many tokens a second, different texts.",
        ),
        ([lane("A", 0.1, is_right=False, text="x"), lane("B", 0.3, is_right=True)], "B: the only right answer."),
        (
            [lane("A", 0.1, is_right=False, text="x"), lane("B", 0.3, is_right=True), lane("C", 0.6, is_right=True)],
            "B: 2.0× faster, same text.",
        ),
        ([lane("A", 0.1), lane("B", 0.3, problem="It broke.")], "No winner: B failed."),
        ([lane("A", 0.1, text=" "), lane("B", 0.3)], "No winner: A wrote nothing."),
        (
            [lane("A", 0.1), lane("B", 0.3), lane("C", 0.2, text="")],
            "A: 3.0× faster, same text. C wrote nothing.",
        ),
    ],
)
def test_who_won(lanes: list[LaneEnd], said: str) -> None:
    assert headline(lanes) == said


def test_lanes_are_named_by_what_differs() -> None:
    assert short_names(["Skills · Diffusion", "WeDLM · One by one"]) == ["Diffusion", "One by one"]
    assert short_names(["Base · Diffusion", "Sudoku · Diffusion"]) == ["Base", "Sudoku"]
    assert short_names(["A · X", "A · Y", "B · X"]) == ["A · X", "A · Y", "B · X"]
