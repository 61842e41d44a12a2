"""Fields for the decoding of runs, with mixed decoding and a decoder's own choices where the model has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QWidget

from app.design.choice_box import ChoiceBox
from app.design.controls import label
from app.design.layouts import boxed, column_of
from app.settings.decoders import CHOICES, OWN_DECODING, DecodingChoice, can_mix, options_of
from app.settings.fields import choice_box, flag_box, show_decoders, show_options
from app.settings.spec import (
    ANSWER_DECODER,
    DECODER,
    RESCUE,
    RESCUE_EXPLANATION,
    THOUGHT_DECODER,
    VERIFY,
    VERIFY_EXPLANATION,
    Choice,
)
from app.system.i18n import tr
from engine.decoding.names import MIXABLE


class DecodingFields(QWidget):
    """Edits a ``DecodingChoice`` and emits ``changed``; fields that are not offered keep their values."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.choice = OWN_DECODING
        self._decoders: tuple[str, ...] = ()
        self._thinks = self._checks = True
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
        self.chosen = {choice: choice_box(choice) for choice in CHOICES}
        self._chosen_rows: dict[Choice, QWidget] = {}
        for choice, box in self.chosen.items():
            about = label(tr(choice.explanation), "caption", wrap=True)
            self._chosen_rows[choice] = self._add(choice.label, box, about)
            box.currentIndexChanged.connect(self._mix)
        self.decoder.currentIndexChanged.connect(self._choose)

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

    def offer(self, *, thinks: bool, checks: bool) -> None:
        """Offers the decoding of thoughts, and to verify and rescue blocks, only where a model gains from it."""
        self._thinks, self._checks = thinks, checks
        self._show()

    def _show(self) -> None:
        self._filling = True
        decoders, shown = self._decoders, self.choice.among(self._decoders)
        show_decoders(self.decoder, decoders, shown.decoder)
        for declared, box, name in (
            (THOUGHT_DECODER, self.thought_decoder, shown.thought_decoder),
            (ANSWER_DECODER, self.answer_decoder, shown.answer_decoder),
        ):
            show_decoders(box, ("", *MIXABLE), name, tr("Same as Decoding"))
            box.setAccessibleDescription(tr(declared.explanation))
        self.rescue.setChecked(self.choice.rescue)
        self.verify.setChecked(self.choice.verify)
        for choice, box in self.chosen.items():
            show_options(box, options_of(choice, shown.decoder), getattr(shown, choice.name))
        self._show_rows(shown)
        self.about_decoder.setText(self.decoder.toolTip())
        self._filling = False

    def _show_rows(self, shown: DecodingChoice) -> None:
        """Shows the fields that the model supports, and those that are set although it gains nothing from them."""
        has_decoders, mixes = len(self._decoders) > 1, can_mix(self._decoders)
        mixed = mixes and (self._thinks or bool(shown.thought_decoder or shown.answer_decoder))
        rows = [(self._choosing, has_decoders), *((row, mixed) for row in self._mixing)]
        for row, is_on in zip(self._of_blocks, (shown.rescue, shown.verify), strict=True):
            rows.append((row, mixes and shown.denoises and (self._checks or is_on)))
        rows += [(row, bool(options_of(choice, shown.decoder))) for choice, row in self._chosen_rows.items()]
        for row, is_shown in rows:
            row.setVisible(is_shown)
        self.setVisible(any(is_shown for _, is_shown in rows))

    @Slot()
    def _choose(self) -> None:
        chosen = self.decoder.currentData()
        self._take(replace(self.choice, decoder="" if self._decoders[:1] == (chosen,) else chosen))

    @Slot()
    def _mix(self) -> None:
        thought, answer = self.thought_decoder.currentData(), self.answer_decoder.currentData()
        rescue, verify = self.rescue.isChecked(), self.verify.isChecked()
        chosen = {choice.name: box.currentData() or "" for choice, box in self.chosen.items()}
        self._take(DecodingChoice(self.choice.decoder, thought, answer, rescue, verify, **chosen))

    def _take(self, choice: DecodingChoice) -> None:
        if not self._filling:
            self.choice = choice
            self._show()
            self.changed.emit()
