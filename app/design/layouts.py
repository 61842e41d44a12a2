"""Builders of layouts: columns, rows and splitters; and the page of one column. Lengths are in pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractScrollArea,
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

STRETCH = 1
"""A part that takes the space that is left; as any whole number, its share of it."""
UNLIMITED = 2**24 - 1
"""Qt's value for a largest width or height without a limit."""
Made = TypeVar("Made", bound=QBoxLayout)
Margins = tuple[int, int, int, int]
"""The margins at the left, top, right and bottom."""


@dataclass(frozen=True)
class Gap:
    """A part that is empty space of a fixed size."""

    pixels: int


Part = QWidget | QLayout | Gap | int | tuple[QWidget | QLayout, int] | tuple[QWidget, int, Qt.AlignmentFlag]
"""A widget or layout, alone or with its stretch factor and alignment; a ``Gap``; or the factor of an empty stretch."""


def column_of(*parts: Part, margins: Margins = (0, 0, 0, 0), spacing: int = -1) -> QVBoxLayout:
    """Returns a layout of parts below each other; ``spacing`` -1 is that of the layout around it."""
    return _filled(QVBoxLayout(), parts, margins, spacing)


def row_of(*parts: Part, margins: Margins = (0, 0, 0, 0), spacing: int = -1) -> QHBoxLayout:
    """Returns a layout of parts next to each other; ``spacing`` -1 is that of the layout around it."""
    return _filled(QHBoxLayout(), parts, margins, spacing)


def boxed(layout: QLayout) -> QWidget:
    """Returns a new widget with a layout."""
    widget = QWidget()
    widget.setLayout(layout)
    return widget


def splitter_of(*parts: tuple[QWidget, int], sizes: Sequence[int], across: bool = False) -> QSplitter:
    """Returns widgets below each other, or next to each other if ``across``, each with its stretch factor."""
    splitter = QSplitter(
        Qt.Orientation.Horizontal if across else Qt.Orientation.Vertical, childrenCollapsible=False, handleWidth=5
    )
    for place, (widget, stretch) in enumerate(parts):
        splitter.addWidget(widget)
        splitter.setStretchFactor(place, stretch)
    splitter.setSizes(list(sizes))
    return splitter


def _filled(layout: Made, parts: Sequence[Part], margins: Margins, spacing: int) -> Made:
    layout.setContentsMargins(*margins)
    layout.setSpacing(spacing)
    for part in parts:
        if isinstance(part, Gap):
            layout.addSpacing(part.pixels)
        elif isinstance(part, int):
            layout.addStretch(part)
        else:
            item, stretch, *alignment = part if isinstance(part, tuple) else (part, 0)
            if isinstance(item, QLayout):
                layout.addLayout(item, stretch)
            else:
                layout.addWidget(item, stretch, *alignment)
    return layout


PAGE_WIDTH = 880  # maximum in pixels, so that lines stay readable


def stops_of(part: QWidget | QLayout) -> list[QWidget]:
    """Returns what can have the focus in a part, in the order of its layout.

    A widget that places its controls itself names them by a method ``tab_stops``.
    """
    if isinstance(part, QLayout):
        items = (part.itemAt(place) for place in range(part.count()))
        inner = [item.widget() or item.layout() for item in items if item is not None]
        return [stop for one in inner if one is not None for stop in stops_of(one)]
    if hasattr(part, "tab_stops"):
        return list[QWidget](part.tab_stops())
    layout, own = part.layout(), [part] if part.focusPolicy() != Qt.FocusPolicy.NoFocus else []
    return own if layout is None else [*own, *stops_of(layout)]


def bare(area: QAbstractScrollArea) -> None:
    """Takes the frame and the horizontal scroll bar from an area."""
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)


class ColumnPage(QScrollArea):
    """A page of one column. A subclass calls ``show_column`` once, with the parts of it."""

    def __init__(self) -> None:
        super().__init__(widgetResizable=True)
        self._inside = QWidget(maximumWidth=PAGE_WIDTH)
        bare(self)

    def show_column(self, *parts: Part, margins: Margins = (32, 24, 32, 32), spacing: int = 8) -> None:
        self._inside.setLayout(column_of(*parts, STRETCH, margins=margins, spacing=spacing))
        self.setWidget(boxed(row_of(STRETCH, (self._inside, 1000), STRETCH)))
