"""Films the real window as a GIF: an answer, a gap or a tool's call as it develops, a talk, a decision, or a race.

``python packaging/film.py OUT.gif --scene answer``. The scale comes from QT_SCALE_FACTOR in the environment.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from PIL import Image
from PySide6.QtCore import QElapsedTimer, Qt, QTimer
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from stage import load, opened, settle, wait_for

from app.chat.messages.calls import CallView
from app.chat.welcome import FirstRun
from app.export.gif import as_pillow
from app.state.race.prompts import LaneSpec
from app.window.main_window import MainWindow
from engine import BASE, GAPS, MINI, WEDLM
from engine.catalog import SMALL
from engine.tools.declared import EXAMPLES, ToolServer

FRAME_MS = 80
FILL_FRAME_MS = 30  # of bars that fill
LEAST_MS, LAST_MS = 20, 2500  # GIF counts in hundredths of a second; the last picture stays before all begins again
COLORS = 128
SAMPLES = 8  # pictures of which the palette is made
PROMPT = "Times table of 9 up to 8."
TALK_PROMPTS = ("hi", "What is the capital of France?", "Write a short poem about the sea.", "Sort 9 4 7 2 6.")
TALK_TOKENS = 200
T_MAX = 1.8  # hotter than usual, as for the gallery's: the small model is sure of all at once otherwise


class Film:
    """Takes a picture of a window every ``FRAME_MS``, and keeps those that differ with the time that each was seen."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._clock = QElapsedTimer()
        self._shots: list[tuple[int, QImage]] = []  # milliseconds, picture
        self._timer = QTimer()
        self._timer.timeout.connect(self._shoot)

    def take(self, until: Callable[[], bool], what: str, every: int = FRAME_MS) -> None:
        """Film until the condition holds, a picture each ``every`` milliseconds."""
        if not self._clock.isValid():
            self._clock.start()
        self._timer.start(every)
        wait_for(until, what)
        self._timer.stop()
        self._shoot()

    def _shoot(self) -> None:
        picture = self._window.grab().toImage()
        if not self._shots or picture != self._shots[-1][1]:
            self._shots.append((self._clock.elapsed(), picture))

    def save(self, path: Path) -> None:
        """Write the pictures in one palette, each for as long as it was seen."""
        pictures = [as_pillow(picture) for _, picture in self._shots]
        times = [time for time, _ in self._shots]
        seen = [max(LEAST_MS, after - before) for before, after in pairwise(times)] + [LAST_MS]
        samples = [pictures[place * (len(pictures) - 1) // SAMPLES] for place in range(SAMPLES + 1)]
        sheet = Image.new("RGB", (samples[0].width, len(samples) * samples[0].height))
        for row, sample in enumerate(samples):
            sheet.paste(sample, (0, row * sample.height))
        colors = sheet.quantize(COLORS, method=Image.Quantize.MAXCOVERAGE)
        first, *rest = [one.quantize(palette=colors, dither=Image.Dither.NONE) for one in pictures]
        first.save(path, save_all=True, append_images=rest, loop=0, duration=seen, optimize=True)


def answer(window: MainWindow, film: Film, prompt: str) -> None:
    """An answer from the first noise to the prose."""
    load(window, BASE)
    window.context.values.overrides["t_max"] = T_MAX
    window.context.apply_values()
    settle()
    window.pages.chat().sending.send(prompt)
    film.take(lambda: window.context.session.active is None, "the answer")
    settle(600)
    film.take(lambda: True, "the prose")


def talk(window: MainWindow, film: Film, _prompt: str) -> None:
    """First words of a fresh install, to the model that each prompt is for."""
    window.context.load(SMALL)
    wait_for(lambda: window.context.model is not None and window.context.loading is None, "the model")
    window.context.values.overrides["max_new_tokens"] = TALK_TOKENS
    window.context.apply_values()
    settle()
    chat, session = window.pages.chat(), window.context.session

    def is_answered(number: int) -> bool:
        return len(session.chat.turns) == number and session.active is None

    for number, prompt in enumerate(TALK_PROMPTS, start=1):
        chat.page.composer.edit.setPlainText(prompt)
        film.take(lambda: True, "the prompt")
        settle(500)
        QTest.keyClick(chat.page.composer.edit, Qt.Key.Key_Return)
        film.take(partial(is_answered, number), "the answer")
        settle(600)
        film.take(lambda: True, "the prose")
        settle(900)


def gaps(window: MainWindow, film: Film, prompt: str) -> None:
    """A text with a gap, typed and filled in: what was typed stands, and the gap develops."""
    load(window, GAPS)
    settle()
    edit, session = window.pages.chat().page.composer.edit, window.context.session
    for letter in prompt:
        edit.insertPlainText(letter)  # QTest types ASCII alone
        film.take(lambda: True, "the prompt")
        settle(30)
    settle(600)
    QTest.keyClick(edit, Qt.Key.Key_Return)
    film.take(lambda: bool(session.chat.turns) and session.active is None, "the answer")
    settle(600)
    film.take(lambda: True, "the prose")


def tools(window: MainWindow, film: Film, prompt: str) -> None:
    """A question for a tool: its call develops, waits for leave and is run, and the answer develops from its result."""
    load(window, MINI)
    window.context.tools.set_servers((ToolServer("Example tools", EXAMPLES),))
    wait_for(lambda: bool(window.context.tools.offered), "the tools")
    page, session = window.pages.chat().page, window.context.session

    def asking() -> list[CallView]:
        views = page.findChildren(CallView)
        return [view for view in views if view.isVisible() and view.call.status == "asking"]

    for letter in prompt:
        page.composer.edit.insertPlainText(letter)
        film.take(lambda: True, "the prompt")
        settle(30)
    settle(500)
    QTest.keyClick(page.composer.edit, Qt.Key.Key_Return)
    film.take(lambda: bool(asking()), "the call")
    settle(1500)
    asking()[0].once.click()
    film.take(lambda: session.active is None, "the answer")
    settle(600)
    film.take(lambda: True, "the prose")


def first_run(window: MainWindow, film: Film, _prompt: str) -> None:
    """The run that an empty chat plays by itself, from its first noise on."""
    load(window, MINI)
    shown = window.findChild(FirstRun)
    assert shown is not None
    wait_for(lambda: shown.is_read, "the run")
    settle()
    shown.play()
    film.take(lambda: not shown.player.is_playing, "the first run")


def decision(window: MainWindow, film: Film, _prompt: str) -> None:
    """Questions that are asked one by one: the bars fill, and the last one's slot stands on the canvas."""
    load(window, MINI)
    window.show_page("decisions")
    deciding = window.pages["decisions"]
    one = deciding.page
    one.column.examples.activated.emit(0)
    one.column.joint.setChecked(False)
    one.setFocus()
    settle()
    film.take(lambda: True, "the questions")
    settle(1200)
    one.decide.click()
    film.take(lambda: not deciding.is_busy, "the decision", FILL_FRAME_MS)


def race(window: MainWindow, film: Film, prompt: str) -> None:
    """Two lanes that are over, played by one clock."""
    load(window, WEDLM)
    window.show_page("race")
    racing = window.pages["race"]
    one = racing.page
    racing.lanes.change(0, LaneSpec(WEDLM, "causal_parallel"))
    racing.lanes.change(1, LaneSpec(WEDLM, "autoregressive"))
    one.field.setPlainText(prompt)
    one.race.click()
    wait_for(lambda: not racing.is_busy and not one.reader.is_busy, "the race")
    one.clock.pause()
    one.clock.go(0)
    settle()
    film.take(lambda: True, "the start")
    one.clock.toggle()
    film.take(lambda: not one.clock.is_playing, "the race once more")
    settle()
    film.take(lambda: True, "the verdicts")


SCENES = {
    "answer": answer,
    "talk": talk,
    "gaps": gaps,
    "tools": tools,
    "first-run": first_run,
    "decision": decision,
    "race": race,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scene", choices=SCENES, default="answer")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--size", default="1000x820", metavar="WxH", help="the window in logical pixels")
    parser.add_argument("--theme", choices=("darkroom", "paper"), default="darkroom")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with opened(args.size, args.seed) as (window, _link):
        window.appearance.choose(args.theme)
        window.show()
        film = Film(window)
        SCENES[args.scene](window, film, args.prompt)
        film.save(args.out)
    print(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
