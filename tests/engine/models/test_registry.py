"""What is said of each family: the README's table is the registry's."""

from __future__ import annotations

import re
from pathlib import Path

from engine.models.gguf_import import ARCHITECTURES
from engine.models.registry import FAMILIES, LAYOUT_ONLY

README = Path(__file__).parents[3] / "README.md"


def test_the_readme_says_of_each_family_what_it_was_tried_on() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (yes|no) \|$", README.read_text(encoding="utf-8"), re.MULTILINE)
    said = {name: tried for families, tried, _ in rows for name in re.findall(r"`(\w+)`", families)}
    assert said == {
        name: LAYOUT_ONLY if family.tried == LAYOUT_ONLY else f"**real weights**: {family.tried}"
        for name, family in FAMILIES.items()
    }
    assert set(said.values()) > {LAYOUT_ONLY}


def test_the_readme_says_which_families_are_imported_from_gguf() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (yes|no) \|$", README.read_text(encoding="utf-8"), re.MULTILINE)
    said = {name for families, _, has in rows if has == "yes" for name in re.findall(r"`(\w+)`", families)}
    assert said >= {name.replace("-", "_") for name in ARCHITECTURES if name.replace("-", "_") in FAMILIES}
    assert said.isdisjoint({"wedlm", "sdar", "nemotron_labs_diffusion"})
