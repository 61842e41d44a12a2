"""The view of one turn of a conversation: the prompt and the answer below it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from app.board.geometry import MARGIN
from app.board.view import FrameView
from app.chat.commands import TurnCommands, ViewOptions
from app.chat.composer.attachments import size_in_words
from app.chat.markdown_view.widget import PAD, MarkdownView
from app.chat.messages.action_row import ActionRow, VersionSwitch
from app.chat.messages.answer import AnswerView
from app.chat.messages.prompt_editor import PromptEditor
from app.design import themes
from app.design.controls import button, describe, discard, flow_of, grow_with_width, introduce, label
from app.design.fonts import px
from app.design.layouts import STRETCH, column_of, row_of
from app.design.text_field import fits
from app.pictures.bar import PictureThumb
from app.state.chat.attachment import Attachment
from app.state.chat.conversation import Turn
from app.state.chat.fences import fenced
from app.state.sudoku.placing import is_puzzle, puzzle_in
from app.state.sudoku.solve_frame import entered
from app.system.i18n import tr
from engine.service import LoadedModel

NAME_WIDTH = 240  # pixels
THUMB_HEIGHT = 120  # pixels of a picture, at 100 %
CELL = 22  # pixels of a puzzle's cell, at 100 %
LINE = "\n"
FOLDED, UNFOLDED = "▸", "▾"
ABOVE, BELOW, BETWEEN = 24, 24, 20


class PromptView(QWidget):
    """Shows the prompt of a turn, which can be edited in place."""

    def __init__(self, turn: Turn, options: ViewOptions, commands: TurnCommands, rebuilt: Callable[[], object]) -> None:
        super().__init__()
        self._turn, self._commands, self._rebuilt = turn, commands, rebuilt
        self.speaker = label(tr("You"), "speaker")
        self.versions = VersionSwitch(
            tr("Earlier version of the prompt"),
            tr("Later version of the prompt"),
            lambda index: commands.choose_prompt(turn, index),
        )
        self.prose = MarkdownView(tr("Prompt"), markdown=False)
        self.prose.quote = commands.quoted.emit
        puzzle = puzzle_in(turn.prompt) if is_puzzle(turn.prompt) else None
        self.board = None if puzzle is None else _board(puzzle)
        self.edit = button(
            tr("Edit"),
            tr("Edit the prompt"),
            tip=tr("The old prompt stays as another version"),
            clicked=self.begin_editing,
        )
        self.copy = button(
            tr("Copy"), tr("Copy the prompt"), clicked=lambda: QGuiApplication.clipboard().setText(turn.prompt)
        )
        self.delete = button(
            tr("Delete"),
            tr("Delete the turn"),
            tip=tr("Deletes the prompt, its answer and what follows"),
            clicked=lambda: commands.delete(turn),
        )
        self.editor: PromptEditor | None = None
        self.pictures = [PictureThumb(shown, options.pictures, THUMB_HEIGHT) for shown in turn.pictures]
        self.chips: list[QPushButton] = []
        self.files: list[MarkdownView] = []  # the texts of the files, empty until they are unfolded

        self._column = column_of(spacing=8)
        self.setLayout(self._column)
        self.acts = ActionRow(self, self.edit, self.copy, self.delete, wraps=False)
        self._column.addLayout(row_of(self.speaker, STRETCH, self.versions, self.acts, margins=(PAD, 0, PAD, 0)))
        if self.pictures:
            self._add_row(flow_of(*self.pictures), tr("Pictures of the prompt"))
        self._add_files()
        self._column.addWidget(self.prose)
        if self.board is not None:
            self._column.addWidget(self.board)
            self._column.setAlignment(self.board, Qt.AlignmentFlag.AlignLeft)
            self._fit_board()
            themes.changed.connect(self._fit_board)

        self._is_editable = fits(turn.prompt)
        if not self._is_editable:
            why = tr("Too long to be edited here. Copy it and paste it into the field below: it becomes a file.")
            describe(self.edit, why)
        self.prose.set_text(turn.prompt)
        self._show_prompt(True)
        self.prose.rebuilt.connect(rebuilt)

    def set_state(self, shown: int, versions: int, *, can_ask: bool, is_busy: bool) -> None:
        """Sets the index of this version, the number of versions, and which actions are possible now."""
        self.versions.show_versions(shown, versions, can_switch=not is_busy)
        self.edit.setEnabled(can_ask and self._is_editable)
        if self.editor is not None:
            self.editor.set_can_send(can_ask)
        self.delete.setEnabled(not is_busy)

    @Slot()
    def begin_editing(self) -> None:
        if self.editor is None:
            self.editor = PromptEditor(lambda text: self._commands.edit(self._turn, text), self._end_editing)
            self._column.insertWidget(self._column.indexOf(self.prose) + 1, self.editor)
            self._show_prompt(False)
            self.acts.setVisible(False)
            self._rebuilt()
        self.editor.edit(self._turn.prompt)

    @Slot()
    def _end_editing(self) -> None:
        if self.editor is not None:
            self.acts.setVisible(True)
            self._show_prompt(True)
            if self.isVisible():  # else another version is shown, and the focus belongs elsewhere
                self.edit.setFocus()
            discard(self.editor)
            self.editor = None
            self._rebuilt()

    def _show_prompt(self, shown: bool) -> None:
        if self.board is not None:
            self.board.setVisible(shown)
        self.prose.setVisible(shown and self.board is None and bool(self._turn.prompt))

    @Slot()
    def _fit_board(self) -> None:
        if self.board is not None:
            side = 9 * px(CELL) + 2 * MARGIN
            self.board.setFixedSize(side, side)

    def _add_row(self, host: QWidget, name: str) -> None:
        host.setAccessibleName(name)
        self._column.addLayout(row_of(host, margins=(PAD, 4, PAD, 4)))

    def _add_files(self) -> None:
        if not self._turn.attachments:
            return
        for file in self._turn.attachments:
            size = size_in_words(len(file.text.encode("utf-8", "replace")))
            said = tr("Show the file {name}, {size}", name=file.name, size=size)
            chip, prose = button("", said, role="chip", checkable=True), MarkdownView(tr("File {name}", name=file.name))
            name = chip.fontMetrics().elidedText(file.name, Qt.TextElideMode.ElideMiddle, NAME_WIDTH)
            chip.setText(f"{name} · {size} {FOLDED}")
            chip.setToolTip(file.name if name != file.name else "")
            chip.toggled.connect(partial(self._unfold, chip, prose, file))
            prose.rebuilt.connect(self._rebuilt)
            prose.hide()
            self.chips.append(chip)
            self.files.append(prose)
        self._add_row(flow_of(*self.chips), tr("Files of the prompt"))
        self._column.addLayout(column_of(*self.files, spacing=8))

    def _unfold(self, chip: QPushButton, prose: MarkdownView, file: Attachment, is_open: bool) -> None:
        if is_open:
            ending = file.name.rpartition(".")[2]
            prose.set_text(fenced(file.text.removesuffix(LINE), ending if ending.isalnum() else ""))
        prose.setVisible(is_open)
        chip.setText(f"{chip.text()[:-1]}{UNFOLDED if is_open else FOLDED}")


def _board(puzzle: str) -> FrameView:
    """Returns a board that only shows a puzzle; it is copied and edited as text."""
    board = introduce(FrameView(), tr("The puzzle"))
    board.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    board.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
    board.set_frame(entered(puzzle))
    return board


class TurnView(QWidget):
    """A prompt and its answer; ``rebuilt`` is called when their controls have changed."""

    def __init__(
        self,
        turn: Turn,
        model: LoadedModel | None,
        options: ViewOptions,
        commands: TurnCommands,
        rebuilt: Callable[[], object],
    ) -> None:
        super().__init__()
        self.turn = turn
        self.prompt = PromptView(turn, options, commands, rebuilt)
        self.answer = AnswerView(turn, model, options, commands, rebuilt)
        self.setLayout(column_of(self.prompt, self.answer, STRETCH, margins=(0, ABOVE, 0, BELOW), spacing=BETWEEN))
        grow_with_width(self, QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)

    @property
    def stays(self) -> bool:
        """True if deleting the widgets would lose something: an edit, a change, a running answer or a replay."""
        is_edited = self.prompt.editor is not None or not self.answer.changing.isHidden()
        return is_edited or self.turn.answer.is_active or self.answer.replay.is_on

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        _activate(self)  # so that changes just made count
        layout = self.layout()
        return layout.totalHeightForWidth(width) if layout is not None else 0


def _activate(widget: QWidget) -> None:
    """Activates layouts from the inside out; Qt would only do so when idle."""
    for child in widget.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly):
        if child.layout() is not None and not child.isHidden():
            _activate(child)
    layout = widget.layout()
    if layout is not None:
        layout.activate()
