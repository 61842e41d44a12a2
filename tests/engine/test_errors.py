"""Exceptions in words for people."""

from __future__ import annotations

import errno

import pytest

from engine.errors import MAX_SPOKEN, SafelightError, spoken
from engine.service.replies import in_words


class Turn:
    """Has no ``repr`` of its own."""


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (KeyError(Turn()), "an unexpected fault, KeyError"),
        (KeyError("a"), "an unexpected fault, KeyError"),
        (IndexError("list index out of range"), "an unexpected fault, IndexError"),
        (ValueError(Turn(), 3), "an unexpected fault, ValueError"),
        (RecursionError("maximum recursion depth exceeded"), "an unexpected fault, RecursionError"),
        (RuntimeError(), "an unexpected fault, RuntimeError"),
        (RuntimeError("the graphics card\nfell out."), "the graphics card fell out"),
        (OSError(errno.ENOSPC, "No space left on device", "/a/b"), "No space left on device: /a/b"),
        (ConnectionError("the server left"), "the server left"),
        (SafelightError("The disk is full; make room."), "The disk is full; make room"),
    ],
)
def test_an_exception_says_what_people_can_read_or_its_kind(error: Exception, shown: str) -> None:
    assert spoken(error) == shown


@pytest.mark.parametrize("error", [RuntimeError(Turn()), OSError(f"no {Turn()} here"), SafelightError(f"{[Turn()]} x")])
def test_no_address_of_an_object_is_shown(error: Exception) -> None:
    for text in (spoken(error), in_words(error)):
        assert "0x" not in text
        assert "Turn" not in text


def test_what_an_exception_says_is_of_a_length_that_can_be_read() -> None:
    assert len(spoken(RuntimeError("word " * 1000))) <= MAX_SPOKEN
