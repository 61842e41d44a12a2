"""Prompts with a gap, in the markers of each model: as they are published, written and read back."""

from __future__ import annotations

import inspect

import pytest
from transformers import CodeLlamaTokenizer

from engine.text.gap_markers import MARKERS, GapFile, GapMarkers, TextGap, markers_of, parse
from engine.text.tokenizer import Tokenizer
from tests.engine.gap_models import with_added

QWEN, GEMMA, GRANITE, STAR2, STAR, DEEPSEEK, LLAMA, GLM, CODESTRAL = MARKERS
GAP = TextGap("def add(a, b):\n    return ", "\n\nprint(add(1, 2))\n")
PUBLISHED = {
    QWEN: "<|fim_prefix|>{0}<|fim_suffix|>{1}<|fim_middle|>",
    GEMMA: "<|fim_prefix|>{0}<|fim_suffix|>{1}<|fim_middle|>",
    GRANITE: "<|fim_prefix|>{0}<|fim_suffix|>{1}<|fim_middle|>",
    STAR2: "<fim_prefix>{0}<fim_suffix>{1}<fim_middle>",
    STAR: "<fim_prefix>{0}<fim_suffix>{1}<fim_middle>",
    DEEPSEEK: "<｜fim▁begin｜>{0}<｜fim▁hole｜>{1}<｜fim▁end｜>",
    LLAMA: "<PRE> {0} <SUF>{1} <MID>",
    GLM: "<|code_prefix|>{0}<|code_suffix|>{1}<|code_middle|>",
    CODESTRAL: "[SUFFIX]{1}[PREFIX]{0}",
}
"""What clients send, with the text before the gap and the text behind it."""


@pytest.mark.parametrize("markers", MARKERS, ids=lambda markers: markers.name)
def test_a_client_s_prompt_is_read(markers: GapMarkers) -> None:
    prompt = PUBLISHED[markers].format(GAP.prefix, GAP.suffix)
    assert parse(prompt) == GAP
    assert parse("<s>" + prompt) == GAP  # its own beginning is added by the tokenizer
    assert parse(PUBLISHED[markers].format("", "")) == TextGap("", "")
    if markers is not LLAMA:  # whose vocabulary writes a space as part of each marker
        assert markers.render(GAP) == prompt


@pytest.mark.parametrize(
    "text", ["", "def f():", "<|fim_prefix|>a<|fim_suffix|>b", "say [SUFFIX]a[PREFIX]b", "<PRE> a"]
)
def test_other_texts_have_no_gap(text: str) -> None:
    assert parse(text) is None


def test_what_a_client_wrote_of_the_gap_belongs_to_the_text_before_it() -> None:
    assert parse("<|fim_prefix|>a = <|fim_suffix|>\n<|fim_middle|>foo(") == TextGap("a = foo(", "\n")


def test_files_come_before_the_text_as_qwen_wants_them() -> None:
    files = GapFile("lib/one.py", "ONE = 1\n"), GapFile("two.py", "TWO = 2")
    gap = TextGap(GAP.prefix, GAP.suffix, "main.py", files)
    prompt = QWEN.render(gap)
    assert prompt == (
        "<|repo_name|>repository\n<|file_sep|>lib/one.py\nONE = 1\n<|file_sep|>two.py\nTWO = 2\n"
        f"<|file_sep|>main.py\n<|fim_prefix|>{GAP.prefix}<|fim_suffix|>{GAP.suffix}<|fim_middle|>"
    )
    whole = files[0], GapFile("two.py", "TWO = 2\n")
    assert parse(prompt) == TextGap(GAP.prefix, GAP.suffix, "main.py", whole)
    assert parse(GEMMA.render(gap)) == parse(prompt)
    assert parse(STAR2.render(gap)) == parse(prompt)


def test_files_are_comments_where_a_model_has_no_marker_for_them() -> None:
    gap = TextGap("a", "b", files=(GapFile("one.py", "ONE = 1\n"), GapFile("", "TWO = 2")))
    assert DEEPSEEK.render(gap) == "<｜fim▁begin｜># one.py\nONE = 1\nTWO = 2\na<｜fim▁hole｜>b<｜fim▁end｜>"
    assert CODESTRAL.render(gap) == "[SUFFIX]b[PREFIX]# one.py\nONE = 1\nTWO = 2\na"
    assert parse("# see notes\n<fim_prefix>a<fim_suffix>b<fim_middle>") == TextGap(
        "a", "b", files=(GapFile("", "# see notes\n"),)
    )


@pytest.mark.parametrize("markers", MARKERS, ids=lambda markers: markers.name)
def test_a_vocabulary_says_which_markers_it_has(markers: GapMarkers) -> None:
    assert markers_of(with_added(markers.tokens)) == markers
    assert markers_of(with_added(markers.tokens[:1])) is None


def test_code_llama_s_tokens_are_those_of_transformers() -> None:
    known = inspect.signature(CodeLlamaTokenizer.__init__).parameters
    names = ("prefix_token", "suffix_token", "middle_token", "eot_token")
    assert [known[name].default for name in names] == [LLAMA.prefix, LLAMA.suffix, LLAMA.middle, LLAMA.ends[0]]


def test_markers_in_a_file_are_text() -> None:
    tokenizer: Tokenizer = with_added(QWEN.tokens, special=False)
    inert = tokenizer.inert_with(QWEN.tokens)
    prompt = QWEN.render(TextGap("a<|fim_middle|>b", "<|fim_suffix|>"), inert)
    ids = tokenizer.encode_rendered(prompt)
    places = [ids.index(tokenizer.token_id(token)) for token in (QWEN.prefix, QWEN.suffix, QWEN.middle)]
    assert sorted(places) == places
    assert (places[0], places[-1]) == (0, len(ids) - 1)
    assert sum(ids.count(tokenizer.token_id(token)) for token in QWEN.tokens) == 3
    assert tokenizer.decode(ids[1 : places[1]], skip_special=False) == "a<|fim_middle|>b"
