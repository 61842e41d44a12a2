"""The view of one answer: its canvases while it is generated, its text afterwards, and its buttons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import QMenu, QWidget

from app.bridge.engine_thread import RunView
from app.canvas.view import CanvasView
from app.chat.commands import TurnCommands, ViewOptions
from app.chat.markdown_view.widget import PAD, MarkdownView
from app.chat.messages.action_row import ActionRow, FiguresLine, Thinking, VersionSwitch, version_step
from app.chat.messages.calls import CallsView
from app.chat.messages.changing import AnswerChanging
from app.chat.messages.replay import AnswerBoard, AnswerReplay
from app.chat.words import doubt, figures_line, remarks, status_line, wants_retry
from app.design.controls import FocusGroup, button, discard, introduce, label, show_stop
from app.design.layouts import STRETCH, column_of, row_of
from app.state.chat.attachment import with_attachments
from app.state.chat.conversation import Answer, Turn
from app.state.run.canvas import BlockState
from app.system.i18n import tr
from engine import catalog
from engine.service import LoadedModel

LEAST_GROWTH = 200
"""The part of a running answer's text that is shown at once: laying out takes time with all of the text."""


class AnswerView(QWidget):
    """Shows the chosen version of a turn's answer. Call ``refresh`` after each change of the turn.

    A committed block becomes text, and the canvas of the next block is below it. ``model`` turns the tokens of a live
    answer into text; without it there are no canvases.
    """

    def __init__(
        self,
        turn: Turn,
        model: LoadedModel | None,
        options: ViewOptions,
        commands: TurnCommands,
        rebuilt: Callable[[], object],
    ) -> None:
        super().__init__()
        self.turn, self._commands, self._rebuilt = turn, commands, rebuilt
        self.model = model  # the one that wrote the shown answer; None if its tokens can no longer be decoded
        self._options = options
        self._drawn: Answer | None = None  # the answer that the canvases show
        self._can_ask = True
        self._is_busy = False
        self._is_last = True
        self.canvases: list[CanvasView] = []
        self._settled = 0  # number of canvases that have become text
        self._rounds = 0  # of tool calls, when the canvases were drawn

        self.speaker = label("", "speaker")
        self.versions = VersionSwitch(
            tr("Earlier version of the answer"),
            tr("Later version of the answer"),
            lambda index: commands.choose_answer(turn, index),
        )
        self.calls = CallsView(commands, rebuilt)
        self.thinking = Thinking(rebuilt)
        self.board = AnswerBoard(rebuilt)
        self.text = MarkdownView(tr("Answer"))
        self.text.quote = commands.quoted.emit
        self.changing = AnswerChanging(turn, self.text, commands, self._show_parts, rebuilt)
        self.replay = AnswerReplay(turn, options, commands, rebuilt)
        self.status = FiguresLine()
        self.remarks = label("", "remark", wrap=True, selectable=True, name=tr("Remark"))
        self.retry = button(tr("Regenerate"), tr("Try the answer again"), role="plain")
        self.go_on = button(
            tr("Continue"), tr("Continue the answer"), role="plain", tip=tr("Writes on where the limit cut it")
        )
        self.taught = button("", tr("Ask the model that learned this"), role="plain")
        self._taught = ""
        self.stop = button(tr("■ Stop"), role="plain")
        self.again = button(
            tr("Regenerate"), tr("Regenerate the answer"), tip=tr("Answers once more with a new seed (Ctrl+R)")
        )
        self.copy = button(tr("Copy"), tr("Copy the answer"), tip=tr("Copies the Markdown source"))
        self.revise = button(
            tr("Revise…"),
            tr("Revise the answer"),
            tip=tr("The model goes on from it with some noise; select a part to change only that"),
        )
        self.canvas_toggle = button(tr("Show canvas"), tr("Show the canvas of the answer"), checkable=True)
        self.details = button(
            tr("Details"), tr("Details of the answer"), tip=tr("Its replay and figures"), checkable=True
        )
        self.inspect = button(tr("Inspect"), tr("Inspect how the answer came about"), tip=tr("Opens the inspector"))
        self.others = introduce(
            button(tr("Ask instead") + " ▾", tr("Ask another model instead")),
            tip=tr("The new answer becomes a further version"),
        )
        self._others = QMenu(self.others)
        self.others.setMenu(self._others)
        self.delete = button(
            tr("Delete version"), tr("Delete this version of the answer"), tip=tr("The other versions stay")
        )
        self._asking = FocusGroup(self.again, self.retry, self.go_on, self.others, self.stop)
        self._keeping = FocusGroup(self.delete, self.copy, self.revise)
        self._lay_out()
        self._connect(commands)
        self.refresh()

    def _lay_out(self) -> None:
        head = row_of(self.speaker, STRETCH, self.versions, margins=(PAD, 0, PAD, 0))
        self._canvas_column = column_of(margins=(PAD, 0, PAD, 0), spacing=8)
        remark = column_of(
            self.remarks,
            (self.taught, 0, Qt.AlignmentFlag.AlignLeft),
            row_of(self.go_on, self.retry, STRETCH, spacing=8),
            margins=(PAD, 4, PAD, 0),
            spacing=8,
        )
        self.acts = ActionRow(
            self,
            self.again,
            self.others,
            self.copy,
            self.revise,
            self.canvas_toggle,
            self.details,
            self.inspect,
            self.delete,
            also=(self.replay, self.status),
        )
        buttons = row_of(self.stop, (self.acts, 1, Qt.AlignmentFlag.AlignVCenter), spacing=16)
        foot = column_of(self.replay, self.status, buttons, margins=(PAD, 0, PAD, 0), spacing=4)
        self.setLayout(
            column_of(
                head,
                self.calls,
                self.thinking,
                self.board,
                self.text,
                self.changing,
                self._canvas_column,
                self.replay.stage,
                remark,
                foot,
                spacing=8,
            )
        )

    def _connect(self, commands: TurnCommands) -> None:
        turn = self.turn
        self.stop.clicked.connect(lambda: commands.stop())
        for again in (self.again, self.retry):
            again.clicked.connect(lambda: commands.again(turn))
        self.taught.clicked.connect(lambda: commands.ask_other(turn, self._taught))
        self.go_on.clicked.connect(lambda: commands.go_on(turn))
        self.delete.clicked.connect(lambda: commands.delete_answer(turn, turn.answers.shown))
        self.inspect.clicked.connect(lambda: commands.inspect(turn.answer, self.replay.place))
        self.copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(turn.answer.text))
        self.revise.clicked.connect(self.changing.open_panel)
        self.canvas_toggle.toggled.connect(self._show_parts)
        self.details.toggled.connect(self._show_buttons)
        self.text.rebuilt.connect(self._rebuilt)
        self.replay.changed.connect(self._show_parts)
        self.replay.changed.connect(self._show_buttons)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Goes through the versions: ← and → on the text, Ctrl+Z and Ctrl+Shift+Z on any part."""
        step, shown = version_step(event, on_text=self.text.hasFocus()), self.turn.answers.shown
        if step and not self._is_busy and 0 <= shown + step < len(self.turn.answers):
            self._commands.choose_answer(self.turn, shown + step)
        else:
            super().keyPressEvent(event)

    def set_options(self, options: ViewOptions) -> None:
        self._options = options
        self.replay.set_options(options)
        for view in self.canvases:
            view.set_calm(options.calm)

    def set_state(self, *, can_ask: bool, is_busy: bool, is_last: bool, skips: bool) -> None:
        """Sets which actions are possible now.

        Args:
            can_ask: an answer can be requested now.
            is_busy: an answer of the conversation is being generated.
            is_last: no answer follows this one.
            skips: the running answer is already computed, so that Stop skips to its end.
        """
        self._can_ask, self._is_busy = can_ask, is_busy
        show_stop(self.stop, tr("■ Stop"), tr("Stop the answer"), skips=skips)
        self._is_last = is_last
        self.changing.set_can_ask(can_ask)
        self._show_buttons()

    def refresh(self, share: float = 1.0) -> bool:
        """Draws what has changed, with a share (0 to 1) of the latest step of a running answer.

        Returns True if a canvas became text.
        """
        answer = self.turn.answer
        is_other = answer is not self._drawn
        if is_other:
            self._drop_canvases()
            self._drawn = answer
            self.board.is_on = False
            self.replay.forget()
        self.calls.show_rounds(answer.rounds)
        if len(answer.rounds) != self._rounds:  # the canvases were those of a run that has ended
            self._rounds = len(answer.rounds)
            self._drop_canvases()
        before, self._settled = self._settled, len(answer.settled)
        blocks = answer.canvas.blocks if self.model is not None else []
        first = max(0, len(self.canvases) - 1)  # earlier ones are committed and do not change
        while len(self.canvases) < len(blocks):
            self._add_canvas()
        for view, block in list(zip(self.canvases, blocks, strict=True))[first:]:
            self._show_block(view, block, share)
        for view in self.canvases:
            view.set_legend(view is self.canvases[-1])
        self.speaker.setText(answer.model_title)
        read = answer.read if answer.status == "waiting" else None
        self.status.show_figures(status_line(answer, share), figures_line(answer), read)
        self._remark(answer)
        if not answer.is_active and (answer.status == "done" or not self.board.is_on):
            self.board.show_text(self._asked, answer.text)  # the board of a stopped run stays as it was
        if is_other:
            self.canvas_toggle.setChecked(self._keeps_canvas())
        self.replay.offer(answer)
        self._show_parts()
        self._show_buttons()
        return self._settled > before

    def _remark(self, answer: Answer) -> None:
        doubtful = None if answer.is_active else doubt(self._asked, answer)
        said = ["" if answer.is_active else remarks(answer), "" if doubtful is None else doubtful.text]
        self.remarks.setText("\n".join(filter(None, said)))
        self._taught = "" if doubtful is None else doubtful.taught
        self.taught.setText(tr("Ask {model}", model=catalog.title(self._taught)))
        self.taught.setVisible(bool(self._taught))

    def reveal(self, share: float) -> None:
        """Shows another share (0 to 1) of the latest step."""
        answer = self.turn.answer
        blocks = answer.canvas.blocks
        if self.canvases and len(self.canvases) == len(blocks):
            self.status.show_figures(status_line(answer, share), figures_line(answer))
            self._show_block(self.canvases[-1], blocks[-1], share)

    def _show_block(self, view: CanvasView, block: BlockState, share: float) -> None:
        """Shows a block with a share of its latest step; as a board, too, if it is a Sudoku.

        Once the block is computed to its end, it is laid out on the lines of its final text.
        """
        trace, shown = self.turn.answer.trace, block.partly(share)
        if not block.committed and isinstance(trace, RunView):
            shown = shown.laid_out_on(trace.coming(block.block_index))
        view.set_block(shown)
        if self.model is not None:
            self.board.show_block(self._asked, shown, self.model.piece)

    def settle(self) -> None:
        """Shows the end of the run: a stopped run keeps its canvas, a finished one becomes text."""
        self.canvas_toggle.setChecked(self._keeps_canvas())
        self.refresh()

    def _keeps_canvas(self) -> bool:
        answer = self.turn.answer
        if self.board.is_on:
            return False
        return _is_cut_short(answer) or (answer.is_empty and bool(answer.canvas.blocks))

    @property
    def _asked(self) -> str:
        return with_attachments(self.turn.prompt, self.turn.attachments)

    def _add_canvas(self) -> None:
        assert self.model is not None
        view = introduce(CanvasView(), tr("Canvas of block {number}", number=len(self.canvases) + 1))
        view.set_piece(self.model.piece, self.model.is_special)
        view.setColumns(self.model.traits.canvas_columns)
        view.set_calm(self._options.calm)
        self.canvases.append(view)
        self._canvas_column.addWidget(view)
        self._rebuilt()

    def _drop_canvases(self) -> None:
        for view in self.canvases:
            discard(view)
        self.canvases.clear()
        self._settled = 0

    @Slot()
    def _show_parts(self) -> None:
        answer = self.turn.answer
        is_developing = answer.is_active or _is_cut_short(answer)
        shows_canvas = bool(self.canvases) and (answer.is_active or self.canvas_toggle.isChecked())
        is_board, is_replayed = self.board.is_on, self.replay.is_on
        for number, view in enumerate(self.canvases):
            is_text = is_developing and (number < self._settled or answer.is_growing)
            is_hidden = is_replayed or is_text or (is_board and not self.canvas_toggle.isChecked())
            view.setVisible(shows_canvas and not is_hidden)
        self.board.setVisible(is_board and not is_replayed)
        text, thoughts = answer.text, answer.thinking
        if shows_canvas or answer.is_active:
            decode = None if self.model is None else self.model.decode
            text, thoughts = answer.so_far(decode) if is_developing else ("", "")
        if is_board and self.board.is_alone:
            text = ""
        shown = self.text.text()
        is_little = text.startswith(shown) and len(text) - len(shown) < len(text) // LEAST_GROWTH
        if not (answer.is_active and is_little):
            self.text.set_text(text)
        self.text.set_caret(answer.is_active and answer.is_growing)
        is_text = bool(text.strip()) and not is_replayed
        self.changing.show_answer(is_seen=is_text and not answer.is_active)
        self.text.setVisible(is_text and not self.changing.is_reviewing)
        self.thinking.set_thoughts(thoughts)
        self.thinking.setVisible(bool(thoughts) and not is_replayed)
        self.remarks.setVisible(bool(self.remarks.text()))
        self.canvas_toggle.setText(tr("Hide canvas") if self.canvas_toggle.isChecked() else tr("Show canvas"))

    @Slot()
    def _show_buttons(self) -> None:
        answer, versions = self.turn.answer, len(self.turn.answers)
        if self.replay.is_on and not self._is_last:
            self.details.setChecked(True)
        is_open = self._is_last or self.details.isChecked()
        self.acts.keep(is_open)
        self.replay.setVisible(is_open and self.replay.is_offered)
        self.status.setVisible(is_open)
        active, retries = answer.is_active, wants_retry(answer)
        with self._asking, self._keeping:
            self.stop.setVisible(active)
            self.again.setVisible(not active and not retries)
            self.retry.setVisible(retries)
            is_cut = answer.status == "done" and answer.figures.is_cut and not answer.is_empty
            self.go_on.setVisible(is_cut and not self.board.is_on and self._commands.can_change(self.turn))
            self._offer_others(() if active else self._commands.others(self.turn))
            for widget in (self.again, self.retry, self.go_on, self.taught, self.others):
                widget.setEnabled(self._can_ask)
            has_text = not active and bool(answer.text.strip())
            self.copy.setVisible(has_text)
            self.revise.setVisible(has_text and not self.board.is_on and self._commands.can_change(self.turn))
            self.revise.setEnabled(self._can_ask)
            self.canvas_toggle.setVisible(not active and bool(self.canvases))
            self.details.setVisible(not self._is_last and (self.replay.is_offered or bool(self.status.line.text())))
            self.inspect.setVisible(answer.has_trace)
            self.versions.show_versions(self.turn.answers.shown, versions, can_switch=not self._is_busy)
            self.delete.setVisible(versions > 1 and not active)
            self.delete.setEnabled(not self._is_busy)

    def _offer_others(self, models: Sequence[str]) -> None:
        """Lists the models that can be asked instead of the one that answered; hides the button if there are none."""
        menu = self._others
        titles = [tr("Ask {model} instead", model=catalog.title(model)) for model in models]
        if titles != [act.text() for act in menu.actions()]:
            menu.clear()
            for model, title in zip(models, titles, strict=True):
                menu.addAction(title, partial(self._commands.ask_other, self.turn, model))
        self.others.setVisible(bool(models))


def _is_cut_short(answer: Answer) -> bool:
    """True if a run ended within a block, whose canvas is then kept, unless all of it is text."""
    block = answer.canvas.current
    has_ended = answer.status in ("stopped", "failed")
    return has_ended and block is not None and not block.committed and not answer.is_growing
