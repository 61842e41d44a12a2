"""Opens a conversation of 500 messages of varied Markdown and scrolls through all of it; prints the times as JSON.

``python -m tests.bench.chat_scroll [--messages 500] [--pixels 60]``. Not a test: times depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from unittest.mock import Mock

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.chat.commands import ViewOptions
from app.chat.page import ChatPage
from app.design import motion
from app.design.stylesheet import apply_theme, chrome
from app.design.tokens import DARKROOM
from app.state.chat.conversation import Answer, ChatState
from app.state.run.stats import RunFigures
from engine import GenerationConfig

WORDS = ("light", "noise", "token", "canvas", "step", "model", "entropy", "settle", "draft", "paper", "wave", "number")


def sentence(rng: random.Random) -> str:
    """Some words with a full stop, some of them marked."""
    words = [rng.choice(WORDS) for _ in range(rng.randint(5, 18))]
    if rng.random() < 0.4:
        place = rng.randrange(len(words))
        words[place] = rng.choice(("**{}**", "*{}*", "`{}`", "[{}](https://example.org)")).format(words[place])
    return " ".join(words).capitalize() + "."


def part(rng: random.Random) -> str:
    """One block of Markdown."""
    lines = [sentence(rng) for _ in range(rng.randint(2, 5))]
    word, number = rng.choice(WORDS), rng.randint(2, 9)
    rows = "\n".join(f"| {rng.choice(WORDS)} | {rng.randint(1, 999)} | {rng.random():.2f} |" for _ in lines)
    body = "\n".join(f"    {rng.choice(WORDS)} = {rng.randint(1, 99)}  # {line[:40]}" for line in lines)
    kinds = [" ".join(lines)] * 3
    kinds += ["\n".join(f"{mark}{line}" for line in lines) for mark in ("- ", "1. ", "- [x] ", "> ")]
    kinds += [f"```python\ndef {word}(x):\n{body}\n    return 'done'\n```", f"## {lines[0]}"]
    kinds.append(f"| name | count | share |\n|:--|--:|:-:|\n{rows}")
    kinds.append(f"So $x_{number} = {number}$ holds.\n\n$$\\frac{{a}}{{{number}}}$$")
    return rng.choice(kinds)


def conversation(messages: int, seed: int = 1) -> ChatState:
    """Prompts and answers that have ended, as they come from the library."""
    rng = random.Random(seed)
    chat = ChatState()
    for number in range(messages // 2):
        answer = Answer("Safelight Mini", number, GenerationConfig())
        answer.text = "\n\n".join(part(rng) for _ in range(rng.randint(1, 6)))
        answer.status = "done"
        answer.kept = RunFigures(12, 1, 0, 1.5, 9.0, 40.0)
        chat.ask(" ".join(sentence(rng) for _ in range(rng.randint(1, 3))), answer)
    return chat


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--pixels", type=int, default=60, help="scrolled in each frame")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    app = QApplication([])
    apply_theme(app, DARKROOM)
    motion.set_reduced(True)
    page = ChatPage(ViewOptions(True), Mock(others=lambda _turn: (), can_change=lambda _turn: True))
    page.setStyleSheet(chrome(DARKROOM))
    page.resize(960, 760)
    page.show()
    page.show_chat(conversation(2, 7), None)
    app.processEvents()  # fonts and the Markdown reader are there, as after the first conversation

    chat = conversation(options.messages, options.seed)
    began = time.perf_counter()
    page.show_chat(chat, None)
    page.grab()
    opening = time.perf_counter() - began

    bar = page.scroller.verticalScrollBar()
    frames: list[float] = []
    worked = time.process_time()
    for _ in range(20):
        app.processEvents()
    while bar.value() > 0:
        began = time.perf_counter()
        bar.setValue(bar.value() - options.pixels)
        app.processEvents()  # paints, and does a slice of what is done in idle time
        frames.append(time.perf_counter() - began)
    worked = time.process_time() - worked
    found = {"opening_ms": 1000 * opening, "frames": len(frames), "frame_ms_median": 1000 * statistics.median(frames)}
    found |= {"frame_ms_p95": 1000 * sorted(frames)[int(0.95 * len(frames))], "frame_ms_worst": 1000 * max(frames)}
    found |= {"fps": len(frames) / sum(frames), "fps_by_processor_time": len(frames) / worked}  # on an idle machine
    print(json.dumps({name: round(value, 2) for name, value in found.items()}, indent=2))


if __name__ == "__main__":
    main()
