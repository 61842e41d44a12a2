"""Says how the chosen model writes, and suggests prompts for it."""

from __future__ import annotations

import random
from pathlib import Path

from app.bridge.remote_access import only_text
from app.chat.page import ChatPage
from app.context import AppContext
from app.settings.decoders import decoder_explanation
from app.state.chat.prompts import small_suggestions, suggestions
from app.system.i18n import tr
from engine import catalog
from engine.catalog import SMALL, TALK, Traits
from engine.service.small import usual_part


class Introducing:
    """The introduction and the suggestions of the start page, and what the composer says of the model."""

    def __init__(self, context: AppContext, page: ChatPage) -> None:
        self._context, self._page = context, page
        self._offered: tuple[str, Traits] | None = None  # what the shown prompts were chosen for

    def introduce(self) -> None:
        """Says how the present decoder writes its answers, and what to expect of them. Says nothing without a model."""
        context, model, page = self._context, self._context.model, self._page
        is_small, how = context.present == SMALL, ""
        caution = catalog.caution(usual_part() if is_small else context.present)
        said = tr(caution) if caution else ""
        page.composer.caution(tr("{model} has {said}", model=TALK.title, said=said) if said and is_small else said)
        if is_small and caution:
            how = tr("Small tasks and puzzles develop on a canvas; other questions go to {model}.", model=TALK.title)
        elif model is not None:
            how = only_text(model) or decoder_explanation(context.values.present_decoding.decoder)
        page.welcome.introduce(how)

    def suggest(self) -> None:
        """Suggests prompts for the model that is loaded or being loaded; once loaded, they stay the same."""
        present, model = self._context.present, self._context.model
        wanted = present, catalog.traits(Path(present).name) if model is None else model.traits
        if wanted != self._offered:
            self._offered = wanted
            rng = random.Random()
            own = suggestions(wanted[1], rng) if present else []
            self._page.offer(small_suggestions(rng) if present == SMALL else own)
