"""What a search and a filter leave of a list of models."""

from __future__ import annotations

import pytest

from app.state.models.filtering import FILTERS, Filter, Listed, is_shown

ROW = Listed(("Qwen3 1.7B", "for chat", "Qwen/Qwen3-1.7B", "Apache-2.0"), "word by word", is_here=False, fits=True)


@pytest.mark.parametrize(
    ("search", "is_left"), [("", True), ("  ", True), ("qwen CHAT", True), ("apache", True), ("chat diffusion", False)]
)
def test_all_words_of_a_search_have_to_occur(search: str, is_left: bool) -> None:
    assert is_shown(ROW, search, "all") is is_left


def test_filters() -> None:
    def kept(row: Listed) -> set[Filter]:
        return {name for name in FILTERS if is_shown(row, "", name)}

    assert kept(ROW) == {"all", "word by word", "fits"}
    assert kept(Listed(("x",), "diffusion", is_here=True, fits=False)) == {"all", "diffusion", "here"}
    assert kept(Listed(("x",), "", is_here=True, fits=None)) == {"all", "fits", "here"}  # not counted yet
