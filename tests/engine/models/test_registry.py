"""What is said of each family: the table of the models' README is the registry's."""

from __future__ import annotations

import re
from pathlib import Path

from engine.models.gguf_import import ARCHITECTURES
from engine.models.registry import FAMILIES, LAYOUT_ONLY

README = Path(__file__).parents[3] / "engine" / "models" / "README.md"
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (yes|no) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    """The README's table: families, what they were tried on, and whether GGUF files of theirs are imported."""
    return ROW.findall(README.read_text(encoding="utf-8"))


def test_the_readme_says_of_each_family_what_it_was_tried_on() -> None:
    said = {name: tried for families, tried, _ in rows() for name in re.findall(r"`(\w+)`", families)}
    assert said == {
        name: LAYOUT_ONLY if family.tried == LAYOUT_ONLY else f"**real weights**: {family.tried}"
        for name, family in FAMILIES.items()
    }
    assert set(said.values()) > {LAYOUT_ONLY}


def test_the_readme_says_which_families_are_imported_from_gguf() -> None:
    said = {name for families, _, has in rows() if has == "yes" for name in re.findall(r"`(\w+)`", families)}
    assert said >= {name.replace("-", "_") for name in ARCHITECTURES if name.replace("-", "_") in FAMILIES}
    assert said.isdisjoint({"wedlm", "sdar", "nemotron_labs_diffusion"})
