"""Rules that no import contract can say: no circle of files, one place that knows the window, one class a name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WINDOW = ("app/window/", "app/main.py", "app/self_test.py")  # where its class may be named


# To parse a whole module takes thirty times as long as its imports alone. Ruff asks for a line of its own for each.
IMPORT = re.compile(r"^[ \t]*((?:import|from) [\w.]+(?: import (?:\([^)]*\)|[^\n]+)|[^\n]*))", re.MULTILINE)
LONG_TEXT = re.compile(r'("""|\'\'\').*?\1', re.DOTALL)


class Source(NamedTuple):
    """A module: its path, what it imports anywhere, also inside functions and for types alone, and its classes."""

    path: str
    text: str
    imports: list[ast.Import | ast.ImportFrom]
    classes: list[str]

    @classmethod
    def read(cls, path: Path) -> Source:
        text = path.read_text(encoding="utf-8")
        code = LONG_TEXT.sub('""', text)
        found = ast.parse("\n".join(IMPORT.findall(code))).body
        imports = [node for node in found if isinstance(node, ast.Import | ast.ImportFrom)]
        return cls(path.relative_to(ROOT).as_posix(), text, imports, re.findall(r"^class (\w+)", code, re.MULTILINE))


@cache
def sources() -> dict[str, Source]:
    """The modules of both packages by their dotted names."""
    paths = [path for package in ("engine", "app") for path in sorted((ROOT / package).rglob("*.py"))]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): Source.read(path)
        for path in paths
    }


def imported(source: Source) -> set[str]:
    """Our modules that one imports."""
    names: set[str] = set()
    for node in source.imports:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in sources() else node.module for name in inner}
    return names & sources().keys()


def test_imports_go_round_in_no_circle() -> None:
    graph = {name: imported(source) - {name} for name, source in sources().items()}
    assert sum(map(len, graph.values())) > 2_000
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' <- '.join(error.args[1])}") from None


def test_no_text_is_read_by_qt_s_plain_text() -> None:
    """It makes spaces of U+00A0 and line breaks of U+2028; ``raw_text`` in ``app/design/text_field.py`` does not."""
    assert [source.path for source in sources().values() if ".toPlainText" in source.text] == []


def test_imports_are_absolute() -> None:
    """Finds relative ones: the test of circles reads full names."""
    relative = [
        source.path
        for source in sources().values()
        for node in source.imports
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_the_window_is_known_where_it_is_made() -> None:
    paths = [source.path for source in sources().values() if "MainWindow" in source.text]
    assert [path for path in paths if not path.startswith(WINDOW)] == []


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources().values():
        for name in source.classes:
            if not name.startswith("_"):
                places[name].append(source.path)
    assert len(places) > 500
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
