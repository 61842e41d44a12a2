"""The families of models that are known."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from engine import SKILLS, GenerationConfig, GenerationFinished, SafelightError, generate, load_model, run_settings
from engine.decoding.generate import DECODERS
from engine.files import read_json
from engine.models import registry
from engine.models.registry import FAMILIES, config_in, family_of
from tests.engine import tiny


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_family_names_decoders_that_are_there(family: registry.Family) -> None:
    assert family.default_decoder in family.decoders
    assert set(family.decoders) <= DECODERS.keys()


def test_a_checkpoint_is_of_the_family_that_its_config_names(tmp_path: Path) -> None:
    raw = read_json(tiny.checkpoint(tmp_path) / "config.json")
    assert family_of(raw) is FAMILIES["diffusion_gemma"]
    assert config_in(tmp_path) == tiny.CONFIG


def test_the_settings_of_a_models_runs_are_known_before_it_is_loaded() -> None:
    found = run_settings(SKILLS)
    assert found.decoders == ("block_diffusion", "autoregressive")
    assert found.defaults == load_model(SKILLS, device="cpu").generation_defaults
    with pytest.raises(SafelightError, match="there is no model at nowhere"):
        run_settings("nowhere")


@pytest.mark.parametrize("found", ["gpt2", "", None, 7, ["diffusion_gemma"]])
def test_an_unknown_type_is_told_with_those_that_are_known(found: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "FAMILIES", {**FAMILIES, "another": FAMILIES["diffusion_gemma"]})
    with pytest.raises(SafelightError, match=r"model_type is .*; this engine runs 'diffusion_gemma', .*'another'"):
        family_of({"model_type": found})


def test_a_decoder_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model("safelight-skills", device="cpu")
    plain = DECODERS["block_diffusion"]

    def three_steps(model: Any, prompt: Any, config: GenerationConfig, *rest: Any) -> Any:
        return plain(model, prompt, config.replace(max_denoising_steps=3, confidence_threshold=0.0), *rest)

    monkeypatch.setitem(DECODERS, "three_steps", three_steps)
    prompt, config = model.chat_ids([{"role": "user", "content": "hi"}]), model.generation_defaults
    with pytest.raises(SafelightError, match="unknown decoder 'three_steps'; this model has block_diffusion, auto"):
        list(generate(model, prompt, config.replace(decoder="three_steps")))
    model = dataclasses.replace(
        model, family=dataclasses.replace(model.family, decoders=("block_diffusion", "three_steps"))
    )
    *_, last = generate(model, prompt, config.replace(decoder="three_steps"))
    assert isinstance(last, GenerationFinished)
    assert last.steps == 3 * last.blocks
