"""``python packaging/small_models COMMAND``: train, export and score the small models."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.errors import SafelightError
from small_models import export, own_words, score, train

COMMANDS = {"train": train, "export": export, "score": score, "own-words": own_words}


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="small_models", description=__doc__, allow_abbrev=False)
    commands = root.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        module.add(commands.add_parser(name, help=module.__doc__, allow_abbrev=False))
    return root


def main() -> int:
    args = parser().parse_args()
    try:
        COMMANDS[args.command].run(args)
    except SafelightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
