"""A revised answer with its changes, each of which can be accepted or rejected."""

from __future__ import annotations

import html
from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLabel, QWidget

from app.chat.markdown_view.widget import PAD
from app.design import themes
from app.design.controls import button, flow_of, introduce, label
from app.design.layouts import column_of
from app.design.tokens import Theme
from app.state.chat.rewriting import Stretch, merged, places_of_changes
from app.system.i18n import tr, trn


class Changes(QLabel):
    """The text with its changes. A click toggles one; ← and → go through them, Space toggles the marked one."""

    toggled = Signal(int)  # the number of a change
    moved = Signal(int)  # by so many changes

    def __init__(self) -> None:
        super().__init__(
            wordWrap=True,
            textFormat=Qt.TextFormat.RichText,  # of texts that are escaped
            textInteractionFlags=Qt.TextInteractionFlag.LinksAccessibleByMouse,
        )
        introduce(self, tr("Changes of the answer"), role="prose")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.linkActivated.connect(lambda number: self.toggled.emit(int(number)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        if event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            super().keyPressEvent(event)
        elif event.key() in steps:
            self.moved.emit(steps[Qt.Key(event.key())])
        elif event.key() in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.toggled.emit(-1)
        else:
            super().keyPressEvent(event)


class RevisionReview(QWidget):
    """Shows a revision. ``used`` emits the text with the accepted changes, all of which are accepted at first."""

    used = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._stretches: Sequence[Stretch] = ()
        self._places: list[int] = []
        self._accepted: set[int] = set()
        self._at = 0  # the number of the marked change
        self.changes = Changes()
        self.changes.toggled.connect(self._toggle)
        self.changes.moved.connect(self._move)
        self.said = label("", "caption", wrap=True)
        self.use = button(
            tr("Use this text"),
            tr("Use the text with the accepted changes"),
            role="primary",
            clicked=lambda: self.used.emit(merged(self._stretches, self._accepted)),
        )
        all_of_them, none_of_them = (lambda: self._accept(self._places)), (lambda: self._accept(()))
        self.all = button(tr("Accept all"), tr("Accept all changes"), role="plain", clicked=all_of_them)
        self.none = button(tr("Reject all"), tr("Reject all changes"), role="plain", clicked=none_of_them)
        buttons = flow_of(self.use, self.all, self.none)
        self.setLayout(column_of(self.changes, self.said, buttons, margins=(PAD, 0, PAD, 0), spacing=8))
        themes.changed.connect(self._paint)

    def set_changes(self, stretches: Sequence[Stretch]) -> None:
        """Shows two texts by their differences."""
        self._stretches, self._places, self._at = stretches, places_of_changes(stretches), 0
        self._accept(self._places)

    def _accept(self, places: Sequence[int]) -> None:
        """Accepts the changes at these places, and rejects all others."""
        self._accepted = set(places)
        self._paint()

    @Slot(int)
    def _toggle(self, number: int) -> None:
        """Accepts or rejects a change; -1 is the marked one."""
        if self._places:
            self._at = self._at if number < 0 else min(number, len(self._places) - 1)
            self._accepted ^= {self._places[self._at]}
            self._paint()

    @Slot(int)
    def _move(self, by: int) -> None:
        self._at = max(0, min(self._at + by, len(self._places) - 1))
        self._paint()

    @Slot()
    def _paint(self) -> None:
        theme, numbers = themes.current(), {place: number for number, place in enumerate(self._places)}
        parts = [
            _change(one, numbers[place], place in self._accepted, numbers[place] == self._at, theme)
            if place in numbers
            else html.escape(one.old)
            for place, one in enumerate(self._stretches)
        ]
        self.changes.setText(f'<div style="white-space: pre-wrap">{"".join(parts)}</div>')
        count = len(self._places)
        if not count:
            self.said.setText(tr("Nothing has changed. More noise changes more."))
        else:
            changes = trn("{count} change", "{count} changes", count)
            accepted = tr("{changes}, {accepted} accepted.", changes=changes, accepted=len(self._accepted))
            keys = tr("A click accepts or rejects one; so do the arrow keys and Space.")
            self.said.setText(f"{accepted} {keys}")
            self.changes.setAccessibleDescription(f"{self._marked()} {accepted}")
        self.all.setEnabled(len(self._accepted) < count)
        self.none.setEnabled(bool(self._accepted))

    def _marked(self) -> str:
        place = self._places[self._at]
        old, new = self._stretches[place].old, self._stretches[place].new
        state = tr("accepted") if place in self._accepted else tr("rejected")
        return tr(
            "Change {number} of {count}: “{old}” becomes “{new}”, {state}.",
            number=self._at + 1,
            count=len(self._places),
            old=old,
            new=new,
            state=state,
        )


def _change(change: Stretch, number: int, is_accepted: bool, is_marked: bool, theme: Theme) -> str:
    """Returns a change as markup: what stays is underlined, what goes is struck out."""
    ground = f"background-color: {theme.selection};" if is_marked else ""
    stays = f"color: {theme.accepted if is_accepted else theme.ink}; text-decoration: underline; {ground}"
    goes = f"color: {theme.faint_ink}; text-decoration: line-through; {ground}"
    styles = (goes, stays) if is_accepted else (stays, goes)
    texts = (
        f'<span style="{style}">{html.escape(text)}</span>'
        for style, text in zip(styles, (change.old, change.new), strict=True)
        if text
    )
    return f'<a href="{number}" style="text-decoration: none">{"".join(texts)}</a>'
