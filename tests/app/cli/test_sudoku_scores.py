"""``safelight sudoku --eval`` with the embedded model: figures, files, Ctrl+C, and what does not go together."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import engine
from app.cli import sudoku_scores, terminal
from app.cli.main import main
from app.state.intervals import wilson
from app.state.sudoku.scores import Result, Scoreboard, make_puzzle
from engine.tasks import sudoku
from engine.tasks.sudoku import GIVENS, GivenRange

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
FAST = ["--max-steps", "2", "--max-new-tokens", "1"]
EVAL = ["sudoku", "--eval", "--givens", "48", "--count", "2"]

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

_loaded: list[engine.Model] = []


@pytest.fixture(autouse=True)
def load_once(monkeypatch: Patch) -> None:
    real = engine.load_model

    def load(name: str, **options: str) -> engine.Model:
        assert name == engine.SUDOKU
        if not _loaded:
            _loaded.append(real(name, **options))
        return _loaded[0]

    monkeypatch.setattr(engine, "load_model", load)


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def one_line(err: str) -> str:
    assert err.startswith("safelight: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_an_evaluation_as_json(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    code, out, err = run(capsys, *EVAL, "--seed", "5", "--json", "--csv", str(file))
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert set(document) == {
        *("model", "device", "givens", "count", "seed", "sampler", "finished", "rows", "results"),
    }
    assert (document["model"], document["givens"], document["count"], document["seed"]) == (
        engine.SUDOKU,
        ["48"],
        2,
        5,
    )
    assert document["finished"] is True
    assert document["sampler"]["max_denoising_steps"] == _loaded[0].generation_defaults.max_denoising_steps
    made = [make_puzzle(GivenRange(48, 48), 5, index) for index in range(2)]
    assert [(one["puzzle"], one["solution"]) for one in document["results"]] == [(m.board, m.solution) for m in made]
    for one in document["results"]:
        right = sum(
            given == "0" and a == b for given, a, b in zip(one["puzzle"], one["answer"], one["solution"], strict=True)
        )
        assert (one["cells_right"], one["blanks"], one["givens"]) == (right, 33, 48)
        assert one["exact"] == one["valid"] == (one["answer"] == one["solution"])
        assert one["seconds"] > 0
    easy, everything = document["rows"]
    solved = sum(one["exact"] for one in document["results"])
    assert solved == 2  # so many givens are no trouble to it
    assert (easy["bin"], everything["bin"], easy["solved"], easy["count"]) == ("easy", "all", solved, 2)
    assert [easy["exact"], easy["low"], easy["high"]] == pytest.approx([1, *wilson(2, 2)])
    table = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    assert [line["answer"] for line in table] == [one["answer"] for one in document["results"]]


def test_an_evaluation_as_a_table(capsys: Capture) -> None:
    code, out, err = run(capsys, "sudoku", "--eval", "--bin", "all", "--count", "1", *FAST)
    assert (code, err) == (0, "")
    assert "safelight-sudoku, fresh puzzles, seed 0" in out
    assert "interval" in out
    starts = ("easy (40", "medium (30", "hard (under", "all")
    lines = [line for line in out.splitlines() if line.startswith(starts)]
    assert [line.split()[0] for line in lines] == ["easy", "medium", "hard", "all"]
    assert all(f"/{count}" in line for line, count in zip(lines, (1, 1, 1, 3), strict=True))


def test_the_seed_of_before_the_command_counts_and_puzzles_repeat(capsys: Capture) -> None:
    def boards(*arguments: str) -> list[str]:
        results = json.loads(run(capsys, *arguments, "--json", *FAST)[1])["results"]
        return [one["puzzle"] for one in results]

    easy = ["sudoku", "--eval", "--bin", "easy", "--count", "2"]
    expected = [make_puzzle(GIVENS["easy"], 3, index).board for index in range(2)]
    assert boards("--seed", "3", *easy) == boards(*easy, "--seed", "3") == expected
    assert make_puzzle(GIVENS["easy"], 0, 0).board != expected[0]


def test_an_adapter_is_named() -> None:
    model = SimpleNamespace(name="base", device="cpu", adapter=SimpleNamespace(name="lora", fingerprint="f00"))
    batch = sudoku_scores.Evaluation(model, engine.GenerationConfig(), (GIVENS["easy"],), 3, 1)  # type: ignore[arg-type]
    document = sudoku_scores.document(batch, scores(2), finished=False)
    assert (document["model"], document["adapter"], document["adapter_fingerprint"]) == ("base", "lora", "f00")
    assert sudoku_scores.contender(model) == "base + lora"  # type: ignore[arg-type]


def interrupted_run(real: object, calls: list[int]) -> object:
    def events(*arguments: object, **options: object) -> Iterator[engine.Event]:
        calls.append(1)
        for index, event in enumerate(real(*arguments, **options)):  # type: ignore[operator]
            if len(calls) == 2 and index == 2:
                raise KeyboardInterrupt
            yield event

    return events


@pytest.mark.parametrize("json_too", [[], ["--json"]], ids=["text", "json"])
def test_ctrl_c_prints_what_there_is(capsys: Capture, monkeypatch: Patch, tmp_path: Path, json_too: list[str]) -> None:
    monkeypatch.setattr(engine, "generate", interrupted_run(engine.generate, []))
    file = tmp_path / "so-far.csv"
    code, out, err = run(capsys, *EVAL, "--count", "5", *json_too, *FAST, "--csv", str(file))
    assert code == 130
    assert "1 of 5" in one_line(err)
    assert file.read_text(encoding="utf-8").count("\n") == 2
    if json_too:
        assert (json.loads(out)["finished"], len(json.loads(out)["results"])) == (False, 1)
    else:
        assert "/1" in out


def test_ctrl_c_while_a_puzzle_is_made(capsys: Capture, monkeypatch: Patch) -> None:
    def make(*_: object) -> sudoku.Puzzle:
        raise KeyboardInterrupt

    monkeypatch.setattr(sudoku_scores, "make_puzzle", make)
    code, out, err = run(capsys, *EVAL)
    assert (code, out) == (130, "")
    assert "0 of 2" in one_line(err)


BAD = {
    "count alone": (["--count", "3"], "--count is for scoring a model; add --eval"),
    "bin alone": ([PUZZLE, "--bin", "easy"], "add --eval"),
    "csv alone": ([PUZZLE, "--csv", "x.csv"], "add --eval"),
    "a puzzle": (["--eval", PUZZLE], "leave out PUZZLE"),
    "a file": (["--eval", "--file", "x.txt"], "leave out PUZZLE and --file"),
    "make": (["--eval", "--make", "3"], "give one of them"),
    "watch": (["--eval", "--watch"], "leave out --watch"),
    "bin and givens": (["--eval", "--bin", "easy", "--givens", "40"], "give one of them"),
    "unknown bin": (["--eval", "--bin", "tricky"], "tricky"),
    "none": (["--eval", "--count", "0"], "the count must be"),
    "few givens": (["--eval", "--givens", "21"], "22 <="),
    "no folder": (["--eval", "--csv", "/nowhere/at/all.csv"], "there is no folder /nowhere/at"),
    "a folder": (["--eval", "--csv", "/"], "the name of a file"),
}


@pytest.mark.parametrize(("arguments", "reason"), BAD.values(), ids=BAD)
def test_what_does_not_go_together_is_one_line(capsys: Capture, arguments: list[str], reason: str) -> None:
    code, out, err = run(capsys, "sudoku", *arguments)
    assert (code, out) == (2, "")
    assert reason in one_line(err)


# --- progress and the table ----------------------------------------------------------------------------------------

SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"


def scores(count: int) -> Scoreboard:
    puzzle = "0" * 36 + SOLUTION[36:]
    return Scoreboard([Result(puzzle, SOLUTION, SOLUTION, 3, 0.1) for _ in range(count)])


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_is_one_line_that_goes(monkeypatch: Patch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ticker = sudoku_scores.Ticker(3)
    ticker.show(scores(1))
    ticker.show(scores(2))
    ticker.clear()
    assert "2 of 3 · easy 2/2 100.0 %" in screen.getvalue()
    assert "\n" not in screen.getvalue()
    assert screen.getvalue().endswith(terminal.CLEAR_LINE)


def test_progress_elsewhere_is_a_line_now_and_then(capsys: Capture) -> None:
    ticker = sudoku_scores.Ticker(40)
    for done in range(1, 41):
        ticker.show(scores(done))
    ticker.clear()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 9
    assert lines[0] == "safelight: 4 of 40 puzzles; easy 4/4 100.0 %"


def test_the_table_fits_80_columns() -> None:
    board = Scoreboard([*scores(100).results, Result("0" * 81, "." * 81, "", 48, 99.5)])
    for width in (80, 120):
        screen = io.StringIO()
        console = terminal.console(screen)
        console.width = width
        console.print(sudoku_scores.table(board, "", width))
        text = screen.getvalue()
        assert "…" not in text
        assert "100/100" in text
        assert "94.6–99.8" in text
        assert ("easy (40 or more)" in text) == (width == 120)
