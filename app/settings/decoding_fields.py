"""Fields for the decoding of runs: a model's decoder, and what belongs to block diffusion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from app.design.choice_box import ChoiceBox
from app.design.controls import label
from app.design.layouts import boxed, column_of
from app.settings.decoders import OWN_DECODING, DecodingChoice
from app.settings.fields import choice_box, flag_box, show_decoders
from app.settings.spec import ACCEPTANCE, DECODER, TOKEN_THOUGHTS, TOKEN_THOUGHTS_EXPLANATION
from app.system.i18n import tr
from engine.decoders import BLOCK_DIFFUSION, BY_TOKEN


class DecodingFields(QWidget):
    """Edits a ``DecodingChoice`` and emits ``changed``; fields that are not offered keep their values."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.choice = OWN_DECODING
        self._decoders: tuple[str, ...] = ()
        self._thinks, self._filling = True, False
        self._column = column_of(spacing=16)
        self.setLayout(self._column)
        self.decoder, self.acceptance = choice_box(DECODER), choice_box(ACCEPTANCE)
        self.token_thoughts = flag_box("token_thoughts", TOKEN_THOUGHTS, TOKEN_THOUGHTS_EXPLANATION)
        self.about_decoder = label("", "caption", wrap=True)
        self._choosing = self._add(DECODER.label, self.decoder, self.about_decoder)
        self._thinking = self._add("", self.token_thoughts, label(tr(TOKEN_THOUGHTS_EXPLANATION), "caption", wrap=True))
        self._accepting = self._add(
            ACCEPTANCE.label, self.acceptance, label(tr(ACCEPTANCE.explanation), "caption", wrap=True)
        )
        self.decoder.currentIndexChanged.connect(self._take)
        self.acceptance.currentIndexChanged.connect(self._take)
        self.token_thoughts.toggled.connect(self._take)

    def _add(self, title: str, *widgets: QWidget) -> QWidget:
        for box in widgets:
            if isinstance(box, ChoiceBox):  # elides long titles, so that the drawer stays as wide as it is
                box.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
                box.setMinimumContentsLength(12)
        heading = [label(tr(title), "setting")] if title else []
        row = boxed(column_of(*heading, *widgets, spacing=4))
        self._column.addWidget(row)
        return row

    def show_choice(self, choice: DecodingChoice, decoders: Sequence[str]) -> None:
        """Shows a choice for a model with these decoders, its own first, without emitting ``changed``."""
        self.choice, self._decoders = choice, tuple(decoders)
        self._show()

    def offer(self, *, thinks: bool) -> None:
        """Offers the decoding of thoughts only where a model thinks."""
        self._thinks = thinks
        self._show()

    def _show(self) -> None:
        self._filling = True
        decoders, shown = self._decoders, self.choice.among(self._decoders)
        show_decoders(self.decoder, decoders, shown.decoder)
        self.about_decoder.setText(self.decoder.toolTip())
        self.token_thoughts.setChecked(self.choice.token_thoughts)
        self.acceptance.setCurrentIndex(self.acceptance.findData(shown.acceptance))
        denoises = shown.decoder == BLOCK_DIFFUSION
        self._choosing.setVisible(len(decoders) > 1)
        self._thinking.setVisible(denoises and BY_TOKEN in decoders and (self._thinks or shown.token_thoughts))
        self._accepting.setVisible(denoises)
        self.setVisible(len(decoders) > 1 or denoises)
        self._filling = False

    @Slot()
    def _take(self) -> None:
        if self._filling:
            return
        chosen = self.decoder.currentData()
        decoder = "" if chosen is None or self._decoders[:1] == (chosen,) else chosen
        rule = self.acceptance.currentData()
        self.choice = replace(
            self.choice, decoder=decoder, token_thoughts=self.token_thoughts.isChecked(), acceptance=rule or ""
        )
        self._show()
        self.changed.emit()
