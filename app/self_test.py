"""``--self-test``: types a prompt into the real window, prints the answer and closes. Knows no engine.

It tests a bundle on a machine without other tools, with the window, the model, the engine's thread and the library.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from PySide6.QtCore import QElapsedTimer, QEvent, QObject, Qt, QTimer, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication

from app.state.run.pace import FULL_SPEED
from app.system.timers import every

if TYPE_CHECKING:
    from app.state.chat.conversation import Turn
    from app.window.main_window import MainWindow

LOOK_MS = 50  # between two checks whether a prompt can be sent
PATIENCE_SECONDS = 300  # most time for the model and the answer together; a slow disk may have to read gigabytes


class SelfTest(QObject):
    """Waits for the model, asks, and waits for the answer; then ``code`` is 0, or 1 with the reason on stderr."""

    def __init__(self, window: MainWindow, prompt: str) -> None:
        super().__init__(window)
        self.code = 1  # a window that is closed before the answer has failed
        self._window, self._prompt = window, prompt
        self._clock = QElapsedTimer()
        self._clock.start()
        window.context.backend.pacing.set_speed(FULL_SPEED)  # the test does not watch frames
        self._asked = False
        window.context.session.ended.connect(self._answered)
        window.context.session.failed.connect(self._failed)
        window.context.session.returned.connect(self._returned)
        self._timer = every(self, self._look, LOOK_MS)
        self._timer.start()

    @Slot()
    def _look(self) -> None:
        page, context = self._window.pages.chat().page, self._window.context
        if self._clock.elapsed() > 1000 * PATIENCE_SECONDS:
            self._failed(f"no answer within {PATIENCE_SECONDS} seconds")
        elif page.notice.isVisible():  # the page shows an error
            self._failed(page.notice.message.text())
        elif not self._asked and context.model is not None and not context.reason_to_wait():
            self._asked = True
            page.composer.set_text(self._prompt)
            for kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
                key = QKeyEvent(kind, Qt.Key.Key_Return, Qt.KeyboardModifier.NoModifier)
                QApplication.sendEvent(page.composer.edit, key)
            if not context.session.chat.turns:
                self._failed(f"the prompt was not taken: {context.reason_to_wait() or 'Return did nothing'}")

    @Slot()
    def _answered(self) -> None:
        turns = self._window.context.session.chat.turns
        if not turns:
            return  # the prompt was refused; ``returned`` or ``failed`` follows
        answer = turns[-1].answer
        if answer.status != "done" or not answer.text.strip():
            self._failed(f"the answer is {answer.status}: {answer.error or answer.text or 'empty'}")
            return
        print(answer.text, flush=True)
        self._end(0)

    @Slot(object, str)
    def _returned(self, _turn: Turn, why: str) -> None:
        if why:
            self._failed(why)

    @Slot(str, str)
    def _failed(self, message: str, details: str = "") -> None:
        print(f"safelight: the self-test failed: {message}", file=sys.stderr, flush=True)
        if details:
            print(details, file=sys.stderr, flush=True)
        self._end(1)

    def _end(self, code: int) -> None:
        if self._timer.isActive():
            self._timer.stop()
            self.code = code
            QTimer.singleShot(0, self._window.close)  # after the other receivers of the signal
