"""Brings a prompt to the model that it is for: by itself if that is the user's choice, else by a question."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QPushButton

from app.chat.composer.composer import Composer
from app.context import AppContext
from app.design.notice import Notice
from app.session.session import cannot_see, title_of
from app.state.chat.attachment import Attachment
from app.state.chat.rewriting import can_fill
from app.state.chat.routing import better_model, has_gaps, is_about_drawing, model_for
from app.system.i18n import tr
from engine import GAPS
from engine.catalog import EmbeddedModel
from engine.service import LoadedModel


class Routing(QObject):
    """Names the model for a prompt, and asks about the composer's draft; ``send`` sends that, also ``anyway``."""

    def __init__(self, context: AppContext, composer: Composer, notice: Notice, send: Callable[..., object]) -> None:
        super().__init__(composer)
        self._context, self._composer, self._notice, self._send = context, composer, notice, send
        self._offer: list[QPushButton] = []  # the answers to the last question about the draft
        composer.changed.connect(self._withdraw)

    def model_for(self, text: str, files: tuple[Attachment, ...] = (), *, has_pictures: bool = False) -> str:
        """Returns the model that a prompt waits for or is sent to, by its path or id; empty if there is none."""
        context = self._context
        if not context.is_auto or context.is_busy:
            return context.answering
        turns = context.session.chat.turns
        goes_on = bool(turns) and bool(turns[-1].pictures) and not files and is_about_drawing(text)
        tools = [tool.called for tool in context.tools.offered]
        texts = [file.text for file in files]
        return model_for(text, texts, has_pictures=has_pictures or goes_on, tools=tools).id

    def offers_other(self, text: str) -> bool:
        """Asks which model the draft is for, if another than the loaded one was made for it."""
        composer, model = self._composer, self._context.model
        if self._context.is_auto or model is None:
            return False
        other = self._other_than(model, text)
        if other is None:
            return False
        choices: list[tuple[str, Callable[[], object]]] = [
            (tr("Ask {model}", model=other.title), partial(self._ask_other, other.id))
        ]
        if model.traits.prompt_format == "text" and not composer.pictures.pictures:
            title = tr("Ask {model} anyway", model=title_of(model))
            choices.append((title, lambda: self._send(composer.text, anyway=True)))
        if composer.pictures.pictures:
            said = cannot_see(title_of(model))
        elif has_gaps(text) and not self._can_fill(model):
            said = tr("{model} cannot fill in gaps: it does not write by block diffusion.", model=title_of(model))
        else:
            said = tr("{model} was not made for this: what it writes would be a guess.", model=title_of(model))
        self._notice.show_question(said, choices)
        self._offer = self._notice.choices
        return True

    def _other_than(self, model: LoadedModel, text: str) -> EmbeddedModel | None:
        pictures = bool(self._composer.pictures.pictures)
        if pictures and text.strip() and not model.capabilities.images:
            return model_for(text, has_pictures=True)
        if not pictures and has_gaps(text):
            is_taught = model.path_or_id == GAPS or not model.traits.wants_wording
            return None if self._can_fill(model) and is_taught else model_for(text)
        return None if pictures or self._composer.attachments else better_model(model.traits, text)

    def _can_fill(self, model: LoadedModel) -> bool:
        """Returns True if a model can fill in gaps."""
        return can_fill(model, self._context.values.config(model.defaults))

    def _ask_other(self, path_or_id: str) -> None:
        """Loads another model for the draft, which is sent once it is there."""
        self._context.load(path_or_id)
        self._send(self._composer.text)

    @Slot()
    def _withdraw(self) -> None:
        """Hides the question about the draft as soon as that changes; other questions stay."""
        if self._notice.is_asking and self._notice.choices is self._offer:
            self._notice.hide()
