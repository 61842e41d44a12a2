"""The page in a real browser: each of its steps, its keys, and its safety."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.canvas.glyphs import glyph_of
from app.export import html
from app.export.run import Options
from app.state.run.answers import answer_words, answers_of
from app.state.run.canvas import CellState
from app.state.run.replay import Replay
from engine import Fork, GenerationConfig, SafelightError, Trace, step_number

from . import browser as browsers
from .conftest import HOSTILE, PROMPT, made_of, whole

CELLS = """[...document.querySelectorAll('#grid .cell')].map((cell) => [cell.textContent,
    Number(/\\bs(\\d)\\b/.exec(cell.className)[1]), cell.classList.contains('end')])"""
PLACE = "Number(document.getElementById('scrubber').value)"
TEXT = "document.getElementById('text').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from browsers.start(tmp_path_factory.mktemp("browser"))


def expected(run: Trace, place: int, *, calm: bool, replay: Replay | None = None) -> list[list[Any]]:
    """Returns a frame's cells by the window's own reducer."""
    block = (replay or Replay(run)).snapshot(place)
    found: list[list[Any]] = []
    for token, state in zip(block.tokens(calm=calm).tolist(), block.states(calm=calm).tolist(), strict=True):
        glyph = glyph_of(run.piece(token), run.is_special(token))
        gone = glyph.kind == "end" or state == CellState.PADDING
        found.append(["" if gone or state == CellState.MASKED else glyph.text, state, gone])
    return found


@pytest.mark.parametrize(
    "name",
    [
        "real",
        pytest.param("several", marks=pytest.mark.slow),
        "hostile",
        "decision",
        "fitting",
        "rewriting",
    ],
)
def test_every_frame_is_what_the_window_shows(
    name: str, browser: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run = request.getfixturevalue(name)
    path = whole(run, tmp_path / "run.html")
    replay = Replay(run)
    frames = replay.frames
    for view in ("calm", "raw"):
        browser.open(path, f"frame=0&view={view}")
        assert browser.value("Number(document.getElementById('scrubber').max)") == len(frames) - 1
        for place in range(len(frames)):
            assert browser.value(PLACE) == place
            shown = browser.value(CELLS)
            wanted = [
                [text.encode("utf-16", "replace").decode("utf-16"), *rest]
                for text, *rest in expected(run, place, calm=view == "calm", replay=replay)
            ]
            assert shown == wanted, (view, frames[place])
            browser.press("ArrowRight")
    assert browser.complaints == []


def test_a_decision_shows_what_its_reads_came_to(browser: Any, decision: Trace, tmp_path: Path) -> None:
    browser.open(whole(decision, tmp_path / "run.html"), "frame=0")
    said = "[...document.querySelectorAll('.question .said')].map((one) => one.textContent)"
    slots = "[...document.querySelectorAll('#grid .slot')].map((one) => Number(one.dataset.at))"
    assert browser.value(said) == ["not read yet"] * 3
    assert browser.value(slots) == [slot.position for slot in decision.header.slots]
    replay = Replay(decision)
    for place in range(1, len(replay.frames)):
        browser.press("ArrowRight")
        answers = answers_of(decision.header.decision, replay.reads(place))
        assert browser.value(said) == [answer_words(answer) for answer in answers]
        best = "[...document.querySelectorAll('.question')].map((one) => [...one.querySelectorAll('ol li')].findIndex("
        assert browser.value(f"{best}(row) => row.classList.contains('best')))") == [answer.best for answer in answers]
    assert browser.value("document.getElementById('status').textContent") == "6/6 · read 3 of 3"
    browser.value("document.querySelector('#grid .slot').dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))")
    assert browser.value("[...document.querySelectorAll('.question')].map((one) => one.classList.contains('lit'))") == [
        True,
        False,
        False,
    ]
    assert browser.complaints == []


def test_a_run_that_fits_a_format_reports_its_rounds(browser: Any, fitting: Trace, tmp_path: Path) -> None:
    browser.open(whole(fitting, tmp_path / "run.html"), "frame=2")
    status = browser.value("document.getElementById('status').textContent")
    assert status.startswith("3/5 · round 2: 7 tokens held, 3 of the 5 new ones written by the model · step 2")
    assert "integer" in browser.value("document.getElementById('format').textContent")
    assert browser.value("document.querySelectorAll('#curve .round').length") == 3
    browser.open(whole(fitting, tmp_path / "bare.html", Options("html", prompt=False)), "frame=2")
    assert browser.value("document.getElementById('task').hidden") is True
    assert "integer" not in (tmp_path / "bare.html").read_text(encoding="utf-8")


def test_a_fork_shows_its_pins_from_their_step_on(browser: Any, several: Trace, tmp_path: Path) -> None:
    header = replace(several.header, changes=(Fork(1, 1, pinned=((2, 5), (99, 5))),))
    forked = made_of(header, several.events, several)
    browser.open(whole(forked, tmp_path / "run.html"))
    replay = Replay(forked)
    first = replay.first_of(1)
    given = []
    for place in (first + 1, first + 2):
        browser.open(tmp_path / "run.html", f"frame={place}")
        assert browser.value(CELLS) == expected(forked, place, calm=True, replay=replay)
        given.append(browser.value(CELLS)[2][1] == CellState.GIVEN)
    assert given == [False, True]


def test_a_run_that_was_cut_short_shows_its_draft(browser: Any, real: Trace, tmp_path: Path) -> None:
    cut = made_of(real.header, real.events[:6], real)
    browser.open(whole(cut, tmp_path / "run.html"))
    assert browser.value(PLACE) == 4
    assert browser.value(TEXT) == cut.text != ""
    assert "draft" in browser.value("document.getElementById('unfinished').textContent")


def test_plays_to_the_end_and_pauses(browser: Any, real: Trace, tmp_path: Path) -> None:
    browser.open(whole(real, tmp_path / "run.html"), "frame=0")
    last = len(Replay(real).frames) - 1
    browser.value(
        "document.getElementById('speed').value = '4';"
        "document.getElementById('speed').dispatchEvent(new Event('change'))"
    )
    browser.press(" ")
    assert browser.value("document.getElementById('play').getAttribute('aria-label')") == "Pause"
    browser.wait(f"{PLACE} >= 2")
    browser.press(" ")
    assert browser.value("document.getElementById('play').getAttribute('aria-label')") == "Play"
    browser.press("l")
    browser.wait(f"{PLACE} === {last}")
    browser.wait("document.getElementById('play').getAttribute('aria-label') === 'Play'")
    browser.press("j")
    browser.wait(f"{PLACE} === 0")
    browser.press("k")
    assert browser.complaints == []


def test_a_click_shows_the_history_of_a_cell(browser: Any, large: Trace, tmp_path: Path) -> None:
    browser.open(whole(large, tmp_path / "run.html"), "frame=20")
    record = Replay(large).record(0)
    at = int(record.taken_back.sum(axis=0).argmax())
    assert record.taken_back[:, at].sum() > 1
    browser.click(f"#grid .cell[data-at='{at}']")
    rows = browser.value(
        "[...document.querySelectorAll('#history tbody tr')].map("
        "(row) => [...row.children].map((cell) => cell.textContent))"
    )
    assert len(rows) == 48
    for step, (number, guess, drawn, fate, entropy) in enumerate(rows):
        assert number == str(step_number(step))
        assert guess == glyph_of(large.piece(int(record.argmax[step, at])), False).text
        assert drawn == glyph_of(large.piece(int(record.candidates[step, at])), False).text
        assert fate.startswith("accepted") == bool(record.accepted[step, at])
        assert (fate == "taken back") == bool(record.taken_back[step, at])
        assert float(entropy) == pytest.approx(float(record.entropy[step, at]), abs=0.00051)
    marked = browser.value("document.querySelectorAll('#bump .taken-back').length")
    assert marked == record.taken_back[:, at].sum()
    dots = browser.value("document.querySelectorAll('#bump circle').length")
    assert dots == 48 * 8
    assert browser.value("document.querySelector('tr[aria-current=step] td').textContent") == "20"
    top = browser.value("[...document.querySelectorAll('#top b')].map((each) => each.textContent)")
    assert top == [glyph_of(large.piece(int(token)), False).text for token in record.top_tokens[19, at]]
    browser.press("ArrowRight", shift=True)
    assert browser.value(PLACE) == Replay(large).next_change(20, at, 1)
    browser.press("Escape")
    assert browser.value("document.getElementById('cell-rest').hidden")


def test_the_canvas_is_a_table_in_words_that_keys_walk(browser: Any, several: Trace, tmp_path: Path) -> None:
    browser.open(whole(several, tmp_path / "run.html"), "frame=3")
    assert browser.value("document.querySelectorAll('[role=grid] > [role=row] > [role=gridcell]').length") == 8
    browser.value("document.querySelector('#grid .cell').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert browser.value(PLACE) == 3
    words = browser.value("document.activeElement.getAttribute('aria-label')")
    state = Replay(several).snapshot(3).cell(2, True).state
    assert words.startswith("Position 2, “")
    assert state.name.lower() in words
    unnamed = browser.value(
        "[...document.querySelectorAll('button, input, select')].filter((each) => "
        "!(each.getAttribute('aria-label') || each.textContent || each.labels.length)).length"
    )
    assert unnamed == 0


def test_layers_and_themes(browser: Any, real: Trace, tmp_path: Path) -> None:
    path = whole(real, tmp_path / "run.html")
    browser.open(path, "frame=5&layer=entropy&theme=light")
    light = browser.value("getComputedStyle(document.body.parentElement).backgroundColor")
    assert browser.value("document.querySelectorAll('.cell.shaded').length") == 64
    assert not browser.value("document.getElementById('scale').hidden")
    browser.click("#theme")
    assert browser.value("getComputedStyle(document.body.parentElement).backgroundColor") != light
    for scheme, shade in (("dark", "rgb(23, 19, 16)"), ("light", "rgb(248, 243, 234)")):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(path)
        assert browser.value("getComputedStyle(document.body.parentElement).backgroundColor") == shade


def test_asks_the_network_for_nothing(browser: Any, real: Trace, tmp_path: Path) -> None:
    path = whole(real, tmp_path / "run.html")
    browser.open(path)
    assert [url for url in browser.requests if not url.startswith(("data:", path.as_uri()))] == []
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"(?:src|href)\s*=\s*[\"'](?!data:)", text.split("<script", 1)[0]) == []
    assert re.findall(r"\burl\(|@import|https?://(?!www\.w3\.org/2000/svg)", text) == []
    assert "default-src 'none'" in text
    assert browser.complaints == []


def test_hostile_tokens_are_text(browser: Any, hostile: Trace, tmp_path: Path) -> None:
    path = whole(hostile, tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    assert text.count("</script>") == 2
    assert "onerror=alert" not in text.replace("&lt;img src=x onerror", "").replace("\\u003cimg src=x onerror", "")
    browser.open(path, "cell=0")
    assert browser.value("document.title") == "made-up · Safelight"
    assert browser.value("document.querySelectorAll('img').length") == 0
    shown = browser.value(TEXT)
    for piece in HOSTILE:
        if piece != "\ud800":
            assert piece in shown
    assert browser.complaints == []


def test_a_large_block_is_small(large: Trace, tmp_path: Path) -> None:
    size = whole(large, tmp_path / "run.html").stat().st_size
    assert size < 850_000  # of random numbers, which do not pack


def test_a_run_without_a_canvas_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SafelightError, match="no canvas yet"):
        whole(Trace("m", PROMPT, GenerationConfig(), 0), tmp_path / "run.html")
    assert list(tmp_path.iterdir()) == []


def test_json_within_the_page_cannot_end_its_script() -> None:
    assert html.safe_json("</script><!--&") == '"\\u003c/script\\u003e\\u003c!--\\u0026"'


def test_the_page_says_what_is_not_in_it(
    browser: Any, real: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notice = "[document.getElementById('notice').hidden, document.getElementById('notice').textContent]"
    browser.open(whole(real, tmp_path / "run.html"))
    assert browser.value(notice) == [True, ""]
    monkeypatch.setattr("app.state.run.replay.BLOCK_STEPS", 2)
    browser.open(whole(real, tmp_path / "cut.html"))
    assert browser.value(notice) == [False, "Block 1 is too long to be shown whole; its first 2 steps are."]
