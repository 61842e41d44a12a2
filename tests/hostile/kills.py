"""Ends the app's work with SIGKILL at random moments: ``python -m tests.hostile.kills --kills 1000``.

Each subject works in a forked process that tells, through a pipe, what was on screen or reported done. After the kill
another process opens what lies on the disk, as the next start would, and says what is lost. Prints a table, and exits
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
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a fork takes no thread along

from tests.hostile.subjects import SUBJECTS, Facts, Subject, Tell

PATIENCE = 60.0  # seconds for a piece of work that nobody kills, or for a check
SHOWN = 6


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
    """What came of one subject's kills."""

    name: str
    kills: int = 0
    finished: int = 0  # pieces of work that were brought to their end, over all their kills
    facts: int = 0  # told before the kills
    lost: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # that unkilled work took


def run_subject(make: type[Subject], kills: int, seed: int, box: Path) -> Score:
    """Kill one subject's work so many times."""
    score, draw, number = Score(make.name), random.Random(f"{make.name}:{seed}"), 0
    with make.ground(box / make.name) as ground:
        while score.kills < kills:
            number += 1
            folder = box / make.name / f"round-{number}"
            folder.mkdir(parents=True)
            _round(make(folder, ground, seed * 100_000 + number), score, kills, draw)
            shutil.rmtree(folder, ignore_errors=True)
    return score


def _round(subject: Subject, score: Score, kills: int, draw: random.Random) -> None:
    """One piece of work, killed and taken up again until it comes to its end or has been killed often enough."""
    told: Facts = []
    for _ in range(subject.kills_a_round):
        child = fork(subject.work)
        begun = time.monotonic()  # the first round is left alone, to see how long the work takes
        running = child.listen(draw.uniform(0.0, statistics.median(score.seconds)) if score.seconds else PATIENCE)
        status = child.end(kill=running)
        told += child.told
        score.facts += len(child.told)
        is_done = not os.WIFSIGNALED(status)
        if is_done and os.WEXITSTATUS(status):
            score.lost.append(f"{subject.folder.name}: the work failed after {score.kills} kills")
            return
        if is_done:
            score.finished += 1
            if not score.kills:
                score.seconds.append(time.monotonic() - begun)
        else:
            score.kills += 1
        if not _check(subject, told, is_done, score) or is_done or score.kills >= kills:
            return


def _check(subject: Subject, told: Facts, is_done: bool, score: Score) -> bool:
    """Open what is there as the next start would; False where something was lost."""

    def look(tell: Tell) -> None:
        for lost in subject.lost(told, is_done=is_done):
            tell(lost=lost)

    child = fork(look)
    hangs = child.listen(PATIENCE)
    status = child.end(kill=hangs)
    found = [str(fact["lost"]) for fact in child.told]
    if status:
        found.append("the next start hung" if hangs else "the next start failed")
    score.lost += [f"{subject.folder.name}, kill {score.kills}: {lost}" for lost in found]
    return not found


@contextmanager
def _folder() -> Iterator[Path]:
    box = Path(tempfile.mkdtemp(prefix="safelight-kills-"))
    try:
        yield box
    finally:
        shutil.rmtree(box, ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="in all, shared among the subjects")
    parser.add_argument("--subject", action="append", default=[], choices=[made.name for made in SUBJECTS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(argv)
    chosen = [made for made in SUBJECTS if not options.subject or made.name in options.subject]
    shares = sum(made.share for made in chosen)
    scores = []
    with _folder() as box:
        for made in chosen:
            scores.append(run_subject(made, round(options.kills * made.share / shares), options.seed, box))
            if not options.json:
                _print(scores[-1:], heading=len(scores) == 1)
    if options.json:
        print(json.dumps([_as_json(score) for score in scores]))
    return 1 if any(score.lost for score in scores) else 0


def _as_json(score: Score) -> dict[str, Any]:
    return {
        "subject": score.name, "kills": score.kills, "finished": score.finished, "facts": score.facts,
        "lost": score.lost,
    }  # fmt: skip


def _print(scores: Sequence[Score], heading: bool) -> None:
    if heading:
        print(f"{'subject':<12}{'kills':>7}{'finished':>10}{'facts told':>12}{'lost':>6}")
    for score in scores:
        print(f"{score.name:<12}{score.kills:>7}{score.finished:>10}{score.facts:>12}{len(score.lost):>6}", flush=True)
        for lost in score.lost[:SHOWN]:
            print(f"    {lost}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
