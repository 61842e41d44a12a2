"""Options that constrain an answer to a format. Runs no model."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine import SafelightError, files
from engine.text.output_format import MOST_SCHEMA, OutputFormat

MOST_FILE = 8 * MOST_SCHEMA  # bytes of a schema's file, with its white space


def add(parser: argparse.ArgumentParser) -> None:
    named = parser.add_argument_group("format of the answer (one of these; the answer then fits it, or is cut)")
    group = named.add_mutually_exclusive_group()
    group.add_argument("--json-schema", metavar="FILE_OR_JSON", help="JSON that fits a schema")
    group.add_argument("--json-object", action="store_true", help="any JSON object")
    group.add_argument("--regex", metavar="R", help="a text that a regular expression matches as a whole")
    group.add_argument("--choices", nargs="+", metavar="TEXT", help="one of these texts; write the prompt before it")


def output_format(args: argparse.Namespace) -> OutputFormat | None:
    """Returns the format that the options name; None without them.

    Raises:
        SafelightError: the schema cannot be read, or a value is out of bounds.
    """
    if args.json_schema is not None:
        return OutputFormat("json_schema", _schema(args.json_schema))
    if args.json_object:
        return OutputFormat("json_object")
    if args.regex is not None:
        return OutputFormat("regex", pattern=args.regex)
    if args.choices is not None:
        return OutputFormat("choices", choices=tuple(args.choices))
    return None


def _schema(given: str) -> dict[str, object]:
    if not given.lstrip().startswith("{"):
        return files.read_json(Path(given).expanduser(), most=MOST_FILE)
    if len(given) > MOST_FILE:
        raise SafelightError(f"--json-schema has more than {MOST_FILE:,} characters; make it smaller")
    raw = files.parse_json(given, "--json-schema")
    assert isinstance(raw, dict)
    return raw
