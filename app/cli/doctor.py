"""``safelight doctor``: checks this machine and the kernels built for it. ``engine.doctor`` checks; this prints."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable

from app.cli import options, running, terminal
from engine.doctor.examine import examine
from engine.doctor.report import Report, SectionReport

EPILOG = """\
Each section runs in its own process; if one fails or crashes, the others go on. On a GPU, every kernel is compared with
its oracle at the real model's shapes, replayed graphs with steps taken one by one, and steps with random weights are
timed. Without a GPU, kernels run in an interpreter at tiny shapes, and the processor is measured. Everywhere, kernels
are compiled for three kinds of card, if Triton has its tools here.

Exit status: 0 if all checks are right, 1 if not. Attach the output of --json to a report.

examples:
  safelight doctor --quick
  safelight doctor --json > doctor.json
"""
MARKS = {True: "right", False: "WRONG", None: "not checked"}
QUICK = "half a minute on an idle machine, up to three minutes on a busy one"
FULL = "about ten minutes without a graphics card, and half an hour at most with one"
FIGURES = "For each card: registers · bytes spilled · KB of shared memory · instructions to decode a weight."


def add(commands: options.Commands) -> None:
    parser = commands.add_parser(
        "doctor",
        help="check kernels, steps and speed on this machine",
        description="Check that kernels and steps are right on this machine, and measure its speed.",
        epilog=EPILOG,
    )
    parser.add_argument("--quick", action="store_true", help=f"skip what takes long ({QUICK})")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    terminal.say(f"checking this machine: {QUICK if args.quick else FULL}")
    report = examine(args.quick, _progress())
    if terminal.can_style(sys.stderr):
        sys.stderr.write(terminal.CLEAR_LINE)
        sys.stderr.flush()
    if args.json:
        running.print_json(report.as_dict())
    else:
        _print(report)
    return 1 if report.failed else 0


def _progress() -> Callable[[str], None]:
    """Shows progress on standard error: every check on a terminal that can erase, else one line per section."""
    if terminal.can_style(sys.stderr):

        def show(text: str) -> None:
            columns = shutil.get_terminal_size().columns
            sys.stderr.write(f"{terminal.CLEAR_LINE}{terminal.printable(text)[: columns - 1]}")
            sys.stderr.flush()

        return show
    return lambda text: terminal.say(text) if text.endswith("…") else None


def _print(report: Report) -> None:
    console = terminal.console(sys.stdout)
    for section in report.sections:
        title = f"{section.name}: {section.status}, {section.seconds:.0f} s"
        if section.facts or section.rows:
            table = terminal.table(title, "measure", "value", "unit")
            for column in table.columns[1:]:
                column.justify, column.no_wrap = "left", False
            for fact in section.facts:
                table.add_row(fact.name, "none" if fact.value is None else str(fact.value), fact.unit)
            console.print(table)
        if section.rows:
            console.print(_machine_code(section))
            console.print(FIGURES, soft_wrap=True)
        shown = [check for check in section.checks if not section.rows or not check.ok]
        if shown:
            table = terminal.table("" if section.facts or section.rows else title, "check", "is", "what was found")
            for column in table.columns[1:]:
                column.justify, column.no_wrap = "left", False
            for check in shown:
                table.add_row(check.name, MARKS[check.ok], terminal.printable(check.said))
            console.print(table)
        console.print()
    console.print(terminal.printable(report.verdict), soft_wrap=True)


def _machine_code(section: SectionReport) -> object:
    """Prints a row per kernel, with its launches per step, and a column per card. Of the checks, only failures are
    listed."""
    targets = list(dict.fromkeys(str(row["target"]) for row in section.rows))
    table = terminal.table("kernels of a step", "kernel", "launches", *targets)
    for kernel in dict.fromkeys(str(row["kernel"]) for row in section.rows):
        cells = {str(row["target"]): row for row in section.rows if row["kernel"] == kernel}
        launches = next(iter(cells.values())).get("launches")
        table.add_row(
            kernel, "" if launches is None else str(launches), *(_cell(cells.get(target)) for target in targets)
        )
    return table


def _cell(row: dict[str, str | float | None] | None) -> str:
    if row is None:
        return "not built"
    shared = f"{float(row['shared_bytes'] or 0) / 1e3:.0f}"
    figures = [str(row["registers"]), str(row["spill_bytes"]), shared]
    return " · ".join([*figures, *([f"{row['decoding']:.1f}"] if row["decoding"] else [])])
