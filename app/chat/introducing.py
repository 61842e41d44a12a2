"""Says what the chosen model is for and suggests prompts for it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

from app.bridge.remote_access import only_text
from app.chat.page import ChatPage
from app.context import AppContext, Lazy
from app.settings.decoders import answers_in_words
from app.state.chat.prompts import Suggestion, about_drawings, auto_suggestions, suggestions
from app.system.i18n import tr
from engine import catalog
from engine.catalog import SMALL, TALK, Traits
from engine.config import BLOCK_DIFFUSION
from engine.service.small import usual_part

if TYPE_CHECKING:
    from engine.tasks.drawings import Scene


class Introducing:
    """The introduction and the suggestions of the start page, and what the composer says of the model."""

    def __init__(self, context: AppContext, page: ChatPage) -> None:
        self._context, self._page = context, page
        self.scenes: dict[str, Scene] = {}  # by suggested prompt about a drawing
        self._offered: Traits | None = None  # what the shown prompts were chosen for
        self._mixed = Lazy(lambda: auto_suggestions(random.Random()))

    def introduce(self) -> None:
        """Says what the model is for, how the present decoder writes its answers, and what to expect of them.

        Says nothing without a model.
        """
        context, model, loading, how = self._context, self._context.model, self._context.loading, ""
        page, is_small = self._page, context.present == SMALL
        caution = catalog.caution(usual_part() if is_small else context.present)
        said = tr(caution) if caution else ""
        page.composer.caution(tr("{model} has {said}", model=TALK.title, said=said) if said and is_small else said)
        if is_small and usual_part() == TALK.id:
            traits = TALK.traits
            how = tr("Small tasks and puzzles develop on a canvas; other questions go to {model}.", model=TALK.title)
        elif model is not None:
            traits, decoder = model.traits, context.values.present_decoding.decoder
            is_usual = bool(traits.introduction) and decoder == BLOCK_DIFFUSION  # the welcome text explains it
            how = "" if is_usual else answers_in_words(decoder)
        elif loading is not None:
            traits = catalog.traits(Path(loading.path_or_id).name)
        else:
            page.welcome.introduce("")
            return
        purpose = tr(traits.introduction) if traits.introduction else ""
        plain = "" if model is None else only_text(model)
        page.welcome.introduce(plain or " ".join(filter(None, (purpose, how))))
        page.composer.edit.setPlaceholderText(tr(traits.placeholder))

    def suggest(self) -> None:
        """Suggests prompts for the model that is loaded or being loaded; once loaded, they stay the same."""
        model, loading = self._context.model, self._context.loading
        if self._context.present == SMALL:
            self._offered, self.scenes = None, {}
            self._page.offer(self._mixed())
            return
        traits = model.traits if model else catalog.traits(Path(loading.path_or_id).name) if loading else None
        if traits is not None and traits == self._offered:
            return
        self._offered = traits
        self.scenes = about_drawings() if traits is not None and traits.taught == "drawings" else {}
        drawn = [Suggestion(question, question) for question in self.scenes]
        self._page.offer(drawn or (() if traits is None else suggestions(traits, random.Random())))
