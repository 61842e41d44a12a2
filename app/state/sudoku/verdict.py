"""The solver's verdict on a model's answer to a puzzle. It does not help the model. Knows neither Qt nor torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from app.state.sudoku.board import BLANK, SIZE, solutions
from app.system.i18n import tr, trn
from engine.tasks import sudoku

VerdictKind = Literal["solved", "other", "wrong", "incomplete"]


@dataclass(frozen=True)
class SolveVerdict:
    """The solver's verdict on a finished run.

    *solved*: the puzzle's only solution. *other*: another valid grid, because the puzzle has several solutions or
    because givens were changed. *wrong*: digits in all cells, some of them wrong. *incomplete*: some cells have no
    digit.
    """

    kind: VerdictKind
    valid: bool  # a complete grid without conflicts that keeps every given; counts as solved
    text: str  # one sentence, in the user's language
    wrong: tuple[int, ...] = ()  # cells that differ from the solution, are in conflict, changed, or without a digit


@lru_cache(maxsize=256)
def verdict(puzzle: str, answer: str) -> SolveVerdict:
    """Judges an answer of 81 characters, ``.`` for a cell without a digit, against its puzzle."""
    judged = sudoku.judge(puzzle, answer)
    known = solutions(puzzle)
    if judged.valid:
        if known is None:
            return SolveVerdict("other", True, tr("Valid; it is not known if there is another solution."))
        if len(known) == 1:
            return SolveVerdict("solved", True, tr("Solved: the puzzle's only solution."))
        return SolveVerdict("other", True, tr("Valid: one of several solutions."))
    changed = {cell for cell in range(SIZE) if puzzle[cell] not in (BLANK, answer[cell])}
    missing = {cell for cell in range(SIZE) if answer[cell] not in sudoku.DIGITS}
    if not missing and not judged.conflicts:
        return SolveVerdict(
            "other",
            False,
            tr("A valid grid of another puzzle: {what}.", what=_changed(len(changed))),
            tuple(sorted(changed)),
        )
    if known is not None and len(known) == 1:
        against = {cell for cell in range(SIZE) if answer[cell] != known[0][cell]}
    else:
        against = changed | missing | {cell for pair in judged.conflicts for cell in pair if puzzle[cell] == BLANK}
    wrong = len(against - missing - changed)
    parts = [_missing(len(missing - changed))] if missing - changed else []
    if wrong:
        sure = known is not None and len(known) == 1
        parts.append(_wrong(wrong, puzzle.count(BLANK)) if sure else _clashing(wrong))
    parts += [_changed(len(changed))] if changed else []
    kind: VerdictKind = "incomplete" if missing else "wrong"
    return SolveVerdict(kind, False, tr("Not solved: {what}.", what=", ".join(parts)), tuple(sorted(against)))


def _missing(count: int) -> str:
    return trn("{count} cell without a digit", "{count} cells without a digit", count)


def _wrong(count: int, blanks: int) -> str:
    return trn("{count} of {blanks} blanks wrong", "{count} of {blanks} blanks wrong", count, blanks=blanks)


def _clashing(count: int) -> str:
    return trn("{count} blank in conflict", "{count} blanks in conflict", count)


def _changed(count: int) -> str:
    return trn("{count} given changed", "{count} givens changed", count)
