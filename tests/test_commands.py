"""Every command that a document or ``--help`` shows is one that works, on files that ship.

Commands run in a fresh folder with nothing but ``assets``, one document after the other, as somebody would who copies
them. What stands behind an arrow is printed. What takes minutes, a card, a network or files of one's own is only
parsed here, and so are the examples of ``--help``; ``-m slow`` runs the long ones and the examples.
"""

from __future__ import annotations

import argparse
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest

from app.cli import main as command_line
from tests.app.cli.calling import load_once

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", ".github/*.md", "*/*.md", "engine/**/*.md", "packaging/**/*.md", "assets/**/README.md")
    for path in ROOT.glob(pattern)
)
COMMAND = re.compile(r"(?:uv run )?(?:safelight|python -m) \S.*")
# What nobody has but the reader:
THEIRS = ("~/", "cyankiwi/", "ORG/NAME", "HOST:PORT", "photo.jpg", "FILE", "FOLDER", "DST", "puzzles.csv")
LONG = re.compile(
    r"safelight (doctor|bench|tune|race --|sudoku --make 200|sudoku --file \d)"
    r"|safelight sudoku --make \d+ --givens (25|30)"
)
ENDLESS = re.compile(r"safelight (train|serve)|--shape|python -m")  # or what needs hours, a card or a server

NAMES = [module.__name__.rpartition(".")[2] for module in command_line.COMMANDS]


@dataclass(frozen=True)
class Shown:
    """A command of a document, and what stands behind its arrow."""

    document: str
    text: str
    printed: str = ""

    @property
    def treatment(self) -> Literal["run", "slow", "parsed"]:
        """Returns how the tests try it: each time, on request, or not beyond its arguments."""
        is_name = self.text.count(" ") == 1 and self.text.split()[1] in NAMES
        if is_name or ENDLESS.search(self.text) or any(name in self.text for name in THEIRS):
            return "parsed"
        return "slow" if LONG.search(self.text) else "run"


def in_blocks(document: str) -> list[Shown]:
    """The commands of a page: lines of its blocks, and what it has between backticks."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
        found += [line.strip() for line in block.replace("\\\n", " ").splitlines()]
    found += re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE))
    return [_shown(document, line) for line in found if COMMAND.fullmatch(line.partition("  #")[0].strip())]


def in_help(capsys: pytest.CaptureFixture[str]) -> list[Shown]:
    """The examples of every command's ``--help``."""
    found = []
    for name in ("", *NAMES):
        assert command_line.main([*filter(None, [name]), "--help"]) == 0
        examples = capsys.readouterr().out.partition("examples:")[2].splitlines()
        lines = [line for line in examples if re.match(r"  (safelight|echo) \S", line)]
        found += [_shown(f"{name} --help", re.sub(r"(?<=\S) {2,}\S.*", "", line)) for line in lines]
    return found


def _shown(document: str, line: str) -> Shown:
    text, _, remark = line.partition("  #")
    return Shown(document, text.strip().replace("uv run ", ""), remark.partition("→")[2].strip())


def arguments_of(text: str) -> Iterator[tuple[list[str], str, str]]:
    """Each command of a line: its arguments, what is piped into it, and the file that takes its output."""
    for part in text.split(" && "):
        piped, _, command = part.rpartition(" | ")
        words = shlex.split(command)
        target = words[words.index(">") + 1] if ">" in words else ""
        words = words[: words.index(">")] if ">" in words else words
        yield words[1:], f"{shlex.split(piped)[1]}\n" if piped else "", target


def check_shown(shown: Shown) -> None:
    """Parse a command that is not run here."""
    if shown.text.startswith("python -m"):
        module, *given = shlex.split(shown.text)[2:]
        spec = find_spec(module)
        assert spec is not None, shown
        places = [Path(place) for place in spec.submodule_search_locations or ()] or [Path(str(spec.origin))]
        source = "".join(
            file.read_text() for place in places for file in ([place] if place.is_file() else place.glob("*.py"))
        )
        assert [flag for flag in given if flag.startswith("--") and f'"{flag}"' not in source] == [], shown
        return
    for arguments, _, _ in arguments_of(shown.text):
        if len(arguments) == 1 and not arguments[0].startswith("-"):
            assert arguments[0] in NAMES, shown  # the name of one
        else:
            _parser().parse_args(arguments)


@cache
def _parser() -> argparse.ArgumentParser:
    return command_line.parser()


def run_shown(shown: Shown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, piped, target in arguments_of(shown.text):
        monkeypatch.setattr("sys.stdin", io.StringIO(piped))
        code = command_line.main(arguments)
        out, err = capsys.readouterr()
        assert code == 0, (shown, err)
        if target:
            Path(target).write_text(out, encoding="utf-8")
        assert " ".join(shown.printed.split()) in " ".join((out + err).split()), (shown, out, err)


@pytest.fixture(autouse=True)
def without_talk() -> None:
    """Safelight Talk is one of the models that commands are shown with: the package with it is not hidden here."""


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the assets and nothing else, to work in; each model is loaded once for all commands."""
    load_once(monkeypatch)
    (tmp_path / "assets").symlink_to(ROOT / "assets", target_is_directory=True)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_of_documents(
    document: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for shown in in_blocks(document):
        (run_shown(shown, monkeypatch, capsys) if shown.treatment == "run" else check_shown(shown))


def test_commands_of_help_are_parsed(capsys: pytest.CaptureFixture[str]) -> None:
    found = in_help(capsys)
    assert len(found) > 40
    for shown in found:
        check_shown(shown)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
def test_commands_of_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_already = {shown.text for document in DOCUMENTS for shown in in_blocks(document)}
    for shown in in_help(capsys):
        if shown.treatment == "run" and shown.text not in run_already:
            run_shown(shown, monkeypatch, capsys)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_modules_are_run_by_uv(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    assert re.findall(r"(?<!uv run )python -m (?:tests|engine|app)[\w.]*", text) == []


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_that_take_long(
    document: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for shown in in_blocks(document):
        if shown.treatment == "slow":
            run_shown(shown, monkeypatch, capsys)
