"""Writes parts of answers again, and revises answers and drafts."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.chat.page import ChatPage
from app.context import AppContext
from app.state.chat.conversation import Turn
from app.state.chat.rewriting import Rewriting, can_fill, of_draft
from app.system.i18n import tr
from engine import SafelightError, catalog


class RewritingRuns(QObject):
    """Begins such runs.

    Args:
        can_ask: True if an answer can be written now; else the reason is said.
        attempt: does a work that may be refused, and says why; returns False then.
    """

    def __init__(
        self,
        context: AppContext,
        page: ChatPage,
        can_ask: Callable[[], bool],
        attempt: Callable[[Callable[[], None]], bool],
    ) -> None:
        super().__init__(page)
        self._context, self._page, self._session = context, page, context.session
        self._can_ask, self._attempt = can_ask, attempt

    def can_change(self, turn: Turn) -> bool:
        """Returns True if a model is here that can write parts of a turn's answer again."""
        model = self._context.model
        if model is not None and model.parts:
            return catalog.traits(turn.answer.model).wants_wording  # what others write is new to the one that fills
        return model is not None and can_fill(model)

    def rewrite(self, turn: Turn, how: Rewriting) -> None:
        """Writes the shown answer of a turn again, as another version."""
        model = self._context.model
        if self._can_ask() and model is not None and any(shown is turn for shown in self._session.chat.turns):
            self._attempt(lambda: self._session.ask_again(turn, model, how))
            view = self._page.view_of(turn)
            if view is not None and turn.answer.is_active:
                view.answer.stop.setFocus()  # the panel, which had it, is gone

    def put(self, turn: Turn, text: str) -> None:
        """Makes a text the newest version of a turn's answer."""
        self._attempt(lambda: self._session.put(turn, text))

    def revise_draft(self) -> None:
        """Sends the composer's text to be revised; the answer shows what has changed."""
        composer = self._page.composer
        try:
            how = of_draft(composer.text)
        except SafelightError as error:
            composer.say(str(error))
            return
        model, text = self._context.model, composer.text.strip()
        if not self._can_ask() or model is None:
            return
        if not can_fill(model):
            composer.say(tr("{model} cannot revise a text: it does not write by block diffusion.", model=model.title))
        elif self._attempt(lambda: self._session.ask(text, (), model, rewriting=how)):
            composer.edit.history.remember(text)
            composer.clear()

    def revise_last(self) -> None:
        """Opens the panel under the last answer: for the part that is selected there, else for all of it."""
        turns = self._session.chat.turns
        view = self._page.view_of(turns[-1]) if turns else None
        if view is not None:
            view.answer.changing.open_panel()
