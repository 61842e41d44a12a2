"""The command line as its users meet it: results on stdout, everything else on stderr, exit codes, one-line errors."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine
from app.cli import window
from engine.catalog import MINI
from engine.service import LocalBackend, RunRequest, RunSteps
from engine.tasks import sudoku
from engine.text.matching import Matcher, MatchingEndedError
from tests.app.cli.calling import Capture, load_once, one_line, refused, run
from tests.engine.server.served import KEY, serving

ROOT = Path(__file__).resolve().parents[3]
PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
FAST = ["--max-steps", "2", "--max-new-tokens", "1"]
ASK = ["generate", "Repeat the word robot.", *FAST]

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _models(monkeypatch: Patch) -> None:
    load_once(monkeypatch)


# --- generate -----------------------------------------------------------------------------------------------------


def test_generate_prints_the_text_alone_or_these_keys_as_json(capsys: Capture) -> None:
    ask = ["generate", "Repeat the word robot.", "--max-steps", "2", "--seed", "7"]
    code, out, err = run(capsys, *ask, "--json")
    record = json.loads(out)
    assert (code, out.count("\n"), err) == (0, 1, "")
    assert run(capsys, *ask) == (0, record["text"] + "\n", "")
    assert set(record) == {
        *("prompt", "text", "reason", "blocks", "steps", "tokens", "tokens_per_forward", "seconds"),
        *("prefill_seconds", "load_seconds", "seed", "model", "device", "decoder"),
    }
    assert (record["prompt"], record["decoder"]) == ("Repeat the word robot.", "block_diffusion")
    assert (record["seed"], record["model"], record["device"]) == (7, MINI, "cpu")
    assert record["blocks"] == 1
    assert 1 <= record["steps"] <= 2
    assert record["reason"] in ("eos", "length")
    assert record["tokens_per_forward"] == pytest.approx(record["tokens"] / record["steps"])
    assert min(record["seconds"], record["prefill_seconds"], record["load_seconds"]) > 0


def test_a_seed_repeats_a_run_and_another_differs(capsys: Capture) -> None:
    def text(*seed: str) -> str:
        # Nothing that the model has learnt: of a task it would be sure whatever the noise.
        return str(json.loads(run(capsys, "generate", "Solve", "--max-steps", "1", "--json", *seed)[1])["text"])

    texts = [text("--seed", str(seed)) for seed in range(3)]
    assert text() == texts[0]
    assert text("--seed", "1") == texts[1]
    assert len(set(texts)) > 1


def test_generate_reads_standard_input(capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Spell the word robot.\n".encode("utf-8-sig"))))
    code, out, _ = run(capsys, "generate", "-", "--json", *FAST)
    assert code == 0
    assert json.loads(out)["prompt"] == "Spell the word robot."


def test_model_and_seed_before_the_command_count_too(capsys: Capture) -> None:
    _, out, _ = run(capsys, "--seed", "5", "--model", engine.SUDOKU, *ASK, "--json")
    assert (json.loads(out)["seed"], json.loads(out)["model"]) == (5, engine.SUDOKU)


def interrupt(monkeypatch: Patch, after: int) -> None:
    """Ctrl+C comes after so many events, of all runs together."""
    real, count = LocalBackend.decode, itertools.count(1)

    def events(*arguments: Any) -> Iterator[Any]:
        for item in real(*arguments):
            yield item
            if isinstance(item, engine.Event) and next(count) == after:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LocalBackend, "decode", events)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is no signal there")
def test_ctrl_c_prints_what_there_is(capsys: Capture, monkeypatch: Patch) -> None:
    interrupt(monkeypatch, after=3)  # prefill, canvas, a step
    code, out, err = run(capsys, "generate", "Spell the word robot.", "--json", "--max-steps", "9")
    record = json.loads(out)
    assert code == 130
    assert (record["reason"], record["steps"], record["blocks"]) == ("cancelled", 1, 0)
    assert record["tokens"] > 0 or record["text"] == ""
    assert "stopped" in one_line(err)


def test_ctrl_c_while_loading(capsys: Capture, monkeypatch: Patch) -> None:
    def load(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "load_model", load)
    assert run(capsys, *ASK) == (130, "", "safelight: stopped\n")


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--choices", "18", "19"], "19"),
        (["--json-schema", '{"const": {"é": 1}}'], '{"é": 1}'),
        (["--regex", "x(yz)"], "xyz"),
    ],
)
def test_an_answer_fits_its_format(capsys: Capture, options: list[str], wanted: str) -> None:
    code, out, err = run(capsys, "generate", "What is 12 + 7?", *options, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["text"], found["reason"]) == (wanted, "eos")
    assert found["rounds"] <= 2 <= found["steps"]
    assert found["format"] == options[0].removeprefix("--").replace("-", "_")


def test_an_answer_in_a_format_takes_small_canvases_here_and_on_another_machine(
    capsys: Capture, monkeypatch: Patch
) -> None:
    lengths = list[int]()

    class Noting(LocalBackend):
        def begin(self, request: RunRequest) -> RunSteps:
            lengths.append(request.config.canvas(96))
            return super().begin(request)

    monkeypatch.setenv("SAFELIGHT_API_KEY", KEY)
    free = ["generate", "What is 12 + 7?", "--seed", "3", "--json"]
    asked = [*free, "--json-schema", '{"type": "integer", "minimum": 0, "maximum": 99}']
    here = json.loads(run(capsys, *asked, "--model", engine.BASE)[1])
    with serving(Noting(), engine.BASE) as served:
        there = f"{served.server.url}/v1#{engine.BASE}"
        code, out, err = run(capsys, *asked, "--model", there)
        run(capsys, *free, "--model", there)
    assert (code, err, lengths) == (0, "", [64, 96])
    assert [json.loads(out)[name] for name in ("text", "steps")] == [here[name] for name in ("text", "steps")]


def test_an_answer_that_can_no_longer_follow_its_format_says_so(capsys: Capture, monkeypatch: Patch) -> None:
    def ends(*_: object) -> int:
        raise MatchingEndedError("it is too complex; make it simpler")

    monkeypatch.setattr(Matcher, "take", ends)
    why = "the answer can no longer follow its format: it is too complex; make it simpler"
    code, out, err = run(capsys, "generate", "hello", "--regex", "[a-z]{9}", "--json")
    assert (code, json.loads(out)["reason"], json.loads(out)["why"]) == (0, "length", why)
    assert err == f"safelight: {why}\n"


@pytest.mark.parametrize(
    ("command", "json_too"), [(ASK, []), (["sudoku", PUZZLE, *FAST], ["--json"])], ids=["generate", "sudoku"]
)
def test_watch_into_a_pipe_has_no_escape_codes(capsys: Capture, command: list[str], json_too: list[str]) -> None:
    code, watched, err = run(capsys, *command, "--watch", *json_too)
    assert code == 0
    assert "\x1b" not in watched + err
    assert "mean entropy" in err
    assert "settled" in err
    plain = run(capsys, *command, *json_too)[1]
    if json_too:
        ours, theirs = (json.loads(printed) | {"seconds": 0} for printed in (watched, plain))
        assert ours == theirs
    else:
        assert watched == plain


# --- sudoku -------------------------------------------------------------------------------------------------------


def test_sudoku_json_lines(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "puzzles.txt"
    other = PUZZLE[::-1].replace(".", "0")
    file.write_text(f"# two of them\n\n{other}  # the same backwards\r\n   \n", encoding="utf-8")
    code, out, err = run(capsys, "sudoku", PUZZLE, "--file", str(file), "--json", *FAST)
    records = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [record["puzzle"] for record in records] == [PUZZLE.replace(".", "0"), other]
    for record in records:
        assert set(record) == {"puzzle", "answer", "valid", "givens_kept", "steps", "seconds"}
        assert len(record["answer"]) == 81
        assert set(record["answer"]) <= set("123456789.")
        verdict = sudoku.judge(record["puzzle"], record["answer"])
        assert (record["valid"], record["givens_kept"]) == (verdict.valid, verdict.givens_kept)
        assert 1 <= record["steps"] <= 2
        assert record["seconds"] > 0


def test_sudoku_for_people(capsys: Capture) -> None:
    code, out, err = run(capsys, "sudoku", PUZZLE, PUZZLE, *FAST)
    assert (code, err) == (0, "")
    assert "Puzzle 2 of 2: " in out
    assert "solved" in out
    assert "30 givens" in out
    assert " 5 3 . | . 7 . | . . . " in out
    assert "of 2 solved: " in out


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is no signal there")
def test_ctrl_c_keeps_the_puzzles_done(capsys: Capture, monkeypatch: Patch) -> None:
    whole = 2 + 2 + 2  # of the first puzzle: prefill and canvas, its steps, its block and its end
    interrupt(monkeypatch, after=whole + 2)
    code, out, err = run(capsys, "sudoku", PUZZLE, PUZZLE, PUZZLE, "--json", *FAST)
    assert code == 130
    assert len(out.splitlines()) == 1
    assert "1 of 3" in one_line(err)


def test_made_puzzles_are_unique_held_out_and_in_range(capsys: Capture) -> None:
    make = ("sudoku", "--make", "3", "--givens", "38-40", "--seed", "4")
    code, out, err = run(capsys, *make)
    assert (code, err, len(set(out.split()))) == (0, "", 3)
    for board in out.split():
        assert 38 <= sudoku.givens(sudoku.parse(board)) <= 40
        (solution,) = sudoku.solutions(board)
        assert sudoku.is_held_out(solution)
    assert run(capsys, *make)[1] == out


def test_a_bad_puzzle_is_named_before_any_is_run(capsys: Capture, tmp_path: Path, monkeypatch: Patch) -> None:
    short = PUZZLE[:80]
    refused(capsys, "puzzle 2: ", "sudoku", PUZZLE, short)
    file = tmp_path / "puzzles.txt"
    file.write_text(f"# a comment\n{PUZZLE}\n\n{short}\n", encoding="utf-8")
    refused(capsys, f"{file}, line 4: ", "sudoku", "--file", file, "--json")
    file.write_text("# nothing\n\n", encoding="utf-8")
    refused(capsys, "has no puzzles in it", "sudoku", "--file", file)
    file.write_bytes(b"\xff\xfe\x00")
    refused(capsys, "is not UTF-8 text", "sudoku", "--file", file)
    monkeypatch.setattr("sys.stdin", io.StringIO(short + "\n"))
    refused(capsys, "line 1: ", "sudoku", "--file", "-")


# --- bench --------------------------------------------------------------------------------------------------------


def test_bench_of_a_model(capsys: Capture) -> None:
    code, out, err = run(capsys, "bench", "--runs", "2", "--json", *FAST)
    record = json.loads(out)
    assert (code, err) == (0, "")
    assert set(record["step_ms"]) == {"median", "p95"}
    assert set(record["steps_per_canvas"]) == {"mean", "median"}
    asked = "bench", "--prompt-tokens", "16", "--max-new-tokens", "3", "--runs", "1", "--threads", "1"
    assert re.search(r"^prompt tokens +16$", run(capsys, *asked)[1], re.MULTILINE)
    record = json.loads(run(capsys, *asked, "--json")[1])
    assert (record["prompt_tokens"], record["new_tokens"], record["threads"], record["runs"]) == (16, 3, 1, 1)


# --- bad input ----------------------------------------------------------------------------------------------------

BAD_INPUT = {
    "unknown id": (["sudoku", PUZZLE, "--model", "safelight-chess"], "safelight-sudoku"),
    "unknown device": (["generate", "x", "--device", "toaster"], "unknown device 'toaster'"),
    "unknown number type": (["generate", "x", "--dtype", "float8"], "--dtype"),
    "empty prompt": (["generate", ""], "the prompt is empty"),
    "prompt of broken bytes": (["generate", "a\udcff"], "not valid UTF-8"),
    "no prompt": (["generate"], "PROMPT"),
    "too long a prompt": (["generate", "a" * 600], "Shorten it"),
    "unknown command": (["chess"], "chess"),
    "unknown option": (["generate", "x", "--fast"], "--fast"),
    "negative seed": (["generate", "x", "--seed", "-1"], "the seed must be a whole number from 0"),
    "no steps": (["generate", "x", "--max-steps", "0"], "--max-steps must be a whole number between 1 and 10000"),
    "a decoder that is no name": (["generate", "x", "--decoder", "A b"], "--decoder must be a name of at most 64"),
    "bound is no number": (["generate", "x", "--entropy-bound", "nan"], "--entropy-bound must be a finite number"),
    "a command of 5 000 letters": (["z" * 5_000], f"invalid choice: '{'z' * 79}… (choose from"),
    "a long model": (["generate", "x", "--model", "x" * 300], "cannot be used: File name too long"),
    "not a name of a model": (["generate", "x", "--model", ""], "--model: give a name"),
    "a place of nobody": (["quantize", engine.MINI, "~nosuchuser/x"], "DST: there is no user"),
    "an endless file": (["sudoku", "--file", "/dev/zero"], "is not a regular file"),
    "no such rule": (["generate", "x", "--acceptance", "no"], "--acceptance must be one of entropy_bound, "),
    "cold": (["generate", "x", "--t-min", "0"], "--t-min must be above 0"),
    "a canvas with no room": (["generate", "x", "--canvas-length", "60000"], "positions"),
    "no puzzle": (["sudoku"], "give a puzzle"),
    "no such file": (["sudoku", "--file", "/nowhere/puzzles.txt"], "puzzles.txt is missing"),
    "make and puzzle": (["sudoku", PUZZLE, "--make", "1"], "--make"),
    "givens alone": (["sudoku", PUZZLE, "--givens", "30-40"], "--make N"),
    "givens crossed": (["sudoku", "--make", "1", "--givens", "40-30"], "LOW <= HIGH"),
    "at once without a shape": (["bench", "--parallel", "2"], "go with --shape; give one, such as"),
    "prompt tokens of a shape": (["bench", "--prompt-tokens", "8", "--shape", "26b-a4b"], "leave out --shape"),
    "no schema": (["generate", "x", "--json-schema", "gone.json"], "gone.json is missing"),
    "a schema that nothing fits": (["generate", "x", "--json-schema", '{"enum": []}'], "the schema"),
    "no JSON": (["generate", "x", "--json-schema", '{"a'], "--json-schema cannot be read as JSON"),
    "no pattern": (["generate", "x", "--regex", "("], "unclosed group"),
    "two formats": (["generate", "x", "--regex", "a", "--json-object"], "not allowed with"),
    "choices without tokens": (["generate", "x", "--choices", "日本"], "this model cannot write"),
    "prompt tokens with steps": (["bench", "--prompt-tokens", "8", "--max-steps", "3"], "leave out all sampler"),
}


@pytest.mark.parametrize(("arguments", "reason"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_one_line_and_exit_2(capsys: Capture, arguments: list[str], reason: str) -> None:
    refused(capsys, reason, *arguments)


def test_the_unexpected_is_one_line_and_exit_1(capsys: Capture, monkeypatch: Patch) -> None:
    def load(*_: object, **__: object) -> None:
        raise RuntimeError("the moon\nis full")

    monkeypatch.setattr(engine, "load_model", load)
    monkeypatch.delenv("SAFELIGHT_DEBUG", raising=False)
    code, out, err = run(capsys, *ASK)
    assert (code, out) == (1, "")
    assert "something went wrong: the moon is full (run with SAFELIGHT_DEBUG=1" in one_line(err)
    monkeypatch.setattr(engine, "load_model", lambda *_, **__: "x".startswith(["\x1b[2J" * 5_000]))
    assert len(one_line(run(capsys, *ASK)[2])) < 800
    monkeypatch.setattr(engine, "load_model", load)
    monkeypatch.setenv("SAFELIGHT_DEBUG", "1")
    assert "Traceback" in run(capsys, *ASK)[2]


# --- the program --------------------------------------------------------------------------------------------------


def test_help_and_version(capsys: Capture) -> None:
    code, out, err = run(capsys, "--help")
    assert (code, err) == (0, "")
    assert "examples:" in out
    for command in ("generate", "sudoku", "bench"):
        assert command in out
        assert "--seed" in run(capsys, command, "--help")[1]
    assert run(capsys, "--version")[1].startswith("safelight ")


TABLE = """
import runpy, sys
from app.cli import plan, terminal
def run(_):  # in place of a plan, for which torch would be imported
    table = terminal.table("a title", "part", "GB")
    table.add_row("a part", "1")
    terminal.console(sys.stdout).print(table)
    return 0
plan.run = run
runpy.run_module("app", run_name="__main__", alter_sys=True)
"""


def test_a_table_whose_reader_leaves_early() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as closed:
        command = [sys.executable, "-c", TABLE, "plan", "26b-a4b"]
        done = subprocess.run(command, cwd=ROOT, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


INTERRUPTED = """
import os, runpy, signal, sys
name, sys.argv[1:] = sys.argv[1], sys.argv[2:]
class Finder:  # Ctrl+C while this module is looked for
    def find_spec(self, found, *_):
        if found == name:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
runpy.run_module("app", run_name="__main__", alter_sys=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is no signal there")
@pytest.mark.parametrize(
    "module",
    [
        "app.cli.main",
        "torch",
    ],
)
def test_ctrl_c_while_modules_load_ends_quietly(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, module, "plan", "26b-a4b", "--device", "cpu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_help_and_argument_errors_import_neither_torch_nor_qt() -> None:
    code = (
        "import sys; from app.cli.main import main; "
        "[main(one.split()) for one in ('--help', 'plan --help', 'generate x --max-steps 0', 'sudoku 12')]; "
        "sys.exit(len({'torch', 'PySide6', 'transformers', 'PIL'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False).returncode == 0


def test_no_display_is_one_line_and_exit_2(capsys: Capture, monkeypatch: Patch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    refused(capsys, "there is no display")


def test_outputs_that_take_nothing() -> None:
    command = [sys.executable, "-m", "app", "sudoku", "--make", "1", "--givens", "60"]
    replaced = [sys.executable, "-c", "import os, sys; os.close(1); os.execv(sys.argv[1], sys.argv[1:])", *command]
    closed = subprocess.run(replaced, cwd=ROOT, stderr=subprocess.PIPE, check=False)
    assert (closed.returncode, closed.stderr) == (0, b"")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1
        assert "the disk is full" in one_line(done.stderr)


def test_which_platforms_need_a_display() -> None:
    assert not window.needs_xcb({"QT_QPA_PLATFORM": "minimal:fontdb"})
    xcb = {"QT_QPA_PLATFORM": "xcb"}
    for environment in ({}, xcb, {**xcb, "WAYLAND_DISPLAY": "wayland-0"}, {"DISPLAY": ""}):
        with pytest.raises(engine.SafelightError, match="there is no display"):
            window.needs_xcb(environment)
    assert window.needs_xcb({"DISPLAY": ":7"})
    assert not window.needs_xcb({"DISPLAY": ":7", "WAYLAND_DISPLAY": "wayland-0"})


def test_missing_system_libraries_are_named(capsys: Capture, monkeypatch: Patch) -> None:
    message = "libEGL.so.1: cannot open shared object file: No such file or directory"
    real = __import__

    def load(name: str, *arguments: object, **options: object) -> object:
        if name == "app.main":
            raise ImportError(message, name="PySide6.QtGui")
        return real(name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setattr("builtins.__import__", load)
    code, out, err = run(capsys)
    assert (code, out) == (2, "")
    assert "libEGL.so.1" in one_line(err)
    assert window.PACKAGES in err


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("ldd") is None, reason="a library is built")
def test_the_loader_is_asked_for_all_that_is_missing(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "empty.c").touch()
    links = []
    for name in ("libxcb-icccm", "libxcb-keysyms"):
        command = ["cc", "-shared", "-o", f"{tmp_path}/{name}.so", f"-Wl,-soname,{name}.so.99", f"{tmp_path}/empty.c"]
        subprocess.run(command, check=True)
        links.append(f"{tmp_path}/{name}.so")
    plugin = tmp_path / "libqxcb.so"
    subprocess.run(["cc", "-shared", "-Wl,--no-as-needed", "-o", plugin, tmp_path / "empty.c", *links], check=True)
    monkeypatch.setattr(window, "_qt", lambda _: [plugin])
    with pytest.raises(engine.SafelightError) as error:
        window.require_libraries()
    assert "missing (libxcb-icccm.so.99, libxcb-keysyms.so.99)" in str(error.value)
    assert str(error.value).endswith(f"sudo apt-get install {window.PACKAGES}")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(engine.SafelightError, match=r"missing \(libxcb-icccm\.so\.99: cannot open"):
        window.require_libraries()


def test_the_packages_are_those_of_the_readme() -> None:
    listed = re.search(r"bare Debian or Ubuntu.*?```\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert listed is not None
    assert set(re.findall(r"\blib\S+", listed[1])) == set(window.PACKAGES.split())
