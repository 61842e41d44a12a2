"""The column next to the board: new puzzles, solving, adapter and result. It only emits signals."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QCheckBox, QPushButton, QWidget

from app.design.controls import (
    ChoiceBox,
    FocusGroup,
    Hairline,
    button,
    describe,
    discard,
    flow_of,
    introduce,
    label,
    show_line,
    show_stop,
)
from app.design.layouts import STRETCH, Gap, column_of, row_of
from app.pictures.bar import PictureThumb
from app.pictures.source import PictureSource
from app.state.chat.attachment import AttachedPicture
from app.sudoku.words import bin_tip, bin_title
from app.system.i18n import tr, trn
from engine.pictures import Picture
from engine.tasks.sudoku import BINS

OPEN_FOLDER = "open-folder"  # the adapters' last entry


class Column(QWidget):
    """All controls of the page except the board."""

    bin_asked = Signal(str)  # for a fresh puzzle
    adapter_chosen = Signal(str)  # an id or a folder; empty for none
    adapter_folder_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.bins: dict[str, QPushButton] = {}
        for bin in BINS:
            title, asked = bin_title(bin), functools.partial(self.bin_asked.emit, bin)
            said = tr("New puzzle: {bin}", bin=title)
            self.bins[bin] = button(title, said, role="chip", tip=bin_tip(bin), clicked=asked)
        self.paste = button(
            tr("Paste"), tr("Paste a puzzle"), tip=tr("81 digits, 0 or . for a blank, or a picture (Ctrl+V)")
        )
        tip = tr(
            "Safelight Sight reads it. It was trained on printed grids that Safelight drew, so check the result. "
            "You can also paste a picture or drop it on the board."
        )
        self.picture = button(tr("From a picture…"), tr("Read a puzzle from a picture"), role="chip", tip=tip)
        self.note = PictureNote()
        self.copy = button(tr("Copy"), tr("Copy the puzzle"))
        self.clear = button(tr("Clear"), tr("Clear the board"))
        self.undo = button(tr("Undo"), tr("Undo the last change of the puzzle"))
        self.redo = button(tr("Redo"), tr("Redo the change of the puzzle"))
        self.check = label("", "caption", wrap=True, name=tr("Check of the puzzle"))
        self.solve = button(tr("Solve"), tr("Solve the puzzle"), role="primary")
        self.stop = button(tr("Stop"), role="plain")
        self.reason = label("", "caption", wrap=True, name=tr("Why the puzzle cannot be solved now"))
        tip = tr("Opens the Race page, where two models solve this puzzle side by side")
        self.race = button(tr("Race this"), tr("Race two models on this puzzle"), role="plain", tip=tip)
        self.load = button(tr("Load the small models"), role="plain")
        self.keep = QCheckBox(tr("Keep the given digits"))
        explanation = tr("Off, the model writes all 81 cells and may change a given digit. On, it cannot.")
        describe(self.keep, explanation)
        self.adapter = introduce(ChoiceBox(), tr("Adapter"), tr("A small addition to the loaded model's weights"))
        self.adapter.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.adapter.setMinimumContentsLength(10)
        self.adapter_title = label(tr("Adapter"), "setting")
        self.verdict = label("", "verdict", wrap=True, selectable=True, name=tr("Result"))
        self.run_facts = label("", "caption", wrap=True, name=tr("Model and seed of the run"))
        self.again = button(tr("Try another seed"), tr("Solve again with another seed"), role="chip")
        self.inspect = button(tr("Open in the inspector"), tr("Open this run in the inspector"))
        self.back = button(tr("Back to the puzzle"), tip=tr("Shows the puzzle alone again, to edit it"))
        self._focus = FocusGroup(self.solve, self.stop)
        self.edits = FocusGroup(self.undo, self.redo, self.clear, self.paste, self.picture)
        self._lay_out(explanation)
        self.adapter.activated.connect(self._choose_adapter)

    def _lay_out(self, explanation: str) -> None:
        doing = flow_of(self.solve, self.stop, self.load, self.race, gap=12)
        note = label(explanation, "caption", wrap=True)
        note.setContentsMargins(30, 0, 0, 0)  # under the switch's text
        chooser = row_of(self.adapter_title, (self.adapter, 1), spacing=12)
        self.setLayout(
            column_of(
                label(tr("New puzzle"), "section"),
                flow_of(*self.bins.values(), self.picture),
                flow_of(self.paste, self.copy, self.clear, self.undo, self.redo, gap=12),
                self.note,
                self.check,
                Gap(4),
                doing,
                self.reason,
                Gap(4),
                self.keep,
                note,
                Gap(4),
                chooser,
                Gap(4),
                Hairline(),
                Gap(4),
                self.verdict,
                self.run_facts,
                flow_of(self.again),
                flow_of(self.inspect, self.back, gap=12),
                STRETCH,
                spacing=8,
            )
        )

    def show_solving(self, busy: bool, waits: str, *, can_run: bool, skips: bool) -> None:
        """Shows the state of solving.

        Args:
            busy: Something is running.
            waits: What it or the user waits for; empty for nothing.
            skips: The run is computed, and Stop only skips to its end.
        """
        show_stop(self.stop, tr("Stop"), tr("Stop solving"), skips=skips)
        with self._focus:
            self.solve.setVisible(not busy)
            self.stop.setVisible(busy)
            self.solve.setEnabled(can_run)
        self.again.setEnabled(can_run)
        self.solve.setToolTip(waits)
        show_line(self.reason, waits)

    def allow_adapters(self, can: bool, why: str = "") -> None:
        """Enables the choice of an adapter; ``why`` says why the model takes none."""
        self.adapter.setEnabled(can)
        self.adapter.setToolTip(why)
        self.adapter.setAccessibleDescription(why or tr("A small addition to the loaded model's weights"))

    def show_adapters(self, offered: Sequence[tuple[str, str]], chosen: str) -> None:
        """Fills the choice of adapters.

        Args:
            offered: Id or folder, and title, of the adapters for the loaded model.
            chosen: Id or folder of the one in use; empty for none.
        """
        self.adapter.clear()
        self.adapter.addItem(tr("None"), "")
        for path_or_id, title in offered:
            self.adapter.addItem(title, path_or_id)
        self.adapter.insertSeparator(self.adapter.count())
        self.adapter.addItem(tr("Open a folder…"), OPEN_FOLDER)
        self.adapter.setCurrentIndex(max(0, self.adapter.findData(chosen)))

    @Slot(int)
    def _choose_adapter(self, index: int) -> None:
        chosen = self.adapter.itemData(index)
        if chosen == OPEN_FOLDER:
            self.adapter_folder_asked.emit()
        elif chosen is not None:
            self.adapter_chosen.emit(chosen)

    def show_result(self, text: str, facts: str, *, has_run: bool, failed: bool) -> None:
        """Shows the result and the facts of the shown run; offers next steps if it ``failed`` to solve the puzzle."""
        show_line(self.verdict, text)
        show_line(self.run_facts, facts)
        self.inspect.setVisible(has_run)
        self.back.setVisible(has_run)
        self.again.setVisible(failed)


THUMB_HEIGHT = 112  # pixels at 100 %


class PictureNote(QWidget):
    """The thumbnail and the note; hidden while there is no picture."""

    def __init__(self) -> None:
        super().__init__()
        self.thumb: PictureThumb | None = None
        self.words = label("", "caption", wrap=True, name=tr("Cells to check"))
        self._row = row_of((self.words, 1), spacing=12)
        self.setLayout(self._row)
        self.hide()

    def show_picture(self, shown: AttachedPicture, picture: Picture) -> None:
        """Shows another picture, without a note."""
        self._drop_thumb()
        self.thumb = PictureThumb(shown, PictureSource(lambda *_: picture), THUMB_HEIGHT)
        self._row.insertWidget(0, self.thumb)
        self.words.clear()
        self.show()

    def show_doubts(self, count: int) -> None:
        doubts = trn("{count} cell is unsure: check it.", "{count} cells are unsure: check them.", count)
        self.words.setText(doubts if count else tr("Compare the board with the picture before you solve it."))

    @Slot()
    def clear(self) -> None:
        self._drop_thumb()
        self.hide()

    def _drop_thumb(self) -> None:
        if self.thumb is not None:
            discard(self.thumb)
            self.thumb = None
