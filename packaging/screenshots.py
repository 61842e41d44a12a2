"""Takes pictures of the real window with a real embedded model: mid-denoising and settled, in both themes.

The scale comes from QT_SCALE_FACTOR in the environment. Knows nothing of how the window is built inside.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QElapsedTimer, QEventLoop, QSettings, QTimer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app.main import application
from app.messages import Message
from app.window import MainWindow
from app.worker import EngineLink
from engine import EMBEDDED, SKILLS

LONGEST_WAIT_MS = 120_000


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Run the event loop until the condition holds."""
    loop = QEventLoop()
    clock = QElapsedTimer()
    clock.start()
    timer = QTimer()
    timer.timeout.connect(lambda: loop.quit() if condition() or clock.elapsed() > LONGEST_WAIT_MS else None)
    timer.start(1)
    loop.exec()
    if not condition():
        raise SystemExit(f"gave up waiting for {what}")


def settle(milliseconds: int = 300) -> None:
    """Let fades and layouts come to rest."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the PNG files go")
    parser.add_argument("--model", default=SKILLS, choices=[model.id for model in EMBEDDED])
    parser.add_argument("--prompt", help="left out: the third suggestion")
    parser.add_argument("--size", default="1120x760", metavar="WxH", help="the window in logical pixels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--settings", action="store_true", help="open the settings strip")
    parser.add_argument("--layer", default="state", choices=["state", "entropy"])
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a sampler setting, such as max_new_tokens=64"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    width, height = map(int, args.size.split("x"))
    application()
    link = EngineLink()
    with tempfile.TemporaryDirectory() as folder:
        settings = QSettings(f"{folder}/settings.ini", QSettings.Format.IniFormat)
        window = MainWindow(link, settings, args.seed)
        window.resize(width, height)
        window.values.layer = args.layer
        for name, _, value in (given.partition("=") for given in args.set):
            window.values.overrides[name] = float(value) if "." in value else int(value)
        window.topbar.settings.setChecked(args.settings)

        def shoot(name: str) -> None:
            for theme in ("darkroom", "paper"):
                window.looks.choose(theme)
                settle()
                path = args.out / f"{name}-{theme}.png"
                window.grab().save(str(path))
                print(path)

        def frozen_at_half() -> bool:
            block = window.chat.turns[0].answer.canvas.current
            return block is not None and not block.committed and 2 * block.accepted_count >= block.length

        window.show()
        shoot("start")
        window.load(args.model)
        wait_for(lambda: window.model is not None, "the model")
        shoot("empty")
        # Paused between two batches of events, the window stands still while it is grabbed.
        window.send(args.prompt or window.page.suggestions.prompts[2])
        wait_for(lambda: frozen_at_half() or window.chat.active is None, "half of the canvas")
        link.arrived.disconnect(window._take_in)
        held: list[Message] = []
        link.arrived.connect(held.extend)
        shoot("developing")
        link.arrived.disconnect(held.extend)
        link.arrived.connect(window._take_in)
        window._take_in(held)
        wait_for(lambda: window.chat.active is None, "the answer")
        settle()
        shoot("settled")
        window.page.turns[-1].answer.canvas_toggle.setChecked(True)
        settle()
        shoot("canvas")
        window.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
