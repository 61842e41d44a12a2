"""The search for models on Hugging Face: a field, a short row for each model that loads here, and a line on the
others. Sends nothing before Enter or the button is pressed. Knows no jobs and no network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget

from app.design.controls import button, flow_of, label
from app.design.fonts import px
from app.design.layouts import column_of
from app.models.found_section import MORE, SHOWN, ShortRow, drop
from app.models.found_words import first_of
from app.models.words import amount
from app.system.i18n import tr, trn

if TYPE_CHECKING:
    from engine.hub_search import Hit


WIDTH = 260  # pixels of the field at 100 %


class HubSection(QWidget):
    """Emits what is asked."""

    asked = Signal(str)  # words
    chosen = Signal(str)  # a repository
    turned = Signal()  # other rows are shown

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, ShortRow] = {}  # by repository
        self._hits: Sequence[Hit] = ()
        self.words = QLineEdit()
        self.words.setPlaceholderText(tr("Words in a model's name"))
        self.words.setAccessibleName(tr("Words in the name of a model on Hugging Face"))
        self.words.setMaxLength(100)
        self.words.setFixedWidth(px(WIDTH))
        self.search = button(tr("Search"), tr("Search Hugging Face"), role="plain", clicked=self._ask)
        self.said = label("", "fact", wrap=True)
        self.said.setAccessibleName(tr("What was found on Hugging Face"))
        self.others = label("", "fact", wrap=True, selectable=True)
        self.others.setAccessibleName(tr("Why others do not load here"))
        self._column: QVBoxLayout = column_of(spacing=8)
        self.more = button("", tr("Show more models"), clicked=self._show_more)
        parts = flow_of(self.words, self.search), self.said, self._column, self.more, self.others
        self.setLayout(column_of(label(tr("Search Hugging Face"), "group"), *parts, margins=(0, 16, 0, 0), spacing=8))
        self.words.returnPressed.connect(self._ask)
        self.words.textChanged.connect(self._typed)
        self._typed()
        self.show_hits((), "")

    def show_hits(self, hits: Sequence[Hit], said: str) -> None:
        """Shows the models of an answer in place of those before."""
        for row in self.rows.values():
            drop(row)
        self.rows = {}
        self._hits = [hit for hit in hits if not hit.why]
        self.said.setText(said)
        self.others.setText(others_line([hit for hit in hits if hit.why]))
        self.others.setVisible(bool(self.others.text()))
        self._add(SHOWN)

    def tab_order(self) -> list[QWidget]:
        """Returns the focusable widgets, in order."""
        return [self.words, self.search, *(row.use for row in self.rows.values()), self.more]

    @Slot()
    def _typed(self) -> None:
        self.search.setEnabled(bool(self.words.text().strip()))

    @Slot()
    def _ask(self) -> None:
        if words := " ".join(self.words.text().split()):
            self.asked.emit(words)

    @Slot()
    def _show_more(self) -> None:
        self._add(MORE)

    def _add(self, count: int) -> None:
        for hit in self._hits[len(self.rows) :][:count]:
            name, tip = tr("Download {title}", title=hit.repo), tr("Can be paused and continued, also after a restart")
            use = button(tr("Download"), name, role="plain", tip=tip, clicked=partial(self.chosen.emit, hit.repo))
            self.rows[hit.repo] = row = ShortRow(hit.repo, hit_line(hit, 0), use)
            self._column.addWidget(row)
        others = len(self._hits) - len(self.rows)
        self.more.setText(trn("Show {count} more", "Show {count} more", others))
        self.more.setVisible(others > 0)
        self.turned.emit()


def hit_line(hit: Hit, size: int) -> str:
    """Says what a model is, how large its download, and how often it is downloaded, as far as the hub says it."""
    count, licence = hit.downloads, tr("licence {name}", name=hit.licence) if hit.licence else ""
    if hit.is_gated:
        licence = tr("{licence}, to be accepted first", licence=licence or tr("a licence"))
    parts = (
        hit.family,
        hit.form,
        amount(size) if size else "",
        licence,
        "" if count is None else trn("{count} download in 30 days", "{count} downloads in 30 days", count),
    )
    return " · ".join(filter(None, parts))


def found_line(hits: Sequence[Hit], *, is_cut: bool) -> str:
    """Says how many models were found that load here."""
    count = sum(not hit.why for hit in hits)
    said = trn("{count} model loads here.", "{count} models load here.", count)
    said = said if count else tr("No model was found that loads here.")
    return " ".join(filter(None, (said, tr("There are more: more words narrow it.") if is_cut else "")))


def others_line(others: Sequence[Hit]) -> str:
    """Says what others are that do not load here; empty if there are none."""
    names = first_of(hit.detail or tr("no language model") for hit in others)
    one, many = "{count} other does not load here: {names}", "{count} others do not load here: {names}"
    return trn(one, many, len(others), names=names) if others else ""
