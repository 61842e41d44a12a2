"""Sends the composer's draft, or lets it wait for its model. A draft that cannot be sent stays in the composer."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Slot

from app.chat.commands import TurnCommands
from app.chat.composer.composer import Composer
from app.context import AppContext, Waiting
from app.state.chat.attachment import AttachedPicture, Attachment
from app.state.chat.conversation import Turn
from app.state.chat.prompts import prepare_with_files
from app.state.chat.rewriting import Rewriting, can_fill, of_draft
from app.system.i18n import tr
from engine import SafelightError, catalog
from engine.catalog import SMALL


class Sending(QObject):
    """Any change of a draft that waits takes it back, so that no half-written text is sent."""

    def __init__(self, context: AppContext, composer: Composer, commands: TurnCommands) -> None:
        super().__init__(composer)
        self._context, self._composer, self._commands = context, composer, commands
        self._loading = Waiting(context, self)
        self._loading.ended.connect(lambda: composer.wait(False))
        self.take_back = self._loading.end  # the text stays in the composer as a draft
        composer.submitted.connect(self.send)
        composer.changed.connect(self.take_back)
        composer.taken_back.connect(self.take_back)
        context.session.returned.connect(self._put_back)

    @property
    def is_waiting(self) -> bool:
        """True if a draft waits for its model."""
        return self._loading.is_on

    @Slot(str)
    def send(self, text: str) -> None:
        """Sends the draft to the model; if the model is still loading, lets the draft wait for it."""
        composer = self._composer
        if self._context.loading is not None:
            self._wait(text, self._context.loading.path_or_id)
        elif composer.meter.problem:
            composer.say(composer.meter.problem)
        elif self._ask(text, composer.attachments, composer.pictures.pictures):
            composer.clear()

    def _wait(self, text: str, model: str) -> None:
        """Lets the draft wait for a model, if that model can read it."""
        composer = self._composer
        try:
            if model != SMALL or not composer.attachments:  # a file may be a puzzle, which needs no text
                traits = catalog.traits(Path(model).name)
                prepare_with_files(traits, text, composer.attachments, len(composer.pictures.pictures))
        except SafelightError as error:
            composer.say(str(error))
        else:
            self._loading.begin(model, lambda: self.send(composer.text))
            composer.wait(True)

    @Slot(str)
    def pick(self, prompt: str) -> None:
        """Sends a suggested prompt, or puts it into the composer if it cannot be sent now."""
        if self._context.reason_to_wait():
            self._composer.set_text(prompt)
        else:
            self._ask(prompt)
        self._composer.edit.setFocus()

    def revise(self) -> None:
        """Sends the draft to be revised; the answer shows what has changed."""
        composer, model = self._composer, self._context.model
        try:
            how = of_draft(composer.text)
        except SafelightError as error:
            composer.say(str(error))
            return
        if not self._commands.can_ask() or model is None:
            return
        if not can_fill(model):
            composer.say(tr("{model} cannot revise a text: it does not write by block diffusion.", model=model.title))
        elif self._ask(composer.text.strip(), how=how):
            composer.clear()

    def _ask(
        self,
        text: str,
        files: tuple[Attachment, ...] = (),
        pictures: tuple[AttachedPicture, ...] = (),
        how: Rewriting | None = None,
    ) -> bool:
        model = self._context.model
        if not self._commands.can_ask() or model is None:
            return False
        try:
            self._context.session.ask(text, files, model, pictures, how)
        except SafelightError as error:
            self._composer.say(str(error))
            return False
        self._composer.edit.history.remember(text)
        return True

    @Slot(object, str)
    def _put_back(self, turn: Turn, why: str) -> None:
        """Puts a prompt that could not be sent back into an empty composer, and shows the reason."""
        composer = self._composer
        if not composer.is_empty:
            if why:
                self._context.say(why)
            return
        composer.pictures.set_pictures(turn.pictures)
        composer.files.set_attachments(turn.attachments)
        composer.set_text(turn.prompt)  # a long prompt may become a file
        if why:
            composer.say(why)
