"""Hostile input by the thousand: ``python -m tests.hostile --minutes 30``.

Each kind's cases come from a seed, so that any of them can be made again: ``--kind traces --first 1234 --cases 1``.
Prints a table and exits with 1 where a case raised anything but the one error people see, held the GUI thread for more
than 0.5 s, took over 500 MB above its files' size, changed a file outside its folder, hung, or killed the process.
Times are the CPU time of the case's own thread, which a busy machine does not change.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import selectors
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

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


@dataclass
class Tally:
    """What the cases of one kind came to."""

    kind: Kind
    cases: int = 0
    refused: int = 0
    slowest: float = 0.0
    memory: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    def take(self, told: dict[str, Any]) -> None:
        """Count a case that ended by itself."""
        self.cases += 1
        self.refused += told["refused"]
        self.slowest = max(self.slowest, told["cpu"])
        self.memory = max(self.memory, told["memory"])
        self.seconds += told["wall"]
        case = f"case {told['index']}: "
        if told["error"]:
            self.findings.append(case + told["error"])
        if told["cpu"] > self.kind.seconds:
            self.findings.append(f"{case}took {told['cpu']:.2f} s (at most {self.kind.seconds} s)")
        if told["memory"] > MEMORY:
            self.findings.append(f"{case}took {told['memory'] / 1e6:.0f} MB above its files' size")
        for crossed in told["outside"]:
            self.findings.append(f"{case}outside its folder: {crossed}")

    def lose(self, index: int, why: str) -> None:
        """Count a case that ended its process."""
        self.cases += 1
        self.findings.append(f"case {index}: {why}")

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "kind": self.kind.name, "cases": self.cases, "refused": self.refused, "slowest_s": round(self.slowest, 3),
            "memory_mb": round(self.memory / 1e6), "findings": self.findings,
        }  # fmt: skip


@dataclass
class Lot:
    """A forked process at work on some cases of a kind."""

    tally: Tally
    next: int  # the case that it is at, or comes to next
    last: int
    pid: int
    pipe: int
    complaints: IO[bytes]
    deadline: float
    is_in_case: bool = False
    rest: bytes = b""

    def read(self) -> bool:
        """Take in what it says; False at its end."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            self.deadline = time.monotonic() + HANGS
            self.is_in_case = "begins" in told
            if not self.is_in_case:
                self.tally.take(told)
                self.next = told["index"] + 1
        return bool(data)

    def end(self, why: str = "") -> int:
        """See how it ended, or end it for that reason; returns the number of the case to go on with."""
        if why:
            os.kill(self.pid, signal.SIGKILL)
        while self.read():
            pass
        os.close(self.pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.complaints.seek(0)
        said = " ".join(self.complaints.read().decode(errors="replace").split())[-600:]
        self.complaints.close()
        if why == TIME_IS_UP or not (why or status):
            return self.next
        self.tally.lose(self.next, f"{why or f'ended the process ({status})'}; {said}")
        return self.next + 1 if self.is_in_case else self.last  # a kind that never comes to a case is broken itself


def fork(tally: Tally, seed: int, first: int, count: int) -> Lot:
    """Begin on some cases in a copy of this process, which has imported everything."""
    reader, writer = os.pipe()
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the lot ends
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Lot(tally, first, first + count, pid, reader, complaints, time.monotonic() + 2 * HANGS)
    status = 1
    try:
        os.dup2(complaints.fileno(), 1)  # what a case prints must not come between our lines
        os.dup2(complaints.fileno(), 2)
        with os.fdopen(writer, "w", encoding="utf-8") as out:
            run_lot(tally.kind, seed, first, count, out)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def run(chosen: Sequence[Kind], seed: int, first: int, cases: int, minutes: float, workers: int) -> list[Tally]:
    """Run kinds side by side: ``cases`` of each, or as many as ``minutes`` allow, with the same time for each."""
    ends = time.monotonic() + minutes * 60 if minutes else math.inf
    tallies = [Tally(kind) for kind in chosen]
    reached = {kind.name: first for kind in chosen}
    lots: dict[int, Lot] = {}
    with tempfile.TemporaryDirectory(prefix="hostile-") as box, selectors.DefaultSelector() as selector:
        tempfile.tempdir = box  # nothing stays of what is ended in the middle
        while True:
            busy = {lot.tally.kind.name for lot in lots.values()}
            waiting = [
                tally
                for tally in tallies
                if tally.kind.name not in busy and (not cases or reached[tally.kind.name] < first + cases)
            ]
            while len(lots) < workers and waiting and time.monotonic() < ends:
                tally = min(waiting, key=lambda tally: tally.seconds)
                waiting.remove(tally)
                at = reached[tally.kind.name]
                lot = fork(tally, seed, at, min(LOT, first + cases - at) if cases else LOT)
                lots[lot.pipe] = lot
                selector.register(lot.pipe, selectors.EVENT_READ)
            if not lots:
                tempfile.tempdir = None
                return tallies
            ready = {key.fd for key, _ in selector.select(min(1.0, HANGS / 4))}
            now = time.monotonic()
            for pipe, lot in list(lots.items()):
                why = TIME_IS_UP if now >= ends else f"hung for {HANGS:.0f} s" if now >= lot.deadline else ""
                if why or (pipe in ready and not lot.read()):
                    selector.unregister(pipe)
                    del lots[pipe]
                    reached[lot.tally.kind.name] = lot.end(why)


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
        print(json.dumps([tally.as_json() for tally in tallies]))
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
