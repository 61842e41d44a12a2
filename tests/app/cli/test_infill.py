"""``safelight infill`` as its users meet it: a text with a gap, files, JSON, a model that cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import infill, load_model
from engine.text.gap_markers import MARKERS
from tests.app.cli.calling import Capture, run
from tests.engine.gap_models import causal_folder

QUICK = ("--max-steps", "3", "--max-new-tokens", "8")


def test_the_gap_alone_is_printed(capsys: Capture) -> None:
    model = load_model("safelight-gaps")
    config = model.generation_defaults.replace(max_denoising_steps=3)
    found = infill(model, "a ", " b", max_tokens=8, config=config)
    exact = infill(model, "a ", " b", length=3, config=config, seed=4)
    assert found is not None
    assert exact is not None
    assert run(capsys, "infill", "a [[…]] b", *QUICK)[:2] == (0, found.text + "\n")
    code, out, _ = run(capsys, "infill", "a [[3 tokens]] b", *QUICK, "--seed", "4", "--json")
    read = json.loads(out)
    assert (code, read["prefix"], read["suffix"], read["seed"]) == (0, "a ", " b", 4)
    assert (read["text"], read["tokens"], read["steps"]) == (exact.text, exact.length, exact.steps)


def test_a_file_may_have_the_text_and_a_causal_model_may_write_it(capsys: Capture, tmp_path: Path) -> None:
    folder = causal_folder(tmp_path / "coder", ("<|endoftext|>", *MARKERS[0].tokens), seed=4)
    whole, before, behind = (tmp_path / name for name in ("whole", "before", "behind"))
    before.write_text("def f():\n    ", encoding="utf-8")
    behind.write_text("\n\nf()\n", encoding="utf-8")
    whole.write_text("def f():\n    [[...]]\n\nf()\n", encoding="utf-8")
    some = ("--model", str(folder), "--max-new-tokens", "5", "--json")
    first = run(capsys, "infill", "--file", str(whole), *some)[1]
    assert first == run(capsys, "infill", "--prefix-file", str(before), "--suffix-file", str(behind), *some)[1]
    assert json.loads(first)["tokens"] <= 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a text with a gap"),
        (("no gap",), "the text has 0 gaps"),
        (("[[0]]",), "a gap has 1 to 2,048 words or tokens, not 0"),
        (("[[900 tokens]]",), "a gap of this model has 1 to 64 tokens, not 900"),
        (("--prefix-file", "x"), "give both --prefix-file and --suffix-file"),
        (("[[...]]", "--seconds", "0"), "seconds must be"),
        (("[[...]]", "--model", "safelight-masked"), "does not see what stands behind a gap"),
    ],
)
def test_bad_input_is_one_line(capsys: Capture, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = run(capsys, "infill", *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") <= 2  # a note of loading, and the line


def test_a_text_that_is_not_ready_in_time_is_none(capsys: Capture) -> None:
    code, out, err = run(capsys, "infill", "a [[…]] b", "--seconds", "0.000001")
    assert (code, out) == (0, "")
    assert "no text was ready in time" in err
