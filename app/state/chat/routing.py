"""Names the installed model that a prompt is for. Knows no Qt."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from engine.catalog import EMBEDDED, GAPS, SIGHT, SKILLS, SUDOKU, TALK, TOOLS, EmbeddedModel, Traits
from engine.tasks import sudoku, wording
from engine.tasks.tool_questions import tool_for
from engine.text.outline import spans

_BY_ID = {model.id: model for model in EMBEDDED}


def usual_model() -> EmbeddedModel:
    """Returns the installed model for prompts that none was made for."""
    return TALK if TALK.is_here else _BY_ID[SKILLS]


def model_for(
    text: str, files: Sequence[str] = (), *, has_pictures: bool = False, tools: Collection[str] = ()
) -> EmbeddedModel:
    """Returns the installed model for a prompt with the texts of its files. ``tools``: names of those offered."""
    if not files and not has_pictures and tool_for(text) in tools:
        return _BY_ID[TOOLS]
    return _made_for(text, files, has_pictures) or usual_model()


def is_about_drawing(text: str) -> bool:
    """Returns True if a prompt asks about a drawing, as one before it may have shown."""
    from engine.tasks.drawings import is_question  # imports Pillow, which most starts do not need

    return is_question(text)


def better_model(traits: Traits, text: str) -> EmbeddedModel | None:
    """Returns the installed model for a prompt without pictures or files, if the model with these traits is not.

    None if no model is better. A model of drawings may be asked about an earlier one.
    """
    if traits.taught in ("anything", "drawings") or not text.strip():
        return None
    if traits.taught == "tools" and (tool_for(text) or wording.is_taught(text)):
        return None
    found = _made_for(text) or (TALK if TALK.is_here else None)
    return None if found is None or found.traits.taught == traits.taught else found


def unread_by(model: str) -> frozenset[str]:
    """Returns the models whose turns a model is not given: their short answers would lead Talk astray."""
    return frozenset(_BY_ID) if model == TALK.id else frozenset()


def others_for(model: str, text: str, files: Sequence[str] = (), *, has_pictures: bool = False) -> list[EmbeddedModel]:
    """Returns the installed models other than ``model`` that could answer a prompt, the best first."""
    made_for = _made_for(text, files, has_pictures)
    found = [made_for] if made_for is not None else []
    if TALK.is_here and not has_pictures:
        found.append(TALK)
    return [one for one in found if one.id != model]


def _made_for(text: str, files: Sequence[str] = (), has_pictures: bool = False) -> EmbeddedModel | None:
    if has_pictures:
        return _BY_ID[SIGHT]
    if _is_puzzle(files[0] if len(files) == 1 and not text.strip() else "" if files else text):
        return _BY_ID[SUDOKU]
    if has_gaps(text):
        return _BY_ID[GAPS]
    return _BY_ID[SKILLS] if not files and wording.is_taught(text) else None


def has_gaps(text: str) -> bool:
    """Returns True if a prompt is a text with gaps to fill in."""
    return next(spans(text), None) is not None


def _is_puzzle(text: str) -> bool:
    try:
        sudoku.parse(text)
    except sudoku.PuzzleError:
        return False
    return True
