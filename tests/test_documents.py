"""Documents name what is there: files, links, tests, modules of commands, names in the code, the lines of rooms."""

from __future__ import annotations

import re
import tomllib
from fnmatch import filter as matching
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
MORE = "assets", "packaging"  # of their documents the links alone are looked at here
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", ".github/*.md", "app/**/*.md", "engine/**/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)
LINKING = [*DOCUMENTS, *(path.relative_to(ROOT).as_posix() for top in MORE for path in ROOT.glob(f"{top}/**/*.md"))]
TOP = ("app", "engine", "assets", "packaging", "tests")
PATH = re.compile(rf"({'|'.join(TOP)})/.*|[\w/*-]+\.(py|md|toml|png|gif)|([\w-]+/)?test_[\w*]+")
GROUP = re.compile(r"\buv \S.*?--group (\w+)")
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
    """The names that a document has between backticks, but for examples and names that stand for any; its links."""
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    return [name for name in [*re.findall(r"`([^`\n]+)`", text), *links] if "NAME" not in name]


def paths_in(document: str) -> set[str]:
    """The paths that a document names, of files and of modules that are run."""
    modules = re.findall(r"python -m ([\w.]+)", "\n".join(named(document)))
    paths = {name.rstrip("/") for name in named(document) if PATH.fullmatch(name)}
    return paths | {module.replace(".", "/") for module in modules}


def headings(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", LINKING)
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for place, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if "://" not in place:
            target = (ROOT / document).parent / place if place else ROOT / document
            assert target.exists(), place
            assert not anchor or anchor in headings(target), (place, anchor)


def test_every_picture_is_in_a_document() -> None:
    text = "".join((ROOT / document).read_text(encoding="utf-8") for document in LINKING)
    assert [path.name for path in (ROOT / "assets" / "screenshots").iterdir() if path.name not in text] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 110


@pytest.mark.parametrize("document", LINKING)
def test_lines_of_documents_fit_a_screen(document: str) -> None:
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 160 or re.match(r"<{7} |={7}$|>{7} ", line)] == []  # marks of a merge


def test_groups_that_commands_of_documents_install_are_those_of_the_project() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    named = {name for document in LINKING for name in GROUP.findall((ROOT / document).read_text(encoding="utf-8"))}
    assert named
    assert named <= set(groups)


@pytest.mark.parametrize("form", ["bug", "feature"])
def test_issue_forms_have_what_github_asks_of_them(form: str) -> None:
    made = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{form}.yml").read_text(encoding="utf-8"))
    assert made["name"]
    assert made["description"]
    asked = [field for field in made["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in asked} <= {"textarea", "input", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in asked)
    assert len({field["id"] for field in asked}) == len(asked)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_documents_are_there(document: str) -> None:
    assert {path for path in paths_in(document) - endings() if not ("*" in path and matching(endings(), path))} == set()


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


def test_each_journey_is_walked_by_a_test() -> None:
    text = (ROOT / "tests" / "journeys.md").read_text(encoding="utf-8")
    walked = re.findall(r"`(tests/[\w/]+\.py)` \| (\w+) \|$", text, re.MULTILINE)
    assert len(walked) >= 60
    assert [name for file, name in walked if f"def {name}(" not in (ROOT / file).read_text("utf-8")] == []


def test_the_rooms_are_in_the_lines_of_the_contracts() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in project["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            drawn = re.search(rf"^{contract['containers'][0]} +(.+(?:\n +>.+)*)", text, re.MULTILINE)
            assert drawn is not None
            rooms = [layer.replace("(", "").replace(")", "") for layer in contract["layers"] if layer != "__main__"]
            assert re.split(r"\s*>\s*", drawn[1]) == rooms
