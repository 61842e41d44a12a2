"""The ``safelight`` command and ``python -m app``. Ctrl+C ends it without a traceback at any time."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Runs the command line and returns its exit code."""
    is_heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # ignored, for example, under nohup
    try:
        if is_heard:
            signal.signal(signal.SIGINT, _interrupt)
        from app.cli.main import main as run  # takes a second, during which Ctrl+C must already work

        return run()
    except KeyboardInterrupt:  # a second Ctrl+C, while the first is being handled
        return 130
    finally:
        if is_heard:
            signal.signal(signal.SIGINT, lambda *_: os._exit(130))


def _interrupt(_signal: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; ends the program at once during an import, which cannot be interrupted cleanly."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
