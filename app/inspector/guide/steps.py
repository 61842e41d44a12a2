"""The steps of the guided minute as data, and the place among them. Knows no widgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.player.player import NOTHING
from app.system.i18n import tr, trn

RUN = "sudoku-stuck"  # file name in the gallery: a Sudoku that does not settle
CELL, DIGIT = 0, "5"  # a position that it gets wrong, and its right digit, the likeliest one at the first step
PLAY, BOARD, EVENT, PIN, CONTINUE, EXPORT, NONE = "play", "board", "event", "pin", "run", "export", ""
"""The controls that steps speak of."""


@dataclass(frozen=True)
class Seen:
    """The state of the inspector, as far as the steps depend on it."""

    place: int = 0  # of the shown frame
    last: int = 0  # place of the last frame
    selection: int = NOTHING
    is_taken_back: bool = False  # the selected cell, at the shown frame
    is_pinned: bool = False  # a change pins a cell
    steps: int = 0  # of the recorded run
    changed_steps: int = 0  # of the changed run; 0 before it has ended
    changed_cells: int = 0  # cells of the changed run that differ, without the pinned one
    is_exported: bool = False  # the export dialog was opened and closed


@dataclass(frozen=True)
class Step:
    """A step. ``control`` is ringed, and Next uses it; ``is_done`` notices that it was used."""

    title: str  # in English, shown through ``tr``
    words: Callable[[Seen], str]
    control: str
    is_done: Callable[[Seen], bool]
    at_end: bool = False  # begins at the last frame of the recorded run instead of its noise
    cell: int = NOTHING  # selected at the beginning
    is_pinned: bool = False  # begins with the pinned cell


def _export_words(seen: Seen) -> str:
    asked = tr("Export it as a film, a picture or a web page. Nothing is written before you choose a file.")
    if not seen.changed_steps:
        return asked
    changed = trn(
        "With the pin it took {steps} steps instead of {before}, and {count} other cell is different.",
        "With the pin it took {steps} steps instead of {before}, and {count} other cells are different.",
        seen.changed_cells,
        steps=seen.changed_steps,
        before=seen.steps,
    )
    return f"{changed} {asked}"


STEPS = (
    Step(
        "Start",
        lambda _seen: tr("A small model solves a Sudoku. It starts from noise and tries all cells at once. Play it."),
        PLAY,
        lambda seen: seen.place >= seen.last,
    ),
    Step(
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
    Step(
        "Taken back",
        lambda _seen: tr(
            "A digit that was accepted can be taken back once the others disagree. Go to the last time that happened."
        ),
        EVENT,
        lambda seen: seen.is_taken_back,
        at_end=True,
        cell=CELL,
    ),
    Step(
        "Pin a cell",
        lambda _seen: tr(
            "You can change what happens. Here is the noise again, with the first cell selected. Pin it to {digit}, "
            "its right digit, and it stays so in all steps.",
            digit=DIGIT,
        ),
        PIN,
        lambda seen: seen.is_pinned,
        cell=CELL,
    ),
    Step(
        "See the rest change",
        lambda _seen: tr(
            "Run it with this change. The small Sudoku model is loaded for that; the chat gets its own back later."
        ),
        CONTINUE,
        lambda seen: seen.changed_steps > 0,
        cell=CELL,
        is_pinned=True,
    ),
    Step("Export", _export_words, EXPORT, lambda seen: seen.is_exported),
    Step("", lambda _seen: tr("That was the minute. What you had open here comes back."), NONE, lambda _seen: False),
)
"""The steps in order. The last one only ends the guide and is not counted."""
COUNTED = len(STEPS) - 1


class Course:
    """The place among the steps."""

    def __init__(self) -> None:
        self.place = 0

    @property
    def step(self) -> Step:
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

    def notice(self, seen: Seen) -> bool:
        """Goes on if the step is done. Returns True if it went on."""
        return self.step.is_done(seen) and self.go(1)

    def go(self, by: int) -> bool:
        """Goes on (1) or back (-1). Returns False at either end."""
        before, self.place = self.place, max(0, min(self.place + by, COUNTED))
        return self.place != before
