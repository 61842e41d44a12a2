"""Ends chats with SIGKILL at random moments: ``python -m tests.hostile.kills --kills 300``.

The app works in a forked process that tells, through a pipe, what was on screen or reported done. After the kill
another process opens what lies on the disk, as the next start would, and says what is lost. Prints JSON, and exits
with 1 where anything was lost or the next start failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a fork takes no thread along

from tests.hostile.chats import Chat, Facts, Tell

KILLS_A_ROUND = 8
PATIENCE = 60.0  # seconds for a piece of work that nobody kills, or for a check


@dataclass
class Child:
    """A forked process and what it has told so far."""

    pid: int
    pipe: int
    told: Facts = field(default_factory=list)
    _rest: bytes = b""

    def listen(self, seconds: float) -> bool:
        """Take in what it tells for so long; False once it has nothing more to tell."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if not select.select([self.pipe], [], [], left)[0]:
                return True
            if not self._read():
                return False
        return True

    def _read(self) -> bool:
        data = os.read(self.pipe, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.told += [json.loads(line) for line in lines]
        return bool(data)

    def end(self, kill: bool) -> int:
        """Its wait status; what it told before its end is in ``told``."""
        if kill:
            os.kill(self.pid, signal.SIGKILL)
        while self._read():
            pass
        os.close(self.pipe)
        return os.waitpid(self.pid, 0)[1]


def fork(work: Callable[[Tell], None]) -> Child:
    """Run something in a copy of this process."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Child(pid, reader)
    status = 1
    sys.excepthook = _end_with  # an exception in a slot would pass
    try:
        os.close(reader)
        work(lambda **facts: (os.write(writer, json.dumps(facts).encode() + b"\n"), None)[1])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _end_with(*raised: Any) -> None:
    traceback.print_exception(*raised)
    os._exit(1)


@dataclass
class Score:
    """What came of the kills."""

    kills: int = 0
    rounds: int = 0
    facts: int = 0  # told before the kills
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
    """One piece of work, killed and taken up again until it comes to its end or has been killed often enough."""
    told: Facts = []
    for _ in range(KILLS_A_ROUND):
        child = fork(chat.work)
        begun = time.monotonic()  # the first round is left alone, to see how long the work takes
        running = child.listen(draw.uniform(0.0, score.seconds) if score.seconds else PATIENCE)
        status = child.end(kill=running)
        told += child.told
        score.facts += len(child.told)
        is_done = not os.WIFSIGNALED(status)
        if is_done and os.WEXITSTATUS(status):
            score.lost.append(f"{chat.folder.name}: the work failed after {score.kills} kills")
            return
        if is_done:
            score.seconds = score.seconds or time.monotonic() - begun
        else:
            score.kills += 1
        if not _check(chat, told, score) or is_done or score.kills >= kills:
            return


def _check(chat: Chat, told: Facts, score: Score) -> bool:
    """Open what is there as the next start would; False where something was lost."""

    def look(tell: Tell) -> None:
        for lost in chat.lost(told):
            tell(lost=lost)

    child = fork(look)
    hangs = child.listen(PATIENCE)
    status = child.end(kill=hangs)
    found = [str(fact["lost"]) for fact in child.told]
    if status:
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
