"""The steps of the guided minute as data, and the place among them. Knows no widgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.player.player import NOTHING
from app.system.i18n import tr, trn

RUN = "sudoku-stuck"  # file name in the gallery: a Sudoku that does not settle
CELL, DIGIT = 0, "5"  # a position that stays unsure, and its right digit, the likeliest one at the first step
PLAY, BOARD, EVENT, PIN, CONTINUE, EXPORT, NONE = "play", "board", "event", "pin", "run", "export", ""
"""The controls that steps speak of."""


@dataclass(frozen=True)
class GuideState:
    """The state of the inspector, as far as the steps depend on it."""

    place: int = 0  # of the shown frame
    last: int = 0  # place of the last frame
    selection: int = NOTHING
    is_taken_back: bool = False  # the selected cell, at the shown frame
    is_pinned: bool = False  # a change pins a cell
    steps: int = 0  # of the recorded run
    changed_steps: int = 0  # of the changed run; 0 before it has ended
    changed_cells: int = 0  # cells with another digit at the end of the changed run, without the pinned one
    is_exported: bool = False  # the export dialog was opened and closed


@dataclass(frozen=True)
class GuideStep:
    """A step. ``control`` is ringed, and Next uses it; ``is_done`` notices that it was used."""

    title: str  # in English, shown through ``tr``
    words: Callable[[GuideState], str]
    control: str
    is_done: Callable[[GuideState], bool]
    at_end: bool = False  # begins at the last frame of the recorded run instead of its noise
    cell: int = NOTHING  # selected at the beginning
    is_pinned: bool = False  # begins with the pinned cell


def _export_words(seen: GuideState) -> str:
    asked = tr("Export it as a film, a picture or a web page.")
    if not seen.changed_steps:
        return asked
    changed = trn(
        "With the pin it took {steps} steps, not {before}, and {count} other digit came out differently.",
        "With the pin it took {steps} steps, not {before}, and {count} other digits came out differently.",
        seen.changed_cells,
        steps=seen.changed_steps,
        before=seen.steps,
    )
    return f"{changed} {asked}"


STEPS = (
    GuideStep(
        "Start",
        lambda _seen: tr("A small model solves a Sudoku. It starts from noise and tries all cells at once. Play it."),
        PLAY,
        lambda seen: seen.place >= seen.last,
    ),
    GuideStep(
        "Doubt",
        lambda seen: tr(
            "After {steps} steps the board is still not settled. Select the ringed cell to see between which digits "
            "the model wavered.",
            steps=seen.steps,
        ),
        BOARD,
        lambda seen: seen.selection == CELL,
        at_end=True,
    ),
    GuideStep(
        "Taken back",
        lambda _seen: tr(
            "A digit that was accepted can be taken back once the others disagree. Go to the last time that happened."
        ),
        EVENT,
        lambda seen: seen.is_taken_back,
        at_end=True,
        cell=CELL,
    ),
    GuideStep(
        "Pin a cell",
        lambda _seen: tr(
            "Here is the noise again. Pin the first cell to {digit}, its right digit; then it stays so in all steps.",
            digit=DIGIT,
        ),
        PIN,
        lambda seen: seen.is_pinned,
        cell=CELL,
    ),
    GuideStep(
        "See the rest change",
        lambda _seen: tr("Run it with this change."),
        CONTINUE,
        lambda seen: seen.changed_steps > 0,
        cell=CELL,
        is_pinned=True,
    ),
    GuideStep("Export", _export_words, EXPORT, lambda seen: seen.is_exported),
    GuideStep(
        "", lambda _seen: tr("That was the minute. What you had open here comes back."), NONE, lambda _seen: False
    ),
)
"""The steps in order. The last one only ends the guide and is not counted."""
COUNTED = len(STEPS) - 1


class Course:
    def __init__(self) -> None:
        self.place = 0

    @property
    def step(self) -> GuideStep:
        return STEPS[self.place]

    @property
    def is_at_end(self) -> bool:
        """True once all counted steps are done."""
        return self.place == COUNTED

    @property
    def title(self) -> str:
        if self.is_at_end:
            return tr("Guided minute")
        return tr(
            "Guided minute · {number} of {count} · {title}",
            number=self.place + 1,
            count=COUNTED,
            title=tr(self.step.title),
        )

    def notice(self, seen: GuideState) -> bool:
        """Goes on if the step is done. Returns True if it went on."""
        return self.step.is_done(seen) and self.go(1)

    def go(self, by: int) -> bool:
        """Goes on (1) or back (-1). Returns False at either end."""
        before, self.place = self.place, max(0, min(self.place + by, COUNTED))
        return self.place != before
