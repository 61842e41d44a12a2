"""What the documents name is there: files, tests, modules of commands, names in the code, the lines of rooms."""

from __future__ import annotations

import re
import tomllib
from fnmatch import filter as matching
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    "ARCHITECTURE.md",
    "SECURITY.md",
    "README.md",
    *(f"{room}/README.md" for room in ("app", "engine", "engine/decoding", "engine/models", "engine/service", "tests")),
)
TOP = ("app", "engine", "assets", "packaging", "tests")
PATH = re.compile(rf"({'|'.join(TOP)})/.*|[\w/*-]+\.(py|md|toml|png|gif)|([\w-]+/)?test_[\w*]+")
FOREIGN = {"tokenizers", "transformers"}  # other people's libraries


@cache
def files() -> tuple[Path, ...]:
    """All modules of the project, and what else lies at its top and among its assets."""
    found = [path for top in TOP for path in (ROOT / top).rglob("*") if "__pycache__" not in path.parts]
    return (*ROOT.glob("*.*"), *found)


@cache
def endings() -> frozenset[str]:
    """Every path from the project's top and from any folder on it, with and without the file's suffix."""
    found = set()
    for path in files():
        parts = path.relative_to(ROOT).parts
        found |= {"/".join((*parts[start:-1], name)) for start in range(len(parts)) for name in (path.name, path.stem)}
    return frozenset(found)


@cache
def code() -> str:
    """All of our Python."""
    return "\n".join(path.read_text(encoding="utf-8") for path in files() if path.suffix == ".py")


def named(document: str) -> list[str]:
    """What a document has between backticks, examples in blocks and names that stand for any left out; its links."""
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    return [name for name in [*re.findall(r"`([^`\n]+)`", text), *links] if "NAME" not in name]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_documents_are_there(document: str) -> None:
    paths = {name.rstrip("/") for name in named(document) if PATH.fullmatch(name)}
    for name in named(document):
        paths |= {module.replace(".", "/") for module in re.findall(r"python -m ([\w.]+)", name)}
    assert paths
    assert {path for path in paths - endings() if not ("*" in path and matching(endings(), path))} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names_in_documents_are_in_the_code(document: str) -> None:
    names = {name.partition("(")[0] for name in named(document) if not PATH.fullmatch(name)} - FOREIGN
    names = {name.rpartition(".")[2] for name in names if re.fullmatch(r"[A-Za-z][\w.-]*", name)}
    assert {name for name in names if name not in code()} == set()


def test_a_name_is_in_the_file_in_which_a_document_has_it() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    pairs = re.findall(r"`(\w+)` in `([\w/]+\.py)`", text)
    assert pairs
    assert [pair for pair in pairs if pair[0] not in (ROOT / pair[1]).read_text(encoding="utf-8")] == []


def test_the_rooms_stand_in_the_lines_of_the_contracts() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            drawn = re.search(rf"^{contract['containers'][0]} +(.+(?:\n +>.+)*)", text, re.MULTILINE)
            assert drawn is not None
            rooms = [layer.replace("(", "").replace(")", "") for layer in contract["layers"] if layer != "__main__"]
            assert re.split(r"\s*>\s*", drawn[1]) == rooms
