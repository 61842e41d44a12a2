"""One answer on show: its canvases while it develops, its text once it has settled, and what can be done with it."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.canvas.view import CanvasView
from app.chat.messages.action_row import ActionRow
from app.chat.messages.fading import Fading
from app.chat.messages.figures import FiguresLine
from app.chat.messages.thinking import Thinking
from app.chat.messages.versions import VersionSwitch
from app.chat.prose.widget import PAD, Prose
from app.chat.view_options import ViewOptions
from app.chat.words import figures_line, remarks, status_line, wants_retry
from app.design.controls import FocusGroup, button, label
from app.state.chat.conversation import Answer, Turn
from app.system.i18n import tr
from engine.service import LoadedModel


class AnswerView(QWidget):
    """Shows the version of a turn's answer that is on show. ``refresh`` after each change of the turn.

    ``model`` writes the tokens of a live answer; without one there are no canvases.
    """

    stop_asked = Signal()
    again_asked = Signal()
    delete_asked = Signal()
    inspect_asked = Signal()
    chosen = Signal(int)
    rebuilt = Signal()  # other controls than before

    def __init__(self, turn: Turn, model: LoadedModel | None, options: ViewOptions) -> None:
        super().__init__()
        self._turn = turn
        self._model = model
        self._options = options
        self._drawn: Answer | None = None  # whose canvases are in place
        self._can_ask = True
        self._is_busy = False
        self._can_delete = False
        self.canvases: list[CanvasView] = []

        self.speaker = label("", "speaker")
        self.versions = VersionSwitch(tr("Earlier version of the answer"), tr("Later version of the answer"))
        self.before, self.place, self.after = self.versions.before, self.versions.place, self.versions.after
        self.thinking = Thinking(options.theme)
        self.text = Prose(tr("Answer"), options.theme)
        self.status = FiguresLine(options.theme)
        self.remarks = label("", "remark", wrap=True, selectable=True)
        self.remarks.setAccessibleName(tr("Remark"))
        self.retry = button(tr("Regenerate"), tr("Try the answer again"), role="plain")
        self.stop = button(
            tr("■ Stop"), tr("Stop the answer"), role="plain", tip=tr("Stops within one denoising step (Esc)")
        )
        self.again = button(
            tr("Regenerate"), tr("Regenerate the answer"), tip=tr("Answers once more with a new seed (Ctrl+R)")
        )
        self.copy = button(tr("Copy"), tr("Copy the answer"), tip=tr("Copies the Markdown source"))
        self.canvas_toggle = button(tr("Show canvas"), tr("Show the canvas of the answer"))
        self.canvas_toggle.setCheckable(True)
        self.inspect = button(tr("Inspect"), tr("Inspect how the answer came about"), tip=tr("Opens the inspector"))
        self.delete = button(
            tr("Delete version"), tr("Delete this version of the answer"), tip=tr("The other versions stay")
        )
        self._asking, self._keeping = FocusGroup(self.again, self.retry, self.stop), FocusGroup(self.delete, self.copy)
        self._lay_out()
        self._connect()
        self.refresh()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setContentsMargins(PAD, 0, PAD, 0)
        head.addWidget(self.speaker)
        head.addStretch(1)
        head.addWidget(self.versions)
        self._canvas_column = QVBoxLayout()
        self._canvas_column.setContentsMargins(PAD, 0, PAD, 0)
        self._canvas_column.setSpacing(8)
        remark = QVBoxLayout()
        remark.setContentsMargins(PAD, 4, PAD, 0)
        remark.setSpacing(8)
        remark.addWidget(self.remarks)
        remark.addWidget(self.retry, 0, Qt.AlignmentFlag.AlignLeft)
        foot = QVBoxLayout()
        foot.setContentsMargins(PAD, 0, PAD, 0)
        foot.setSpacing(4)
        foot.addWidget(self.status)
        buttons = QHBoxLayout()
        buttons.setSpacing(16)
        self.acts = ActionRow(self, self.again, self.copy, self.canvas_toggle, self.inspect, self.delete)
        buttons.addWidget(self.stop)
        buttons.addWidget(self.acts, 1)
        foot.addLayout(buttons)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addLayout(head)
        column.addWidget(self.thinking)
        column.addLayout(self._canvas_column)
        column.addWidget(self.text)
        column.addLayout(remark)
        column.addLayout(foot)

    def _connect(self) -> None:
        self.stop.clicked.connect(self.stop_asked)
        self.again.clicked.connect(self.again_asked)
        self.retry.clicked.connect(self.again_asked)
        self.delete.clicked.connect(self.delete_asked)
        self.inspect.clicked.connect(self.inspect_asked)
        self.copy.clicked.connect(self._copy)
        self.canvas_toggle.toggled.connect(self._toggle_canvas)
        self.versions.chosen.connect(self.chosen)
        self.text.rebuilt.connect(self.rebuilt)
        self.thinking.rebuilt.connect(self.rebuilt)

    def tab_stops(self) -> list[QWidget]:
        """What Tab goes through, in order."""
        return [
            self.before,
            self.after,
            *self.thinking.tab_stops(),
            *self.canvases,
            *self.text.tab_stops(),
            self.remarks,
            self.retry,
            self.status.more,
            self.stop,
            self.again,
            self.copy,
            self.canvas_toggle,
            self.inspect,
            self.delete,
        ]

    def set_options(self, options: ViewOptions) -> None:
        """Change how text and canvases are drawn."""
        self._options = options
        self.text.set_theme(options.theme)
        self.thinking.set_theme(options.theme)
        self.status.set_theme(options.theme)
        for view in self.canvases:
            options.apply(view)

    def set_model(self, model: LoadedModel | None) -> None:
        """The model that wrote the answer on show, if it can still be asked for its tokens."""
        self._model = model

    def set_state(self, *, can_ask: bool, is_busy: bool, can_delete: bool = False, is_last: bool = True) -> None:
        """Whether an answer can be asked for now, whether one is under way, and whether none follows this one."""
        self._can_ask, self._is_busy, self._can_delete = can_ask, is_busy, can_delete
        self.acts.keep(is_last)
        self._show_buttons()

    def refresh(self, share: float = 1.0) -> None:
        """Draw what has changed; of the latest step of an answer under way, this share."""
        answer = self._turn.answer
        if answer is not self._drawn:
            self._drop_canvases()
            self._drawn = answer
            self.canvas_toggle.setChecked(self._keeps_canvas())
        blocks = answer.canvas.blocks if self._model is not None else []
        first = max(0, len(self.canvases) - 1)  # earlier ones are committed and do not change
        while len(self.canvases) < len(blocks):
            self._add_canvas()
        for view, block in list(zip(self.canvases, blocks, strict=True))[first:]:
            view.set_block(block.partly(share))
        self.speaker.setText(answer.model_title)
        self.status.show_figures(status_line(answer), figures_line(answer))
        said = "" if answer.is_active else remarks(answer)
        self.remarks.setText(said)
        if not answer.is_active:
            self.text.set_text(answer.text)
            self.thinking.set_thoughts(answer.thinking)
        self._show_parts()
        self._show_buttons()

    def reveal(self, share: float) -> None:
        """Show another share of the latest step."""
        blocks = self._turn.answer.canvas.blocks
        if self.canvases and len(self.canvases) == len(blocks):
            self.canvases[-1].set_block(blocks[-1].partly(share))

    def settle(self) -> None:
        """The run has ended: what was stopped keeps its canvas, what finished becomes text."""
        before = self._canvas_area()
        shown = self.isVisible() and not self._options.reduced_motion and not before.isEmpty()
        fading = Fading(self, before) if shown else None
        self.canvas_toggle.setChecked(self._keeps_canvas())
        self.refresh()
        if fading is None:
            return
        if any(view.isVisibleTo(self) for view in self.canvases):
            fading.deleteLater()
        else:
            fading.start()

    def _keeps_canvas(self) -> bool:
        answer = self._turn.answer
        return bool(answer.canvas.blocks) and (answer.status in ("stopped", "failed") or answer.is_empty)

    def _canvas_area(self) -> QRect:
        area = QRect()
        for view in self.canvases:
            if view.isVisibleTo(self):
                area = area.united(view.geometry())
        return area

    def _add_canvas(self) -> None:
        assert self._model is not None
        view = CanvasView()
        view.set_piece(self._model.piece, self._model.is_special)
        view.set_vocabulary_size(self._model.vocab_size)
        view.setColumns(self._model.traits.canvas_columns)
        self._options.apply(view)
        view.setAccessibleName(tr("Canvas of block {number}", number=len(self.canvases) + 1))
        self.canvases.append(view)
        self._canvas_column.addWidget(view)
        self.rebuilt.emit()

    def _drop_canvases(self) -> None:
        for view in self.canvases:
            self._canvas_column.removeWidget(view)
            view.hide()
            view.deleteLater()
        self.canvases.clear()

    def _show_parts(self) -> None:
        answer = self._turn.answer
        shows_canvas = bool(self.canvases) and (answer.is_active or self.canvas_toggle.isChecked())
        for view in self.canvases:
            view.setVisible(shows_canvas)
        self.text.setVisible(bool(answer.text.strip()) and not shows_canvas and not answer.is_active)
        if shows_canvas or answer.is_active:
            self.thinking.hide()
        else:
            self.thinking.setVisible(bool(answer.thinking))
        self.remarks.setVisible(bool(self.remarks.text()))
        self.canvas_toggle.setText(tr("Hide canvas") if self.canvas_toggle.isChecked() else tr("Show canvas"))

    def _show_buttons(self) -> None:
        with self._asking, self._keeping:
            self._show_usable_buttons()

    def _show_usable_buttons(self) -> None:
        answer = self._turn.answer
        active, retries = answer.is_active, wants_retry(answer)
        self.stop.setVisible(active)
        self.again.setVisible(not active and not retries)
        self.retry.setVisible(retries)
        for widget in (self.again, self.retry):
            widget.setEnabled(self._can_ask)
        self.copy.setVisible(not active and bool(answer.text.strip()))
        self.canvas_toggle.setVisible(not active and bool(self.canvases))
        self.inspect.setVisible(answer.has_trace)
        versions = len(self._turn.answers)
        self.versions.show_versions(self._turn.answers.shown, versions, can_switch=not self._is_busy)
        self.delete.setVisible(self._can_delete and versions > 1 and not active)
        self.delete.setEnabled(not self._is_busy)

    @Slot()
    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._turn.answer.text)

    @Slot(bool)
    def _toggle_canvas(self, _shown: bool) -> None:
        self._show_parts()
