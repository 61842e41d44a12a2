"""``safelight tune`` with the embedded skills model: a table, a choice, Ctrl+C, files, what is refused."""

from __future__ import annotations

import contextlib
import csv
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine
from app.cli import tune
from app.state import intervals
from app.state.tuning import Candidate, TunedRun, choice, grid, least_count, rows_of
from engine import MINI, GenerationConfig
from tests.app.cli.calling import Capture, load_once, refused, run

Patch = pytest.MonkeyPatch

RULES = ("--rule", "entropy_bound_kept=0.1", "--rule", "confidence_threshold=0.9")
TASKS = """prompt,answer
Write 436 in words.,four hundred thirty-six
Continue 25 30 35 40,45 50 55
"As JSON: fig, pear, plum","[""fig"", ""pear"", ""plum""]"
Convert 36 km to m.,36000 m
"""
FILE_OF_TASKS = ("--file", "tasks.csv")
TABLE = (*FILE_OF_TASKS, "--count", "4", "--margin", "50", "--seed", "7", *RULES)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: Patch, tmp_path: Path) -> None:
    """The model is loaded once, and intervals are drawn fast."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.csv").write_text(TASKS)
    load_once(monkeypatch)
    monkeypatch.setattr(intervals, "DRAWS", 20)


def test_a_table_as_text_json_and_csv(capsys: Capture, tmp_path: Path) -> None:
    code, out, err = run(capsys, "tune", *TABLE, "--json", "--out", str(tmp_path / "rules.csv"))
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["model"], found["seed"], found["finished"]) == (MINI, 7, True)
    usual, kept, confident = found["rows"]
    assert (usual["rule"], usual["threshold"], usual["ratio"], usual["not_lower"]) == ("entropy_bound", 0.1, 1.0, True)
    assert [row["count"] for row in found["rows"]] == [4, 4, 4]
    assert max(kept["steps"], confident["steps"]) < usual["steps"]
    assert kept["ratio"] == kept["steps"] / usual["steps"]
    with (tmp_path / "rules.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["rule"] for row in rows] == ["entropy_bound", "entropy_bound_kept", "confidence_threshold"]
    assert float(rows[1]["ratio_interval_low"]) == kept["ratio_interval"][0]
    code, out, err = run(capsys, "tune", *TABLE)
    assert (code, err) == (0, "")
    out = " ".join(out.split())
    assert "(Tango's score) lies above -50 points" in out
    assert f"“{found['chosen']}” takes " in out
    assert ": --acceptance " in out


def test_ctrl_c_compares_what_all_have_answered(capsys: Capture, monkeypatch: Patch) -> None:
    seeds, stop, real = list[int](), threading.Event(), engine.generate

    @contextlib.contextmanager
    def stopping() -> Iterator[threading.Event]:
        yield stop

    def generate(model: object, ids: object, config: object, seed: int, cancel: threading.Event) -> object:
        seeds.append(seed)
        if len(seeds) == 8:
            stop.set()
        return real(model, ids, config, seed, cancel)  # type: ignore[arg-type]

    monkeypatch.setattr(tune, "stopping", stopping)
    monkeypatch.setattr(engine, "generate", generate)
    code, out, err = run(capsys, "tune", *TABLE, "--json")
    assert code == 130
    assert err == "safelight: stopped; the rules are compared on the prompts that all of them answered\n"
    assert seeds == [7] * 3 + [8] * 3 + [9] * 2  # the same noise for all rules
    found = json.loads(out)
    assert [row["count"] for row in found["rows"]] == [2, 2, 2]
    assert (found["finished"], found["chosen"]) == (False, None)


def test_a_file_of_lines_of_json(capsys: Capture, tmp_path: Path) -> None:
    tasks = [
        {"prompt": f"Reverse the word {word}.", "answer": answer} for word, answer in (("robot", "tobor"), ("a", "b"))
    ]
    (tmp_path / "tasks.jsonl").write_text("\n\n".join(map(json.dumps, tasks)))
    code, out, err = run(capsys, "tune", "--file", str(tmp_path / "tasks.jsonl"), "--json", *RULES)
    assert code == 0
    assert err.startswith("safelight: with fewer than 381 prompts nothing can be shown to within 1 points")
    found = json.loads(out)
    assert [(row["count"], row["exact"]) for row in found["rows"]] == [(2, 1)] * 3
    assert found["chosen"] == "entropy_bound 0.1"
    for text, why in (
        ("prompt\nReverse the word robot.\n", "line 2 has no prompt and answer"),
        ('{"prompt": "a"}', "line 1 has no prompt and answer"),
        ("{", "line 1"),
        ("prompt,answer\n", "holds no prompts"),
    ):
        (tmp_path / "tasks").write_text(text)
        refused(capsys, why, "tune", "--file", str(tmp_path / "tasks"))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((), "one of the arguments --sudoku --file is required"),
        ((*FILE_OF_TASKS, "--sudoku"), "not allowed with argument"),
        ((*FILE_OF_TASKS, "--givens", "30"), "--givens is for puzzles; add --sudoku"),
        ((*FILE_OF_TASKS, "--margin", "0"), "the margin must be a number above 0 and at most 50"),
        ((*FILE_OF_TASKS, "--count", "0"), "the count must be a whole number"),
        ((*FILE_OF_TASKS, "--rule", "fast=1"), "is not a rule with thresholds"),
        ((*FILE_OF_TASKS, "--rule", "entropy_bound=0.1"), "rule alone; change --rule"),
        (("--file", "nowhere.csv"), "nowhere.csv"),
        ((*FILE_OF_TASKS, "--model", "http://127.0.0.1:1"), "runs on another machine"),
        ((*FILE_OF_TASKS, "--model", "safelight-masked"), "does not write by block diffusion"),
    ],
)
def test_what_is_refused(capsys: Capture, given: tuple[str, ...], why: str) -> None:
    refused(capsys, why, "tune", *given)


def test_candidates_lie_around_the_defaults() -> None:
    found = grid(GenerationConfig(entropy_bound=0.2, accept_probability=0.9))
    assert found[0] == Candidate("entropy_bound", 0.2)
    assert {one.threshold for one in found if one.acceptance == "entropy_bound_kept"} == {0.1, 0.2, 0.4, 1, 1.6, 2}
    assert {one.threshold for one in found if one.acceptance == "confidence_threshold"} == {
        *(0.7, 0.8, 0.9, 0.95, 0.97, 0.99)
    }


def test_the_fewest_steps_win_among_rules_that_are_not_lower() -> None:
    usual, fast, wrong = (Candidate("entropy_bound_kept", bound) for bound in (0.1, 0.2, 0.5))
    rows = rows_of(
        {
            usual: [TunedRun(True, 10)] * 100,
            fast: [TunedRun(place > 0, 5) for place in range(100)],
            wrong: [TunedRun(place > 20, 1) for place in range(101)],
        }
    )
    assert [row.count for row in rows] == [100] * 3
    assert (rows[1].ratio, rows[1].difference) == (0.5, -0.01)
    assert choice(rows, 0.1) is rows[1]
    assert choice(rows, 0.01) is rows[0]
    assert least_count(0.01) == 381
