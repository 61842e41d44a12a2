"""The models that can solve puzzles, those that race on one, and the settings of a run. Has no widgets."""

from __future__ import annotations

from app.bridge.remote_access import only_text
from app.context import ModelChoice
from app.state.adapters import adapters_for
from app.system.i18n import tr
from engine import BASE, SUDOKU, GenerationConfig, SafelightError
from engine.decoders import BLOCK_DIFFUSION
from engine.service import LoadedModel, is_remote
from engine.tasks import sudoku

ANSWER_TOKENS = 90  # 81 digits, the line breaks between nine lines, and the end
TOP_K = 10  # candidates for each position, so that all nine digits can have a pencil mark
LINE = 10  # tokens of a line of the answer, with its line break


def race_models() -> tuple[ModelChoice, ModelChoice]:
    """Returns two models to compare on a puzzle: the base model without and with its adapter, or else the solver."""
    adapter = next(iter(adapters_for(BASE)), None)
    return ModelChoice(BASE), ModelChoice(SUDOKU) if adapter is None else ModelChoice(BASE, adapter)


def solver(model: LoadedModel | None) -> LoadedModel | None:
    """Returns what solves puzzles while a model is loaded: the part that was made for them, or the model itself."""
    return None if model is None else model.part(SUDOKU)


def obstacle(model: LoadedModel) -> str:
    """Returns why a model cannot solve puzzles, as a sentence; empty if it can."""
    if not model.capabilities.steps:
        return only_text(model) or tr(
            "{model} has no denoising steps, which the board shows. Load another model.", model=model.title
        )
    if model.canvas_length < ANSWER_TOKENS:
        return tr(
            "{model} cannot write a board: its canvas holds {length} tokens, and a board takes {needed}.",
            model=model.title,
            length=model.canvas_length,
            needed=ANSWER_TOKENS,
        )
    return ""


def unadapted(model: LoadedModel) -> str:
    """Returns why a model takes no adapter, for a backend without adapters."""
    if is_remote(model.path_or_id):
        return tr("The server that runs this model chooses its adapter.")
    return tr("{model} takes no adapter.", model=model.title)


def settings(model: LoadedModel, config: GenerationConfig, puzzle: str, *, keep: bool) -> GenerationConfig:
    """Returns a run's settings: enough candidates for pencil marks and, with ``keep``, pinned given digits.

    Raises:
        SafelightError: The model does not write one token for each character, so that no digit can be kept.
    """
    config = config.replace(top_k=max(config.top_k, TOP_K))
    if not keep:
        return config
    diffusing = BLOCK_DIFFUSION if BLOCK_DIFFUSION in model.decoders else config.decoder  # only this one keeps pins
    return config.replace(pinned=pins(model, puzzle), decoder=diffusing, token_thoughts=False)


def pins(model: LoadedModel, puzzle: str) -> tuple[tuple[int, int], ...]:
    """Returns (position in the answer, token) of every given digit.

    Raises:
        SafelightError: As ``settings``.
    """
    tokens = model.encode(sudoku.rows(puzzle))
    if len(tokens) != ANSWER_TOKENS - 1:
        raise SafelightError(
            tr(
                "{model} does not write one token for each digit, so it cannot keep the given ones.",
                model=model.title,
            )
        )
    places = ((cell, cell // 9 * LINE + cell % 9) for cell in range(sudoku.SIZE) if puzzle[cell] != "0")
    return tuple((place, tokens[place]) for _, place in places)
