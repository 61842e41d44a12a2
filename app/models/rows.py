"""The row of one model: its description, its needs, its buttons. Knows no jobs: it shows state and emits actions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from PySide6.QtCore import Qt, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFrame, QLineEdit, QProgressBar, QPushButton, QWidget

from app.design.controls import Elided, button, describe, flow_of, introduce, label, restyle, show_line
from app.design.layouts import Gap, column_of, row_of
from app.design.notice import Notice
from app.models.entries import ACTIONS, Action, ModelEntry
from app.models.jobs import JobKind
from app.models.words import action_text, action_tip, download_tip, facts_line
from app.system.i18n import tr


class TokenField(QWidget):
    """Emits the entered token and clears itself; ``say`` shows where the token is stored."""

    given = Signal(str)

    def __init__(self, page: str) -> None:
        super().__init__()
        self.explanation = label(
            tr(
                "Accept its licence first at {page}, signed in to your account there. Then enter an access token of "
                "that account.",
                page=page,
            ),
            "fact",
            wrap=True,
            selectable=True,
            name=tr("How to get access"),
        )
        self.edit = introduce(
            QLineEdit(maxLength=500, echoMode=QLineEdit.EchoMode.Password, placeholderText="hf_…"), tr("Access token")
        )
        self.edit.setFixedWidth(240)
        self.save = button(tr("Save the token"), role="plain", clicked=self._submit)
        self.forget = button(tr("Forget the token"))
        self.status = label("", "fact", wrap=True)
        self.edit.returnPressed.connect(self._submit)
        self.edit.textChanged.connect(self._changed)
        strip = flow_of(self.edit, self.save, self.forget, gap=16)
        self.setLayout(column_of(self.explanation, strip, self.status, margins=(0, 8, 0, 0), spacing=8))
        self._changed()
        self.say("", has_token=False)

    def say(self, text: str, *, has_token: bool) -> None:
        """Shows where the token is stored, if there is one."""
        show_line(self.status, text)
        self.forget.setVisible(has_token)

    @Slot()
    def _changed(self) -> None:
        self.save.setEnabled(bool(self.edit.text().strip()))

    @Slot()
    def _submit(self) -> None:
        token = self.edit.text().strip()
        if token:
            self.edit.clear()
            self.given.emit(token)


MAIN: tuple[Action, ...] = ("load", "unload", "download", "resume", "pause")  # at most one of them is shown
RECOMMENDED: tuple[Action, ...] = ("load", "download", "resume")  # what to do first with the recommended model


@dataclass(frozen=True)
class RowState:
    status: str
    memory: str = ""
    memory_tip: str = ""
    disk: str = ""
    actions: tuple[Action, ...] = ()
    blocked: dict[Action, str] = field(default_factory=dict)  # why a button is disabled, by action
    loaded: bool = False
    bar: float | None = None  # 0 to 1; None hides the bar
    progress: str = ""
    wants_token: bool = False
    job: JobKind | None = None  # the running job
    loading: bool = False


class ModelRow(QFrame):
    """Emits ``action_requested`` when a button is pressed. ``page`` is the address of the model's card."""

    action_requested = Signal(str, str)  # key, action

    def __init__(self, entry: ModelEntry, page: str = "") -> None:
        super().__init__()
        self.setProperty("role", "model")
        self.entry = entry
        self.title = label(entry.title, "model-title", wrap=True)
        self.status = label("", "fact")
        self.purpose = label("", "fact", wrap=True)
        self.facts = label("", "fact", wrap=True)
        self.memory = label("", "fact", wrap=True)
        self.disk = label("", "fact", wrap=True)
        self.bar = introduce(QProgressBar(textVisible=False), role="bar")
        self.bar.setRange(0, 1000)
        policy = self.bar.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # so that what is below does not move
        self.bar.setSizePolicy(policy)
        self.running = Elided("fact")  # of one line, so that no row moves while a text grows
        self.progress = label("", "fact", wrap=True)
        self.notice = Notice()
        self.token = TokenField(page) if page else None
        tip = tr("Opens {page} in the browser", page=page)
        self.card = button(
            tr("Model card"),
            tr("Model card: {title}", title=entry.title),
            tip=tip,
            clicked=lambda: QDesktopServices.openUrl(QUrl(page)),
        )
        self.buttons: dict[Action, QPushButton] = {
            action: button("", role="plain" if action in MAIN else "link", clicked=partial(self._press, action))
            for action in ACTIONS
        }
        self._lay_out()
        self.card.setVisible(bool(page))  # not before it has a parent: it would be a window of its own
        self.show_state(entry, RowState(""))

    def _lay_out(self) -> None:
        heading = row_of((self.title, 1), (self.status, 0, Qt.AlignmentFlag.AlignTop), spacing=16)
        strip = flow_of(*self.buttons.values(), self.card, gap=16)
        self.buttons["load"].setText(tr("Load"))
        strip.setMinimumHeight(self.buttons["load"].sizeHint().height())  # so that it is as high when it has only links
        column = column_of(
            heading,
            self.purpose,
            self.facts,
            self.memory,
            self.disk,
            Gap(4),
            self.bar,
            self.running,
            self.progress,
            self.notice,
            *((self.token,) if self.token is not None else ()),
            Gap(4),
            strip,
            margins=(20, 16, 20, 16),
            spacing=4,
        )
        self.setLayout(column)

    def show_state(self, entry: ModelEntry, state: RowState) -> None:
        """Shows the whole state again; the focus stays in the row if its button disappears."""
        self.entry = entry
        focused = self.window().focusWidget()  # ``focusWidget`` also works while another window is active
        had_focus = focused is self or focused in self.buttons.values()
        self.title.setText(entry.title)
        introduce(self, entry.title, state.status)
        self.status.setText(state.status)
        show_line(self.purpose, entry.purpose[:1].upper() + entry.purpose[1:])
        show_line(self.facts, facts_line(entry))
        show_line(self.memory, state.memory)
        describe(self.memory, state.memory_tip)
        show_line(self.disk, state.disk)
        describe(self.disk, download_tip(entry))
        self.show_progress(state.bar, state.progress)
        if self.token is not None:
            self.token.setVisible(state.wants_token)
        for action, control in self.buttons.items():
            if action not in state.actions and control.accessibleName():  # a hidden row need not be up to date
                continue
            text = action_text(action, entry, state.job, loading=state.loading)
            why = state.blocked.get(action, "")
            control.setText(text)
            control.setAccessibleName(f"{text.rstrip('…')}: {entry.title}")
            describe(control, why or action_tip(action))
            control.setEnabled(not why)
            if action in state.actions:
                control.show()
        if self.property("loaded") != state.loaded:
            restyle(self, "loaded", state.loaded)
        if had_focus:  # before its button is hidden: Qt would move the focus to any widget
            self._keep_focus(state.actions)
        for action, control in self.buttons.items():
            if action not in state.actions:
                control.hide()

    def set_recommended(self, is_recommended: bool) -> None:
        """Sets off the main button of the recommended model."""
        for action in RECOMMENDED:
            if self.buttons[action].property("role") != (role := "primary" if is_recommended else "plain"):
                restyle(self.buttons[action], "role", role)

    def set_offline(self, offline: bool) -> None:
        """Disables the link to the model's card while offline."""
        self.card.setEnabled(not offline)

    def show_progress(self, bar: float | None, text: str) -> None:
        """Shows a job's progress; None hides the bar, and shows the text as the result of the last job."""
        self.bar.setVisible(bar is not None)
        self.bar.setValue(round(1000 * (bar or 0.0)))
        introduce(self.bar, tr("Progress of {title}", title=self.entry.title), text)
        self.running.set_whole(text)
        self.running.setVisible(bar is not None)
        show_line(self.progress, "" if bar is not None else text)

    def tab_order(self) -> tuple[QWidget, ...]:
        token = self.token
        fields = (token.edit, token.save, token.forget) if token is not None else ()
        return (self.notice.details, self.notice.dismiss, *fields, *self.buttons.values(), self.card)

    def _keep_focus(self, actions: tuple[Action, ...]) -> None:
        """Focuses the first button that will be shown; until there is one, the row."""
        usable = [self.buttons[action] for action in ACTIONS if action in actions and self.buttons[action].isEnabled()]
        if self.window().focusWidget() not in usable:
            (usable[0] if usable else self).setFocus()

    def _press(self, action: Action, _checked: bool = False) -> None:
        self.action_requested.emit(self.entry.key, action)
