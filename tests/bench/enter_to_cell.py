"""Lists the files between Enter and a painted cell: ``python -m tests.bench.enter_to_cell``.

The real window asks Safelight Mini. A file counts if it is in the stack of calls at one of the moments that are
printed: from the request's arrival at the scheduler to the first cell that is painted after a step.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.bridge.engine_thread import EngineLink, Pacing
from app.canvas.paint import _CellBrush
from app.canvas.view import CanvasView
from app.main import make_window
from app.state.run.canvas import CanvasState
from engine import MINI, StepFinished
from engine.layers.attention import Attention
from engine.service import LocalBackend
from engine.service.replies import RunAdvanced
from engine.service.scheduler import Scheduler

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


def main() -> None:
    moments: dict[str, list[str]] = {}
    with TemporaryDirectory() as folder:
        os.environ.update(dict.fromkeys(("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), folder))
        app = QApplication([])
        settings = QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat)
        window = make_window(EngineLink(LocalBackend()), settings, seed=3)
        window.show()
        window.context.load(MINI)
        _wait(lambda: window.context.model is not None)
        edit = window.pages.chat().page.composer.edit
        QTest.keyClicks(edit, "Reverse the word robot.")

        _watch(moments, "request", Scheduler, "run_all")
        _watch(moments, "pass", Attention, "forward")
        _watch(moments, "event", StepFinished, "__init__")
        _watch(moments, "mailbox", Pacing, "put", lambda _, _key, reply: _is_step(reply))
        _watch(moments, "fold", CanvasState, "fold", lambda _, event: isinstance(event, StepFinished))
        _watch(moments, "view", CanvasView, "set_block", lambda *_: "fold" in moments)
        _watch(moments, "cell", _CellBrush, "paint", lambda *_: "fold" in moments)
        QTest.keyClick(edit, Qt.Key.Key_Return)
        _wait(lambda: len(moments) == 7)
        window.close()
        app.processEvents()
    seen: set[str] = set()
    for moment, files in moments.items():
        print(f"{moment}:", *(file if file not in seen else f"({file})" for file in files), sep="\n  ")
        seen.update(files)
    print(f"{len(seen)} files")


def _is_step(reply: Any) -> bool:
    return isinstance(reply, RunAdvanced) and isinstance(reply.event, StepFinished)


def _watch(
    moments: dict[str, list[str]], name: str, kind: type, method: str, counts: Callable[..., bool] = lambda *_: True
) -> None:
    """Notes the files of the stack at the first call that counts."""
    plain = getattr(kind, method)

    def watched(*arguments: Any, **named: Any) -> Any:
        if name not in moments and counts(*arguments):
            moments[name] = [*_files(), f"{kind.__module__.replace('.', '/')}.py"]
        return plain(*arguments, **named)

    setattr(kind, method, watched)


def _files() -> list[str]:
    """Returns our files of the current stack, outermost first."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT / "app") or path.is_relative_to(ROOT / "engine"):
            found.append(path.relative_to(ROOT).as_posix())
        frame = frame.f_back  # type: ignore[assignment]
    return list(dict.fromkeys(reversed(found)))


def _wait(until: Callable[[], bool]) -> None:
    limit = time.monotonic() + SECONDS
    while not until():
        if time.monotonic() > limit:
            raise SystemExit(f"nothing more came within {SECONDS} s")
        QTest.qWait(10)


if __name__ == "__main__":
    main()
