"""Fields for the decoding of runs, with those of mixed decoding and of remasking if the model supports these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from app.design.controls import label
from app.design.layouts import boxed, column_of
from app.settings.decoders import BLOCK_CAUSAL, OWN_DECODING, DecodingChoice, can_mix
from app.settings.fields import choice_box, flag_box, show_decoders
from app.settings.spec import (
    ANSWER_DECODER,
    DECODER,
    REMASKING,
    RESCUE,
    RESCUE_EXPLANATION,
    THOUGHT_DECODER,
    VERIFY,
    VERIFY_EXPLANATION,
)
from app.system.i18n import tr
from engine.decoding.names import MIXABLE


class DecodingFields(QWidget):
    """Edits a ``DecodingChoice`` and emits ``changed``; fields that are not offered keep their values.

    With ``offers_own`` the choice may be for another model than the present one: "The model's own" is offered, and
    the decoders that the choice already names. Otherwise it is for the present model, whose own decoder is offered by
    name.
    """

    changed = Signal()

    def __init__(self, *, offers_own: bool) -> None:
        super().__init__()
        self.choice = OWN_DECODING
        self._offers_own = offers_own
        self._decoders: tuple[str, ...] = ()
        self._filling = False
        self._column = column_of(spacing=16)
        self.setLayout(self._column)
        self.decoder, self.thought_decoder = choice_box(DECODER), choice_box(THOUGHT_DECODER)
        self.answer_decoder = choice_box(ANSWER_DECODER)
        self.rescue = flag_box("rescue", RESCUE, RESCUE_EXPLANATION)
        self.verify = flag_box("verify", VERIFY, VERIFY_EXPLANATION)
        self.about_decoder = label("", "caption", wrap=True)
        self._choosing = self._add(DECODER.label, self.decoder, self.about_decoder)
        self._mixing: list[QWidget] = []
        for declared, box in ((THOUGHT_DECODER, self.thought_decoder), (ANSWER_DECODER, self.answer_decoder)):
            self._mixing.append(self._add(declared.label, box, label(tr(declared.explanation), "caption", wrap=True)))
            box.currentIndexChanged.connect(self._mix)
        self._of_blocks: list[QWidget] = []
        for flag, explanation in ((self.rescue, RESCUE_EXPLANATION), (self.verify, VERIFY_EXPLANATION)):
            self._of_blocks.append(self._add("", flag, label(tr(explanation), "caption", wrap=True)))
            flag.toggled.connect(self._mix)
        self.remasking = choice_box(REMASKING)
        about_remasking = label(tr(REMASKING.explanation), "caption", wrap=True)
        self._remasking_row = self._add(REMASKING.label, self.remasking, about_remasking)
        self.remasking.currentIndexChanged.connect(self._mix)
        self.decoder.currentIndexChanged.connect(self._choose)

    def _add(self, title: str, *widgets: QWidget) -> QWidget:
        heading = [label(tr(title), "setting")] if title else []
        row = boxed(column_of(*heading, *widgets, spacing=4))
        self._column.addWidget(row)
        return row

    def show_choice(self, choice: DecodingChoice, decoders: Sequence[str]) -> None:
        """Shows a choice for a model with these decoders, its own first, without emitting ``changed``."""
        self.choice, self._decoders = choice, tuple(decoders)
        self._show()

    def _show(self) -> None:
        self._filling = True
        decoders, shown = self._decoders, self.choice
        if self._offers_own:
            offered = tuple(dict.fromkeys(("", *decoders, shown.decoder)))
            show_decoders(self.decoder, offered, shown.decoder, tr("The model's own"))
            has_decoders = len(decoders) > 1 or bool(shown.decoder)
            mixes = can_mix(decoders) or bool(shown.changes.keys() - {DECODER.name, REMASKING.name})
        else:
            shown = shown.among(decoders)
            show_decoders(self.decoder, decoders, shown.decoder)
            has_decoders, mixes = len(decoders) > 1, can_mix(decoders)
        for declared, box, name in (
            (THOUGHT_DECODER, self.thought_decoder, shown.thought_decoder),
            (ANSWER_DECODER, self.answer_decoder, shown.answer_decoder),
        ):
            show_decoders(box, ("", *MIXABLE), name, tr("As under Decoding"))
            box.setAccessibleDescription(tr(declared.explanation))
        self.rescue.setChecked(self.choice.rescue)
        self.verify.setChecked(self.choice.verify)
        self.remasking.setCurrentIndex(self.remasking.findData(self.choice.remasking))
        remasks = (shown.decoder or next(iter(decoders), "")) == BLOCK_CAUSAL or REMASKING.name in shown.changes
        self._remasking_row.setVisible(remasks)
        self._choosing.setVisible(has_decoders)
        for row in self._mixing:
            row.setVisible(mixes)
        for row in self._of_blocks:
            row.setVisible(mixes and shown.denoises)
        self.about_decoder.setText(self.decoder.toolTip())
        self.setVisible(has_decoders or mixes or remasks)
        self._filling = False

    @Slot()
    def _choose(self) -> None:
        chosen = self.decoder.currentData()
        is_own = not self._offers_own and self._decoders[:1] == (chosen,)
        self._take(replace(self.choice, decoder="" if is_own else chosen))

    @Slot()
    def _mix(self) -> None:
        thought, answer = self.thought_decoder.currentData(), self.answer_decoder.currentData()
        rescue, verify = self.rescue.isChecked(), self.verify.isChecked()
        remasking = self.remasking.currentData()
        self._take(DecodingChoice(self.choice.decoder, thought, answer, rescue, verify, remasking))

    def _take(self, choice: DecodingChoice) -> None:
        if not self._filling:
            self.choice = choice
            self._show()
            self.changed.emit()
