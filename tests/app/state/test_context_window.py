"""Remarks on a conversation that does not fit into the context, and the texts that files become."""

from __future__ import annotations

import gettext
from collections.abc import Iterator

import pytest

from app.state.chat.attachment import Attachment, with_attachments
from app.state.chat.fences import fence_for
from app.state.chat.prompts import problem, remark
from app.system import i18n
from engine.text.context_window import Fit, fit
from tests.app.marked import Brackets

ALL = Fit((), 0, 53, 100, 20)
TOO_LONG = Fit((), 2, 9, 10, 4, "too long")


def test_the_remark_says_how_much_is_left_out() -> None:
    assert remark(Fit((), 1, 20, 25, 0)) == "The oldest turn no longer fits and will be left out."
    assert remark(Fit((), 3, 20, 25, 0)) == "The oldest 3 turns no longer fit and will be left out."


def test_a_problem_is_more_than_what_is_left_out() -> None:
    assert remark(TOO_LONG) == problem(TOO_LONG) == "too long"


@pytest.fixture
def brackets() -> Iterator[None]:
    i18n.use(Brackets())
    yield
    i18n.use(gettext.NullTranslations())


@pytest.mark.usefixtures("brackets")
def test_what_does_not_fit_is_said_in_the_language_in_use() -> None:
    found = fit([{"role": "user", "content": "a b c"}], lambda _: 3, 4, 4)
    assert problem(found) == f"⟦{found.problem}⟧"
    assert remark(found) == problem(found)
    assert problem(ALL) == remark(ALL) == ""  # a catalogue's entry for nothing is its header


def test_files_come_before_the_prompt_under_their_names() -> None:
    files = (Attachment("notes.md", "one\ntwo\n"), Attachment("Makefile", "all:"))
    assert with_attachments("Sum up.", files) == (
        "File: notes.md\n\n```md\none\ntwo\n```\n\nFile: Makefile\n\n```\nall:\n```\n\nSum up."
    )
    assert with_attachments("as it is", ()) == "as it is"
    assert with_attachments("", files[1:]) == "File: Makefile\n\n```\nall:\n```"


@pytest.mark.parametrize("run", [0, 1, 3, 5, 40])
def test_a_fence_is_longer_than_any_in_the_text(run: int) -> None:
    text = f"a `b` ```\n{'`' * run}\n{'`' * run}x"
    fence = fence_for(text)
    assert set(fence) == {"`"}
    assert fence not in text
    assert with_attachments("p", (Attachment("a.txt", text),)).count(fence) == 2
