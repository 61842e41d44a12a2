"""The models that other programs brought to this computer: a short row for each, and a line on those that cannot run.
Knows no jobs and no disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QPushButton, QVBoxLayout, QWidget

from app.design.controls import button, introduce, label
from app.design.layouts import boxed, column_of, row_of
from app.models.words import amount
from app.system.folders import shortened
from app.system.i18n import tr, trn
from engine.found import FoundModel

MAX_NAMES = 5  # models, or families, of a line
ROWS_AT_FIRST = 5  # a row takes a millisecond
MORE = 10  # that a click adds


class Folded(QWidget):
    """A button over ``rows``, which are hidden until it is pressed."""

    def __init__(self) -> None:
        super().__init__()
        self.fold = button("", role="plain", checkable=True)
        self.fold.toggled.connect(self._show)
        self.rows: QVBoxLayout = column_of(spacing=8)
        self._box = boxed(self.rows)
        self._about = label("", "fact", wrap=True)
        self._title = ""
        heading = row_of(self.fold, (self._about, 1), spacing=16)
        self.setLayout(column_of(heading, self._box, margins=(0, 16, 0, 0), spacing=8))
        self._show()

    def say(self, title: str, about: str) -> None:
        """Shows what the rows are, and a line about them."""
        self._title = title
        self._about.setText(about)
        self._show()

    @Slot()
    def _show(self) -> None:
        is_open = self.fold.isChecked()
        self.fold.setText(f"{'▾' if is_open else '▸'} {self._title}")
        introduce(self.fold, self._title, self._about.text())
        self._box.setVisible(is_open)


def found_line(model: FoundModel) -> str:
    """Says whose store a model lies in, what it is, and how large."""
    store = tr("a folder of yours") if model.store == "added" else model.store
    return " · ".join((f"{store[:1].upper()}{store[1:]}", model.family, amount(model.bytes)))


def refused_lines(refused: Sequence[FoundModel]) -> list[str]:
    """Says why models cannot run here, a line for each kind of reason."""
    kinds = [[each for each in refused if each.why == why] for why in dict.fromkeys(each.why for each in refused)]
    return [_refused_line(models) for models in kinds]


def first_of(names: Iterable[str]) -> str:
    """Returns the first few of the names, each once, and a mark where there are more."""
    known = list(dict.fromkeys(names))
    return "; ".join(known[:MAX_NAMES]) + ("; …" if len(known) > MAX_NAMES else "")


def _named(model: FoundModel) -> str:
    if model.why in ("family", "form"):
        return model.detail
    return model.name if model.why == "none" else f"{model.name} ({model.detail})"


def _refused_line(models: Sequence[FoundModel]) -> str:
    """Says why models of one kind of reason cannot run."""
    count = len(models)
    said = {
        "family": trn(
            "{count} needs a family that is not supported", "{count} need a family that is not supported", count
        ),
        "form": trn(
            "{count} is stored in a form that is not read", "{count} are stored in a form that is not read", count
        ),
        "size": trn("{count} is too large for this computer", "{count} are too large for this computer", count),
        "none": trn("{count} has no language model", "{count} have no language model", count),
    }
    other = trn("{count} cannot be opened", "{count} cannot be opened", count)
    return f"{said.get(models[0].why, other)}: {first_of(map(_named, models))}"


class ShortRow(QFrame):
    """One model: its name, a line on what it is, whether it fits, and a button."""

    def __init__(self, title: str, line: str, use: QPushButton) -> None:
        super().__init__()
        introduce(self, title, role="model")
        self.use = use
        self.memory = label("", "fact", wrap=True)
        self.facts = label(line, "fact", wrap=True)
        text = column_of(label(title, "model-title", wrap=True), self.facts, self.memory, spacing=2)
        self.setLayout(
            row_of((text, 1), (self.use, 0, Qt.AlignmentFlag.AlignTop), margins=(20, 12, 20, 12), spacing=16)
        )
        self.say("", "")

    def say(self, memory: str, tip: str) -> None:
        """Shows whether the model fits."""
        self.memory.setText(memory)
        self.memory.setToolTip(tip)
        self.memory.setVisible(bool(memory))


Item = TypeVar("Item")


class ShortRows(QWidget, Generic[Item]):
    """Short rows of models by their keys: a few at first, and more by a click."""

    turned = Signal()  # other rows are shown

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, ShortRow] = {}  # those that are shown
        self._items: dict[str, Item] = {}  # all
        self._most = ROWS_AT_FIRST
        self._column: QVBoxLayout = column_of(spacing=8)
        self.more = button("", tr("Show more models"), clicked=self._show_more)

    def _row(self, item: Item) -> ShortRow:
        """Returns a new row."""
        raise NotImplementedError

    def _show(self) -> None:
        shown = dict(list(self._items.items())[: self._most])
        for key in self.rows.keys() - shown.keys():
            drop(self.rows.pop(key))
        for place, (key, item) in enumerate(shown.items()):
            if key not in self.rows:
                self.rows[key] = self._row(item)
            if self._column.indexOf(self.rows[key]) != place:
                self._column.insertWidget(place, self.rows[key])
        self.rows = {key: self.rows[key] for key in shown}
        others = len(self._items) - len(shown)
        self.more.setText(trn("Show {count} more", "Show {count} more", others))
        self.more.setAccessibleName(trn("Show {count} more model", "Show {count} more models", others))
        self.more.setVisible(others > 0)
        self.turned.emit()

    @Slot()
    def _show_more(self) -> None:
        self._most += MORE
        self._show()


class FoundSection(ShortRows[FoundModel]):
    """Emits what is asked; hidden while nothing is found."""

    used = Signal(str)  # a model's path
    dropped = Signal(str)  # a folder that the user added

    def __init__(self) -> None:
        super().__init__()
        self.folded = Folded()
        self.fold = self.folded.fold
        self.refused = label("", "fact", wrap=True, selectable=True, name=tr("Why they cannot run here"))
        self.folded.rows.addWidget(self.refused)
        self._places: QVBoxLayout = column_of(spacing=4)
        self._links: dict[str, QWidget] = {}
        heading = label(tr("Found on this computer"), "group")
        parts = heading, self._column, self.more, self.folded, self._places
        self.setLayout(column_of(*parts, margins=(0, 8, 0, 0), spacing=8))
        self.hide()

    def show_models(self, models: Sequence[FoundModel], places: Sequence[str]) -> None:
        """Shows what was found, and the folders that were looked into because the user added them."""
        self._items = {str(each.path): each for each in models if each.runs}
        refused = [each for each in models if not each.runs]
        self.folded.setVisible(bool(refused))
        self.folded.say(trn("{count} other cannot run here", "{count} others cannot run here", len(refused)), "")
        self.refused.setText("\n".join(refused_lines(refused)))
        for place in self._links.keys() - set(places):
            drop(self._links.pop(place))
        for place in places:
            if place not in self._links:
                text = tr("No longer look into {folder}", folder=shortened(place))
                link = self._links[place] = button(text, clicked=partial(self.dropped.emit, place))
                self._places.addWidget(link, 0, Qt.AlignmentFlag.AlignLeft)
        self.setVisible(bool(models or places))
        self._show()

    def say(self, words: Mapping[str, tuple[str, str]]) -> None:
        """Shows in the rows whether their models fit, by path."""
        for path in self.rows.keys() & words.keys():
            self.rows[path].say(*words[path])

    def tab_order(self) -> list[QWidget]:
        return [*(row.use for row in self.rows.values()), self.more, self.fold, *self._links.values()]

    def _row(self, model: FoundModel) -> ShortRow:
        name, tip = tr("Use {title}", title=model.name), tr("Puts it on your list and loads it")
        use = button(tr("Use"), name, role="plain", tip=tip, clicked=partial(self.used.emit, str(model.path)))
        row = ShortRow(model.name, found_line(model), use)
        row.facts.setToolTip(shortened(str(model.path)))
        return row


def drop(widget: QWidget) -> None:
    widget.hide()
    widget.setParent(None)
    widget.deleteLater()
