"""Signs that nobody would see."""

from __future__ import annotations

import pytest

from app.system.hidden import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm\u200b -rf", "rm⟨U+200B⟩ -rf"),
        ("soft\xadly", "soft⟨U+00AD⟩ly"),
        ("a\u202etxt.exe", "a⟨U+202E⟩txt.exe"),
        ("\u2066x\u2069\u200e\u061c", "⟨U+2066⟩x⟨U+2069⟩⟨U+200E⟩⟨U+061C⟩"),
        ("hi\U000e0041\U000e007f", "hi⟨U+E0041⟩⟨U+E007F⟩"),
        ("a\ufe0f\U000e0100\u3164\ufeff", "a⟨U+FE0F⟩⟨U+E0100⟩⟨U+3164⟩⟨U+FEFF⟩"),
        ("\x1b[31m\x07\x7f\r\ud800\u2028", "⟨U+001B⟩[31m⟨U+0007⟩⟨U+007F⟩⟨U+000D⟩⟨U+D800⟩⟨U+2028⟩"),
        ("ad\u200dmin \u200cx", "ad⟨U+200D⟩min ⟨U+200C⟩x"),
        ("é\u200d\u200d", "é⟨U+200D⟩⟨U+200D⟩"),
        ("a\tb\n 日本\u3000語\xa0naïve مرحبا", "a\tb\n 日本\u3000語\xa0naïve مرحبا"),
        ("👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 می\u200cخواهم", "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 می\u200cخواهم"),
    ],
)
def test_hidden_signs_are_shown_and_what_joins_letters_stays(text: str, shown: str) -> None:
    assert visible(text) == shown
