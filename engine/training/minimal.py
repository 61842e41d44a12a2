"""A file of minimal Sudokus, which training puzzles are varied from. Needs no torch, so that processes start fast."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from engine.files import explained, read_text, write_text
from engine.tasks import sudoku

PUZZLE_BYTES = 256 * 2**20  # a million puzzles with their solutions
LINE = re.compile(r"[0-9]{1,12} [0-9]{81} [1-9]{81}")  # number, puzzle, solution


def minimal_puzzle(index: int) -> str | None:
    """Returns a line with a unique minimal puzzle, its number and solution; None if it is held out."""
    rng = random.Random(f"base-{index}")
    solution = sudoku.random_solution(rng)
    return None if sudoku.is_held_out(solution) else f"{index} {sudoku.dig(solution, 0, rng).board} {solution}\n"


def minimal_puzzles(count: int, path: Path, processes: int = 1) -> Iterator[int]:
    """Writes ``count`` minimal puzzles to ``path``, the same ones with any number of processes.

    Yields the number written so far; continues after the end of an interrupted file. About 15 ms per puzzle and
    process.
    """
    lines = read_lines(path)
    done, index = len(lines), int(lines[-1].split()[0]) + 1 if lines else 0
    write_text(path, "".join(f"{line}\n" for line in lines))
    with contextlib.ExitStack() as stack:
        make: Callable[[Iterable[int]], Iterator[str | None]] = partial(map, minimal_puzzle)
        if processes > 1 and done < count:
            # Ctrl+C reaches this process, which ends the others
            pool = multiprocessing.get_context("spawn").Pool(processes, signal.signal, (signal.SIGINT, signal.SIG_IGN))
            workers = stack.enter_context(pool)
            make = partial(workers.imap, minimal_puzzle, chunksize=16)
        try:
            with path.open("a") as file:
                while done < count:
                    wanted = range(index, index + count - done)  # a few of them are held out
                    for line in filter(None, make(wanted)):
                        file.write(line)
                        done += 1
                        yield done
                    index = wanted.stop
        except OSError as fault:
            raise explained(fault, path) from fault


def read_lines(path: Path) -> list[str]:
    """Reads the complete lines of a file of minimal puzzles; the last line of a killed run may be incomplete."""
    if not path.exists():
        return []
    return [line for line in read_text(path, PUZZLE_BYTES).splitlines() if LINE.fullmatch(line)]
