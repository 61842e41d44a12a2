"""One answer on show: its canvases while it develops, its text once it has settled, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.canvas.view import CanvasView
from app.chat.look import CanvasLook
from app.chat.prompts import canvas_columns
from app.chat.wording import status_line
from app.controls import button, chain_tabs, label
from app.messages import LoadedModel
from app.state.chat_state import Answer, Turn


class AnswerView(QWidget):
    """Shows the version of a turn's answer that is on show. ``refresh`` after each change of the turn."""

    stop_asked = Signal()
    again_asked = Signal()

    def __init__(self, turn: Turn, model: LoadedModel, look: CanvasLook, before_canvases: QWidget) -> None:
        super().__init__()
        self._turn = turn
        self._model = model
        self._look = look
        self._before_canvases = before_canvases  # from where Tab goes to the first canvas
        self._drawn: Answer | None = None  # whose canvases are in place
        self._is_last = True
        self._can_repeat = True
        self.canvases: list[CanvasView] = []

        self.speaker = label("", "speaker")
        self.text = label("", "prose", wrap=True, selectable=True)
        self.text.setAccessibleName("Answer")
        self.status = label("", "caption", wrap=True)
        self.status.setAccessibleName("Progress")
        self.remarks = label("", "remark", wrap=True, selectable=True)
        self.remarks.setAccessibleName("Remark")
        self.stop = button("■ Stop", "Stop the answer", role="plain", tip="Stops within one denoising step (Esc)")
        self.again = button("Regenerate", "Regenerate the answer", tip="Answers once more with a new seed (Ctrl+R)")
        self.copy = button("Copy", "Copy the answer")
        self.canvas_toggle = button("Show canvas", "Show the canvas of the answer")
        self.canvas_toggle.setCheckable(True)
        self.before = button("‹", "Earlier version of the answer")
        self.place = label("", "caption")
        self.after = button("›", "Later version of the answer")

        for arrow in (self.before, self.after):
            arrow.setMinimumWidth(24)
        self._canvas_column = QVBoxLayout()
        self._canvas_column.setSpacing(8)
        buttons = QHBoxLayout()
        buttons.setContentsMargins(0, 0, 0, 0)
        buttons.setSpacing(16)
        for widget in (self.stop, self.again, self.copy, self.canvas_toggle):
            buttons.addWidget(widget)
        buttons.addStretch(1)
        buttons.addWidget(self.before)
        buttons.addWidget(self.place)
        buttons.addWidget(self.after)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self.speaker)
        column.addLayout(self._canvas_column)
        column.addWidget(self.text)
        column.addWidget(self.remarks)
        column.addWidget(self.status)
        column.addLayout(buttons)

        self.stop.clicked.connect(self.stop_asked)
        self.again.clicked.connect(self.again_asked)
        self.copy.clicked.connect(self._copy)
        self.canvas_toggle.toggled.connect(self._toggle_canvas)
        self.before.clicked.connect(self._show_earlier)
        self.after.clicked.connect(self._show_later)
        self.refresh()

    def tab_stops(self) -> tuple[QWidget, ...]:
        """What Tab goes through, besides the canvases, in order."""
        return (
            self.text,
            self.remarks,
            self.stop,
            self.again,
            self.copy,
            self.canvas_toggle,
            self.before,
            self.after,
        )

    def set_look(self, look: CanvasLook) -> None:
        """Change how the canvases are drawn."""
        self._look = look
        for view in self.canvases:
            look.apply(view)

    def set_place(self, *, is_last: bool, can_repeat: bool) -> None:
        """Only the last answer of a conversation can be generated again, and only by a model that is ready."""
        self._is_last = is_last
        self._can_repeat = can_repeat
        self._show_buttons()

    def refresh(self) -> None:
        """Draw what has changed."""
        answer = self._turn.answer
        if answer is not self._drawn:
            self._drop_canvases()
            self._drawn = answer
            self.canvas_toggle.setChecked(answer.status in ("stopped", "failed"))
        blocks = answer.canvas.blocks
        first = max(0, len(self.canvases) - 1)  # earlier ones are committed and do not change
        while len(self.canvases) < len(blocks):
            self._add_canvas()
        for view, block in list(zip(self.canvases, blocks, strict=True))[first:]:
            view.set_block(block)
        self.speaker.setText(answer.model_title)
        self.text.setText(answer.text)
        self.status.setText(status_line(answer))
        self.remarks.setText("\n".join(answer.notices()))
        # The line wraps sooner or later as its figures grow; what is under it must not jump.
        self.status.setMinimumHeight(2 * self.status.fontMetrics().lineSpacing() if answer.is_active else 0)
        self._show_parts()
        self._show_buttons()

    def settle(self) -> None:
        """The run has ended: what was stopped keeps its canvas, what finished becomes text."""
        answer = self._turn.answer
        self.canvas_toggle.setChecked(answer.status != "done" or (answer.is_empty and bool(answer.canvas.blocks)))
        self.refresh()

    def _add_canvas(self) -> None:
        view = CanvasView()
        view.set_piece(self._model.piece, self._model.is_special)
        view.set_vocabulary_size(self._model.vocab_size)
        view.setColumns(canvas_columns(self._model.name))
        self._look.apply(view)
        view.setAccessibleName(f"Canvas of block {len(self.canvases) + 1}")
        self.canvases.append(view)
        self._canvas_column.addWidget(view)
        chain_tabs(self.canvases[-2] if len(self.canvases) > 1 else self._before_canvases, [view])

    def _drop_canvases(self) -> None:
        for view in self.canvases:
            self._canvas_column.removeWidget(view)
            view.hide()
            view.deleteLater()
        self.canvases.clear()

    def _show_parts(self) -> None:
        answer = self._turn.answer
        shows_canvas = answer.is_active or self.canvas_toggle.isChecked()
        for view in self.canvases:
            view.setVisible(shows_canvas)
        self.text.setVisible(bool(answer.text) and not shows_canvas)
        self.remarks.setVisible(bool(self.remarks.text()))
        self.canvas_toggle.setText("Hide canvas" if self.canvas_toggle.isChecked() else "Show canvas")

    def _show_buttons(self) -> None:
        answer = self._turn.answer
        active = answer.is_active
        self.stop.setVisible(active)
        self.again.setVisible(not active and self._is_last)
        self.again.setEnabled(self._can_repeat)
        self.copy.setVisible(not active and bool(answer.text))
        self.canvas_toggle.setVisible(not active and bool(answer.canvas.blocks))
        versions = len(self._turn.answers)
        for widget in (self.before, self.place, self.after):
            widget.setVisible(versions > 1 and not active)
        self.before.setEnabled(self._turn.shown > 0)
        self.after.setEnabled(self._turn.shown < versions - 1)
        self.place.setText(f"{self._turn.shown + 1}/{versions}")
        self.place.setAccessibleName(f"Version {self._turn.shown + 1} of {versions}")

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._turn.answer.text)

    @Slot(bool)
    def _toggle_canvas(self, _shown: bool) -> None:
        self._show_parts()

    @Slot()
    def _show_earlier(self) -> None:
        self._turn.show(self._turn.shown - 1)
        self.refresh()

    @Slot()
    def _show_later(self) -> None:
        self._turn.show(self._turn.shown + 1)
        self.refresh()
