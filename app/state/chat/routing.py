"""Names the installed model that a prompt is for. Knows no Qt."""

from __future__ import annotations

from engine.catalog import EMBEDDED, SUDOKU, TALK, EmbeddedModel, Traits
from engine.tasks import sudoku, wording


def better_model(traits: Traits, text: str) -> EmbeddedModel | None:
    """Returns the installed model that was made for a prompt without pictures or files.

    None if the loaded model, with these traits, was made for it, or no model is better. A model of drawings may be
    asked about an earlier one.
    """
    if traits.taught in ("anything", "drawings") or not text.strip():
        return None
    if _is_puzzle(text):
        return None if traits.taught == "puzzles" else next(model for model in EMBEDDED if model.id == SUDOKU)
    prompt = text.strip()
    if traits.taught == "skills" and wording.is_taught(prompt) and not prompt[0].islower():  # it learned capitals
        return None
    return TALK if TALK.is_here else None


def _is_puzzle(text: str) -> bool:
    try:
        sudoku.parse(text)
    except sudoku.PuzzleError:
        return False
    return True
