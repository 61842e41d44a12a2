"""Goes through a recorded Sudoku as its board and as its tokens, and draws its frames for an export; times as JSON.

``python -m tests.bench.board_frames [--run sudoku-stuck] [--times 3]``. Not a test: times depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.board.view import FrameView
from app.design import motion
from app.design.stylesheet import apply_theme, chrome
from app.design.tokens import DARKROOM
from app.export.pictures import PictureSheet, PictureStyle
from app.inspector.page import InspectorPage
from app.state.run.replay import Replay
from app.state.sudoku.placing import placed
from app.state.sudoku.solve_frame import frame
from engine import Recording, gallery, open_trace

SIDE = 560  # pixels of the board alone
INSPECTOR = (1280, 800)


def timed(work: Callable[[int], object], places: Iterable[int]) -> dict[str, float]:
    """Milliseconds of each call: the median, and what one in twenty exceeds."""
    found = []
    for place in places:
        began = time.perf_counter()
        work(place)
        found.append(1000 * (time.perf_counter() - began))
    return {"median_ms": round(statistics.median(found), 2), "p95_ms": round(statistics.quantiles(found, n=20)[-1], 2)}


def board_alone(run: Recording, times: int) -> dict[str, float]:
    """A frame worked out from the canvas and painted, as on the Sudoku page and in the chat."""
    replay = Replay(run)
    view = FrameView()
    motion.set_reduced(True)
    view.resize(SIDE, SIDE)
    view.show()
    QApplication.processEvents()

    def show(place: int) -> None:
        block = replay.snapshot(place)
        found = placed(run.prompt, block, run.piece)
        if found is not None:
            view.set_frame(frame(found.puzzle, block, run.piece, found.positions))
        view.repaint()

    return timed(show, [*range(len(replay.frames))] * times)


def inspector(run: Recording, times: int, *, board: bool) -> dict[str, float]:
    """A step in the inspector with all of its views."""
    motion.set_reduced(True)
    page = InspectorPage()
    page.setStyleSheet(chrome(DARKROOM))
    page.resize(*INSPECTOR)
    page.show()
    page.open_trace(run, 0)
    page.player.set_board(board)
    QApplication.processEvents()
    replay = page.player.replay
    assert replay is not None

    def go(place: int) -> None:
        page.player.go(place)
        QApplication.processEvents()

    found = timed(go, [*range(len(replay.frames))] * times)
    page.close_trace()
    return found


def picture(run: Recording, *, board: bool) -> dict[str, float]:
    """A frame of a GIF or MP4, drawn."""
    replay = Replay(run)
    sheet = PictureSheet(run, replay, range(len(replay.frames)), PictureStyle(DARKROOM, board=board))
    for _ in sheet.measure():
        pass
    return timed(lambda place: sheet.image(place), range(len(replay.frames)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", default="sudoku-stuck", choices=[one.path.stem for one in gallery()])
    parser.add_argument("--times", type=int, default=3, metavar="N", help="how often the run is gone through")
    args = parser.parse_args()
    application = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(application, QApplication)
    apply_theme(application, DARKROOM)
    run = open_trace(next(one.path for one in gallery() if one.path.stem == args.run))
    inspector(run, 1, board=True)  # fonts are found and glyphs drawn
    found = {
        "board alone": board_alone(run, args.times),
        "inspector, board": inspector(run, args.times, board=True),
        "inspector, tokens": inspector(run, args.times, board=False),
        "picture, board": picture(run, board=True),
        "picture, tokens": picture(run, board=False),
    }
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
