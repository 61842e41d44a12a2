"""The influence of one token: change it, run one step, and see which distributions moved. Measures nothing itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import (
    QWidget,
)

from app.canvas.accessibility import expose_cells
from app.canvas.heat import Heat
from app.canvas.words import token_words
from app.design.controls import button, describe, introduce, label, show_line
from app.design.fonts import TEXT_BODY, canvas_font
from app.design.layouts import column_of
from app.design.tokens import SPACE_2
from app.inspector.canvas.page_cells import SpannedCanvas
from app.inspector.forks.panel import TokenChoice
from app.inspector.words import capital, in_nats, what_comes_first
from app.player.player import Player
from app.system.i18n import tr, trn
from engine import step_number

FLOOR = 0.001  # nats; smaller values count as no movement


@dataclass(frozen=True, eq=False)
class ShownInfluence:
    """One measurement: one step with a changed token, and the KL of each position's distribution to that without.

    The changed position itself is left out: its influence on itself is meaningless.
    """

    position: int
    before: int  # token id
    after: int  # token id
    kl: NDArray[np.float64]  # (C,) nats

    @property
    def others(self) -> NDArray[np.float64]:
        """The values (C,), 0 at the changed position and where nothing moved."""
        values = np.where(self.kl < FLOOR, 0.0, self.kl)
        values[self.position] = 0.0
        return values

    @property
    def most(self) -> float:
        """The largest value in nats; 0 if no position moved."""
        return float(self.others.max(initial=0.0))

    @property
    def count(self) -> int:
        """The number of positions that moved."""
        return int((self.others > 0).sum())

    def shares(self) -> NDArray[np.float64]:
        """Returns positions on the scale (C,), 0 to 1; NaN for positions that did not move."""
        others = self.others
        moved = np.where(others > 0, others, np.nan)
        decades = max(math.log10(max(self.most, FLOOR) / FLOOR), 1e-9)  # the length of the scale, from ``FLOOR``
        shares: NDArray[np.float64] = np.clip(np.log10(moved / FLOOR) / decades, 0.0, 1.0)
        return shares


class InfluenceView(QWidget):
    """Requests measurements of the token in ``choice`` by signals, and shows the latest one."""

    asked = Signal(int, int)  # position, new token
    asked_text = Signal(int, str)  # position, text of the new token; the receiver checks that it is one token

    def __init__(self, player: Player, choice: TokenChoice) -> None:
        super().__init__(accessibleName=tr("What depends on a token"))
        self._player, self._choice = player, choice
        self.influence: ShownInfluence | None = None  # the measurement shown
        self._busy = False
        self._refusal = ""
        self.measure = button(tr("Measure"), tr("Measure what depends on this token"), role="plain")
        self.reason = label("", "caption", wrap=True)
        self.problem = label("", "error", wrap=True)
        self.teaching = label(
            tr(
                "One denoising step is run with the token that is chosen above in the selected cell. Every other cell "
                "is coloured by how much its prediction changes."
            ),
            "caption",
            wrap=True,
        )
        self.what = label("", wrap=True, selectable=True, name=tr("What was measured"))
        self.how = label(
            tr(
                "By the KL divergence of each cell's prediction, in nats. The step is not shown the prediction of the "
                "step before it (no self-conditioning). The scale is logarithmic; no colour: less than {floor} "
                "nats. The changed cell is framed.",
                floor=FLOOR,
            ),
            "caption",
            wrap=True,
        )
        self.map = introduce(SpannedCanvas(player), tr("What depends on the token, cell by cell"))
        self.map.set_legend(False)
        self.map.set_font(canvas_font(TEXT_BODY))
        expose_cells(self.map)
        title = label(tr("What depends on this token?"), "setting", wrap=True)
        asking = (title, self.teaching, self.measure, self.reason, self.problem)
        self.setLayout(column_of(*asking, self.what, self.how, self.map, spacing=SPACE_2))
        self._connect()
        self._open()

    def _connect(self) -> None:
        player = self._player
        player.opened.connect(self._open)
        for signal in (player.placed, player.grown, player.selected):
            signal.connect(self._enable)
        self.measure.clicked.connect(self._ask)
        self._choice.editTextChanged.connect(self._enable)

    def show_influence(self, position: int, before: int, after: int, kl: NDArray[np.floating]) -> None:
        """Shows a measurement at the current frame.

        Args:
            position: the position whose token was changed from ``before`` to ``after``
            kl: (C,) KL of each position's distribution, nats

        Raises:
            ValueError: ``kl`` does not fit the current canvas.
        """
        snapshot, frame = self._player.snapshot, self._player.frame
        if snapshot is None or frame is None or kl.shape != (snapshot.length,):
            raise ValueError(f"a measurement of shape {kl.shape} is not of the canvas shown")
        clean = np.nan_to_num(np.maximum(kl.astype(np.float64), 0.0))
        self.influence = ShownInfluence(position, before, after, clean)
        self.map.set_piece(self._player.piece, self._player.is_special)
        self.map.set_block(snapshot)
        self.map.set_marks(np.arange(snapshot.length) == position)
        self.map.set_heat(self._heat(self.influence))
        self.set_busy(False)
        self.show_problem("")
        self._show_words(frame.block, frame.step)
        self.map.select_position(self._player.selection)

    def show_problem(self, text: str) -> None:
        """Shows why a measurement failed; an empty text removes the message."""
        show_line(self.problem, text)
        if text:
            self.set_busy(False)

    def set_busy(self, busy: bool) -> None:
        self._busy = busy
        self.measure.setText(tr("Measuring") if busy else tr("Measure"))
        self._enable()

    def set_refusal(self, reason: str, needed: str = "") -> None:
        """Sets the reason why nothing can be measured now; empty if it can. ``needed`` is the model to load first."""
        self._refusal = "" if needed else reason
        describe(self.measure, what_comes_first(needed, reason))
        self.show_problem("")
        self._enable()

    def clear(self) -> None:
        self.influence = None
        self._show_parts()
        self.setAccessibleDescription(self.teaching.text())

    @Slot()
    def _open(self) -> None:
        self.show_problem("")
        self._enable()
        self.clear()

    @Slot()
    def _enable(self) -> None:
        """Enables the button if there is something to measure, and says what is missing otherwise."""
        snapshot, position = self._player.snapshot, self._player.selection
        has_cell = snapshot is not None and 0 <= position < snapshot.length
        if snapshot is None or not has_cell:
            reason = tr("Select a cell to change its token.")
        elif self._choice.listed == int(snapshot.tokens(calm=True)[position]):
            reason = tr("This token stands there already; choose another one.")
        else:
            reason = "" if self._choice.currentText() else tr("Choose a token in the list before Pin.")
        reason = self._refusal or reason
        show_line(self.reason, reason)
        self.measure.setEnabled(not reason)  # it stays enabled during a measurement, so that it keeps the focus

    @Slot()
    def _ask(self) -> None:
        if self._busy or not self.measure.isEnabled():
            return
        self.show_problem("")
        position, listed = self._player.selection, self._choice.listed
        if listed is None:
            self.asked_text.emit(position, self._choice.currentText())
        else:
            self.asked.emit(position, listed)

    def _show_words(self, block: int, step: int) -> None:
        influence, piece, name = self.influence, self._player.piece, self._player.name_of
        assert influence is not None
        head = tr(
            "{cell} changed from {before} to {after}, block {block}, {frame}.",
            cell=capital(name(influence.position)),
            before=token_words(piece(influence.before)),
            after=token_words(piece(influence.after)),
            block=block + 1,
            frame=tr("step {step}", step=step_number(step)) if step >= 0 else tr("before the first step"),
        )
        if influence.most:
            most, nats = int(influence.others.argmax()), influence.most
            moved = trn("{count} cell changes", "{count} cells change", influence.count)
            head += " " + tr("{cell} changes most, by {nats} nats.", cell=capital(name(most)), nats=in_nats(nats))
            head += " " + tr("{moved} by {notable} nats or more.", moved=moved, notable=FLOOR)
        else:
            head += " " + tr(
                "Nothing depends on this token: no other cell changes by {notable} nats or more.", notable=FLOOR
            )
        self.what.setText(head)
        self.map.setAccessibleDescription(head)
        self.setAccessibleDescription(f"{head} {self.how.text()}")
        self._show_parts()

    def _heat(self, influence: ShownInfluence) -> Heat | None:
        """Returns the colours of a measurement; None if nothing moved."""

        def words(position: int) -> str:
            if position == influence.position:
                return tr("Its token was changed")
            moved = float(influence.others[position])
            return tr("Changes by {nats} nats", nats=in_nats(moved)) if moved else tr("Does not change")

        if not influence.most:
            return None
        shares = influence.shares().astype(np.float32)
        return Heat(shares, tr("KL"), str(FLOOR), tr("{most} nats", most=in_nats(influence.most)), words)

    def _show_parts(self) -> None:
        measured = self.influence is not None
        for part in (self.what, self.how, self.map):
            part.setVisible(measured)
