"""The field for the access token that some models need. Knows no keyring: it only emits the token."""

from __future__ import annotations

from PySide6.QtCore import QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QLineEdit, QWidget

from app.design.controls import button, flow_of, label
from app.design.layouts import column_of
from app.system.i18n import tr


class TokenField(QWidget):
    """Emits the entered token and clears itself; ``say`` shows where the token is stored."""

    given = Signal(str)
    forget_asked = Signal()

    def __init__(self, page: str) -> None:
        super().__init__()
        self._page = page
        self.explanation = label(
            tr(
                "This model is gated. Accept its licence at {page}, signed in to your account there, then enter an "
                "access token of that account.",
                page=page,
            ),
            "fact",
            wrap=True,
            selectable=True,
        )
        self.explanation.setAccessibleName(tr("How to get access"))
        self.edit = QLineEdit()
        self.edit.setMaxLength(500)
        self.edit.setEchoMode(QLineEdit.EchoMode.Password)
        self.edit.setPlaceholderText("hf_…")
        self.edit.setAccessibleName(tr("Access token"))
        self.edit.setFixedWidth(240)
        self.save = button(tr("Save the token"), role="plain")
        self.forget = button(tr("Forget the token"))
        self.open = button(tr("Open the licence page"), tip=tr("Opens {page} in the browser", page=page))
        self.status = label("", "fact", wrap=True)
        self.edit.returnPressed.connect(self._submit)
        self.edit.textChanged.connect(self._changed)
        self.save.clicked.connect(self._submit)
        self.forget.clicked.connect(self.forget_asked)
        self.open.clicked.connect(self._open)
        strip = flow_of(self.edit, self.save, self.open, self.forget, gap=16)
        self.setLayout(column_of(self.explanation, strip, self.status, margins=(0, 8, 0, 0), spacing=8))
        self._changed()
        self.say("", has_token=False)

    def say(self, text: str, *, has_token: bool) -> None:
        """Shows where the token is stored, if there is one."""
        self.status.setText(text)
        self.status.setVisible(bool(text))
        self.forget.setVisible(has_token)

    def set_offline(self, offline: bool) -> None:
        """Disables the link to the licence page while offline."""
        self.open.setEnabled(not offline)

    @Slot()
    def _changed(self) -> None:
        self.save.setEnabled(bool(self.edit.text().strip()))

    @Slot()
    def _submit(self) -> None:
        token = self.edit.text().strip()
        if token:
            self.edit.clear()
            self.given.emit(token)

    @Slot()
    def _open(self) -> None:
        QDesktopServices.openUrl(QUrl(self._page))
