"""``safelight race`` as its users meet it: one prompt, a batch, JSON, Ctrl+C, lanes that are wrong."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import random
import string
from pathlib import Path
from typing import Any

import pytest

import engine
from app.cli.race import read_lane
from engine import MINI, SafelightError, load_model
from engine.catalog import title
from engine.service import Racing
from engine.tasks import drawings
from tests.app.cli.calling import Capture, refused, run

USUAL = title(MINI)
TASKS = ("Reverse the word stone.", "What is 47 + 5?", "Spell banana.", "Sort 9 4 7 2 6.")
LANES = ("--lane", ":block_diffusion", "--lane", ":autoregressive,max-new-tokens=4,top-k=3,temperature=0.5")


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Prompts, one a line."""
    (tmp_path / "prompts.txt").write_text("\n".join(TASKS))
    return str(tmp_path / "prompts.txt")


def test_one_prompt_shows_each_lane_with_its_figures(capsys: Capture) -> None:
    code, out, err = run(capsys, "race", "Reverse the word robot.", *LANES)
    assert (code, err) == (0, "")
    first, second, _ = out.split("\n\n")
    assert first.splitlines()[:2] == [f"{USUAL} · block_diffusion", "tobor"]
    assert "5 tokens in " in first
    assert f"{USUAL} · autoregressive, max_new_tokens=4, sampling_top_k=3" in second
    assert "4 tokens in 4 passes, 1.00 tokens per pass" in second
    assert "the same as lane 1" in second


def test_without_lanes_a_model_is_raced_by_each_of_its_decoders(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_short_answers(*given: Any, **options: Any) -> engine.Model:
        model = load_model(*given, **options)
        return dataclasses.replace(model, generation_defaults=model.generation_defaults.replace(max_new_tokens=16))

    monkeypatch.setattr(engine, "load_model", of_short_answers)
    code, out, err = run(capsys, "race", "Reverse the word robot.", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [lane["title"].rpartition(" ")[2] for lane in found["lanes"]] == ["block_diffusion", "autoregressive"]
    assert [one["lane"].rpartition(" ")[2] for one in found["results"]] == ["block_diffusion", "autoregressive"]
    assert (found["results"][0]["text"], found["results"][0]["exact"]) == ("tobor", True)


def test_a_batch_reports_rows_and_results(capsys: Capture, file: str, tmp_path: Path) -> None:
    code, out, err = run(capsys, "race", "--prompts", file, *LANES, "--json", "--seed", "5")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [lane["decoder"] for lane in found["lanes"]] == ["block_diffusion", "autoregressive"]
    assert found["lanes"][1]["settings"] == {"max_new_tokens": 4, "sampling_top_k": 3, "sampling_temperature": 0.5}
    assert (found["seed"], found["finished"], len(found["results"])) == (5, True, 8)
    diffusion, writing = found["rows"]
    assert (diffusion["count"], diffusion["rate"]) == (4, 1.0)
    assert writing["rate"] < 1.0
    assert diffusion["tokens_per_forward"] > writing["tokens_per_forward"] == 1.0
    code, out, _ = run(capsys, "race", "--prompts", file, *LANES, "--out", str(tmp_path / "answers.csv"))
    assert code == 0
    assert "4 prompts" in out
    with (tmp_path / "answers.csv").open(newline="") as written:
        assert [one["exact"] for one in csv.DictReader(written)][::2] == ["True"] * 4


def test_ctrl_c_leaves_the_table_of_what_was_run(capsys: Capture, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    race, asked = Racing.run, []

    def interrupted(self: Racing, request: object, *more: object) -> None:
        asked.append(request)
        if len(asked) == 2:
            request.cancel.set()  # type: ignore[attr-defined]
        race(self, request, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Racing, "run", interrupted)
    code, out, err = run(capsys, "race", "--prompts", file, *LANES)
    assert code == 130
    assert out.startswith("1 prompts")
    assert err == "safelight: stopped; 1 of 4 prompts were run\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give one of these: PROMPT, --sudoku"),
        (("hi", "--sudoku", "2"), "give one of these: PROMPT, --sudoku"),
        (("hi", "--givens", "30"), "add --sudoku"),
        (("hi", "--lane", "a"), "a race has 2 to 4 lanes, not 1"),
        (("hi", *["--lane", "a"] * 2), "two lanes are a;"),
        (("hi", "--lane", "a,b", "--lane", "c"), "'b' is not a setting of a lane; write it as name=value"),
        (("hi", "--lane", "a,speed=2", "--lane", "c"), "'speed' is not a setting of a lane; use adapter"),
        (("hi", "--lane", "a,top-k=x", "--lane", "c"), "top-k of a lane: 'x' is not a whole number"),
        (("hi", "--lane", "a,token-thoughts=1", "--lane", "c"), "'1' is not a switch; write true or false"),
        (("hi", "--model", "http://x/v1#m"), "'http://x/v1#m' runs on another machine"),
        (("hi", "--adapter", "sudoku-lora", *LANES), "give it there, as adapter=NAME"),
        (("hi", "--lane", "nowhere", "--lane", ":x"), "nowhere cannot be loaded: there is no model at nowhere"),
        (("hi", "--lane", ":,max-steps=1", "--lane", ":x"), f"{USUAL} · x: unknown decoder 'x'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments: tuple[str, ...], said: str, capsys: Capture) -> None:
    refused(capsys, said, "race", *arguments)


def test_any_text_is_a_lane_or_an_error() -> None:
    rng = random.Random(1)
    pieces = (*string.printable, ":", ",", "=", "top-k", "t-max", "1e999", "autoregressive", "\0", "é", "C:\\models")
    for _ in range(2_000):
        text = "".join(rng.choices(pieces, k=rng.randrange(12)))
        with contextlib.suppress(SafelightError):
            assert read_lane(text, MINI).lane().model
    assert read_lane("C:\\models\\mine", MINI).model == "C:\\models\\mine"


def test_a_picture_is_raced_and_a_lane_that_cannot_see_says_so(capsys: Capture, tmp_path: Path) -> None:
    circle = drawings.DrawnShape("circle", "blue", drawings.COLOURS["blue"], 0.6, 0.5, 0.13, 0.0)
    (tmp_path / "drawn.png").write_bytes(drawings.picture_of(drawings.Scene((250, 250, 250), (circle,))).data)
    question, answer = "What colour is the circle?", "blue"
    shown = ("--image", str(tmp_path / "drawn.png"))
    lanes = ("--lane", "", "--lane", ":,max-steps=2")
    code, out, err = run(capsys, "race", question, *shown, *lanes, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [lane["settings"] for lane in found["lanes"]] == [{}, {"max_denoising_steps": 2}]
    assert found["images"] == [str(tmp_path / "drawn.png")]
    first = found["results"][0]
    assert (first["text"], first["exact"]) == (answer, None)
    blind = ("--lane", "", "--lane", "safelight-mini:")
    refused(capsys, "Safelight Mini only reads text", "race", question, *shown, *blind)
    refused(capsys, "write one", "race", *shown, "--sudoku", "2")
    refused(capsys, "is not a setting", "race", "hi", "--lane", ":,image-token=70", "--lane", "")
