"""``safelight doctor``: checks this machine and the kernels built for it. ``engine.doctor`` checks; this prints."""

from __future__ import annotations

import argparse
import sys

from app.cli import options, running, terminal
from engine.doctor.examine import Report, examine

EPILOG = """\
Each section runs in its own process; if one fails or crashes, the others go on. Every kernel that this machine has is
compared with its oracle, on a GPU at the real model's shapes, and whole steps are computed by two paths.

Exit status: 0 if all checks are right, 1 if not. Attach the output of --json to a report.

examples:
  safelight doctor
  safelight doctor --json > doctor.json
"""
MARKS = {True: "right", False: "WRONG", None: "not checked"}


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands,
        "doctor",
        run,
        "check kernels and steps on this machine",
        "Check that kernels and steps are right on this machine.",
        EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the tables")


def run(args: argparse.Namespace) -> int:
    terminal.say("checking this machine: less than a minute, a few minutes with a graphics card")
    report = examine(terminal.say)
    if args.json:
        running.print_json(report.as_dict())
    else:
        _print(report)
    return 1 if report.failed else 0


def _print(report: Report) -> None:
    console = terminal.console(sys.stdout)
    for section in report.sections:
        table = terminal.table(f"{section.name}: {section.status}, {section.seconds:.0f} s", "measure", "value", "")
        for column in table.columns[1:]:
            column.justify, column.no_wrap = "left", False
        for fact in section.facts:
            table.add_row(fact["fact"], "none" if fact["value"] is None else str(fact["value"]), fact["unit"])
        for check in section.checks:
            table.add_row(check["check"], MARKS[check["ok"]], terminal.printable(check["said"]))
        console.print(table)
        console.print()
    console.print(terminal.printable(report.verdict), soft_wrap=True)
