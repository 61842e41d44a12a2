"""The influence of one token: change it, run one step, and see which distributions moved. Measures nothing itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QRectF, Qt, Signal, Slot
from PySide6.QtGui import QPainter, QPen
from PySide6.QtWidgets import (
    QGridLayout,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QScrollArea,
    QWidget,
)

from app.canvas.glyphs import glyph_of
from app.canvas.legend import Legend, LegendEntry
from app.canvas.words import token_words
from app.design.choice_box import ChoiceBox
from app.design.controls import button, label
from app.design.layouts import column_of
from app.design.tokens import SPACE_2, SPACE_4, Theme, color
from app.inspector.influence.map import InfluenceMap
from app.inspector.influence.scale import FLOOR, ShownInfluence
from app.inspector.words import in_nats
from app.player.player import NOTHING, Player
from app.state.run.answers import share_words
from app.state.run.lines import line_ends
from app.system.i18n import tr, trn
from engine import step_number

MOST_LISTED = 24
_TOKEN, _POSITION = Qt.ItemDataRole.UserRole, Qt.ItemDataRole.UserRole


class InfluenceView(QWidget):
    """Requests measurements by signals and shows the latest one."""

    asked = Signal(int, int)  # position, new token
    asked_text = Signal(int, str)  # position, text of the new token; the receiver checks that it is one token

    def __init__(self, player: Player, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._player = player
        self.influence: ShownInfluence | None = None  # the measurement shown
        self._place: tuple[int, int] | None = None  # block and frame that were measured
        self._busy = False
        self._refusal = self._needed = ""
        self._offered: tuple[int, ...] = ()
        self._build_form()
        self.problem = label("", "error", wrap=True)
        self.teaching = label(
            tr(
                "What hangs on one token? Select a cell, choose another token for it, and measure: one denoising step"
                " is run with this token changed, and every position shows how far its distribution moved."
            ),
            "caption",
            wrap=True,
        )
        self.what = label("", wrap=True, selectable=True)
        self.what.setAccessibleName(tr("What was measured"))
        self.how = label(
            tr(
                "Measured: one step with this token changed; KL of each position's distribution, in nats."
                " Without self-conditioning."
            ),
            "caption",
            wrap=True,
        )
        self.map = InfluenceMap()
        self.legend = Legend()
        self.scale = label("", "caption", wrap=True)
        self.list = QListWidget()
        self.list.setAccessibleName(tr("Positions that moved most"))
        self.list.setUniformItemSizes(True)
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setWidget(self.map)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        words = (self.problem, self.teaching, self.what, self.how)
        parts = (
            self.legend,
            self.scale,
            (self._area, 3),
            (self.list, 2),
            0,
        )  # the legend is visible for any map's size
        margins = (SPACE_4, SPACE_2, SPACE_4, SPACE_4)
        self.setLayout(column_of(self._form, *words, *parts, margins=margins, spacing=SPACE_2))
        self.setAccessibleName(tr("Measured influence"))
        self._connect()
        self._open()

    def _build_form(self) -> None:
        self.cell = label("", wrap=True)
        self.tokens = ChoiceBox()
        self.tokens.setAccessibleName(tr("Token to put there"))
        self.tokens.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.tokens.setMinimumContentsLength(12)
        self.text = QLineEdit()
        self.text.setMaxLength(200)
        self.text.setAccessibleName(tr("Text of the token to put there"))
        self.text.setPlaceholderText(tr("or one token, as text"))
        self.text.setClearButtonEnabled(True)
        self.measure = button(tr("Measure"), tr("Measure the influence of this change"), role="primary")
        self._form = QGridLayout()
        self._form.setHorizontalSpacing(SPACE_2)
        self._form.setVerticalSpacing(SPACE_2)
        self._form.addWidget(self.cell, 0, 0, 1, 2)
        self._form.addWidget(self.tokens, 1, 0, 1, 2)
        self._form.addWidget(self.text, 2, 0, 1, 2)
        self._form.addWidget(self.measure, 3, 0, Qt.AlignmentFlag.AlignLeft)
        self._form.setColumnStretch(1, 1)

    def _connect(self) -> None:
        player = self._player
        player.opened.connect(self._open)
        player.placed.connect(self._offer)
        player.grown.connect(self._offer)
        player.selected.connect(self._offer)
        player.selected.connect(self._light)
        player.hovered.connect(self._light)
        self.map.cellHovered.connect(player.point)
        self.map.cellSelected.connect(player.select)
        self.measure.clicked.connect(self._ask)
        self.text.returnPressed.connect(self._ask)
        self.text.textChanged.connect(self._enable)
        self.tokens.currentIndexChanged.connect(self._enable)
        self.list.currentItemChanged.connect(self._pick)

    def show_influence(
        self, position: int, before: int, after: int, kl: NDArray[np.floating], excluded: int | None = None
    ) -> None:
        """Shows a measurement at the current frame.

        Args:
            position: the position whose token was changed from ``before`` to ``after``
            kl: (C,) KL of each position's distribution, nats
            excluded: the position left out of the map; ``position`` by default

        Raises:
            ValueError: ``kl`` does not fit the current canvas.
        """
        snapshot, frame = self._player.snapshot, self._player.frame
        if snapshot is None or frame is None or kl.shape != (snapshot.length,):
            raise ValueError(f"a measurement of shape {kl.shape} is not of the canvas on show")
        left_out = position if excluded is None else excluded
        clean = np.nan_to_num(np.maximum(kl.astype(np.float64), 0.0))
        self.influence = ShownInfluence(position, before, after, clean, left_out)
        tokens = snapshot.tokens(calm=True).tolist()
        tokens[position] = after
        player = self._player
        texts = [glyph_of(player.piece(token), player.is_special(token)) for token in tokens]
        self.map.show_influence(self.influence, texts, line_ends(snapshot, player.piece))
        self.set_busy(False)
        self.show_problem("")
        self._show_words(tokens, frame.block, frame.step)
        self._light()

    def show_problem(self, text: str) -> None:
        """Shows why a measurement failed; an empty text removes the message."""
        self.problem.setText(text)
        self.problem.setVisible(bool(text))
        if text:
            self.set_busy(False)

    def set_busy(self, busy: bool) -> None:
        """Shows if a measurement is running."""
        self._busy = busy
        self._name_measure()
        self._enable()

    def set_refusal(self, reason: str, needed: str = "") -> None:
        """Sets the reason why nothing can be measured now; empty if it can. ``needed`` is the model to load first."""
        self._refusal, self._needed = "" if needed else reason, needed
        self._name_measure()
        self.measure.setToolTip(reason)
        self.measure.setAccessibleDescription(reason)
        self.show_problem("")
        self._offer()

    def _name_measure(self) -> None:
        text = tr("Load {model} and measure", model=self._needed) if self._needed else tr("Measure")
        self.measure.setText(tr("Measuring") if self._busy else text)

    def clear(self) -> None:
        """Removes the measurement."""
        self.influence = None
        self._show_parts()
        self.setAccessibleDescription(self.teaching.text())

    @Slot()
    def _open(self) -> None:
        self.text.clear()
        self.show_problem("")
        self.clear()
        self._offer()

    @Slot()
    def _offer(self, _position: int = NOTHING) -> None:
        """Offers the selected cell's recorded candidates at the current step, except its present token."""
        player, snapshot, position = self._player, self._player.snapshot, self._player.selection
        offered: list[int] = []
        shares: list[float] = []
        if snapshot is None or not 0 <= position < snapshot.length:
            prompt = tr("Select a cell to change its token.")
        else:
            now = int(snapshot.tokens(calm=True)[position])
            prompt = tr(
                "Position {position}: change {token} to", position=position, token=token_words(player.piece(now))
            )
            if snapshot.top_tokens is not None and snapshot.top_probabilities is not None:
                top = snapshot.top_tokens[position].tolist()
                kept = [place for place, token in enumerate(top) if token != now]
                offered = [top[place] for place in kept]
                shares = [float(snapshot.top_probabilities[position, place]) for place in kept]
        if self._refusal:
            prompt = self._refusal
        if prompt != self.cell.text():
            self.cell.setText(prompt)
        self._fill(offered, shares)
        self._enable()

    def _fill(self, tokens: list[int], shares: list[float]) -> None:
        player = self._player
        words = [
            f"{token_words(player.piece(token))}   {share_words(share)}"
            for token, share in zip(tokens, shares, strict=True)
        ]
        if words == [self.tokens.itemText(place) for place in range(self.tokens.count())]:
            return
        chosen = self.tokens.currentData(_TOKEN)
        self.tokens.blockSignals(True)
        self.tokens.clear()
        for token, text in zip(tokens, words, strict=True):
            self.tokens.addItem(text, token)
        if chosen in tokens:
            self.tokens.setCurrentIndex(tokens.index(chosen))
        self.tokens.blockSignals(False)

    @Slot()
    def _enable(self) -> None:
        snapshot, position = self._player.snapshot, self._player.selection
        cell = snapshot is not None and 0 <= position < snapshot.length and not self._refusal
        typed = bool(self.text.text())
        self.tokens.setEnabled(cell and not typed and self.tokens.count() > 0)
        self.text.setEnabled(cell)
        # The button stays enabled during a measurement, so that it keeps the focus.
        self.measure.setEnabled(cell and (typed or self.tokens.count() > 0))

    @Slot()
    def _ask(self) -> None:
        if self._busy or not self.measure.isEnabled():
            return
        self.show_problem("")
        position = self._player.selection
        if self.text.text():
            self.asked_text.emit(position, self.text.text())
        else:
            self.asked.emit(position, int(self.tokens.currentData(_TOKEN)))

    def _show_words(self, tokens: list[int], block: int, step: int) -> None:
        influence, piece = self.influence, self._player.piece
        assert influence is not None
        listed = influence.moved(MOST_LISTED)
        head = tr(
            "Position {position} changed from {before} to {after}, block {block}, {frame}.",
            position=influence.position,
            before=token_words(piece(influence.before)),
            after=token_words(piece(influence.after)),
            block=block + 1,
            frame=tr("step {step}", step=step_number(step)) if step >= 0 else tr("before the first step"),
        )
        if listed:
            most, nats = listed[0]
            moved = trn("{count} position moved", "{count} positions moved", influence.count)
            head += " " + tr("Position {most} moved most, by {nats} nats.", most=most, nats=in_nats(nats))
            head += " " + tr("{moved} by {notable} nats or more.", moved=moved, notable=FLOOR)
        else:
            head += " " + tr(
                "Nothing depends on this token: no other position moved by {notable} nats or more.", notable=FLOOR
            )
        self.what.setText(head)
        self.list.blockSignals(True)
        self.list.clear()
        for place, nats in listed:
            text = tr(
                "{nats} nats   position {position}   {token}",
                nats=in_nats(nats),
                position=place,
                token=token_words(piece(tokens[place])),
            )
            item = QListWidgetItem(text, self.list)
            item.setData(_POSITION, place)
        self.list.setCurrentRow(-1)
        self.list.blockSignals(False)
        scale = LegendEntry(influence.scale.ends(), None, influence.scale.marks)
        self.scale.setText(influence.scale.kind())
        changed = LegendEntry(tr("the changed token, left out"), _draw_changed)
        self.legend.set_entries([scale, changed] if listed else [changed])
        self.map.setAccessibleDescription(head)
        scale_words = f" {influence.scale.ends()}. {influence.scale.kind()}" if listed else ""
        self.setAccessibleDescription(f"{head} {self.how.text()}{scale_words}")
        self._show_parts()

    def _show_parts(self) -> None:
        measured = self.influence is not None
        for part in (self.what, self.how, self._area, self.legend):
            part.setVisible(measured)
        for detail in (self.scale, self.list):
            detail.setVisible(self.influence is not None and self.influence.most > 0)
        self.teaching.setVisible(not measured)

    @Slot()
    def _light(self, _position: int = NOTHING) -> None:
        self.map.light(self._player.selection, self._player.hover)

    @Slot()
    def _pick(self) -> None:
        item = self.list.currentItem()
        if item is not None:
            self._player.select(int(item.data(_POSITION)))


def _draw_changed(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    painter.setPen(QPen(color(theme.accent), 2, Qt.PenStyle.DashLine))
    painter.setBrush(color(theme.surface_raised))
    painter.drawRect(rect.adjusted(2, 2, -2, -2))
