"""Hostile input by the thousand: ``python -m tests.hostile --minutes 30``.

Each kind's cases come from a seed, so that any of them can be made again: ``--kind traces --first 1234 --cases 1``.
Prints a table and exits with 1 where a case raised anything but the one error people see, or held the GUI thread for
more than 0.5 s. So it does where one took over 500 MB above its files' size, changed a file outside its folder, hung,
or killed the process. Times are the CPU time of the case's own thread, which a busy machine does not change.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: a fork takes no thread along

from tests.hostile import kinds
from tests.hostile.kind import Kind
from tests.hostile.watch import run_lot

MEMORY = 500 * 10**6
HANGS = 60.0  # seconds of a single case, after which its process is ended; twice that for its start
LOT = 200  # cases a process takes at a time
SHOWN = 5  # findings printed for each kind
TIME_IS_UP = "time is up"
FORK = multiprocessing.get_context("fork")


@dataclass
class Tally:
    """The cases of one kind, counted."""

    kind: Kind
    next: int  # the first case that was not begun
    cases: int = 0
    refused: int = 0
    slowest: float = 0.0
    memory: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    def take(self, ended: dict[str, Any]) -> None:
        """Count a case that ended by itself."""
        self.cases += 1
        self.next = ended["index"] + 1
        self.refused += ended["refused"]
        self.slowest = max(self.slowest, ended["cpu"])
        self.memory = max(self.memory, ended["memory"])
        self.seconds += ended["wall"]
        problems = [ended["error"]] if ended["error"] else []
        if ended["cpu"] > self.kind.seconds:
            problems.append(f"took {ended['cpu']:.2f} s (at most {self.kind.seconds} s)")
        if ended["memory"] > MEMORY:
            problems.append(f"took {ended['memory'] / 1e6:.0f} MB above its files' size")
        problems += [f"outside its folder: {crossed}" for crossed in ended["outside"]]
        self.findings += [f"case {ended['index']}: {problem}" for problem in problems]


class Lot:
    """A forked process at work on some cases of a kind; it has imported everything."""

    def __init__(self, tally: Tally, seed: int, count: int) -> None:
        self.tally, self._last = tally, tally.next + count
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the lot ends
        self.pipe, theirs = FORK.Pipe(duplex=False)
        self._process = FORK.Process(target=_work, args=(tally, seed, count, theirs, self._complaints.fileno()))
        self._process.start()
        theirs.close()
        self._is_in_case = False
        self.deadline = time.monotonic() + 2 * HANGS

    def read(self) -> bool:
        """Take in what it says; False at its end."""
        try:
            while self.pipe.poll():
                message = self.pipe.recv()
                self.deadline = time.monotonic() + HANGS
                self._is_in_case = "begins" in message
                if not self._is_in_case:
                    self.tally.take(message)
        except (EOFError, OSError):
            return False
        return True

    def end(self, why: str = "") -> None:
        """See how it ended, or end it for that reason; the tally goes on behind the case that it was at."""
        if why:
            self._process.kill()
        self._process.join()
        self.read()
        self._complaints.seek(0)
        said = " ".join(self._complaints.read().decode(errors="replace").split())[-600:]
        self._complaints.close()
        code = self._process.exitcode
        if why == TIME_IS_UP or not (why or code):
            return
        tally = self.tally
        tally.cases += 1
        tally.findings.append(f"case {tally.next}: {why or f'ended the process ({code})'}; {said}")
        # A kind that never begins a case is broken itself.
        tally.next = tally.next + 1 if self._is_in_case else self._last


def _work(tally: Tally, seed: int, count: int, pipe: Connection, complaints: int) -> None:
    os.dup2(complaints, 1)
    os.dup2(complaints, 2)
    run_lot(tally.kind, seed, tally.next, count, pipe.send)


def run(chosen: Sequence[Kind], seed: int, first: int, cases: int, minutes: float, workers: int) -> list[Tally]:
    """Run kinds side by side: ``cases`` of each, or as many as ``minutes`` allow, with the same time for each."""
    ends = time.monotonic() + minutes * 60 if minutes else math.inf
    last = first + cases if cases else sys.maxsize
    tallies = [Tally(kind, first) for kind in chosen]
    lots: list[Lot] = []
    with tempfile.TemporaryDirectory(prefix="hostile-") as box:
        tempfile.tempdir = box  # nothing stays of what is ended in the middle
        while True:
            busy = [lot.tally for lot in lots]
            waiting = [tally for tally in tallies if tally not in busy and tally.next < last]
            if waiting and len(lots) < workers and time.monotonic() < ends:
                tally = min(waiting, key=lambda tally: tally.seconds)
                lots.append(Lot(tally, seed, min(LOT, last - tally.next)))
                continue
            if not lots:
                tempfile.tempdir = None
                return tallies
            ready = wait([lot.pipe for lot in lots], min(1.0, HANGS / 4))
            now = time.monotonic()
            for lot in list(lots):
                why = TIME_IS_UP if now >= ends else f"hung for {HANGS:.0f} s" if now >= lot.deadline else ""
                if why or (lot.pipe in ready and not lot.read()):
                    lots.remove(lot)
                    lot.end(why)


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__, add_help=True)
    parser.add_argument("--minutes", type=float, default=0.0, help="go on for so long (default: --cases of each kind)")
    parser.add_argument("--cases", type=int, default=0, help="cases of each kind")
    parser.add_argument("--kind", action="append", default=[], help="only this kind; may be given again")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(argv)
    known = kinds.all_kinds()
    for name in options.kind:
        if name not in known:
            parser.error(f"unknown kind {name!r}; there are {', '.join(known)}")
    if not options.minutes and not options.cases:
        options.cases = 50
    chosen = [known[name] for name in options.kind or known]
    tallies = run(chosen, options.seed, options.first, options.cases, options.minutes, max(1, options.workers))
    if options.json:
        print(json.dumps([vars(tally) | {"kind": tally.kind.name} for tally in tallies]))
    else:
        _print(tallies)
    return 1 if any(tally.findings for tally in tallies) else 0


def _print(tallies: Sequence[Tally]) -> None:
    print(f"{'kind':<18}{'cases':>8}{'refused':>9}{'slowest':>10}{'memory':>10}{'findings':>10}")
    for tally in tallies:
        where = "*" if tally.kind.in_window else " "
        print(
            f"{tally.kind.name:<18}{tally.cases:>8}{tally.refused:>9}{tally.slowest:>8.2f} s{where}"
            f"{tally.memory / 1e6:>6.0f} MB{len(tally.findings):>9}"
        )
    total = sum(tally.cases for tally in tallies)
    print(f"{total} cases, {sum(len(t.findings) for t in tallies)} findings (* in the GUI thread)")
    for tally in tallies:
        for finding in tally.findings[:SHOWN]:
            print(f"\n{tally.kind.name}, {finding}")


if __name__ == "__main__":
    sys.exit(main())
