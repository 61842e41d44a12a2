"""A map of all positions of a block against all its steps: entropy, acceptance and remelts."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Slot
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QWidget

from app.canvas.legend import Legend, LegendEntry
from app.design.controls import label
from app.design.fonts import px
from app.design.layouts import column_of
from app.design.tokens import SPACE_2, SPACE_4, Theme, color, entropy_color, readable_on
from app.inspector.canvas.map_area import MapArea, entropy_top
from app.player.player import Player
from app.system.i18n import tr


class StepMap(QWidget):
    """The map with its legend."""

    def __init__(self, player: Player, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._player = player
        self.area = MapArea(player)
        self.legend = Legend()
        self.caption = label(tr("Positions downwards, steps to the right."), "caption", wrap=True)
        margins = (SPACE_4, SPACE_2, SPACE_4, SPACE_4)
        # The legend is above the map, so that it stays visible while the map scrolls.
        self.setLayout(column_of(self.caption, self.legend, (self.area, 1), margins=margins, spacing=SPACE_2))
        self.setAccessibleName(tr("Map of positions and steps"))
        player.placed.connect(self._update)
        player.opened.connect(self._update)
        player.grown.connect(self._update)
        self._update()

    @Slot()
    def _update(self) -> None:
        record = self.area.record
        self.setAccessibleDescription(self.area.words())
        self.legend.setVisible(record is not None)
        if record is None:
            return
        entries = [
            LegendEntry(tr("entropy, 0 to {most} nats", most=f"{entropy_top(record):.2f}"), None),
            LegendEntry(tr("accepted"), _draw_accepted),
            LegendEntry(tr("remelted"), _draw_remelted),
        ]
        if record.text_length is not None and record.text_length < record.length:
            entries.append(LegendEntry(tr("padding, not counted"), _draw_padding))
        self.legend.set_entries(entries)


def _cell(rect: QRectF) -> QRectF:
    return rect.adjusted(1, 2, -1, -2)


def _draw_accepted(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    shade = entropy_color(0.1, theme)
    cell = _cell(rect)
    painter.fillRect(cell, shade)
    painter.fillRect(QRectF(cell.left() + 1, cell.bottom() - 4, cell.width() - 2, 2), readable_on(shade))


def _draw_remelted(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    shade = entropy_color(0.5, theme)
    painter.fillRect(_cell(rect), shade)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(readable_on(shade))
    painter.drawEllipse(rect.center(), px(3), px(3))


def _draw_padding(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    painter.fillRect(_cell(rect), color(theme.line))
