"""Rules that no import contract can say: no circle of files, one place that knows the window, one class a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WINDOW = ("app/window/", "app/main.py", "app/self_test.py")  # where its class may be named


@cache
def sources() -> dict[str, tuple[str, ast.Module]]:
    """Path and syntax of each module of both packages, by its dotted name."""
    found = {}
    for package in ("engine", "app"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found[name] = (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
    return found


def imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import of a module: at its top, inside functions, and for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not isinstance(child, ast.expr):  # which has no statement in it
            yield from imports(child)


def imported(module: ast.Module) -> set[str]:
    """Our modules that one imports."""
    names: set[str] = set()
    for node in imports(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in sources() else node.module for name in inner}
    return names & sources().keys()


def test_imports_go_round_in_no_circle() -> None:
    graph = {name: imported(module) - {name} for name, (_, module) in sources().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' <- '.join(error.args[1])}") from None


def test_no_text_is_read_by_qt_s_plain_text() -> None:
    """It makes spaces of U+00A0 and line breaks of U+2028; ``raw_text`` in ``app/design/text_field.py`` does not."""
    readers = [path for path, _ in sources().values() if ".toPlainText" in (ROOT / path).read_text(encoding="utf-8")]
    assert not readers


def test_imports_are_absolute() -> None:
    """Finds relative ones: the test of circles reads full names."""
    relative = [
        path
        for path, module in sources().values()
        for node in imports(module)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_the_window_is_known_where_it_is_made() -> None:
    paths = [path for path, _ in sources().values() if "MainWindow" in (ROOT / path).read_text(encoding="utf-8")]
    assert [path for path in paths if not path.startswith(WINDOW)] == []


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, module in sources().values():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
