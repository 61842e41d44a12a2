"""Ends chats with SIGKILL at random moments: ``python -m tests.hostile.kills --kills 300``.

The app works in a forked process that sends, through a pipe, what was on screen or reported done. After the kill
another process opens what lies on the disk, as the next start would, and lists what is lost. Prints JSON, and exits
with 1 where anything was lost or the next start failed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a fork takes no thread along

from tests.hostile.chats import Chat, Facts, Report

KILLS_A_ROUND = 8
PATIENCE = 60.0  # seconds for a piece of work that nobody kills, or for a check
FORK = multiprocessing.get_context("fork")


class Child:
    """A forked process and the facts that it has reported so far."""

    def __init__(self, work: Callable[[Report], None]) -> None:
        self.facts: Facts = []
        self._pipe, theirs = FORK.Pipe(duplex=False)
        self._process = FORK.Process(target=_begin, args=(work, theirs))
        self._process.start()
        theirs.close()

    def listen(self, seconds: float) -> bool:
        """Take in its facts for so long; False once it has no more."""
        ends = time.monotonic() + seconds
        while self._pipe.poll(max(0.0, ends - time.monotonic())):
            try:
                self.facts.append(self._pipe.recv())
            except (EOFError, OSError):  # it ended, perhaps within a fact
                return False
        return True

    def end(self, kill: bool) -> int:
        """Returns its exit code, below 0 after a kill; ``facts`` then has all that came before its end."""
        if kill:
            self._process.kill()
        self.listen(PATIENCE)
        self._process.join()
        return self._process.exitcode or 0


def _begin(work: Callable[[Report], None], pipe: Connection) -> None:
    sys.excepthook = _end_with  # an exception in a slot would pass
    work(lambda **facts: pipe.send(facts))


def _end_with(*raised: Any) -> None:
    traceback.print_exception(*raised)
    os._exit(1)


@dataclass
class Score:
    """The figures of all kills."""

    kills: int = 0
    rounds: int = 0
    facts: int = 0  # reported before the kills
    lost: list[str] = field(default_factory=list)
    seconds: float = 0.0  # that unkilled work took


def run(kills: int, seed: int, box: Path) -> Score:
    """Kill chats so many times."""
    score, draw = Score(), random.Random(seed)
    while score.kills < kills:
        score.rounds += 1
        folder = box / f"round-{score.rounds}"
        folder.mkdir()
        _round(Chat(folder), score, kills, draw)
        shutil.rmtree(folder, ignore_errors=True)
    return score


def _round(chat: Chat, score: Score, kills: int, draw: random.Random) -> None:
    """Kill one piece of work and begin it again, until it is done or was killed often enough."""
    facts: Facts = []
    for _ in range(KILLS_A_ROUND):
        child = Child(chat.work)
        begun = time.monotonic()  # the first round is left alone, to see how long the work takes
        running = child.listen(draw.uniform(0.0, score.seconds) if score.seconds else PATIENCE)
        code = child.end(kill=running)
        facts += child.facts
        score.facts += len(child.facts)
        if code > 0:
            score.lost.append(f"{chat.folder.name}: the work failed after {score.kills} kills")
            return
        if code == 0:
            score.seconds = score.seconds or time.monotonic() - begun
        else:
            score.kills += 1
        if not _check(chat, facts, score) or code == 0 or score.kills >= kills:
            return


def _check(chat: Chat, facts: Facts, score: Score) -> bool:
    """Open what is there as the next start would; False where something was lost."""

    def look(report: Report) -> None:
        for lost in chat.lost(facts):
            report(lost=lost)

    child = Child(look)
    hangs = child.listen(PATIENCE)
    code = child.end(kill=hangs)
    found = [str(fact["lost"]) for fact in child.facts]
    if code:
        found.append("the next start hung" if hangs else "the next start failed")
    score.lost += [f"{chat.folder.name}, kill {score.kills}: {lost}" for lost in found]
    return not found


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="safelight-kills-", ignore_cleanup_errors=True) as box:
        score = run(options.kills, options.seed, Path(box))
    print(json.dumps({"kills": score.kills, "rounds": score.rounds, "facts": score.facts, "lost": score.lost}))
    return 1 if score.lost else 0


if __name__ == "__main__":
    sys.exit(main())
