"""Texts with holes as people write them: which brackets are holes, how long they are, and what is refused."""

from __future__ import annotations

import json

import pytest

from engine import SafelightError
from engine.declared import plain
from engine.text.outline import MAX_HOLES, MAX_LENGTH, Hole, parse, read_outline, spans


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Dear [[…]], thanks.", ("Dear ", Hole(), ", thanks.")),
        ("[[...]] and [[_]]", (Hole(), " and ", Hole())),
        ("a [[3]] b", ("a ", Hole(3), " b")),
        ("a [[20 words]]\n[[1 word]]", ("a ", Hole(20), "\n", Hole(1))),
        ("a [[12 tokens]]", ("a ", Hole(12, "tokens"))),
        ('["fig", [[…]]]', ('["fig", ', Hole(), "]")),
        ("f([[…]])[[…]]", ("f(", Hole(), ")", Hole())),
        ("no holes [here] at all", ()),
        ("x[[3]] of R, [[[1]]], `[[3]]`, `[[…]]`, [[Page]], [[ -f x ]], [[1, 2]], [[ ]]", ()),
    ],
)
def test_holes_are_found_and_code_is_none(text: str, parts: tuple[str | Hole, ...]) -> None:
    assert parse(text) == ("", parts)
    assert len(list(spans(text))) == sum(isinstance(part, Hole) for part in parts)


def test_a_line_ends_what_is_said_to_the_model() -> None:
    assert parse("Write to my landlord.\n---\nDear [[…]]!") == ("Write to my landlord.", ("Dear ", Hole(), "!"))
    assert parse("Above [[…]]\n---\nbelow") == ("", ("Above ", Hole(), "\n---\nbelow"))


def test_bounds_are_said_in_one_sentence() -> None:
    with pytest.raises(SafelightError, match=r"write \[\[…\]\] to leave it to the model"):
        parse(f"[[{MAX_LENGTH + 1} words]]")
    with pytest.raises(SafelightError, match="send it in parts"):
        parse("[[…]] " * (MAX_HOLES + 1))


def test_json_brings_an_outline_back_and_refuses_anything_else() -> None:
    outline = ("a ", Hole(3), " b ", Hole(4, "tokens"), Hole(), Hole(50, "percent", "ab"))
    assert read_outline(json.loads(json.dumps(plain(outline)))) == outline
    for wrong in (1, {"size": 3}, {"length": 0}, {"length": True}, {"length": 3, "unit": "lines"}, {"like": 3}):
        with pytest.raises(SafelightError):
            read_outline([wrong])
