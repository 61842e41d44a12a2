"""The row above pages without a button in the top bar: a link back to their place, or the tabs of pages that belong
together."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal, Slot
from PySide6.QtWidgets import QSizePolicy, QTabBar, QWidget

from app.design.controls import button, label
from app.design.layouts import STRETCH, row_of
from app.system.i18n import tr
from app.window.pages import BEHIND_MODELS, BY_NAME

AROUND = 22  # pixels above and below the text, together


class PlaceBar(QWidget):
    """Hidden while a place of the top bar is shown."""

    page_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("placebar")
        self.setAccessibleName(tr("Where you are"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._place = ""
        self.back = button("", clicked=self._go_back)
        self.title = label("", "setting")
        self.tabs = QTabBar()
        self.tabs.setDrawBase(False)
        self.tabs.setAccessibleName(tr("Models and server"))
        for entry in BEHIND_MODELS:
            tip = tr("{purpose} ({key})", purpose=tr(entry.purpose), key=entry.key)
            self.tabs.setTabToolTip(self.tabs.addTab(tr(entry.title)), tip)
        self.tabs.currentChanged.connect(self._choose)
        self.setLayout(row_of(self.back, self.title, self.tabs, STRETCH, margins=(20, 0, 20, 0), spacing=12))
        self._fit()

    def show_page(self, name: str) -> None:
        """Shows where a page belongs, without emitting."""
        entry = BY_NAME[name]
        self.setVisible(not entry.is_place)
        self._place = entry.place
        for part in (self.back, self.title):
            part.setVisible(bool(entry.place))
        self.tabs.setVisible(not entry.place)
        if entry.place:
            place = tr(BY_NAME[entry.place].title)
            self.back.setText(f"‹ {place}")
            self.back.setAccessibleName(tr("Back to {place}", place=place))
            self.title.setText(tr(entry.title))
        else:
            self.tabs.blockSignals(True)
            self.tabs.setCurrentIndex(BEHIND_MODELS.index(entry))
            self.tabs.blockSignals(False)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        self.setFixedHeight(self.fontMetrics().height() + AROUND)

    @Slot()
    def _go_back(self) -> None:
        self.page_chosen.emit(self._place)

    @Slot(int)
    def _choose(self, index: int) -> None:
        by_keys = self.tabs.hasFocus()  # the arrow keys go on from tab to tab
        self.page_chosen.emit(BEHIND_MODELS[index].name)
        if by_keys:
            self.tabs.setFocus()
