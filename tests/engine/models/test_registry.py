"""Families: the table of the models' README is the registry's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.catalog import AUTOREGRESSIVE, PUBLISHED, PublishedModel, shape
from engine.config import GenerationConfig
from engine.decoding.names import formatting
from engine.errors import SafelightError
from engine.files import read_json
from engine.found import FORMS, IMPORTED_GGUF, MODEL_TYPES
from engine.model_files import LOADABLE_GGUF, loads_directly
from engine.models.causal.gguf import DESCRIBE
from engine.models.folder import ModelFolder
from engine.models.gguf_import import ARCHITECTURES
from engine.models.registry import AUTHORS_ONLY, FAMILIES, LAYOUT_ONLY
from engine.weights.published import Published

README = Path(__file__).parents[3] / "engine" / "models" / "README.md"
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (yes|no) \|$", re.MULTILINE)

UNTRIED = {AUTHORS_ONLY, LAYOUT_ONLY}


def rows() -> list[tuple[str, str, str]]:
    """The README's table: families, what they were tried on, and whether GGUF files of theirs are imported."""
    return ROW.findall(README.read_text(encoding="utf-8"))


def test_the_readme_says_of_each_family_what_it_was_tried_on() -> None:
    said = {name: tried for families, tried, _ in rows() for name in re.findall(r"`([\w-]+)`", families)}
    assert said == {
        name: family.tried if family.tried in UNTRIED else f"**real weights**: {family.tried}"
        for name, family in FAMILIES.items()
    }
    assert set(said.values()) > UNTRIED


def test_the_readme_says_which_families_are_imported_from_gguf() -> None:
    said = {name for families, _, has in rows() if has == "yes" for name in re.findall(r"`([\w-]+)`", families)}
    assert said >= {name.replace("-", "_") for name in ARCHITECTURES if name.replace("-", "_") in FAMILIES}
    assert said.isdisjoint({"wedlm", "sdar", "nemotron_labs_diffusion"})


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.repo)
def test_the_catalog_says_of_each_model_what_its_family_was_tried_on(model: PublishedModel) -> None:
    family = FAMILIES[model.model_type]
    name = model.title.rpartition(" ")[0]  # without its size
    assert model.is_experimental is (family.tried in UNTRIED or name not in family.tried)
    raw = read_json(shape(model.shape).folder / "config.json")
    assert raw["model_type"] == model.model_type


def test_the_catalog_knows_which_families_write_several_tokens_at_once() -> None:
    own = {name: family.decoders[0] for name, family in FAMILIES.items()}
    assert set(AUTOREGRESSIVE) == {name for name, decoder in own.items() if decoder == "autoregressive"}


def test_what_is_found_on_the_disk_is_known_to_run_or_not_without_the_engine(tmp_path: Path) -> None:
    assert set(MODEL_TYPES) == set(FAMILIES)
    assert {*LOADABLE_GGUF, *IMPORTED_GGUF} == set(ARCHITECTURES)

    def is_read(form: str) -> bool:
        try:
            Published.read(tmp_path, {"quantization_config": {"quant_method": form}})
        except SafelightError as error:
            return f"quantised as {form!r}" not in str(error).replace('"', "'")
        return True

    other = ("awq", "bitsandbytes", "hqq", "quanto", "mxfp4", "exl2")
    read = {form for form in (*FORMS, *other) if is_read(form)} | {"compressed-tensors"}  # by its format
    assert set(FORMS) == read


def test_every_family_can_hold_an_answer_to_a_format() -> None:
    for family in FAMILIES.values():
        assert formatting(GenerationConfig(), family.decoders) in family.decoders


@pytest.mark.parametrize(
    ("id", "parameters"),
    [("qwen3-1.7b", 1.72e9), ("qwen3-0.6b", 0.596e9), ("qwen2.5-coder-1.5b", 1.54e9), ("qwen2.5-coder-0.5b", 0.494e9)],
)
def test_shapes_have_the_parameters_of_what_is_published(id: str, parameters: float) -> None:
    parts = ModelFolder.open(shape(id).folder).plan(quantization="none", device="cpu", dtype="bfloat16").parts
    weights = sum(parts[part] for part in ("attention", "dense", "embedding", "other"))
    assert weights / 2 == pytest.approx(parameters, rel=0.005)


def test_the_catalog_knows_which_gguf_files_load_as_they_are(tmp_path: Path) -> None:
    assert set(LOADABLE_GGUF) == set(DESCRIBE)
    for content in (b"", b"GGUF", b"GGUF" + bytes(60), b"\xff" * 200):
        file = tmp_path / "x.gguf"
        file.write_bytes(content)
        assert not loads_directly(file)
    assert not loads_directly(tmp_path / "none.gguf")
