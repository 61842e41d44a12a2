"""Plain English: what documents, texts that people read, docstrings and names must not say (ARCHITECTURE).

Run as a program, it lists what is left in the files or folders that are named: ``python -m tests.test_language app``.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests import strings

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["engine", "app", "tests"]  # whose names, docstrings and comments are in plain English
MAX_WORDS = 40  # of a sentence
PAGES = "*.md", ".github/*.md", "*/*.md", "engine/**/*.md", "packaging/**/*.md", "assets/**/*.md"

OPENING = re.compile(
    r"(Of|Those|These|Its|Their|The same|What|Whether|Where|How|Which|That which|All that|In the|By|To|For|From|With|As"
    r"|On|At|Nothing|None|Nobody|Never|No longer)\b"
)
PHRASE = re.compile(
    r"\b(tolds?|tells?|telling|deeds?|keepers?|ways?|beside|on show|under way|what there is|comes to an?|as told|lest"
    r"|give or take|has its say|at hand|taken up|put on|let go|whatever there is|to be had|it does without)\b",
    re.IGNORECASE,
)
NAMES = frozenset(
    """
    told tell tells telling deed deeds keeper keepers biography beside spent trial iteration proposal unmasked flip way
    ways garbage hall
    """.split()  # noqa: SIM905
)
NAMED = re.compile(rf"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:{'|'.join(NAMES)})(?![a-z])")  # a name's word, perhaps
OLD_TERMS = re.compile(
    r"\b(remelt\w*|tokens (per|a) forward)\b", re.IGNORECASE
)  # of documents; the names that a frame of the server and the skills have are older
SAID = re.compile(  # of texts that people read
    r"\b(told|tells?|telling|besides?|on show|under way|what there is|comes? to an?|as told|lest|give or take|at hand"
    r"|taken up|put on|to be had|it does without|whichever|therein|one's own|given? up|held to|anew|in doubt"
    r"|without converging|decod\w+ in \w+ ways?|ways? of decoding|in \{\w*\} forwards|remelt\w*"
    r"|(tokens|tok) ?(/|per|a) ?forward)\b",
    re.IGNORECASE,
)
TAUGHT = (  # what models are asked and taught
    "engine/benchmarks/generation.py",
    "engine/tasks/skills/small_talk.py",
    "engine/tasks/tool_questions.py",
)
SHORT_DOCSTRING = re.compile(r"(:\n\s+|\A)[rR]?(\"(?!\"\")|')")  # in other quotes than long ones
NODES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module


class Fault(NamedTuple):
    """A name or a text that is not plain."""

    path: str
    line: int
    said: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.said}"


def faults(path: Path) -> Iterator[Fault]:
    source = path.read_text(encoding="utf-8")
    place = path.relative_to(ROOT).as_posix()
    has_name = bool(NAMED.search(source))  # most files have no such word
    if not has_name and not _may_have_unplain_docstring(source) and not _may_have_unplain_comment(source):
        return
    tree = ast.parse(source)
    for node in ast.walk(tree) if has_name else ():
        for name in _names(node):
            if found := NAMES & set(re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower().split("_")):
                yield Fault(place, getattr(node, "lineno", 0), f"name {name}: {', '.join(sorted(found))}")
    for node in _statements(tree):
        if isinstance(node, NODES) and (text := ast.get_docstring(node)):
            line = node.body[0].lineno
            if opening := OPENING.match(text):
                yield Fault(place, line, f"docstring begins with {opening[0]!r}")
            yield from (Fault(place, line, f"docstring {said}") for said in _unplain(text))
    if not _may_have_unplain_comment(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:", "# mypy:")):
            yield from (Fault(place, token.start[0], f"comment {said}") for said in _unplain(token.string))


def _may_have_unplain_docstring(source: str) -> bool:
    """Reads each long text as a docstring: to parse the file takes far longer."""
    parts = source.split('"""')
    is_sure = len(parts) % 2 and not SHORT_DOCSTRING.search(source)
    texts = (inspect.cleandoc(text) for text in parts[1::2])
    return not is_sure or any(OPENING.match(text) or next(_unplain(text), None) for text in texts)


def _may_have_unplain_comment(source: str) -> bool:
    """Reads each line from each of its ``#`` on as a comment: to find those that are takes far longer."""
    ends = (line[found.start() :] for line in source.splitlines() for found in re.finditer("#", line))
    return any(next(_unplain(end), None) for end in ends)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yields a node and the statements below it, without the expressions, which are most of a tree."""
    yield node
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, name, ()) if not isinstance(node, ast.expr) else ():
            yield from _statements(inner)


def _names(node: ast.AST) -> Iterator[str]:
    """Yields the names that a node defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def _unplain(text: str) -> Iterator[str]:
    """Yields the phrases of a text that are ruled out, and the beginnings of its sentences that are too long."""
    prose = re.sub(r"``.*?``|`[^`]*`", "x", text, flags=re.DOTALL)  # code is no prose
    for phrase in PHRASE.finditer(prose):
        yield f"says {phrase[0]!r}"
    for sentence in re.split(r"[.!?:;](?=\s)|\n\s*\n|\n\s*[-*\d]", prose):
        words = sentence.split()
        if len(words) > MAX_WORDS:
            yield f"has a sentence of {len(words)} words: {' '.join(words[:8])} …"


def faults_of_page(path: Path) -> Iterator[Fault]:
    """Yields what is not plain in a document; the rows of tables are not sentences."""
    text = re.sub(r"^ *```.*?^ *```", _blank, path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for number, line in enumerate(text.splitlines(), 1):
        prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "x", line)  # neither code nor a link's target
        for phrase in (*PHRASE.finditer(prose), *OLD_TERMS.finditer(prose)):
            yield Fault(path.relative_to(ROOT).as_posix(), number, f"says {phrase[0]!r}")
    for said in _unplain(re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)):
        if "sentence" in said:
            yield Fault(path.relative_to(ROOT).as_posix(), 0, said)


def _blank(block: re.Match[str]) -> str:
    """Returns empty lines in place of a block, so that lines keep their numbers."""
    return "\n" * block[0].count("\n")


def in_folders(names: list[str]) -> list[Fault]:
    places = [ROOT / name for name in names]
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    return [fault for file in files for fault in faults(file)]


def faults_of_texts(texts: list[strings.Text]) -> list[Fault]:
    """Returns what is not plain in texts that people read."""
    return [
        Fault(text.path, text.line, f"text says {said[0]!r}: {text.text[:100]}")
        for text in texts
        if text.path not in TAUGHT
        for said in SAID.finditer(text.text)
    ]


def test_what_people_read_is_in_plain_english() -> None:
    texts = strings.in_folders(["app", "engine"])
    assert len(texts) > 4000
    found = faults_of_texts(texts)
    assert not found, "\n".join(map(str, found))


def test_the_code_is_in_plain_english() -> None:
    found = in_folders(FOLDERS)
    assert not found, "\n".join(map(str, found))


def test_names_of_tests_are_in_plain_english() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    names = re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE)
    assert len(names) > 2_000
    assert [name for name in names if {*NAMES, "nobody", "stands", "stand"} & set(name.split("_"))] == []


def test_the_documents_are_in_plain_english() -> None:
    pages = sorted({page for pattern in PAGES for page in ROOT.glob(pattern)})
    assert len(pages) > 20
    found = [fault for page in pages for fault in faults_of_page(page)]
    assert not found, "\n".join(map(str, found))


def test_what_is_ruled_out_is_found(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "some.py"
    long = " ".join(["word"] * (MAX_WORDS + 1))
    file.write_text(f'"""Whether it is."""\ndef told(x):\n    """Returns ``way``, and tells it."""\n    # {long}\n')
    assert sorted(fault.line for fault in faults(file)) == [1, 2, 3, 4]
    page = tmp_path / "some.md"
    page.write_text(f"# A page\n```\nbeside {long}\n```\n`remelted`\n\nIt is remelted.\n\n{long}\n")
    assert sorted(fault.line for fault in faults_of_page(page)) == [0, 7]
    monkeypatch.setattr(strings, "ROOT", tmp_path)
    file.write_text('"""A docstring beside it."""\nx = tr(f"It is told: {name}")\ny = ["a_key", "SELECT a FROM b"]\n')
    assert [fault.line for fault in faults_of_texts(strings.in_folders(["some.py"]))] == [2]


if __name__ == "__main__":
    named = sys.argv[1:] or FOLDERS
    left = [*in_folders(named), *faults_of_texts(strings.in_folders(named))]
    print(*left, f"{len(left)} places", sep="\n")
