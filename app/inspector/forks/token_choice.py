"""The choice of a token for the selected cell: a recorded candidate, or any text that is one token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Slot

from app.canvas.words import token_words
from app.design.choice_box import ChoiceBox
from app.inspector.words import chance_words
from app.player.player import Player
from app.system.i18n import tr
from engine import SafelightError

Encode = Callable[[str], Sequence[int]]


class TokenChoice(ChoiceBox):
    """An editable list of the candidates of the step that comes next. ``encode`` is None without the run's model."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self._player = player
        self.encode: Encode | None = None
        self.setEditable(True)
        self.setInsertPolicy(ChoiceBox.InsertPolicy.NoInsert)
        self.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(6)
        self.setAccessibleName(tr("Token"))
        self.setToolTip(tr("One of the recorded candidates, or any text that is one token"))
        for signal in (player.opened, player.placed, player.selected):
            signal.connect(self._offer)
        self._offer()

    @Slot()
    def _offer(self, _position: int = 0) -> None:
        """Offers the selected cell's candidates; a text that was typed stays."""
        player, record, kept = self._player, self._player.block, "" if self.listed is not None else self.currentText()
        self.clear()
        position, frame = player.selection, player.frame
        if frame is not None and record is not None and record.steps and 0 <= position < record.length:
            tokens, shares = record.top_tokens, record.top_probabilities
            if tokens is not None and shares is not None:
                step = min(frame.step + 1, record.steps - 1)
                for token, share in zip(tokens[step, position], shares[step, position], strict=True):
                    self.addItem(f"{token_words(player.piece(int(token)))}  {chance_words(float(share))}", int(token))
        if kept or not self.count():
            self.setEditText(kept)

    @property
    def listed(self) -> int | None:
        """The candidate that is chosen from the list; None if a text was typed, or nothing was chosen."""
        index = self.currentIndex()
        is_listed = index >= 0 and self.currentText() == self.itemText(index)
        return int(self.itemData(index)) if is_listed else None

    def token(self) -> int:
        """Returns the token that is chosen or typed.

        Raises:
            SafelightError: the text is not one token.
        """
        if self.listed is not None:
            return self.listed
        text = self.currentText()
        if self.encode is None:
            raise SafelightError(tr("Load the model of this run to type a token, or choose a recorded one."))
        ids = self.encode(text) if text else []
        if len(ids) != 1:
            raise SafelightError(
                tr("{text} is {count} tokens; it must be one.", text=token_words(text), count=len(ids))
            )
        return int(ids[0])
