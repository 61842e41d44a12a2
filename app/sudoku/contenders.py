"""The models, with or without an adapter, that can solve puzzles, and the settings of their runs. Uses no Qt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.bridge.remote_access import only_text, title_of_path
from app.state.adapters import adapters_for, title_of_adapter, with_adapter
from app.system.i18n import tr
from engine import BASE, EMBEDDED, SUDOKU, GenerationConfig, SafelightError, catalog
from engine.config import BLOCK_DIFFUSION
from engine.service import LoadedModel, is_remote
from engine.tasks import sudoku

ANSWER_TOKENS = 90  # 81 digits, the line breaks between nine lines, and the end
TOP_K = 10  # candidates for each position, so that all nine digits can have a pencil mark
LINE = 10  # tokens of a line of the answer, with its line break
WITH_BOARDS = (SUDOKU, BASE)  # the embedded models that were trained on boards


@dataclass(frozen=True)
class Contender:
    """A model and its adapter, each an embedded id or a folder; no adapter is None."""

    model: str
    adapter: str | None = None

    @property
    def title(self) -> str:
        """The title of the model, with its adapter's."""
        return with_adapter(title_of_model(self.model), title_of_adapter(self.adapter) if self.adapter else "")


def title_of_model(path_or_id: str) -> str:
    """Returns an embedded model's title, a folder's name, or the address of a remote model."""
    return catalog.title(path_or_id) or title_of_path(path_or_id)


def contenders(others: Iterable[str] = (), chosen: Iterable[str] = ()) -> list[Contender]:
    """Returns every known model that may write a board, alone and with each adapter that was made for it.

    Args:
        others: Folders of further models.
        chosen: Folders of adapters that the user has opened; each is offered with every model.
    """
    chosen = tuple(chosen)
    shipped = {known.id for known in EMBEDDED if (known.folder / "config.json").is_file()}
    here = [model for model in WITH_BOARDS if model in shipped]
    found = []
    for model in dict.fromkeys((*here, *others)):
        found.append(Contender(model))
        if not is_remote(model):  # the adapters of a remote model are up to its server
            found += [Contender(model, adapter) for adapter in dict.fromkeys((*adapters_for(model), *chosen))]
    return found


def usual_pair(offered: list[Contender]) -> tuple[Contender, Contender]:
    """Returns the initial pair: a model without and with its adapter, or else the base model and the solver."""
    tuned = next((one for one in offered if one.adapter is not None), None)
    if tuned is not None:
        return Contender(tuned.model), tuned
    solver = Contender(SUDOKU)
    return next((one for one in offered if one.model == BASE), solver), solver


def obstacle(model: LoadedModel) -> str:
    """Returns why a model cannot solve puzzles, as a sentence; empty if it can."""
    if not model.capabilities.steps:
        return only_text(model) or tr(
            "{model} tells no denoising steps, which a board is drawn from.", model=model.title
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
        return tr("Adapters are put on by the server that runs this model.")
    return tr("No adapter can be put on {model}.", model=model.title)


def settings(model: LoadedModel, config: GenerationConfig, puzzle: str, *, clamp: bool) -> GenerationConfig:
    """Returns a run's settings: enough candidates for pencil marks and, with ``clamp``, pinned givens.

    Raises:
        SafelightError: The model does not write one token for each character, so that nothing can be clamped.
    """
    config = config.replace(top_k=max(config.top_k, TOP_K))
    if not clamp:
        return config
    diffusing = BLOCK_DIFFUSION if BLOCK_DIFFUSION in model.decoders else config.decoder  # only this one keeps pins
    return config.replace(
        pinned=pins(model, puzzle), decoder=diffusing, thought_decoder="", answer_decoder="", rescue=False
    )


def pins(model: LoadedModel, puzzle: str) -> tuple[tuple[int, int], ...]:
    """Returns (position in the answer, token) of every given.

    Raises:
        SafelightError: As ``settings``.
    """
    tokens = model.encode(sudoku.rows(puzzle))
    if len(tokens) != ANSWER_TOKENS - 1:
        raise SafelightError(
            tr("{model} does not write a digit as a token each; run without clamped givens.", model=model.title)
        )
    places = ((cell, cell // 9 * LINE + cell % 9) for cell in range(sudoku.SIZE) if puzzle[cell] != "0")
    return tuple((place, tokens[place]) for _, place in places)
