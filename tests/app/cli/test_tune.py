"""``safelight tune`` with the embedded skills model: a table, a tuning, Ctrl+C and going on, files, what is refused."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine
from app.cli import tune, tune_runs
from app.cli.main import main
from app.presets.store import PresetStore
from app.settings.decoders import DecodingChoice
from app.settings.values import SettingsValues
from app.state import intervals
from app.state.tuning import plan
from app.state.tuning.candidates import HOTTER, STALLING
from app.state.tuning.result import FILE, FOLDER
from app.system.locks import locked

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

RULES = ("--rule", "entropy_bound_kept=0.1", "--rule", "confidence_threshold=0.9")
TABLE = ("--skills", "--table", "--count", "4", "--margin", "50", *RULES)

_loaded: list[engine.Model] = []


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: Patch) -> Path:
    """The user's data folder. The model is loaded once, and intervals are drawn fast."""
    real = engine.load_model

    def load(name: str, **options: str) -> engine.Model:
        if name != engine.SKILLS:
            return real(name, **options)
        if not _loaded:
            _loaded.append(real(name, **options))
        return _loaded[0]

    monkeypatch.setattr(engine, "load_model", load)
    monkeypatch.setattr(intervals, "DRAWS", 20)
    for module in (tune, tune_runs):
        monkeypatch.setattr(module, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(tune, "user_values", SettingsValues)
    return tmp_path


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["tune", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def count_runs(monkeypatch: Patch) -> list[int]:
    """Counts the runs of the engine from now on, by their seeds."""
    seeds, real = list[int](), engine.generate

    def generate(model: object, ids: object, config: object, seed: int, cancel: threading.Event) -> object:
        seeds.append(seed)
        return real(model, ids, config, seed, cancel)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "generate", generate)
    return seeds


def test_a_table_with_a_preset(capsys: Capture, data: Path, monkeypatch: Patch) -> None:
    seeds = count_runs(monkeypatch)
    code, out, err = run(capsys, *TABLE, "--json", "--seed", "7")
    assert (code, err) == (0, "")
    assert seeds == [7] * 3 + [8] * 3 + [9] * 3 + [10] * 3
    found = json.loads(out)
    assert (found["model"], found["task"], found["seed"], found["finished"]) == (
        "safelight-skills",
        "held-out skills",
        7,
        True,
    )
    usual, kept, confident = found["rows"]
    assert (usual["rule"], usual["threshold"], usual["ratio"], usual["not_lower"]) == ("entropy_bound", 0.1, 1.0, True)
    assert [row["count"] for row in found["rows"]] == [4, 4, 4]
    assert kept["steps"] <= confident["steps"] < usual["steps"]
    assert kept["ratio"] == kept["steps"] / usual["steps"]
    (path,) = (data / FOLDER).glob(f"*/{FILE}")
    assert json.loads(path.read_text()) == found
    code, out, err = run(capsys, *TABLE, "--seed", "7", "--no-save")
    assert (code, err, len(seeds)) == (0, "", 12)  # all runs are read from the file
    assert "entropy_bound_kept 0.1" in out


def test_the_chosen_rule_becomes_a_preset(capsys: Capture, data: Path) -> None:
    many = ("--skills", "--count", "4", "--margin", "50", "--seed", "7", *RULES[:2])
    code, out, err = run(capsys, *many)
    assert (code, err) == (0, "")
    out = " ".join(out.split())
    assert "(Tango's score) lies above -50 points" in out
    (preset,) = PresetStore(data).own
    assert f"saved as the preset “{preset.name}”" in out
    chosen = preset.decoding.acceptance
    assert f"“{chosen} {preset.overrides[0][1]:g}” takes " in out
    assert preset.name == "safelight-skills, tuned on held-out skills"


def test_the_best_are_tried_on_a_hotter_canvas_too(capsys: Capture, data: Path, monkeypatch: Patch) -> None:
    """The file, the table and the preset have what was varied. The sampler of the window is kept."""
    monkeypatch.setattr(plan, "SHORTEST", 1)
    mine = SettingsValues({"max_new_tokens": 64}, decoding=DecodingChoice(verify=True))
    monkeypatch.setattr(tune, "user_values", lambda: mine)
    seeds, few = count_runs(monkeypatch), ("--skills", "--count", "4", "--margin", "50", *RULES[2:], "--seed", "7")
    code, out, err = run(capsys, *few, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    variations = {tuple(row["variation"].items()) for row in found["rows"]}
    assert variations == {(), HOTTER, STALLING}
    assert len(found["rows"]) == 6
    assert len(seeds) == sum(row["count"] for row in found["rows"])
    chosen = next(row for row in found["rows"] if row["title"] == found["chosen"])
    (preset,) = PresetStore(data).own
    tuned = {chosen["setting"]: chosen["threshold"], **chosen["variation"]}
    assert dict(preset.overrides) == {"max_new_tokens": 64, **tuned}
    assert preset.decoding == DecodingChoice(verify=True, acceptance=chosen["rule"])
    before = len(seeds)
    code, out, err = run(capsys, *few)
    assert (code, err, len(seeds)) == (0, "", before)  # all runs are read from the file
    assert re.search(r"\nentropy_bound 0.1 .*\nt_max 1, t_min 0.8  ", out)


def test_ctrl_c_and_the_same_command_again(capsys: Capture, data: Path, monkeypatch: Patch) -> None:
    whole = json.loads(run(capsys, *TABLE, "--json", "--out", str(data / "whole"))[1])
    seeds, stop = count_runs(monkeypatch), threading.Event()
    counted = engine.generate

    @contextlib.contextmanager
    def stopping() -> Iterator[threading.Event]:
        stop.clear()
        yield stop

    def generate(*asked: object) -> object:
        if len(seeds) == 5:
            stop.set()
        return counted(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(tune, "stopping", stopping)
    monkeypatch.setattr(engine, "generate", generate)
    parts = (*TABLE, "--json", "--out", str(data / "parts"))
    code, out, err = run(capsys, *parts)
    assert (code, err) == (130, "safelight: stopped; run the same command again to go on\n")
    found = json.loads(out)
    assert [row["count"] for row in found["rows"]] == [2, 2, 1]
    assert (found["finished"], found["chosen"], found["preset"]) == (False, None, "")
    code, out, err = run(capsys, *parts)
    assert (code, err) == (0, "")
    assert json.loads(out) == whole
    assert len(seeds) == 6 + 7  # the stopped run was run again
    code, _, err = run(capsys, *parts, "--seed", "1")
    assert code == 2
    assert err.endswith("was begun with another seed; choose another folder with --out, or delete it\n")


def test_a_file_of_ones_own(capsys: Capture, data: Path) -> None:
    file = data / "tasks.csv"
    file.write_text("prompt,answer\nReverse the word robot.,tobor\nReverse the word stone.,stone\n")
    code, out, err = run(capsys, "--file", str(file), "--json", "--table", *RULES)
    assert code == 0
    assert err.startswith("safelight: with fewer than 381 prompts nothing can be shown to within 1 points")
    found = json.loads(out)
    assert [(row["count"], row["exact"]) for row in found["rows"]] == [(2, 1)] * 3
    assert (found["task"], found["chosen"], found["preset"]) == ("own prompts", "entropy_bound 0.1", "")
    file.write_text("prompt\nReverse the word robot.\n")
    code, out, err = run(capsys, "--file", str(file))
    assert (code, out) == (2, "")
    assert err == f"safelight: {file} has no columns prompt and answer; name them in its first line\n"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((), "give a task: --skills, --sudoku, --drawings or --file FILE"),
        (("--skills", "--sudoku"), "--skills and --sudoku exclude each other"),
        (("--skills", "--givens", "30"), "--givens is for puzzles; add --sudoku"),
        (("--skills", "--margin", "0"), "the margin must be a number of points"),
        (("--skills", "--count", "0"), "the count must be a whole number"),
        (("--skills", "--rule", "fast=1"), "is not a rule with thresholds"),
        (("--skills", "--rule", "entropy_bound=0.1"), "not 0; change --rule"),
        (("--file", "nowhere.csv"), "nowhere.csv"),
        (("--skills", "--model", "http://127.0.0.1:1"), "runs on another machine"),
        (("--skills", "--model", "safelight-masked"), "does not write by block diffusion"),
    ],
)
def test_what_is_refused(capsys: Capture, given: tuple[str, ...], why: str) -> None:
    code, out, err = run(capsys, *given)
    assert (code, out) == (2, "")
    assert why in err
    assert err.startswith("safelight: ")
    assert err.count("\n") == 1


def test_two_at_once_are_refused(capsys: Capture, data: Path) -> None:
    with locked(data / "runs.jsonl.lock"):
        code, out, err = run(capsys, *TABLE, "--out", str(data))
    assert (code, out) == (2, "")
    assert err == "safelight: Another window is writing runs.jsonl. Try again in a moment.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [("--sudoku", "--givens", "45"), ("--drawings",), ("--skills", "--model", "safelight-base")],
)
def test_the_other_embedded_models(capsys: Capture, given: tuple[str, ...]) -> None:
    code, out, err = run(capsys, *given, "--count", "20", "--margin", "30", "--table", "--json", *RULES)
    assert (code, err) == (0, "")
    usual, *others = json.loads(out)["rows"]
    assert all(row["rate"] >= 0.5 and row["steps"] < usual["steps"] for row in others)
