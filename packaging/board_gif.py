"""Draws recorded Sudoku runs as an animated GIF: a board a run, side by side, step by step, as the window shows them.

``python packaging/board_gif.py OUT.gif RUN.sltrace [RUN.sltrace]``
"""

from __future__ import annotations

import argparse
import re
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from PySide6.QtCore import QBuffer, QRect, Qt
from PySide6.QtGui import QColor, QPainter, QPixmap

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app.design import motion, themes
from app.design.fonts import ui_font
from app.design.tokens import DARKROOM
from app.main import application
from app.state.run.replay import Replay
from app.state.sudoku.solve_frame import SolveFrame, frame
from app.sudoku.board.view import BoardView
from engine import Recording, open_trace

SIDE, EDGE, CAPTION = 400, 20, 44  # pixels
FRAME_MS, LAST_MS = 260, 3500


def frames_of(run: Recording) -> list[tuple[SolveFrame, str]]:
    """What the board shows at each step of a run, and the line under it."""
    puzzle = "".join(re.findall("[0-9]", run.prompt))[-81:]
    replay = Replay(run)
    name = run.header.model.adapter or run.header.model.title or run.header.model.name
    shown = [frame(puzzle, replay.snapshot(place), run.piece) for place in range(len(replay.frames))]
    steps = max(one.steps for one in shown)
    ends = {True: f"solved in {steps} steps", False: f"not solved in {steps} steps"}
    return [(one, f"{name}: {ends[one.verdict.valid]}" if one.verdict else f"{name}: step {one.step}") for one in shown]


def picture(boards: list[BoardView], shown: list[tuple[SolveFrame, str]]) -> Image.Image:
    """One frame of the animation."""
    width = EDGE + len(boards) * (SIDE + EDGE)
    sheet = QPixmap(width, SIDE + EDGE + CAPTION)
    sheet.fill(QColor(DARKROOM.surface))
    painter = QPainter(sheet)
    painter.setFont(ui_font())
    painter.setPen(QColor(DARKROOM.ink))
    for place, (board, (state, words)) in enumerate(zip(boards, shown, strict=True)):
        board.set_frame(state)
        left = EDGE + place * (SIDE + EDGE)
        painter.drawPixmap(left, EDGE, board.grab())
        painter.drawText(QRect(left, EDGE + SIDE, SIDE, CAPTION), Qt.AlignmentFlag.AlignVCenter, words)
    painter.end()
    held = QBuffer()
    held.open(QBuffer.OpenModeFlag.WriteOnly)
    sheet.save(held, "PNG")
    return Image.open(BytesIO(held.data().data())).convert("RGB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    args = parser.parse_args()
    application()
    stories = [frames_of(open_trace(path)) for path in args.runs]
    boards = []
    for _ in stories:
        board = BoardView()
        themes.publish(DARKROOM)
        motion.set_reduced(True)
        board.resize(SIDE, SIDE)
        boards.append(board)
    length = max(map(len, stories))
    pictures = [picture(boards, [story[min(place, len(story) - 1)] for story in stories]) for place in range(length)]
    colors = pictures[-1].quantize(96)
    first, *rest = [one.quantize(palette=colors, dither=Image.Dither.NONE) for one in pictures]
    first.save(
        args.out, save_all=True, append_images=rest, loop=0, duration=[FRAME_MS] * len(rest) + [LAST_MS], optimize=True
    )
    print(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
