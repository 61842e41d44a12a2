"""``safelight models``: what other programs brought here, by names that other commands take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main
from app.cli.window import _place_of
from engine import MINI, found
from engine.catalog import SMALL, installed, resolve
from tests.engine import gguf_files
from tests.engine.stores import hugging_face, lm_studio, ollama

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A model in each of three stores, and one that cannot run."""
    monkeypatch.setattr(found, "home", lambda: tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    file = gguf_files.small(tmp_path / "small-Q8_0.gguf", resolve(MINI), "llama")
    other = gguf_files.write(tmp_path / "other.gguf", {}, {}, "qwen3moe")
    lm_studio(tmp_path / ".lmstudio/models", "publisher", "other", other)
    return {
        "org/small-GGUF": hugging_face(tmp_path / "hub", "org/small-GGUF", [file]) / file.name,
        "small-Q8_0": lm_studio(tmp_path / ".lmstudio/models", "publisher", "repo", file),
        "smollm2:135m": ollama(tmp_path / ".ollama/models", "smollm2:135m", file),
    }


def test_they_are_listed(places: dict[str, Path], capsys: Capture) -> None:
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.split()[-1:] == ["Safelight"] for line in lines) == 1 + len(installed())
    assert {line.split()[0] for line in lines if " llama " in line} == set(places)
    assert lines[-1] == "  other: needs a family that is not supported (qwen3moe)"
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {each["name"]: each["path"] for each in listed["found"] if each["runs"]} == {
        name: str(path) for name, path in places.items()
    }
    assert [each["why"] for each in listed["found"] if not each["runs"]] == ["family"]
    assert MINI in listed["installed"]


def test_other_commands_take_the_names(places: dict[str, Path], capsys: Capture) -> None:
    for name in places:
        assert main(["generate", "Hi", "--model", name, "--max-new-tokens", "2", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["model"] in (name, str(places[name]))
        assert main(["plan", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["model"] == name
    assert main(["generate", "Hi", "--model", "other"]) == 2
    assert "the architecture 'qwen3moe'" in capsys.readouterr().err.replace('"', "'")
    assert main(["generate", "Hi", "--model", "no/thing"]) == 2
    assert "a name of safelight models" in capsys.readouterr().err


def test_the_window_opens_with_a_name(places: dict[str, Path]) -> None:
    for name, path in places.items():
        assert _place_of(name) == str(path)
    for name in (None, MINI, SMALL, "http://host:1/v1", "no/thing", str(places["small-Q8_0"])):
        assert _place_of(name) == name
