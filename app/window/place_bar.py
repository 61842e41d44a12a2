"""The row above pages that share a place of the top bar, or stand behind the model list: a tab for each."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal, Slot
from PySide6.QtWidgets import QSizePolicy, QTabBar, QWidget

from app.design.layouts import STRETCH, row_of
from app.system.i18n import tr
from app.window.pages import BY_NAME, PAGES, PageEntry

AROUND = 22  # pixels above and below the text, together


class PlaceBar(QWidget):
    """Hidden while a page is shown that is alone in its place."""

    page_chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("placebar")
        self.setAccessibleName(tr("Where you are"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._shown: list[PageEntry] = []
        self.tabs = QTabBar()
        self.tabs.setDrawBase(False)
        self.tabs.setAccessibleName(tr("Pages of this place"))
        self.tabs.currentChanged.connect(self._choose)
        self.setLayout(row_of(self.tabs, STRETCH, margins=(20, 0, 20, 0)))
        self._fit()

    def show_page(self, name: str) -> None:
        """Shows the pages of a page's place, without emitting."""
        entry = BY_NAME[name]
        pages = [one for one in PAGES if one.place == entry.place]
        self.setVisible(len(pages) > 1)
        self.tabs.blockSignals(True)
        if pages != self._shown:
            self._shown = pages
            while self.tabs.count():
                self.tabs.removeTab(0)
            for one in pages:
                tip = tr("{purpose} ({key})", purpose=tr(one.purpose), key=one.key)
                self.tabs.setTabToolTip(self.tabs.addTab(tr(one.title)), tip)
        self.tabs.setCurrentIndex(pages.index(entry))
        self.tabs.blockSignals(False)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        self.setFixedHeight(self.fontMetrics().height() + AROUND)

    @Slot(int)
    def _choose(self, index: int) -> None:
        by_keys = self.tabs.hasFocus()  # the arrow keys go on from tab to tab
        self.page_chosen.emit(self._shown[index].name)
        if by_keys:
            self.tabs.setFocus()
