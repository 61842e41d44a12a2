"""Changes of one answer: its panel, the entries of its menu, and the review of a revision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QApplication, QSlider, QWidget

from app.bridge.background import Background
from app.chat.commands import TurnCommands
from app.chat.markdown_view.widget import PAD, MarkdownView
from app.chat.messages.prompt_editor import EditField
from app.chat.messages.review import RevisionReview
from app.design.controls import Elided, button, flow_of, group, introduce, label
from app.design.fonts import px
from app.design.layouts import column_of
from app.design.text_field import framed
from app.state.chat.conversation import Answer, Turn
from app.state.chat.rewriting import (
    LEAST_NOISE,
    MAX_NOISE,
    USUAL_NOISE,
    Kind,
    Stretch,
    differences,
    of_selection,
    revision,
    source_span,
)
from app.system.i18n import tr
from engine import SafelightError

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
        self.wish = introduce(EditField(), tr("What should change"))
        self.wish.setPlaceholderText(tr("What should change? (optional)"))
        self.wish.submitted.connect(self._submit)
        self.wish.cancelled.connect(self.cancelled)
        self.kinds = [
            button(title, role="plain" if place else "primary", clicked=partial(self._pick, kind))
            for place, (title, kind) in enumerate(offered())
        ]
        self.noise = introduce(
            QSlider(Qt.Orientation.Horizontal),
            tr("Noise, in percent of the answer"),
            tip=tr("A little noise changes some words, much noise writes most of the answer again"),
        )
        self.noise.setRange(round(100 * LEAST_NOISE), round(100 * MAX_NOISE))
        self.noise.setSingleStep(STEP)
        self.noise.setPageStep(2 * STEP)
        self.noise.setFixedWidth(px(SLIDER))
        self.share = label("", "caption")
        self.noise.valueChanged.connect(lambda now: self.share.setText(tr("{percent} % noise", percent=now)))
        self.revise = button(tr("Revise"), tr("Revise with this noise"), role="primary", clicked=self._submit)
        self.cancel = button(tr("Cancel"), tr("Leave the answer as it is"), role="plain", clicked=self.cancelled)
        self._share = group(self.noise, self.share)
        buttons = flow_of(*self.kinds, self.revise, self.cancel)
        wished = framed(self.wish, column_of(self.wish, margins=(12, 8, 12, 8)))
        share = (self._share, 0, Qt.AlignmentFlag.AlignLeft)
        self.setLayout(column_of(self.about, wished, share, buttons, margins=(PAD, 4, PAD, 4), spacing=8))
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
        for one in (*self.kinds, self.revise):
            one.setEnabled(can_ask)

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


class AnswerChanging(QWidget):
    """Offers changes of the shown answer of a turn, whose text ``prose`` shows. Its parts are made at first use.

    ``shown`` is called when the review came or went, ``rebuilt`` when there are other controls.
    """

    def __init__(
        self,
        turn: Turn,
        prose: MarkdownView,
        commands: TurnCommands,
        shown: Callable[[], object],
        rebuilt: Callable[[], object],
    ) -> None:
        super().__init__()
        self._turn, self._prose, self._commands = turn, prose, commands
        self._shown, self._rebuilt = shown, rebuilt
        self._can_ask = True
        self._span: tuple[int, int] | None = None  # of the selection, in the source
        self._compared: Answer | None = None  # the answer in the review
        self._comparing: Background | None = None
        self.panel: ChangePanel | None = None
        self.review: RevisionReview | None = None
        self._column = column_of(spacing=8)
        self.setLayout(self._column)
        prose.entered.connect(self.open_panel)
        self.hide()

    @property
    def is_reviewing(self) -> bool:
        """True if the changes of the shown answer stand in place of its text."""
        return self.review is not None and self._compared is self._turn.answer and bool(self._turn.answer.revised)

    def set_can_ask(self, can_ask: bool) -> None:
        self._can_ask = can_ask
        if self.panel is not None:
            self.panel.set_can_ask(can_ask)

    def show_answer(self, *, is_seen: bool) -> None:
        """Follows the shown answer, which ``is_seen`` as text, not as a canvas."""
        answer = self._turn.answer
        may_change = is_seen and bool(answer.text.strip()) and self._commands.can_change(self._turn)
        entries = [(title, partial(self._change_selection, kind)) for title, kind in offered()]
        self._prose.offers = (*entries, (tr("Change with a wish…"), self.open_panel)) if may_change else ()
        if self.panel is not None and not may_change:
            self.panel.hide()
        if answer.revised and answer is not self._compared:
            self._compared = answer
            self._comparing = self._comparing or Background(self, self._review)
            self._comparing.ask(lambda: differences(answer.revised, answer.text))
        if self.review is not None:
            self.review.setVisible(self.is_reviewing and is_seen)
        self._show()

    def _show(self) -> None:
        self.setVisible(any(part is not None and not part.isHidden() for part in (self.panel, self.review)))

    @Slot()
    def open_panel(self) -> None:
        """Asks how to change the selected part, or without one the whole answer."""
        if not self._commands.can_change(self._turn) or self._turn.answer.is_active:
            return
        part = self._prose.selected_text()
        if part and not self._find():
            return
        if self.panel is None:
            self.panel = ChangePanel()
            self.panel.picked.connect(self._change)
            self.panel.revised.connect(self._revise)
            self.panel.cancelled.connect(self._close)
            self.panel.set_can_ask(self._can_ask)
            self._column.addWidget(self.panel)
        self.panel.ask_about(part)
        self._show()
        self._rebuilt()

    @Slot()
    def _close(self) -> None:
        if self.panel is not None:
            self.panel.hide()
        self._show()
        self._prose.setFocus()

    def _find(self) -> bool:
        """Notes the place of the selection in the source; says so if it is not found there."""
        self._span = source_span(
            self._turn.answer.text, self._prose.text_before_selection(), self._prose.selected_text()
        )
        if self._span is None:
            self._commands.say(
                tr("This part cannot be found in the answer's source. Select whole words of plain text.")
            )
        return self._span is not None

    def _change_selection(self, kind: Kind) -> None:
        if self._find():
            self._change(kind, "")

    @Slot(str, str)
    def _change(self, kind: Kind, said: str) -> None:
        if self._span is not None:
            self._commands.rewrite(self._turn, of_selection(kind, self._turn.answer.text, *self._span, said))

    @Slot(float, str)
    def _revise(self, noise: float, said: str) -> None:
        try:
            how = revision(self._turn.answer.text, noise, said)
        except SafelightError as error:
            self._commands.say(str(error))
        else:
            self._commands.rewrite(self._turn, how)

    @Slot(object)
    def _review(self, stretches: object) -> None:
        if self.review is None:
            self.review = RevisionReview()
            self.review.used.connect(self._use)
            self._column.insertWidget(0, self.review)
        self.review.set_changes(cast(Sequence[Stretch], stretches))
        focus, around = QApplication.focusWidget(), self.parentWidget()
        self._shown()
        self._rebuilt()
        if focus is not None and around is not None and around.isAncestorOf(focus) and self.review.isVisible():
            self.review.changes.setFocus()

    @Slot(str)
    def _use(self, text: str) -> None:
        answer = self._turn.answer
        answer.is_reviewed = True
        if text == answer.text:
            self._shown()
        else:
            self._commands.put(self._turn, text)
        self._prose.setFocus()
