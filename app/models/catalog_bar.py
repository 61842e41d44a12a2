"""Search and filter over the lists of models. Knows no models."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QLineEdit, QWidget

from app.design.controls import button, flow_of
from app.design.fonts import px
from app.design.layouts import column_of
from app.state.models.filtering import FILTERS, Filter, Listed, is_shown
from app.system.i18n import tr

WIDTH = 260  # pixels of the field at 100 %


class CatalogBar(QWidget):
    """A field and chips, of which one is on."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Search models"))
        self.search.setAccessibleName(tr("Search models"))
        self.search.setMaxLength(100)
        self.search.setFixedWidth(px(WIDTH))
        self.filters = {
            kept: button(_title(kept), tr("Show: {filter}", filter=_title(kept)), role="chip") for kept in FILTERS
        }
        self._group = QButtonGroup(self)
        for chip in self.filters.values():
            chip.setCheckable(True)
            self._group.addButton(chip)
        self.filters["all"].setChecked(True)
        self.search.textChanged.connect(self.changed)
        self._group.buttonClicked.connect(self.changed)
        self.setLayout(column_of(flow_of(self.search, *self.filters.values())))

    @property
    def kept(self) -> Filter:
        """Returns the filter that is on."""
        return next(kept for kept, chip in self.filters.items() if chip.isChecked())

    @property
    def is_active(self) -> bool:
        """True if the search or the filter may hide a row."""
        return bool(self.search.text().strip()) or self.kept != "all"

    def shows(self, row: Listed) -> bool:
        """Returns True if the search and the filter leave a row."""
        return is_shown(row, self.search.text(), self.kept)


def _title(kept: Filter) -> str:
    return {
        "all": tr("All"),
        "diffusion": tr("Diffusion"),
        "word by word": tr("Word by word"),
        "fits": tr("Fits here"),
        "here": tr("Downloaded"),
    }[kept]
