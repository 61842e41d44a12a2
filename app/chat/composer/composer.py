"""The composer: text field, attached files and pictures, Send, the context meter and a line with a hint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QDir, Qt, Signal, Slot
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent, QImage, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFileDialog, QWidget

from app.chat.composer.attachments import AttachmentBar
from app.chat.composer.edit import PromptEdit
from app.chat.composer.meter import ContextMeter
from app.design import themes
from app.design.controls import button, chain_tabs, describe, introduce, label, restyle
from app.design.drops import accept_drag, take_drop
from app.design.layouts import STRETCH, UNLIMITED, column_of, row_of
from app.design.text_field import framed
from app.documents.formats import is_document
from app.pictures.bar import Pasted, PictureBar, is_picture_file, refusal_of
from app.state.chat.attachment import Attachment
from app.system.i18n import tr, trn
from engine import SafelightError
from engine.text.outline import spans

TOOLS_GAPS = 84  # pixels between and around the buttons below the field


class Composer(QWidget):
    """Text, files and pictures stay until ``clear``, also during ``wait``."""

    changed = Signal()  # the draft's text, files or pictures
    larger_asked = Signal()  # a model whose answers can be relied on

    def __init__(self) -> None:
        super().__init__(acceptDrops=True)
        self._blocked = ""
        self._can_wait = False
        self._is_waiting = False
        self.fills = True  # the model fills in gaps
        self._message = ""
        self._blind = ""
        self._caution = ""
        self._gaps = 0
        self._tool: QWidget | None = None
        self.edit = PromptEdit()
        self.edit.textChanged.connect(self._draft_changed)
        self.edit.files_pasted.connect(self.accept_files)
        self.edit.picture_pasted.connect(self.accept_picture)
        self.edit.overlong.connect(self.attach_text)
        self.edit.walked.connect(self._show_place)
        self.files = AttachmentBar()
        self.pictures = PictureBar()
        for bar in (self.files, self.pictures):
            bar.changed.connect(self._order_tabs)
            bar.emptied.connect(self.edit.setFocus)
        self.pictures.changed.connect(self._draft_changed)
        self.pictures.refused.connect(self._say_refused)
        self.files.changed.connect(self._text_changed)  # also by itself, while there is something to say
        self.files.refused.connect(self.say)
        self.files.pictured.connect(self._add_pictures)
        self.attach = button(
            tr("Attach…"),
            tr("Attach files"),
            tip=tr("Attach documents, text files and pictures; they can be dropped or pasted as well"),
            clicked=self.choose_files,
        )
        self.meter = ContextMeter()
        self.meter.changed.connect(self._show_hint)
        self.send = button(tr("Send"), tr("Send the prompt"), role="primary")
        self.hint = label("", "caption", wrap=True)
        self.larger = introduce(
            button(
                tr("For answers to rely on…"),
                tip=tr("Shows the larger models that this machine can run"),
                clicked=self.larger_asked,
            ),
            id="larger-models",
        )
        self.larger.hide()

        self._tools = row_of(self.attach, STRETCH, self.meter, self.send, spacing=16)
        parts = (self.pictures, self.files, self.edit, self._tools)
        self._field = framed(self.edit, column_of(*parts, margins=(12, 8, 8, 8), spacing=8))
        self._foot = row_of((self.hint, 1), (self.larger, 0, Qt.AlignmentFlag.AlignLeft), spacing=16)
        self.setLayout(column_of(self._field, self._foot, spacing=8))
        self._order_tabs()
        self._show_hint()
        themes.settled.connect(self._fit)

    @property
    def text(self) -> str:
        return self.edit.raw()

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        return self.files.attachments

    @property
    def is_empty(self) -> bool:
        """True if there is no text, file or picture, nor one being read."""
        return not (
            self.text or self.edit.composed or self.files.chips or self.pictures.pictures or self.pictures.is_reading
        )

    def set_text(self, text: str) -> None:
        """Puts a text into the field with the cursor behind it; attaches it as a file if it is too long."""
        self.edit.set_text(text)

    def clear(self) -> None:
        """Removes text, files and pictures, as after a prompt was sent."""
        self.set_text("")
        self.files.set_attachments(())
        self.pictures.set_pictures(())

    def place_presets(self, picker: QWidget) -> None:
        self._tool = picker
        self._tools.insertWidget(1, picker)
        self._order_tabs()

    def block(self, reason: str, *, can_wait: bool = False) -> None:
        """Shows why nothing can be sent now; an empty reason allows sending. ``can_wait``: an entered prompt may wait.

        Clears an earlier message when sending becomes blocked or allowed, since it is about the state before.
        """
        if bool(reason) != bool(self._blocked):
            self._message = ""
        self._blocked, self._can_wait = reason, can_wait
        self._show_hint()

    def wait(self, is_waiting: bool) -> None:
        """Shows whether the draft has been entered and waits to be sent."""
        if is_waiting == self._is_waiting:
            return
        self._is_waiting, self._message = is_waiting, ""
        self.send.setText(tr("Take back") if is_waiting else tr("Send"))
        self.send.setAccessibleName(tr("Take the prompt back") if is_waiting else tr("Send the prompt"))
        restyle(self.send, "role", "plain" if is_waiting else "primary")
        restyle(self.hint, "tone", "now" if is_waiting else "")
        self._show_hint()

    def note_blind(self, reason: str) -> None:
        """Sets the reason why the model cannot see, shown while there are pictures; empty if it can."""
        self._blind = reason
        self._show_hint()

    def caution(self, text: str) -> None:
        """Sets what is said of the model's answers while there is nothing else to say; empty for nothing."""
        self._caution = text
        self._show_hint()

    def say(self, message: str) -> None:
        """Shows a line under the field until the draft or the reason to wait changes; empty for none."""
        self._message = message
        self._show_hint()

    @Slot(object)
    def accept_files(self, paths: Sequence[str]) -> None:
        """Attaches files that were dropped, pasted or chosen; shows under the field why others cannot be attached."""
        pictures = [path for path in paths if not is_document(Path(path)) and is_picture_file(path)]
        problems = self.files.add_files([path for path in paths if path not in pictures])
        if pictures:
            self._add_pictures(pictures)
        if problems or not pictures:
            self._say_refused(problems)

    @Slot(object)
    def accept_picture(self, image: QImage) -> None:
        self._add_pictures([image])

    @Slot(object)
    def _add_pictures(self, sources: Sequence[Pasted]) -> None:
        self.pictures.add(sources)
        self._show_hint()

    @Slot(object)
    def _say_refused(self, problems: Sequence[str]) -> None:
        self.say(refusal_of(problems))

    @Slot(str)
    def attach_text(self, text: str) -> None:
        """Attaches a text that is too long for the field, and shows the file's name or the error."""
        try:
            name = self.files.add_text(text)
        except SafelightError as error:
            self.say(str(error))
        else:
            self.say(tr("That is too long for the field; it is attached as {name}.", name=name))

    @Slot()
    def choose_files(self) -> None:
        paths, _ = QFileDialog.getOpenFileNames(self, tr("Attach documents, text files and pictures"), QDir.homePath())
        if paths:
            self.accept_files(paths)
        self.edit.setFocus()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if accept_drag(event):
            self._mark_active(True)
            self.say(tr("Drop it here to attach it"))

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        accept_drag(event)

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self._mark_active(self.edit.hasFocus())
        self.say("")

    def dropEvent(self, event: QDropEvent) -> None:
        self._mark_active(self.edit.hasFocus())
        take_drop(event, self.accept_files, self.accept_picture, self.say)
        self.edit.setFocus()

    @Slot()
    def _order_tabs(self) -> None:
        """Sets the tab order: prompt, the buttons of pictures and files, Attach, presets, Send, larger models."""
        tool = [self._tool] if self._tool is not None else []
        buttons = (*self.pictures.buttons, *self.files.buttons, self.attach, *tool, self.send, self.larger)
        chain_tabs(self.edit, buttons)

    @Slot()
    def _show_hint(self) -> None:
        blocked = self._blocked
        if self._is_waiting and blocked:
            blocked = tr("{reason}. Your prompt is sent then; Esc takes it back", reason=blocked.rstrip("."))
        self.send.setEnabled(not blocked or self._can_wait or self._is_waiting)
        describe(self.send, blocked)
        pictured = tr("Reading the picture…") if self.pictures.is_reading else ""
        blind = self._blind if self.pictures.chips else ""
        filled = self._gaps if self.fills else 0
        gaps = trn("Enter fills in the gap", "Enter fills in the {count} gaps", filled) if filled else ""
        usual = gaps or self._caution or tr("Enter sends, Shift+Enter starts a new line")
        said = (self._message, pictured, blocked, blind, self.meter.remark, usual)
        self.hint.setText(next(text for text in said if text))
        self.larger.setVisible(
            bool(self._caution) and not self._gaps and not self._is_waiting
        )  # the hint then needs the line

    def resizeEvent(self, _event: QResizeEvent) -> None:
        self._fit()

    @Slot()
    def _fit(self) -> None:
        """Puts the larger models below the hint if that would have less room than they; leaves out the meter if a
        button would be cut.
        """
        is_narrow = self.width() < 2 * self.larger.sizeHint().width()
        self.hint.setMinimumHeight(self.larger.sizeHint().height())  # nothing moves when the button comes or goes
        self._foot.setDirection(QBoxLayout.Direction.TopToBottom if is_narrow else QBoxLayout.Direction.LeftToRight)
        tool = 0 if self._tool is None else self._tool.minimumSizeHint().width()
        buttons = self.attach.sizeHint().width() + tool + self.send.sizeHint().width()
        is_crowded = self._field.width() < buttons + self.meter.minimumSizeHint().width() + TOOLS_GAPS
        self.meter.setMaximumWidth(0 if is_crowded else UNLIMITED)
        self._tools.setSpacing(8 if is_crowded else 16)

    @Slot(bool)
    def _mark_active(self, active: bool) -> None:
        restyle(self._field, "active", active)

    @Slot()
    def _draft_changed(self) -> None:
        self.say("")
        self._text_changed()

    @Slot()
    def _text_changed(self) -> None:
        self._gaps = sum(1 for _ in spans(self.text))
        self._show_hint()
        self.meter.touch()
        self.changed.emit()

    @Slot()
    def _show_place(self) -> None:
        place = self.edit.history.place
        if place is not None:
            self.say(tr("Earlier prompt {place} of {count}", place=place[0], count=place[1]))
