"""Slow jobs in a process of their own: it is ended where one takes too long, and nothing waits for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.chat.markdown_view import side_process as module
from app.chat.markdown_view import slow
from app.chat.markdown_view.side_process import SideProcess
from app.chat.markdown_view.slow import MAX_NESTED, DrawnFormula, FormulaRequest, ProgramRequest, parts, typeset
from app.system import child

HEADS = [
    FormulaRequest("a^2", False),
    ProgramRequest("def f(): pass", "python"),
    FormulaRequest(r"\frac{a", True),
    FormulaRequest("b", True),
]


@pytest.fixture
def helper(qtbot: QtBot) -> Iterator[SideProcess]:
    """One of the test's own."""
    assert qtbot
    made = SideProcess()
    yield made
    made.close()


def wait(qtbot: QtBot, helper: SideProcess) -> None:
    qtbot.waitUntil(lambda: helper.is_idle, timeout=60_000)


def test_what_comes_back_is_what_would_be_made_here(qtbot: QtBot, helper: SideProcess) -> None:
    made: set[object] = set()
    helper.done.connect(made.update)
    assert [helper.ask(job) for job in HEADS] == [None] * 4
    assert all(helper.is_pending(job) for job in HEADS)
    wait(qtbot, helper)
    assert made == set(HEADS)
    assert [helper.ask(job) for job in HEADS] == [
        typeset("a^2", False), parts("def f(): pass", "python"), None, typeset("b", True)
    ]  # fmt: skip
    assert not any(helper.is_pending(job) for job in HEADS)
    assert helper.starts == 1


def test_a_job_that_takes_too_long_ends_the_process_and_the_others_are_done(
    qtbot: QtBot, helper: SideProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_one = ProgramRequest("never ends", "python")
    code = (
        "from app.chat.markdown_view import slow; slow.SECONDS = 0.1; "
        "slow.parts = lambda text, _: [None for _ in iter(int, 1 if 'never' in text else 0)]; slow.main()"
    )  # ``int()`` is 0: ``iter`` goes on until it sees its second argument
    start = module.QProcess.start

    def start_another(process: module.QProcess, program: str, _arguments: list[str]) -> None:
        start(process, program, ["-P", "-c", code])

    monkeypatch.setattr(module.QProcess, "start", start_another)
    for job in (FormulaRequest("a", False), slow_one, FormulaRequest("b", False)):
        helper.ask(job)
    wait(qtbot, helper)
    assert isinstance(helper.ask(FormulaRequest("a", False)), DrawnFormula)
    assert isinstance(helper.ask(FormulaRequest("b", False)), DrawnFormula)
    assert helper.ask(slow_one) is None
    assert not helper.is_pending(slow_one)  # that nothing can come of it is known, too
    assert helper.starts == 2


def test_what_cannot_end_well_is_never_begun(helper: SideProcess) -> None:
    deep = MAX_NESTED + 1
    for job in (
        FormulaRequest("{" * deep + "}" * deep, True),
        FormulaRequest("x" * 5_000, True),
        ProgramRequest("x" * 30_000, "make"),
    ):
        assert helper.ask(job) is None
        assert not helper.is_pending(job)
    assert helper.starts == 0


def test_a_process_that_does_not_start_is_given_up(
    qtbot: QtBot, helper: SideProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child.sys, "executable", "/nowhere/python")
    jobs = [FormulaRequest(letter, False) for letter in "abc"]
    for job in jobs:
        helper.ask(job)
    wait(qtbot, helper)
    assert [helper.ask(job) for job in jobs] == [None] * 3
    helper.ask(FormulaRequest("d", False))
    assert helper.is_idle
    assert helper.starts == module.MAX_STARTS


def test_the_bundle_knows_the_option_that_makes_it_the_helper() -> None:
    entry = Path(__file__).parents[3] / "packaging" / "frozen" / "entry.py"
    assert f'sys.argv[1:] == ["{module.OPTION}"]' in entry.read_text()


def test_the_process_ends_with_its_input_and_knows_neither_qt_nor_torch() -> None:
    code = (
        "import sys; from app.chat.markdown_view import slow; slow.main(); "
        "heavy = [name for name in sys.modules if name.startswith(('PySide6', 'torch', 'numpy'))]; "
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=slow.written(FormulaRequest("a", True)) + b"nonsense\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ready, picture, nothing = done.stdout.split(b"\n")[:3]
    assert ready == b""
    assert slow.read(picture) == typeset("a", True)
    assert slow.read(nothing) is None
