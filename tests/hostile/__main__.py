"""Hostile input by the thousand: ``python -m tests.hostile --minutes 30``.

Each kind's cases come from a seed, so that any of them can be made again: ``--kind traces --first 1234 --cases 1``.
Prints a table and exits with 1 where a case raised anything but the one error people see, held the GUI thread for more
than 0.5 s, took over 500 MB above its files' size, changed a file outside its folder, hung, or killed the process.
Times are the CPU time of the case's own thread, which a busy machine does not change.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.hostile import kinds
from tests.hostile.kind import Kind

MEMORY = 500 * 10**6
HANGS = 60.0  # seconds of a single case, after which its process is ended
LOT = 200  # cases a process takes at a time
SHOWN = 5  # findings printed for each kind


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


def run_lot(tally: Tally, seed: int, first: int, count: int, ends: float) -> int:
    """Run cases in child processes until all are done or time is up; returns the number after the last one run."""
    index, last = first, first + count
    while index < last and time.monotonic() < ends:
        command = [
            sys.executable,
            "-m",
            "tests.hostile.watch",
            tally.kind.name,
            str(seed),
            str(index),
            str(last - index),
        ]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        complaints: list[str] = []
        drain = threading.Thread(target=lambda pipe=child.stderr, to=complaints: to.extend(pipe), daemon=True)
        drain.start()
        begun, hung = -1, False

        def end(child: subprocess.Popen[str] = child) -> None:
            nonlocal hung
            hung = True
            child.kill()

        alarm = threading.Timer(HANGS * 2, end)  # the imports come first
        alarm.start()
        assert child.stdout is not None
        for line in child.stdout:
            told = json.loads(line)
            alarm.cancel()
            if "begins" in told:
                begun = told["begins"]
                if time.monotonic() >= ends:
                    child.kill()
                    break
                alarm = threading.Timer(HANGS, end)
                alarm.start()
            else:
                tally.take(told)
                index, begun = told["index"] + 1, -1
        alarm.cancel()
        child.wait()
        drain.join()
        if time.monotonic() >= ends:
            break
        if begun >= 0 or child.returncode != 0:
            lost = begun if begun >= 0 else index
            why = f"hung for {HANGS:.0f} s" if hung else f"ended the process ({child.returncode})"
            tally.lose(lost, why + "; " + " ".join("".join(complaints[-12:]).split())[-600:])
            index = lost + 1
            if begun < 0:  # it never got to a case: the kind itself is broken
                return last
    return index


def run(chosen: Sequence[Kind], seed: int, first: int, cases: int, minutes: float, workers: int) -> list[Tally]:
    """Run kinds side by side: ``cases`` of each, or as many as ``minutes`` allow, shared evenly among them."""
    ends = time.monotonic() + minutes * 60 if minutes else float("inf")
    tallies = [Tally(kind) for kind in chosen]
    reached = {kind.name: first for kind in chosen}

    def go_on(tally: Tally) -> None:
        name = tally.kind.name
        left = first + cases - reached[name] if cases else LOT
        reached[name] = run_lot(tally, seed, reached[name], min(LOT, left), ends)

    def is_open(tally: Tally) -> bool:
        return time.monotonic() < ends and (not cases or reached[tally.kind.name] < first + cases)

    with ThreadPoolExecutor(workers) as pool:
        while pending := [tally for tally in tallies if is_open(tally)]:
            # Those that have had the least time first, so that slow kinds do not take it all.
            share = sorted(pending, key=lambda tally: tally.seconds)[: max(workers, len(pending) // 2)]
            list(pool.map(go_on, share))
    return tallies


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
