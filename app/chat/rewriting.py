"""Writes parts of answers again, and revises answers and drafts: by the loaded model, or the small one made for it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.chat.page import ChatPage
from app.context import AppContext
from app.state.chat.conversation import Turn
from app.state.chat.rewriting import Rewriting, can_fill, of_draft
from app.system.i18n import tr
from engine import GAPS, SKILLS, SafelightError


class RewritingRuns(QObject):
    """Begins such runs.

    Args:
        wait_for: lets an act wait for a model, given by its id; returns False if that is loaded.
        can_ask: True if an answer can be written now; else the reason is said.
        attempt: does a work that may be refused, and says why; returns False then.
    """

    def __init__(
        self,
        context: AppContext,
        page: ChatPage,
        wait_for: Callable[[str, Callable[[], object]], bool],
        can_ask: Callable[[], bool],
        attempt: Callable[[Callable[[], None]], bool],
    ) -> None:
        super().__init__(page)
        self._context, self._page, self._session = context, page, context.session
        self._wait_for, self._can_ask, self._attempt = wait_for, can_ask, attempt

    def can_change(self, turn: Turn) -> bool:
        """Returns True if a model is here that can write parts of a turn's answer again."""
        model = self._context.model
        if self._context.is_auto:
            return turn.answer.model in (GAPS, SKILLS)
        return model is not None and can_fill(model)

    def rewrite(self, turn: Turn, how: Rewriting) -> None:
        """Writes the shown answer of a turn again, as another version."""
        if self._context.is_auto and self._wait_for(GAPS, lambda: self.rewrite(turn, how)):
            return
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
        if self._context.is_auto and self._wait_for(GAPS, self.revise_draft):
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
