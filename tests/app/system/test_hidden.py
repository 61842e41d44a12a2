"""Signs that nobody would see."""

from __future__ import annotations

import pytest

from app.system.hidden import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm\u200b -rf", "rm⟨U+200B⟩ -rf"),
        ("a\u202etxt.exe", "a⟨U+202E⟩txt.exe"),
        ("\u2066x\u2069\u200e\u061c", "⟨U+2066⟩x⟨U+2069⟩⟨U+200E⟩⟨U+061C⟩"),
        ("\x1b[31m\x07\x7f\r\ud800\u2028", "⟨U+001B⟩[31m⟨U+0007⟩⟨U+007F⟩⟨U+000D⟩⟨U+D800⟩⟨U+2028⟩"),
        ("ad\u200dmin \u200cx", "ad⟨U+200D⟩min ⟨U+200C⟩x"),
        ("a\tb\n 日本\u3000語\xa0naïve مرحبا", "a\tb\n 日本\u3000語\xa0naïve مرحبا"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 می\u200cخواهم", "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 می\u200cخواهم"),
    ],
)
def test_hidden_signs_are_shown_and_what_joins_letters_stays(text: str, shown: str) -> None:
    assert visible(text) == shown
