"""``safelight decide --calibrate``: fits a temperature to the right answers in a table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from app.cli import running, terminal
from app.cli.deciding import Decider, StateResult, deciding
from app.cli.stopping import STOPPED, stopping
from engine import SafelightError
from engine.tasks.decisions.calibration import LEAST_EXAMPLES, Calibration, LabelledRead, calibrate
from engine.tasks.decisions.question_file import QuestionFile, write_question_file
from engine.tasks.decisions.table import CsvTable, TableState, label_column, labels_of


def run(args: argparse.Namespace, asked: QuestionFile, table: CsvTable, states: Sequence[TableState]) -> int:
    """Fits the temperature to the rows whose right answers are known."""
    labelled = [question for question in asked.questions if label_column(table, question) is not None]
    if not labelled:
        labels_of(table, asked.questions[0])  # its error names what is missing
    known = {question.name: labels_of(table, question) for question in labelled}
    used = [place for place in range(len(states)) if any(labels[place] is not None for labels in known.values())]
    count = sum(labels[place] is not None for labels in known.values() for place in used)
    if count < LEAST_EXAMPLES:
        raise SafelightError(
            f"{table.name} has {count} right answers; a temperature needs at least {LEAST_EXAMPLES}. Label more"
        )
    with stopping() as stop, deciding(args, asked, stop, args.image_column is not None) as decider:
        results = [] if decider is None else list(_shown(decider, [states[place] for place in used]))
        if stop.is_set() or decider is None:
            terminal.say("stopped; nothing is kept, since a temperature needs all labelled rows")
            return STOPPED
    examples = []
    for place, result in zip(used, results, strict=True):
        if result.problem:
            raise SafelightError(f"{table.name}, row {table.rows[place].number}: {result.problem}")
        for question, reads in zip(asked.questions, result.reads, strict=True):
            right = known[question.name][place] if question.name in known else None
            if right is not None:
                examples.append(LabelledRead(reads, right))
    found = calibrate(examples)
    if args.save is not None:
        write_question_file(Path(args.save), replace(asked, temperature=found.temperature, calibration=found, state=""))
    if args.json:
        running.print_json(found.to_json())
    else:
        _print_calibration(found)
    return 0


def _shown(decider: Decider, states: Sequence[TableState]) -> Iterator[StateResult]:
    """Yields the results and shows progress."""
    with terminal.progress(f"Deciding {len(states)} labelled rows") as show:
        for done, result in enumerate(decider.decide((one.text, one.pictures) for one in states), 1):
            show(done / len(states))
            yield result


def _print_calibration(found: Calibration) -> None:
    frame = terminal.table("", "", "before", "after")
    frame.add_row("temperature", "1", f"{found.temperature:.3g}")
    frame.add_row("accuracy", f"{100 * found.accuracy:.1f} %", f"{100 * found.accuracy:.1f} %")
    frame.add_row("calibration error (ECE)", f"{found.ece_before:.3f}", f"{found.ece_after:.3f}")
    frame.add_row("Brier score", f"{found.brier_before:.3f}", f"{found.brier_after:.3f}")
    frame.add_row("negative log-likelihood", f"{found.nll_before:.3f}", f"{found.nll_after:.3f}")
    terminal.console(sys.stdout).print(frame)
    print(f"Fitted to {found.examples} labelled answers, and measured on the same answers.")
