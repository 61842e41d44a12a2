"""The walls of the house: import contracts, lint, types, late imports. They run in the test command itself."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

CHECKS = {
    "ruff": [sys.executable, "-m", "ruff", "check", "."],
    "ruff format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "mypy": [sys.executable, "-m", "mypy"],
    "import-linter": [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"],
}


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """All checks at once, each in a process of its own."""
    with ExitStack() as ended:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        yield {
            name: ended.enter_context(subprocess.Popen(command, cwd=ROOT, **pipes))  # type: ignore[call-overload]
            for name, command in CHECKS.items()
        }


@pytest.mark.parametrize("name", CHECKS)
def test_import_walls_hold(name: str, running: dict[str, subprocess.Popen[str]]) -> None:
    output = running[name].communicate()[0]
    assert running[name].returncode == 0, f"{name} failed:\n{output}"


# ---------------------------------------------------------------- imports inside functions


def test_every_import_inside_a_function_says_why() -> None:
    files = sorted(path for room in ("engine", "app") for path in (ROOT / room).rglob("*.py"))
    silent = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in files
        for line in unexplained_imports(path.read_text(encoding="utf-8"))
    ]
    assert not silent, f"move to the top, or say in a comment what is put off: {silent}"


def unexplained_imports(source: str) -> list[int]:
    """Lines of imports inside functions with no reason: on the line, above it, or at the import before it in a row."""
    if not re.search(r"^[ \t]+(import|from) ", source, re.MULTILINE):  # as in most files
        return []
    suites = list(_suites_with_imports(ast.parse(source), False))
    reasons = _lines_with_reasons(source) if suites else {}
    found, is_explained = [], False
    for suite in suites:
        for statement in suite:
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                is_explained = False
                continue
            line = statement.lineno
            is_explained = is_explained or line in reasons or reasons.get(line - 1, False)
            if not is_explained:
                found.append(line)
        is_explained = False
    return sorted(found)


def _suites_with_imports(node: ast.AST, is_inside: bool) -> Iterator[list[ast.stmt]]:
    """Statements in a row within functions. Expressions, most of a tree, are left out, as none holds an import."""
    is_inside = is_inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        suite = getattr(node, name, [])
        if is_inside and any(isinstance(each, ast.Import | ast.ImportFrom) for each in suite):
            yield suite
        for each in suite:
            if not isinstance(each, ast.Expr):
                yield from _suites_with_imports(each, is_inside)


def _lines_with_reasons(source: str) -> dict[int, bool]:
    """Lines with comments, and whether the line has nothing else. What speaks to a tool is no reason."""
    return {
        token.start[0]: not token.line[: token.start[1]].strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:"))
    }
