"""Options shared by subcommands, and their conversion to settings. Knows no model and runs nothing."""

from __future__ import annotations

import argparse
import errno
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from engine import GenerationConfig, SafelightError, files
from engine.catalog import SMALL
from engine.config import LARGEST_SEED, MAX_THREADS
from engine.errors import quoted
from engine.service import is_remote
from engine.settings import CliOption, declared

KEY_VARIABLE = "SAFELIGHT_API_KEY"  # environment variable with the key to a server, this one or another
TEXT_BYTES = 64 * 2**20  # of a file, or of standard input
QUANTIZATIONS = ("none", "nf4", "int4", "int4-g64", "nvfp4", "int8")  # copied from the engine, for --help without torch


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, raised instead of printed."""

    def __init__(self, **options: Any) -> None:
        fixed: dict[str, Any] = {"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter}
        super().__init__(**fixed | options)

    def error(self, message: str) -> NoReturn:
        line = re.sub(r"(\S{80})\S+", r"\1…", " ".join(message.removeprefix("argument ").split()))
        raise SafelightError(f"{line} (see {self.prog} --help)")


if TYPE_CHECKING:
    Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # the type that ``add_subparsers`` returns


def command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], help: str, description: str, epilog: str
) -> Parser:
    """Adds a subcommand, which ``run`` performs; returns its parser."""
    parser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    parser.set_defaults(run=run)
    return parser


def require_folder(path: Path) -> None:
    """Checks, before anything is run, that a file's folder is there.

    Raises:
        SafelightError: it is not.
    """
    if not path.absolute().parent.is_dir():
        raise SafelightError(f"there is no folder {path.absolute().parent}. Choose a folder that exists")


def require_utf8(text: str, what: str) -> str:
    """Returns a text of the command line.

    Raises:
        SafelightError: it has bytes that are no characters.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SafelightError(f"{what} is not valid UTF-8 text") from None
    return text


def number(what: str, low: int, high: int | None = None) -> Callable[[str], int]:
    """Makes an argparse type: a whole number in a range, with an error message that names the range."""
    bounds = f"of {low} or more" if high is None else f"from {low} to {high}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"{what} must be a whole number {bounds}, not {quoted(text)}")
        return value

    return read


def real(what: str, low: float, high: float) -> Callable[[str], float]:
    """Makes an argparse type: a number above ``low`` and at most ``high``."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low
        if not low < value <= high:
            raise argparse.ArgumentTypeError(
                f"{what} must be a number above {low:g} and at most {high:g}, not {quoted(text)}"
            )
        return value

    return read


def place(text: str) -> str:
    """Parses an argparse type: a file, a folder or an id, with ``~`` expanded; a server's address is unchanged."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("give a name; this one is empty or holds a NUL character")
    if is_remote(text):
        return text
    try:
        path = os.fspath(Path(text).expanduser())
        os.stat(path)
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"there is no user whose folder {quoted(text)} could lie in") from None
    except UnicodeError:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a valid name") from None
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):  # the command itself reports or creates a missing path
            raise argparse.ArgumentTypeError(f"{quoted(text)} cannot be used: {error.strerror}") from None
    return path


OPTIONS = dict(
    sorted(
        declared(GenerationConfig, CliOption).items(),
        key=lambda item: item[0] not in GenerationConfig.__annotations__,
    )
)
"""The options of settings by their names, those of all decoders first."""
KINDS: dict[type, str] = {int: "N", float: "X", str: "NAME"}
SWITCH = {"true": True, "false": False, "yes": True, "no": False}


def add_model(parser: argparse.ArgumentParser, default: str = SMALL) -> None:
    """Adds the options of ``add_loading`` and ``--seed``."""
    add_seed(add_loading(parser, default))


DEVICES = "auto, cpu, cuda or cuda:N; experimental: xpu, mps (default: auto)"


def add_loading(parser: argparse.ArgumentParser, default: str = SMALL) -> argparse._ArgumentGroup:
    """Adds ``--model``, ``--adapter``, ``--device``, ``--dtype``, ``--quantization`` and ``--threads``; returns their
    group."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        type=place,
        metavar="PATH_OR_ID",
        help=f"a model folder, a GGUF file or an embedded model (default: {default})",
    )
    group.add_argument(
        "--adapter",
        type=place,
        metavar="DIR_OR_ID",
        help="a LoRA adapter's folder, or the name of an embedded one, which also selects its model",
    )
    group.add_argument("--device", default="auto", metavar="NAME", help=DEVICES)
    group.add_argument("--dtype", default="auto", choices=("auto", "float32", "bfloat16"), help="(default: auto)")
    add_quantization(group)
    group.add_argument(
        "--threads",
        type=number("the number of threads", 0, MAX_THREADS),
        default=0,
        metavar="N",
        help="CPU threads (default: 0: one for a small model, all for a large one)",
    )
    return group


def add_quantization(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--quantization",
        default="auto",
        choices=("auto", *QUANTIZATIONS),
        help="how to pack weights that are not packed yet (default: auto)",
    )


def add_seed(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--seed",
        type=number("the seed", 0, LARGEST_SEED),
        metavar="N",
        help="whole number; the same seed repeats a run (default: 0)",
    )


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Adds ``--decoder`` and the options of decoders that do not begin with noise."""
    _add(parser.add_argument_group("decoder (default: the model's own)"), is_decoding=True)


def add_sampler(parser: argparse.ArgumentParser) -> None:
    """Adds the sampler options; without them the model's generation_config.json applies."""
    _add(parser.add_argument_group("sampler (default: the model's own settings)"), is_decoding=False)


def _add(group: argparse._ArgumentGroup, *, is_decoding: bool) -> None:
    for name, option in OPTIONS.items():
        if option.is_decoding != is_decoding:
            continue
        if _kind(option) is bool:
            group.add_argument(option.flag, action="store_const", const=True, help=option.help)
        else:
            group.add_argument(
                option.flag, dest=name, type=partial(read_value, option), metavar=KINDS[_kind(option)], help=option.help
            )


def add_images(parser: argparse._ActionsContainer, help: str) -> None:
    """Adds ``--image``; ``help`` describes the pictures."""
    parser.add_argument(
        "--image",
        action="append",
        type=place,
        default=[],
        metavar="FILE",
        help=f"{help}, for a model that can see; may be given several times",
    )


def add_watch(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("watching")
    group.add_argument("--watch", action="store_true", help="show the canvas as it develops, step by step")
    group.add_argument("--raw", action="store_true", help="with --watch, show the noise instead of the best guesses")
    group.add_argument(
        "--pace",
        type=number("the pace", 0, 60_000),
        default=60,
        metavar="MS",
        help="least time each step stays in view with --watch, in milliseconds (default: 60)",
    )


def sampler_changes(args: argparse.Namespace) -> dict[str, int | float | str]:
    """Returns the sampler options that were given, checked before any model is loaded.

    Raises:
        SafelightError: a value out of range, named by its option.
    """
    changes = {name: value for name in OPTIONS if (value := getattr(args, name, None)) is not None}
    check_changes(changes)
    return changes


def check_changes(changes: dict[str, Any]) -> None:
    """Checks settings before their model is known.

    Raises:
        SafelightError: a value out of range, named by its option.
    """
    probe = dict(changes)
    for one, other in (("t_min", "t_max"), ("t_max", "t_min")):
        if one in probe:
            probe.setdefault(other, probe[one])  # the other bound comes from the model
    settings(GenerationConfig(), probe)


def settings(base: GenerationConfig, changes: dict[str, int | float | str]) -> GenerationConfig:
    """Returns a model's default settings with the given changes.

    Raises:
        SafelightError: a value out of range, named by its option.
    """
    try:
        return base.replace(**changes)
    except SafelightError as error:
        name, _, rest = str(error).partition(" ")  # the message begins with the setting's name
        raise SafelightError(f"{flag_of(name, name)} {rest}") from None


def _kind(option: CliOption) -> type:
    default = getattr(GenerationConfig, option.name)
    return int if default is None else type(default)


def flag_of(name: str, otherwise: str) -> str:
    return OPTIONS[name].flag if name in OPTIONS else otherwise


def read_value(option: CliOption, text: str) -> int | float | str:
    """Reads the text of an option's value.

    Raises:
        argparse.ArgumentTypeError: it is of another kind; the message begins with the text.
    """
    kind = _kind(option)
    kinds = {int: "whole number", float: "number", bool: "switch; write true or false"}
    try:
        return SWITCH[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a {kinds[kind]}") from None


def prompt_of(argument: str) -> str:
    """Returns a prompt of the command line; ``-`` reads it from standard input.

    Raises:
        SafelightError: it is empty, or no text.
    """
    text = read_text("-")[0].rstrip("\n") if argument == "-" else argument
    if not text.strip():
        raise SafelightError("the prompt is empty; write something first")
    return require_utf8(text, "the prompt")


def read_text(source: str) -> tuple[str, str]:
    """Reads the text of a file, or of standard input for ``-``; returns it and its name in messages.

    Raises:
        SafelightError: it cannot be read, is not UTF-8, or is larger than ``TEXT_BYTES``.
    """
    if source != "-":
        return files.read_text(Path(source), TEXT_BYTES), source
    name, raw = "standard input", getattr(sys.stdin, "buffer", None)
    try:
        text = sys.stdin.read(TEXT_BYTES + 1) if raw is None else raw.read(TEXT_BYTES + 1).decode("utf-8-sig")
        if len(text) > TEXT_BYTES:
            raise SafelightError(f"{name} holds more than {TEXT_BYTES:,} bytes, the most that are read")
        return text, name
    except UnicodeDecodeError:
        raise SafelightError(f"{name} is not UTF-8 text") from None
    except OSError as error:
        raise SafelightError(f"{name} cannot be read: {error.strerror or error}") from None
