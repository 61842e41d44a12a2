"""Consoles, boards, and the canvas that develops in the terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from rich.text import Text

from app.cli import main as command_line
from app.cli import running, terminal
from app.state.run.canvas import BlockState, CanvasState, CellState
from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefixPinned,
    StepFinished,
    windows,
)

SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Letters:
    """Token n is the letter n places after a; 26 is an end token, 27 a line break, 28 an escape code."""

    def piece(self, token: int) -> str:
        return {26: "<eos>", 27: "\n", 28: "\x1b[2J"}.get(token, chr(97 + token))

    def is_special(self, token: int) -> bool:
        return token == 26


def ids(text: str) -> np.ndarray:
    return np.array([{"$": 26, "\n": 27}.get(ch, ord(ch) - 97) for ch in text], dtype=np.int32)


def step(number: int, argmax: str, next_canvas: str, accepted: str) -> StepFinished:
    mask = np.array([ch == "x" for ch in accepted])
    entropy = np.where(mask, 0.0, 2.0).astype(np.float32)
    return StepFinished(0, number, 0.7, ids(argmax), ids(next_canvas), entropy, mask, ids(next_canvas), 0.01)


def events() -> Iterator[Event]:
    yield CanvasStarted(0, ids("qwerty"), np.zeros(6, dtype=np.bool_))
    yield step(0, "cantzz", "caqtzz", "xx.x..")
    yield step(1, "canoe$", "caqooe", "xx..xx")
    yield CanvasCommitted(0, ids("cano$z"), 4, 2, "converged")
    yield GenerationFinished("eos", ids("cano"), 1, 2, 0.02)


def block(after: int) -> BlockState:
    current = CanvasState.from_events(list(events())[:after]).current
    assert current is not None
    return current


@pytest.fixture(autouse=True)
def able_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def play(err: io.StringIO, out: io.StringIO | None = None) -> str:
    """Watch the run with these as standard error and output; returns what went to standard error."""
    with (
        redirect_stderr(err),
        redirect_stdout(out or io.StringIO()),
        running.Watcher(Letters(), GenerationConfig(), None, 0.0, raw=False) as watcher,
    ):
        for event in events():
            watcher(event)
    return err.getvalue()


def test_a_round_is_seen_as_it_pins() -> None:
    pinned = PrefixPinned(0, 1, 1, ids("caxxxx"), 2, 1)
    first, second, *rest = events()
    current = CanvasState.from_events([first, second, pinned]).current
    assert current is not None
    said = running.status(current, GenerationConfig(), 1).plain
    assert "round 2, 2 hold" in said
    legend = running.legend(current, calm=True).plain
    assert "given 1" in legend
    assert "fitting 1" in legend
    with running.Watcher(Letters(), GenerationConfig(), None, 0.0, raw=False) as watcher:
        for event in (first, second, pinned, *rest):
            watcher(event)


def test_a_terminal_sees_each_step() -> None:
    shown = play(Screen())
    assert "\x1b[" in shown
    for text in (
        "no step yet",
        "steps 1/48",
        "steps 2/48",
        "accepted 4/6",
        "mean entropy 0.667 nats",
        "temperature 0.70",
    ):
        assert text in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1  # the cursor comes back


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_that_wants_none_gets_one_plain_frame(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    shown = play(Screen())
    assert "\x1b" not in shown
    assert shown.count("steps 2/48") == 1
    assert "cano" in shown


def test_standard_output_takes_the_canvas_only_where_it_alone_is_a_terminal() -> None:
    out = Screen()
    assert "steps 2/48" in play(Screen(), out)
    assert out.getvalue() == ""
    assert play(io.StringIO(), out) == ""
    assert "steps 2/48" in out.getvalue()


def test_states_differ_by_more_than_colour() -> None:
    styles = [running.STYLES[state] for state in CellState if state is not CellState.PADDING]
    shapes = [" ".join(w for w in style.split() if w not in ("red", "cyan")) for style in styles]
    assert len(set(shapes)) == len(shapes)


def test_the_calm_canvas_shows_guesses_and_the_raw_one_noise() -> None:
    calm = running.canvas(block(2), Letters(), 72, None, calm=True)
    raw = running.canvas(block(2), Letters(), 72, None, calm=False)
    assert (calm.plain, raw.plain) == ("cantzz", "caqtzz")
    assert running.canvas(block(1), Letters(), 72, 2, calm=True).plain == "qw\ner\nty"
    assert running.canvas(block(1), Letters(), 4, None, calm=True).plain == "qwer\nty"
    assert [span.style for span in raw.spans] == ["underline", "underline", "dim", "underline", "dim", "dim"]


def test_taken_back_settled_and_committed_cells() -> None:
    assert running.canvas(block(4), Letters(), 72, None, calm=True).plain == "cano  "  # the padding is hidden
    assert "finished" in running.status(block(4), GenerationConfig(), 1).plain
    assert "block 0" in running.status(block(4), GenerationConfig(), 2).plain
    text = running.canvas(block(3), Letters(), 72, None, calm=False)
    assert "strike" in str(next(span.style for span in text.spans if span.start == 3))
    assert next(span.style for span in text.spans if span.start == 0) == "bold"
    assert running.legend(block(3), calm=False).plain == "noise 1  accepted 2  taken back 1  settled 2"


def test_tokens_and_names_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert running.glyph(28, CellState.NOISE, Letters()) == "\N{REPLACEMENT CHARACTER}[2J"
    assert running.glyph(27, CellState.NOISE, Letters()) == running.BREAK
    assert running.glyph(26, CellState.NOISE, Letters()) == running.CONTROL
    assert terminal.printable("a\x07\tb\n\x9b") == "a\N{REPLACEMENT CHARACTER}\tb\n\N{REPLACEMENT CHARACTER}"
    name, shown = "model\x1b]0;owned\x1b[2J\x9b31m", "model\ufffd]0;owned\ufffd[2J"
    out = Screen()
    screen = terminal.console(out)
    table = terminal.table(name, name, "1")
    table.add_row(name, Text(name, "bold"))
    screen.print(table, name, Text(name))
    written = out.getvalue()
    assert written.count(shown) == 6
    assert not any(code in written for code in ("\x9b", "\x1b]", "\x1b[2J"))
    assert "\x1b[1m" in written  # styles are kept
    terminal.say(name)
    assert capsys.readouterr().err == f"safelight: {shown}\ufffd31m\n"


def test_notes_only_on_terminals_and_taken_away() -> None:
    with redirect_stderr(screen := Screen()):
        with terminal.note("Loading …"):
            assert screen.getvalue() == "Loading …"
        assert screen.getvalue().endswith(terminal.CLEAR_LINE)
    with redirect_stderr(pipe := io.StringIO()), terminal.note("Loading …"):
        pass
    assert pipe.getvalue() == ""


def test_boards_mark_what_is_wrong_with_a_sign() -> None:
    puzzle = "0" + SOLUTION[1:]
    right = terminal.boards(puzzle, SOLUTION).plain
    assert "!" not in right
    assert right.count("\n") == 11
    assert right.startswith(" . " + SOLUTION[1])
    assert terminal.boards(puzzle, SOLUTION[1] + SOLUTION[1:]).plain.count("!") == 1
    assert terminal.boards(SOLUTION, "." + SOLUTION[1:]).plain.count("!") == 1


# ------------------------------------------------------------------ old code pages


def old_streams(monkeypatch: pytest.MonkeyPatch) -> list[io.TextIOWrapper]:
    """Standard output and error as a pipe has them on Windows, and older Linux: cp1252, in which → and 日 are not."""
    made = [io.TextIOWrapper(io.BytesIO(), encoding="cp1252", write_through=True) for _ in range(2)]
    monkeypatch.setattr("sys.stdout", made[0])
    monkeypatch.setattr("sys.stderr", made[1])
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    return made


def written(streams: list[io.TextIOWrapper]) -> list[bytes]:
    return [stream.buffer.getvalue() for stream in streams]  # type: ignore[attr-defined]


def test_no_command_fails_over_a_character_that_the_console_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = old_streams(monkeypatch)
    for command in command_line.COMMANDS:
        assert command_line.main([command.__name__.rpartition(".")[2], "--help"]) == 0
    assert command_line.main(["sudoku", SOLUTION[:80] + "日"]) == 2
    terminal.console(sys.stdout).print(terminal.boards("0" + SOLUTION[1:], SOLUTION))
    with terminal.note("日本 …"), terminal.progress("日本"):
        pass
    out, error = written(streams)
    assert b"   ?   " in out, "the arrow between the boards"
    assert error.startswith(b"safelight: ")
    assert b"Traceback" not in error


@pytest.mark.parametrize(
    ("asked", "kept"), [(None, "日 → ü".encode()), ("cp1252", b"? ? \xfc")], ids=["UTF-8", "as PYTHONIOENCODING says"]
)
def test_a_pipe_on_windows_loses_nothing(monkeypatch: pytest.MonkeyPatch, asked: str | None, kept: bytes) -> None:
    streams = old_streams(monkeypatch)
    monkeypatch.setattr(windows, "IS_WINDOWS", True)
    monkeypatch.setattr(terminal, "enable_escape_codes", lambda: False)
    monkeypatch.setenv("NO_COLOR", "")
    if asked is not None:
        monkeypatch.setenv("PYTHONIOENCODING", asked)
    terminal.prepare_streams()
    print("日 → ü", end="")
    assert written(streams)[0] == kept
    assert not terminal.can_style(Screen())
