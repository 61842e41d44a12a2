"""Keeps the keyboard focus in its place on the path while turns are added and removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from PySide6.QtWidgets import QApplication, QWidget

from app.chat.messages.versions import VersionSwitch
from app.design.controls import usable
from app.state.chat.conversation import Turn

if TYPE_CHECKING:
    from app.chat.messages.turn import TurnView

ViewOf: TypeAlias = "Callable[[Turn], TurnView | None]"


@dataclass(frozen=True)
class FocusPlace:
    """The turn that has the focus, its index on the path, and the names of controls that may get it, best first."""

    turn: Turn
    at: int
    names: tuple[str, ...]

    @classmethod
    def of(cls, path: Sequence[Turn], view_of: ViewOf) -> FocusPlace | None:
        """Returns the present place of the focus; None if no turn has it."""
        focus = QApplication.focusWidget()
        at = next((at for at, turn in enumerate(path) if _holds(view_of(turn), focus)), None)
        if at is None or focus is None:
            return None
        switch = focus.parentWidget()
        others = (switch.before, switch.after) if isinstance(switch, VersionSwitch) else ()
        return cls(path[at], at, tuple(widget.accessibleName() for widget in (focus, *others)))

    def keep(self, path: Sequence[Turn], view_of: ViewOf, otherwise: QWidget) -> None:
        """Gives the focus to the same control of the turn now at this index, or else to the widget ``otherwise``.

        Another version of a prompt is another turn, and a neighbour takes the index of a deleted turn.
        """
        if self.turn in path and _holds(view_of(self.turn), QApplication.focusWidget()):
            return
        view = view_of(path[min(self.at, len(path) - 1)]) if path else None
        stops = [stop for stop in view.tab_stops() if usable(stop)] if view is not None else []
        heirs = [stop for name in self.names for stop in stops if stop.accessibleName() == name]
        (*heirs, otherwise)[0].setFocus()


def _holds(view: TurnView | None, focus: QWidget | None) -> bool:
    return view is not None and focus is not None and view.isAncestorOf(focus)
