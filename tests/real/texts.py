"""Texts to try a tokenizer with, made by a seeded generator: code, many scripts, emoji, and what breaks rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

WORDS = re.findall(
    r"\S+",
    """
    the of and def return import self data value index İstanbul Straße naïve Ångström don't I'LL we've They're it'S
    ﬁnance fiancé co-op 3rd v2.0 x86_64 snake_case camelCase HTTPServer getURL λx ∑ ½ ² Ⅳ ① ٣٤ ३४ 12345678 0x1F ſ 'ſ
    你好 世界 中文分词 東京都 カタカナ ひらがな 한국어 안녕하세요 привет мир Україна שלום עולם مرحبا بالعالم السَّلامُ
    عَلَيْكُم नमस्ते ภาษาไทย ខ្មែរ ქართული አማርኛ ꦗꦮ 𝒜𝒷𝒸 𠮷野家 𐍈 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ 1️⃣ ☕︎
    """,
)
STRANGE = (
    "e\u0301", "o\u0308\u0304", "a\u0315\u0300\u05ae\u0300b", "\u1e9b\u0323", "\u212b", "\u200b\u200d", "\ufeff",
    "\x00", "\x1b[0m", "\ufffd", "\ue000", "\U0010ffff", "\ufdd0",
)  # fmt: skip
SPACES = (
    " ", "  ", "   ", "\n", "\r\n", "\r", "\n\n\n", "\t", " \n ", "\r\n\r\n", " " * 8, "\x0b", "\x0c", "\u00a0", "",
    "\u2028", "\u3000", "\u0085",
)  # fmt: skip
CODE = (
    "def f(x):\n    return x  # 1  2\n",
    'for (int i = 0; i < 10; ++i) {\r\n\tprintf("%d\\n", a[i]);\r\n}\n',
    "SELECT  *  FROM t WHERE a='b''c';",
    '<div class="a">&nbsp;</div>\n',
    '{"a": [1, 2.5e-3, null]}\n',
    "x = 1   +  22",
    "| a  | 1  |\n|----|----|\n",
    "https://example.org/?q=1&r=%20#x",
    "\\frac{a}{b}$$",
    "'''\"\"\"```",
    "!!!???...---___///",
)
SURROGATES = ("\ud800", "\udfff", "\ud83d \ude00")
BLOCKS = (
    0x20, 0x40, 0xA0, 0x2B0, 0x300, 0x370, 0x400, 0x5D0, 0x620, 0x900, 0xE00, 0x10A0, 0x1100, 0x1E00, 0x2000, 0x2070,
    0x20D0, 0x2150, 0x2460, 0x3040, 0x4E00, 0xAC00, 0xF900, 0xFB00, 0xFE00, 0xFF00, 0x1D400, 0x1F1E0, 0x1F600, 0xE0020,
)  # fmt: skip


def texts(seed: int, count: int, special: Sequence[str] = ()) -> list[str]:
    """``count`` texts; tokens of ``special`` are written in some."""
    random = Random(seed)
    found = ["", " ", "\n", "  1", "a  1", *WORDS, *STRANGE, *CODE, *SURROGATES, *special]
    while len(found) < count:
        parts = []
        for _ in range(random.choice((1, 2, 5, 20, 60))):
            parts += [_part(random, special), random.choice(SPACES)]
        found.append("".join(parts))
    return random.sample(found, count)


def _part(random: Random, special: Sequence[str]) -> str:
    match random.randrange(13):
        case 0:
            return random.choice(CODE)
        case 1:
            start = random.choice(BLOCKS)
            return "".join(chr(start + random.randrange(64)) for _ in range(6))
        case 2:
            return str(random.randrange(10 ** random.randrange(1, 12)))
        case 3:
            return random.choice((" ", "\n", "\t", "a", "!", "\u0301", "字", "'")) * random.randrange(40)
        case 4 if special:
            return random.choice(special)
        case 5:
            return random.choice(SURROGATES)
        case 6:
            return random.choice(WORDS).upper()
        case 7:
            return random.choice(STRANGE)
        case _:
            return random.choice(WORDS)
