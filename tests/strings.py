"""Lists every text that people may read: ``uv run python -m tests.strings [FOLDER …]``, one a line, with file and line.

Names, keys, style sheets, SQL, patterns and machine code are left out. A value inside a text stands as ``{}``.
A single word counts in the app alone, where it may be a label.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = "app", "engine"

TWO_WORDS = re.compile(r"[^\W\d_]{2,}[^\w\s]{0,2}\s+(\{\}|[^\W\d_]{2,})|\{\}\s+[^\W\d_]{3,}")
ONE_WORD = re.compile(r"[A-Z][a-z]+(…|\.|:)?")
CODE = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE FROM|CREATE (TABLE|VIRTUAL|TRIGGER|INDEX)|PRAGMA|ALTER TABLE)\b"  # SQL
    r"|[\w-]+: ?[^;{}]+;\s*($|\}|[\w-]+:)|\bQ[A-Z]\w+(::[\w-]+)? ?[,{]"  # style sheets
    r"|\(\?[:P<=!]|\\[bdsw]|\[\^"  # patterns
    r"|\b(ORDER BY|EXCEPT|BEGIN IMMEDIATE|DROP TABLE|USING fts5|IS NULL|IS NOT NULL|LIKE|IN \(\{|BETWEEN)\b|typeof\("
    r"|\.(reg|b16|b32|bf16x2)\b|\{%"  # machine code, templates
    r"|</?(svg|path|html|div|style|script|section|p|td|table|details|img|mark)\b"
    r"|^#!|^\w+/[\w.+-]+; |^import \w|^from [\w.]+ import|\n +return |\bdef \w+\(|^%json"
)
NAMED = frozenset(["Literal", "compile", "getattr", "setattr", "hasattr", "TypeVar", "setObjectName", "cast"])
WEB = {  # texts of web pages, each in one line
    ".html": re.compile(r">([^<>{}]+)<|(?:aria-label|placeholder|title|alt)=\"([^\"]+)\""),
    ".js": re.compile(r"\"([^\"\\]+)\"|`([^`]+)`"),
}
LISTED = frozenset(["__all__", "__slots__"])


class Text(NamedTuple):
    """A text in a file."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def texts(path: Path) -> Iterator[Text]:
    """Yields the texts of a file in their order."""
    place, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    found = _strings(ast.parse(source)) if path.suffix == ".py" else _of_page(source, WEB[path.suffix])
    for line, text in sorted(found):
        if not CODE.search(text) and _is_prose(text, is_app=place.startswith("app/")):
            yield Text(place, line, " ".join(text.split()))


def _of_page(source: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.splitlines(), 1):
        for found in pattern.finditer(line):
            yield number, re.sub(r"\$\{[^}]*\}", "{}", next(filter(None, found.groups()), ""))


def _is_prose(text: str, *, is_app: bool) -> bool:
    return bool(TWO_WORDS.search(text) or (is_app and ONE_WORD.fullmatch(text)))


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the strings below a node, without docstrings and without what only names something in the code."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
        return
    if isinstance(node, ast.JoinedStr):
        yield node.lineno, "".join(_part(value) for value in node.values)
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant):
            continue  # read above, with the values between
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue  # a docstring
        if not _names_something(child):
            yield from _strings(child)


def _part(value: ast.expr) -> str:
    return str(value.value) if isinstance(value, ast.Constant) else "{}"


def _names_something(node: ast.AST) -> bool:
    """Says if a node's strings are names: a module's, a type's, an attribute's, a pattern's."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id in LISTED for target in node.targets)
    called = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else None
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in NAMED


def in_folders(names: list[str]) -> list[Text]:
    """Returns the texts of files and folders, by file and line."""
    places = [ROOT / name for name in names]
    files = [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*")))]
    return [text for file in files if file.suffix in (".py", *WEB) for text in texts(file)]


if __name__ == "__main__":
    print(*in_folders(sys.argv[1:] or list(FOLDERS)), sep="\n")
