"""Outputs of every kind of disorder, each read whole and in random pieces: no difference, no tag given out.

``python -m tests.bench.output_splits --count 100000`` prints what it found and exits with 1 where it found anything.
The suite reads 1,500 of them; ``python -m tests.hostile --kind outputs`` makes longer ones and watches time and memory.
"""

from __future__ import annotations

import argparse
import sys
from random import Random

from tests.engine.text.outputs import problem, random_output, split


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.output_splits", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    options = parser.parse_args()
    characters = pieces = found = 0
    for number in range(options.first, options.first + options.count):
        random = Random(number)
        text = random_output(random)
        parts = split(random, text)
        characters, pieces = characters + len(text), pieces + len(parts)
        try:
            wrong = problem(text, parts, starts_in_thought=random.random() < 0.2)
        except Exception as error:  # of any kind, it is a finding
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            found += 1
            print(f"case {number}: {text!r}: {wrong}")
    print(f"{options.count:,} outputs, {characters:,} characters in {pieces:,} pieces: {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
