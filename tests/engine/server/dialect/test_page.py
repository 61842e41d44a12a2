"""The page at ``/`` in a real browser, against a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.design.tokens import DARKROOM, PAPER
from engine import catalog
from engine.catalog import MINI, SMALL
from engine.server import page
from tests.app.export.browser import Browser, start
from tests.engine.server.served import KEY, Served, serving
from tests.loaded import ReadyBackend

LONG = "Count from 3 to 40."  # takes two canvases or three


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from start(tmp_path_factory.mktemp("browser"))


def visit(browser: Browser, url: str) -> None:
    browser.value("location.protocol === 'http:' && sessionStorage.clear(); window.isLeft = true")
    browser.call("Page.navigate", url="about:blank")  # the same page with another fragment would not be read again
    browser.wait("!window.isLeft && location.href === 'about:blank'")
    browser.complaints.clear()
    browser.requests.clear()
    browser.call("Page.navigate", url=url)
    browser.wait("Boolean(document.documentElement && document.documentElement.dataset.ready)")


def test_a_remote_canvas_develops(served: Served, browser: Browser) -> None:
    browser.call("Page.bringToFront")
    visit(browser, f"{served.server.url}/#key={KEY}")
    assert browser.value("location.href") == f"{served.server.url}/"  # the key does not stand there any longer
    assert browser.value("document.querySelector('#model').textContent") == "safelight-mini"
    browser.value("""
        window.seen = [];
        new MutationObserver(() => window.seen.push(
            [view.place.textContent, ...[...view.canvas.children].map((cell) => cell.dataset.state)]
        )).observe(view.canvas, {attributes: true, subtree: true, attributeFilter: ["aria-label"]});
        document.activeElement.id""")
    browser.call("Input.insertText", text=LONG)
    browser.press("Enter")
    browser.wait("document.documentElement.dataset.runs === '1'")
    browser.wait("view.place.textContent.includes('finished')")
    answer = browser.value("document.querySelector('#answer').textContent")
    assert re.match(r"\d+, \d+, ", answer)
    assert re.fullmatch(r"\d+ tokens in \d+ steps\.", browser.value("document.querySelector('#end').textContent"))
    seen = browser.value("window.seen")
    places = [place for place, *_ in seen]
    assert any(re.fullmatch(r"Block 1 · (noise|step \d+ of at most 48)", place) for place in places)
    assert all(len(states) == 64 for _, *states in seen)
    states = {state for _, *found in seen for state in found}
    assert states >= {"noise", "accepted", "settled"}
    assert set(seen[-1][1:]) <= {"settled", "padding"}
    cells = browser.value("[...view.canvas.children].map((cell) => cell.textContent)")
    assert "".join(cells).split("·")[0] in "".join(answer)
    blocks = {int(re.findall(r"\d+", place)[0]) for place in places}
    assert browser.value("document.querySelectorAll('#blocks li').length") == max(blocks) == len(blocks)
    assert all(url.startswith((served.server.url, "about:")) for url in browser.requests)
    assert browser.complaints == []


def test_the_canvas_is_that_of_the_part_that_writes(browser: Browser) -> None:
    puzzle = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
    with serving(ReadyBackend(), SMALL) as served:
        visit(browser, f"{served.server.url}/#key={KEY}")
        for runs, (prompt, title, columns) in enumerate(
            [(puzzle, "Safelight Sudoku", "10"), ("hi", catalog.title(MINI), "")], start=1
        ):
            browser.value(f"view.prompt.value = {prompt!r}; view.ask.requestSubmit()")
            browser.wait(f"document.documentElement.dataset.runs === '{runs}'")
            look = browser.value("[view.model.textContent, view.canvas.style.getPropertyValue('--columns')]")
            assert (look, browser.value("view.canvas.className")) == ([title, columns], "")
    assert browser.complaints == []


def test_stop_ends_the_run_and_says_so(served: Served, browser: Browser) -> None:
    visit(browser, f"{served.server.url}/#key={KEY}")
    # Reading is held up after the first frames, so that there is a run to stop.
    browser.value(f"""
        window.taken = take;
        take = (chunk) => {{ window.taken(chunk); if (run.steps > 1) run.stopping.abort(); }};
        view.prompt.value = {LONG!r};
        view.ask.requestSubmit()""")
    browser.wait("document.documentElement.dataset.runs === '1'")
    assert re.fullmatch(r"Stopped after \d+ steps?\.", browser.value("view.end.textContent"))
    assert browser.value("view.stop.hidden && !view.send.hidden") is True


def test_a_wrong_key_is_said_and_asked_for_again(served: Served, browser: Browser) -> None:
    visit(browser, f"{served.server.url}/")
    assert browser.value("!view.access.hidden && view.ask.hidden && document.activeElement === view.key") is True
    browser.call("Input.insertText", text="wrong")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r")
    browser.wait("!view.problem.hidden")
    assert "not this server’s key" in browser.value("view.problem.textContent")
    browser.value(f"view.key.value = {KEY!r}; view.access.requestSubmit()")
    browser.wait("view.model.textContent === 'safelight-mini'")
    assert browser.value("view.access.hidden && view.problem.hidden && !view.ask.hidden") is True


def test_it_fits_a_narrow_window_and_every_control_has_a_name(served: Served, browser: Browser) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=False)
    visit(browser, f"{served.server.url}/#key={KEY}")
    assert browser.value("document.documentElement.scrollWidth") == 400
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    cell = "getComputedStyle(view.canvas.appendChild(document.createElement('span'))).transitionDuration"
    assert browser.value(cell) == "0s"
    unnamed = """[...document.querySelectorAll("button, input, textarea, [role=img], section")].filter((found) =>
        !(found.labels?.length || found.textContent.trim() || found.getAttribute("aria-label"))).length"""
    assert browser.value(unnamed) == 0


def test_its_files_need_no_key_and_allow_nothing_from_elsewhere(served: Served) -> None:
    for path in page.FILES:
        answer = served.http.get(path, headers={"Authorization": ""})
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy
    assert served.http.get("/page.py").status_code == 404
    assert served.http.get("/fonts/../../pyproject.toml").status_code == 404
    assert served.http.get("/fonts/Inter-Italic.ttf").status_code == 404
    html = page.FILES["/"].read_text()
    assert not re.search(r"https?:|<style|style=|\son\w+=", html)


def test_its_colours_are_those_of_the_window() -> None:
    style = (Path(page.HERE) / "page.css").read_text()
    themes = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    for theme, text in zip((DARKROOM, PAPER), themes, strict=True):
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", text))
        assert len(colours) > 15
        assert colours == {name: getattr(theme, name.replace("-", "_")) for name in colours}
