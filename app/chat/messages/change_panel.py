"""The panel under an answer that asks how a part of it, or all of it, is to be written again."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QSlider, QWidget

from app.chat.messages.prompt_editor import EditField
from app.chat.prose.widget import PAD
from app.design.controls import Elided, button, flow_of, group, label, restyle
from app.design.fonts import px
from app.design.layouts import column_of
from app.state.chat.rewriting import LEAST_NOISE, MOST_NOISE, USUAL_NOISE, Kind
from app.system.i18n import tr

STEP = 5  # percent of noise that an arrow key adds
SLIDER = 160  # pixels at 100 %


def offered() -> tuple[tuple[str, Kind], ...]:
    """Returns what can be done with a selected part, by title."""
    return (
        (tr("Rewrite"), "rewrite"),
        (tr("Shorten"), "shorten"),
        (tr("Fill in"), "fill"),
        (tr("Continue from here"), "continue"),
    )


class ChangePanel(QWidget):
    """A field for a wish, which may stay empty, and buttons: for a selected part, or to revise the whole answer."""

    picked = Signal(str, str)  # a ``Kind``, and the wish
    revised = Signal(float, str)  # the share of noise, and the wish
    cancelled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._is_revision = False
        self.about = Elided("caption")
        self.wish = EditField()
        self.wish.setAccessibleName(tr("What should change"))
        self.wish.setPlaceholderText(tr("What should change? (optional)"))
        self.wish.submitted.connect(self._submit)
        self.wish.cancelled.connect(self.cancelled)
        self.wish.focus_changed.connect(self._mark_focus)
        self._frame = QFrame()
        self._frame.setProperty("role", "field")
        self._frame.setLayout(column_of(self.wish, margins=(12, 8, 12, 8)))
        self.kinds = [
            button(title, role="plain" if place else "primary", clicked=partial(self._pick, kind))
            for place, (title, kind) in enumerate(offered())
        ]
        self.noise = QSlider(Qt.Orientation.Horizontal)
        self.noise.setRange(round(100 * LEAST_NOISE), round(100 * MOST_NOISE))
        self.noise.setSingleStep(STEP)
        self.noise.setPageStep(2 * STEP)
        self.noise.setFixedWidth(px(SLIDER))
        self.noise.setAccessibleName(tr("Noise, in percent of the answer"))
        self.noise.setToolTip(tr("A little noise changes some words, much noise writes most of the answer again"))
        self.noise.valueChanged.connect(self._show_noise)
        self.share = label("", "caption")
        self.revise = button(tr("Revise"), tr("Revise with this noise"), role="primary", clicked=self._submit)
        self.cancel = button(tr("Cancel"), tr("Leave the answer as it is"), role="plain", clicked=self.cancelled)
        self._share = group(self.noise, self.share)
        buttons = flow_of(*self.kinds, self.revise, self.cancel)
        share = (self._share, 0, Qt.AlignmentFlag.AlignLeft)
        self.setLayout(column_of(self.about, self._frame, share, buttons, margins=(PAD, 4, PAD, 4), spacing=8))
        self.noise.setValue(round(100 * USUAL_NOISE))

    def ask_about(self, part: str) -> None:
        """Asks about a selected part of the answer; about all of it where there is none."""
        self._is_revision = not part
        line = " ".join(part.split())
        self.about.set_whole(tr("Change “{part}”", part=line) if part else tr("Revise the whole answer"))
        for one in self.kinds:
            one.setVisible(bool(part))
        for other in (self._share, self.revise):
            other.setVisible(not part)
        self.wish.setPlainText("")
        self.show()
        self.wish.setFocus()

    def set_can_ask(self, can_ask: bool) -> None:
        """Sets whether an answer can be written now."""
        for one in (*self.kinds, self.revise):
            one.setEnabled(can_ask)

    def tab_stops(self) -> list[QWidget]:
        return [self.wish, *self.kinds, self.noise, self.revise, self.cancel]

    @property
    def _said(self) -> str:
        return self.wish.raw().strip()

    def _pick(self, kind: Kind, _is_checked: bool = False) -> None:
        self.wish.commit()
        self.picked.emit(kind, self._said)

    @Slot()
    def _submit(self) -> None:
        if not self.revise.isEnabled():
            return
        if self._is_revision:
            self.wish.commit()
            self.revised.emit(self.noise.value() / 100, self._said)
        else:
            self._pick("rewrite")

    @Slot(int)
    def _show_noise(self, percent: int) -> None:
        self.share.setText(tr("{percent} % noise", percent=percent))

    @Slot(bool)
    def _mark_focus(self, focused: bool) -> None:
        restyle(self._frame, "active", focused)
