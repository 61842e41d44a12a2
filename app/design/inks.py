"""The pen and the brush of a painter."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen


def set_inks(painter: QPainter, pen: QPen | QColor | Qt.PenStyle, brush: QBrush | QColor | Qt.BrushStyle) -> None:
    """Sets the pen and the brush of a painter."""
    painter.setPen(pen)
    painter.setBrush(brush)
